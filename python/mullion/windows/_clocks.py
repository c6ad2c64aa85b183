"""The event clock that closes panes: the stream's, or one of each key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final, get_args

from mullion._util import durations
from mullion._util.checks import require_bool, require_one_of
from mullion._util.durations import Duration
from mullion._util.signatures import explained
from mullion.windows._spec import forgetting, hold

LateBy: TypeAlias = Literal["panes", "watermark"]
"""The rule by which a row is late, where each key has its own clock."""


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Watermark:
    """Panes close by Spark's watermark, which all keys share. This is the default.

    - ``idle_after``: how long a source may be empty before it is idle. Of several streams with ``withWatermark`` below
      the window, an idle one no longer holds back the watermark. If all are idle, the watermark advances with the wall
      clock, so that panes of a quiet stream close. It is the watermark of the query, so it acts on all operators; rows
      that come later with earlier times may be late. ``None`` means never. Waiting starts when a source is found empty,
      for one without any row at the start of the query; it does not start while a query is down or works off a backlog.
      A checkpoint that started with ``idle_after`` needs it from then on.

    - ``max_ahead``: how far the event time of a row may be ahead of the wall clock, the time of its micro-batch. A row
      further ahead does not move the watermark and enters no pane; the metric ``rowsAhead`` counts it, and with
      ``late="emit"`` it is returned in ``late_row`` with the firing ``"ahead"``. ``None`` means no limit. Only for
      streams: a batch DataFrame has no wall clock. It acts on the watermarks of the streams below the window, and
      thus on all operators of the query.

    >>> Watermark(idle_after="30 seconds")
    Watermark(idle_after='30 seconds')
    >>> Watermark(max_ahead="1 hour")
    Watermark(max_ahead='1 hour')

    Raises :class:`InvalidArgumentError` when ``idle_after`` is not a duration longer than zero, or ``max_ahead`` is
    not a duration.
    """

    idle_after_us: int | None
    max_ahead_us: int | None

    @explained("Watermark(idle_after='30 seconds')", name="Watermark")
    def __init__(self, idle_after: Duration | None = None, max_ahead: Duration | None = None) -> None:
        idle = None if idle_after is None else durations.positive(idle_after, "idle_after", "Watermark(idle_after={})")
        ahead = None if max_ahead is None else durations.not_negative(max_ahead, "max_ahead", "Watermark(max_ahead={})")
        hold(self, idle_after_us=idle, max_ahead_us=ahead)

    def __repr__(self) -> str:
        parts = (("idle_after", self.idle_after_us), ("max_ahead", self.max_ahead_us))
        return f"Watermark({', '.join(f'{name}={durations.written(us)!r}' for name, us in parts if us is not None)})"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class PerKey:
    """Panes close by a clock of their key: its largest time so far, less the delay of ``withWatermark``.

    The clock is exact to the microsecond and advances row by row, in order of arrival. A pane closes when a row of its
    key moves the clock past the pane's end and allowed lateness. A row is late when all its panes had closed by then. A
    key that gets no more rows closes nothing. The clock of a key is kept as long as the query, unless
    ``forget_after`` is set.

    - ``wall_time``: with ``True``, the clock also advances with the wall time that passes after the row that moved it
      last, by the timestamps of batches, so that panes of a quiet key close in a batch without rows. A key without open
      panes is then forgotten with its clock, and its next row starts a new one; with :class:`Session` it is kept as
      long as the query. This is the ``EventClock`` of Bytewax. It does not accept ``early=``.
    - ``late_by``: what makes a row late. ``"panes"``: all its panes have closed. ``"watermark"``: its time is before
      the clock of its key just before the row, whatever is open; a row of exactly that time is not late. ``late`` is
      then ``"drop"`` or ``"emit"``.
    - ``forget_after``: the wall time without rows after which a key is forgotten: its open panes close, and its clock
      is removed. Its next row starts a new clock. ``None`` means never. It does not accept ``ids=True``.

    >>> PerKey(wall_time=True, late_by="watermark")
    PerKey(wall_time=True, late_by='watermark')

    Raises :class:`InvalidArgumentError` for any other value.
    """

    wall_time: bool
    late_by: LateBy
    forget_after_us: int | None

    @explained("PerKey(wall_time=True)", name="PerKey")
    def __init__(
        self, wall_time: bool = False, late_by: LateBy = "panes", forget_after: Duration | None = None
    ) -> None:
        require_bool("wall_time", wall_time)
        require_one_of("late_by", late_by, get_args(LateBy))
        hold(
            self,
            wall_time=wall_time,
            late_by=late_by,
            forget_after_us=forgetting(forget_after, "PerKey(forget_after={})"),
        )

    def __repr__(self) -> str:
        parts = ["wall_time=True"] if self.wall_time else []
        if self.late_by != "panes":
            parts.append(f"late_by={self.late_by!r}")
        if self.forget_after_us is not None:
            parts.append(f"forget_after={durations.written(self.forget_after_us)!r}")
        return f"PerKey({', '.join(parts)})"
