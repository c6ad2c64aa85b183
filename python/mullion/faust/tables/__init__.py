"""Tables of keys and values, and tables with a window."""

from mullion.faust.tables.table import Table
from mullion.faust.tables.window_set import WindowSet
from mullion.faust.tables.windowed import WindowedTable

__all__ = ["Table", "WindowSet", "WindowedTable"]
