"""Tables: what a program keeps by key, and the same by range of time."""

from __future__ import annotations

from mullion.faust._values.times import Seconds
from mullion.faust.tables.plain import PlainTable
from mullion.faust.tables.windowed import WindowedTable
from mullion.faust.windows import HoppingWindow, TumblingWindow, WindowT

__all__ = ["Table"]


class Table(PlainTable):
    """What a program keeps by key: a dict, of which each shard has the keys that are its own.

    - ``name``: under which it is kept; letters, digits, '.', '_' and '-'.
    - ``default``: makes what a key reads as that is not there, as in ``default=int``; it is not stored. Without one,
      such a read is a ``KeyError``.
    - ``key_type``: of the keys. Say ``tuple`` where they are pairs whose second part is a number, which a windowed
      table would else take for ``(key, timestamp)``.
    - ``changelog``: a topic that is sent each value that a key is given, and ``None`` where it is removed.
    - ``on_window_close(key, value)``: called once for each range that goes, with ``key`` as ``(k, (start, end))``.

    Raises :class:`InvalidArgumentError` for a name or a default that cannot be right.
    """

    def using_window(self, window: WindowT, *, key_index: bool = False) -> WindowedTable:
        """The table by range of time. ``key_index=True`` keeps which keys there are, so that it can be iterated over.

        Raises :class:`InvalidArgumentError` when the table has another window already.
        """
        return WindowedTable(self, window, key_index_size=None, _key_index=key_index)

    def tumbling(self, size: Seconds, expires: Seconds | None = None, key_index: bool = False) -> WindowedTable:
        """The table by ranges that follow one another: see :class:`TumblingWindow`."""
        return self.using_window(TumblingWindow(size, expires), key_index=key_index)

    def hopping(
        self, size: Seconds, step: Seconds, expires: Seconds | None = None, key_index: bool = False
    ) -> WindowedTable:
        """The table by ranges that overlap: see :class:`HoppingWindow`."""
        return self.using_window(HoppingWindow(size, step, expires), key_index=key_index)
