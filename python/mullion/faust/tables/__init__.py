"""Tables of keys and values, and tables with a window.

::

    table        what a program declares            windowed   window_set   per_range   totals     a table's values
    records      a table's records in one shard, in a store, and when ranges go; timer_order their timers
    keys         keys as bytes                      operations     += and its like
    reader       a table of a checkpoint, as a DataFrame

Records outlive programs: their layout, in ``records`` and ``keys``, is what the JVM reads and writes too.
"""

from mullion.faust.tables.table import Table, WindowedTable
from mullion.faust.tables.window_set import WindowSet

__all__ = ["Table", "WindowSet", "WindowedTable"]
