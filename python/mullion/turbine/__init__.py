"""Turbine's windowing API: subscriptions to topics, six windows, callbacks over Arrow.

A program has one class per subscription. ``process`` receives the batches of a topic and passes rows to windows.
Callbacks receive panes and return the batches to publish::

    import pyarrow as pa

    import mullion.turbine as turbine
    from mullion.turbine import aggregates as agg
    from mullion.turbine import windowing as win

    app = turbine.App("shop", broker="dir:/tmp/shop")

    @app.subscribe("orders", publish_to="revenue_5m")
    class revenue:
        def __init__(self) -> None:
            self._win = win.PersistentTumbling(
                self, name="revenue_5m", size_ms=5 * 60_000, key=["region"],
                value=agg.Sum("amount"), time_column="event_ts_ms", on_close_each=self._commit,
            )

        def _commit(self, state, window, value):
            row = {**window.group, "revenue": float(value), "window_start_ms": window.start_ms}
            return pa.RecordBatch.from_pylist([row])

        def process(self, batch, state):
            self._win.update(batch, state)
            return None

    app.run()

Windows always run in the JVM. A ``process`` that only updates windows does not run in Python. ``app.explain()`` lists
the parts that run in Python, and the line of code that is the reason.
"""

from pyarrow import RecordBatch

from mullion.turbine._process.stored_window import WindowSpec
from mullion.turbine.app import App, WindowHandle
from mullion.turbine.state import TurbineState
from mullion.turbine.windowing import Window

__all__ = ["App", "RecordBatch", "TurbineState", "Window", "WindowHandle", "WindowSpec"]
