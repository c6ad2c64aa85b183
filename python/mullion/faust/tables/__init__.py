"""Tables of keys and values, and tables with a window.

::

    table        the tables of a program            windowed   window_set   per_range   totals     a table's values
    records      a table's records in one shard, in a store, and their expiry; timer_order their timers
    keys         keys as bytes                      operations     += and the other operators
    reader       a table of a checkpoint, as a DataFrame

Records outlive programs: the JVM reads and writes the same layout, defined in ``records`` and ``keys``.
"""

from mullion.faust.tables.table import Table, WindowedTable
from mullion.faust.tables.window_set import WindowSet

__all__ = ["Table", "WindowSet", "WindowedTable"]
