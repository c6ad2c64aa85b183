"""Tumbling, calendar, sliding and session windows, and windows around each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from pyspark.sql import Column

from mullion import _calendar, _durations
from mullion._calls import explained
from mullion._durations import Duration
from mullion.errors import InvalidArgumentError
from mullion.windows._spec import hold

_NO_OFFSET = "0 seconds"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Tumbling:
    """Windows that follow one another without overlap or gap. A row falls into exactly one.

    - ``size``: the length of a window.
    - ``offset``: shifts the starts of windows relative to the epoch. Only its remainder by ``size`` matters, so it may
      be negative or longer than a window.
    - ``timezone``: a name of the IANA database such as ``"America/New_York"``. Windows are then whole days, weeks,
      months, quarters or years of the calendar there, from midnight to midnight. A day on which clocks change has 23 or
      25 hours. Weeks start on Monday, months on their first day. Several days are counted from 1970-01-01, several
      weeks from the Monday of that week, several months from January 1970.

    Without ``timezone``, windows of a day start at midnight in UTC, regardless of the session's time zone.

    >>> Tumbling("60 minutes", offset="75 minutes")
    Tumbling('1 hour', offset='15 minutes')
    >>> Tumbling("1 quarter", timezone="America/New_York")
    Tumbling('3 months', timezone='America/New_York')

    Raises :class:`InvalidArgumentError` when ``size`` is not a duration longer than zero, or ``offset`` is not a
    duration. With ``timezone`` it raises when the time zone is unknown, when ``size`` is not whole days, weeks, months,
    quarters or years, and when there is an ``offset``.
    """

    size_us: int
    """Microseconds; 0 for calendar windows."""
    offset_us: int
    calendar: tuple[int, str] | None
    """The number of units of a calendar window, and the unit: ``day``, ``week`` or ``month``."""
    timezone: str | None

    @explained("Tumbling('1 hour')", {"size": "Say how long a window is."}, "Tumbling")
    def __init__(self, size: Duration, offset: Duration = _NO_OFFSET, *, timezone: str | None = None) -> None:
        by_calendar = _calendar.size_of(size)
        if timezone is None:
            if by_calendar is not None and by_calendar[1] == "month":
                raise InvalidArgumentError(
                    f"size={size!r} is not of a fixed length: months and years differ. Write Tumbling({size!r}, "
                    "timezone='UTC') for windows by the calendar of a time zone, or give it in days, as in "
                    "Tumbling('30 days')."
                )
            size_us = _durations.positive(size, "size", "Tumbling({})")
            offset_us = _durations.microseconds(offset, "offset", "offset={}") % size_us
            hold(self, size_us=size_us, offset_us=offset_us, calendar=None, timezone=None)
            return
        if by_calendar is None:
            raise InvalidArgumentError(
                f"size={size!r} is not of whole days, weeks, months, quarters or years, which windows by the calendar "
                f"of timezone={timezone!r} are of. Write Tumbling('1 day', timezone={timezone!r}), or leave timezone "
                "out: windows begin with the hours of UTC then, and offset='30 minutes' shifts them to those of a time "
                "zone such as Asia/Kolkata."
            )
        if _durations.microseconds(offset, "offset", "offset={}") != 0:
            raise InvalidArgumentError(
                f"offset={offset!r} is for windows of one length, and those by the calendar of timezone={timezone!r} "
                "begin at midnight there. Leave one of them out. For days that begin at another hour there, or weeks "
                "and years that begin on another day, compute each row's range: Custom(F.struct(start, end)), as in "
                "docs/custom-windows.md."
            )
        _calendar.require_timezone(timezone)
        hold(self, size_us=0, offset_us=0, calendar=by_calendar, timezone=timezone)

    def __repr__(self) -> str:
        if self.calendar is not None:
            return f"Tumbling({_calendar.written(*self.calendar)!r}, timezone={self.timezone!r})"
        return f"Tumbling({_durations.written(self.size_us)!r}{_offset(self.offset_us)})"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Sliding:
    """Windows of one size that start every ``slide``. A row falls into each window that covers it.

    ``slide`` need not divide ``size``. A slide longer than ``size`` leaves gaps, and rows in a gap are in no window.
    ``offset`` shifts the starts of windows relative to the epoch; only its remainder by ``slide`` matters.

    >>> Sliding("1 minute", "1 second")
    Sliding('60 seconds', '1 second')

    Raises :class:`InvalidArgumentError` when ``size`` or ``slide`` is not a duration longer than zero, or ``offset``
    is not a duration.
    """

    size_us: int
    slide_us: int
    offset_us: int

    @explained(
        "Sliding('1 hour', '5 minutes')",
        {"slide": "Say how far apart windows start; those that follow one another are Tumbling('1 hour')."},
        "Sliding",
    )
    def __init__(self, size: Duration, slide: Duration, offset: Duration = _NO_OFFSET) -> None:
        size_us = _durations.positive(size, "size", "Sliding({}, '1 second')")
        slide_us = _durations.positive(slide, "slide", "Sliding('1 minute', {})")
        offset_us = _durations.microseconds(offset, "offset", "offset={}") % slide_us
        hold(self, size_us=size_us, slide_us=slide_us, offset_us=offset_us)

    def __repr__(self) -> str:
        size, slide = _durations.written_alike(self.size_us, self.slide_us)
        return f"Sliding({size!r}, {slide!r}{_offset(self.offset_us)})"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Session:
    """Windows without a fixed grid. A key's rows are in one session as long as they are no more than ``gap`` apart.

    A session is ``[first, last + gap)``. A row exactly at ``last + gap`` still joins it. A row between two open
    sessions merges them into one. ``gap`` is a duration, or a Column with a gap for each row: an interval, or text that
    Spark reads as one. A row whose gap is null, in months, zero or negative is in no session.

    >>> Session("600 seconds")
    Session('10 minutes')

    Two specs are equal when their gaps are equally long, or are the same Column object, because Columns cannot be
    compared.

    Raises :class:`InvalidArgumentError` when ``gap`` is neither a Column nor a duration longer than zero.
    """

    gap_us: int | None
    gap: Column | None

    @explained("Session('10 minutes')", {"gap": "Say how long a pause ends a session."}, "Session")
    def __init__(self, gap: Duration | Column) -> None:
        if isinstance(gap, Column):
            hold(self, gap_us=None, gap=gap)
            return
        if isinstance(gap, str) and gap.isidentifier():
            raise InvalidArgumentError(
                f"gap={gap!r} is not a duration. Write, for instance, Session('10 seconds'), or where {gap!r} is a "
                f"column that holds each row's gap, Session(F.col({gap!r}))."
            )
        hold(self, gap_us=_durations.positive(gap, "gap", "Session({})"), gap=None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and self.gap_us == other.gap_us and self.gap is other.gap

    def __hash__(self) -> int:
        return hash((Session, self.gap_us, id(self.gap)))

    def __repr__(self) -> str:
        return f"Session({self.gap if self.gap_us is None else _durations.written(self.gap_us)!r})"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Around:
    """A window around each row, from ``before`` its time until ``after`` it, both ends included.

    Each key has one pane per distinct time of its rows. The pane holds the key's rows in that window that arrive while
    it is open. As a half-open interval the window is
    ``[t - before, t + after + 1 microsecond)``. A row is late if no window that is open, or may still open, can contain
    it. Rows are kept no longer than that.

    Without ``after``, a window ends at its row, as for a moving average. Faust's sliding windows are the same. Kafka
    Streams' sliding windows also include windows that start just after a row.

    >>> Around("60 seconds")
    Around('1 minute', '0 seconds')

    Raises :class:`InvalidArgumentError` when ``before`` or ``after`` is not a duration of zero or more.
    """

    before_us: int
    after_us: int

    @explained("Around('1 minute')", {"before": "Say how far back a window goes from its row."}, "Around")
    def __init__(self, before: Duration, after: Duration = "0 seconds") -> None:
        before_us = _durations.not_negative(before, "before", "Around({})")
        after_us = _durations.not_negative(after, "after", "Around('1 minute', {})")
        hold(self, before_us=before_us, after_us=after_us)

    def __repr__(self) -> str:
        return f"Around({_durations.written(self.before_us)!r}, {_durations.written(self.after_us)!r})"


def _offset(us: int) -> str:
    return f", offset={_durations.written(us)!r}" if us else ""
