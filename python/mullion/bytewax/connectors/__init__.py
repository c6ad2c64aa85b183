"""Sources and sinks, as of ``bytewax.connectors``: ``files``, ``kafka``, ``stdio`` and ``demo``."""
