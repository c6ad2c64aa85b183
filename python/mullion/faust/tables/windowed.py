"""Windowed tables, under an alternative module name."""

from mullion.faust.tables.table import WindowedTable, WindowedView

__all__ = ["WindowedTable", "WindowedView"]
