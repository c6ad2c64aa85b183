"""Sources and sinks, as in ``bytewax.connectors``: ``files``, ``kafka``, ``stdio`` and ``demo``."""
