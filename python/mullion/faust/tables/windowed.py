"""Windowed tables, under the name of the module that they were in first."""

from mullion.faust.tables.table import WindowedTable, WindowedView

__all__ = ["WindowedTable", "WindowedView"]
