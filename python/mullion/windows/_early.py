"""Early firings of open panes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from mullion._util import durations
from mullion._util.checks import require_bool
from mullion._util.durations import Duration
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError
from mullion.windows._spec import hold


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Early:
    """Fires a pane that is still open: at an interval, after a number of rows, or with each row.

    - ``every``: an interval of the pane's clock, counted from when the pane opened or last fired. The clock is event
      time while rows arrive, and wall time otherwise. The first reading of the watermark starts the intervals: a pane
      that opened before it, in the first batch, counts from it.
    - ``wall``: instead of ``every``, an interval of the wall clock. It suits dashboards.
    - ``count``: a number of rows since the pane opened or last fired.
    - ``each_row``: with ``True``, each row fires its panes as it arrives, as running values. These firings are called
      ``"running"``. It excludes all others.
    - ``unchanged``: with ``True``, panes fire at the interval even without a row since they last fired.

    A pane fires early at most once per batch, after all rows of the batch, and not in the batch in which it closes.
    Panes that keep their rows (``.collect()``) fire with the row that completes ``count``, even several times in a
    batch.

    >>> Early(every="60 seconds")
    Early('1 minute')
    >>> Early(count=1000)
    Early(count=1000)
    >>> Early(wall="10 seconds")
    Early(wall='10 seconds')
    >>> Early(each_row=True)
    Early(each_row=True)

    Raises :class:`InvalidArgumentError` when none of them is given, ``every`` or ``wall`` is not a duration longer than
    zero, both are given, ``count`` is not a whole number above zero, ``unchanged`` or ``each_row`` is not a bool, or
    ``each_row`` is given with another.
    """

    every_us: int | None
    unchanged: bool
    count: int | None
    wall_us: int | None
    each_row: bool

    @explained("Early(every='1 minute')", name="Early")
    def __init__(
        self,
        every: Duration | None = None,
        unchanged: bool = False,
        *,
        count: int | None = None,
        wall: Duration | None = None,
        each_row: bool = False,
    ) -> None:
        require_bool("each_row", each_row)
        if each_row and (every, wall, count, unchanged) != (None, None, None, False):
            raise InvalidArgumentError(
                "each_row=True fires a pane with each of its rows, so there is nothing left for every, wall, count and "
                "unchanged to add. Write Early(each_row=True)."
            )
        if not each_row and every is None and count is None and wall is None:
            raise InvalidArgumentError(
                "Early() has neither every nor count, nor wall or each_row. Write Early(every='1 minute'), "
                "Early(wall='1 minute'), Early(count=1000) or Early(each_row=True)."
            )
        every_us = None if every is None else durations.positive(every, "every", "Early(every={})")
        wall_us = None if wall is None else durations.positive(wall, "wall", "Early(wall={})")
        if every is not None and wall is not None:
            raise InvalidArgumentError(
                f"every={every!r} and wall={wall!r} are two intervals for one pane. every= is by event time while rows "
                "come and by the wall clock when none do, wall= by the wall clock alone: leave one of them out."
            )
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
            raise InvalidArgumentError(
                f"count={count!r} ({type(count).__name__}) is not a whole number of rows above 0. Write, for instance, "
                "Early(count=1000)."
            )
        if not isinstance(unchanged, bool):
            raise InvalidArgumentError(
                f"unchanged={unchanged!r} ({type(unchanged).__name__}) is neither True nor False. Write unchanged=True "
                "to fire every open pane, or leave it out to fire those that changed."
            )
        if unchanged and every is None and wall is None:
            raise InvalidArgumentError(
                "unchanged=True makes panes without new rows fire at an interval, and no interval is given. Write, for "
                "instance, Early(every='1 minute', unchanged=True)."
            )
        hold(self, every_us=every_us, unchanged=unchanged, count=count, wall_us=wall_us, each_row=each_row)

    def __repr__(self) -> str:
        parts = [] if self.every_us is None else [repr(durations.written(self.every_us))]
        if self.unchanged:
            parts.append("unchanged=True")
        if self.count is not None:
            parts.append(f"count={self.count}")
        if self.wall_us is not None:
            parts.append(f"wall={durations.written(self.wall_us)!r}")
        if self.each_row:
            parts.append("each_row=True")
        return f"Early({', '.join(parts)})"
