"""What programs of all doors share: the App, its run loop, names, the report of ``explain()``, and the command.

A door has an App of its own over :class:`mullion._programs.app.App`; its queries are jobs (``jobs``), which ``runner``
starts, watches and stops.
"""
