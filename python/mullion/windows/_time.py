"""Tumbling, sliding, calendar, cumulative and session windows, and windows around each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from pyspark.sql import Column

from mullion._util import calendars, durations
from mullion._util.durations import Duration
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError
from mullion.windows._calendar import Calendar, calendar_of, not_by_calendar, require_no_week_start
from mullion.windows._spec import column_of_row, hashable_parts, hold, same_parts

_NO_OFFSET = "0 seconds"

Starts: TypeAlias = Literal["grid", "first row"]
"""The start of tumbling windows: on a grid, or with a key's first row."""


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Tumbling:
    """Windows that follow one another without overlap or gap. A row falls into exactly one.

    - ``size``: the length of a window.
    - ``offset``: shifts the starts of windows relative to the epoch. Only its remainder by ``size`` matters, so it may
      be negative or longer than a window. With ``timezone`` it is local time after midnight: days with
      ``offset="5 hours"`` start at 5 o'clock. For windows of months it may be a number of months: fiscal years from
      April have ``offset="3 months"``.
    - ``timezone``: a name of the IANA database such as ``"America/New_York"``. Windows are then whole days, weeks,
      months, quarters or years of the calendar there. A day on which clocks change has 23 or 25 hours. A start that
      clocks skip is the first instant after it. Several days are counted from 1970-01-01, several weeks from the week
      of that day, several months from January 1970.
    - ``week_start``: the first day of a week, by its English name. Needs ``timezone`` and a size in weeks.
    - ``starts``: ``"first row"`` for windows that start with a row of their key instead of on a grid. The first row of
      a key starts a window, and so does each row that is in no earlier one. The rows of one batch are taken in order
      of event time. A row of a later batch, earlier than an open window, does not move it: the window of that row ends
      where the open one starts. Such windows take no ``offset`` and no ``timezone``. ``Early(count=...)``, ``on_time``,
      ``accumulate=False``, ``empty="emit"`` and ``late="reopen"`` raise an error.

    Without ``timezone``, windows of a day start at midnight in UTC, regardless of the session's time zone.

    >>> Tumbling("10 minutes", starts="first row")
    Tumbling('10 minutes', starts='first row')
    >>> Tumbling("60 minutes", offset="75 minutes")
    Tumbling('1 hour', offset='15 minutes')
    >>> Tumbling("1 quarter", timezone="America/New_York")
    Tumbling('3 months', timezone='America/New_York')
    >>> Tumbling("1 week", timezone="UTC", week_start="Sunday")
    Tumbling('1 week', timezone='UTC', week_start='Sunday')

    Raises :class:`InvalidArgumentError` when ``size`` is not a duration longer than zero, or ``offset`` is not a
    duration. With ``timezone`` it raises when the time zone or ``week_start`` is unknown, when ``size`` is not whole
    days, weeks, months, quarters or years, and for windows of months when the offset is negative or 28 days or more.
    """

    size_us: int
    """Microseconds; 0 for calendar windows."""
    offset_us: int
    calendar: Calendar | None
    starts: Starts

    @explained("Tumbling('1 hour')", {"size": "Say how long a window is."}, "Tumbling")
    def __init__(
        self,
        size: Duration,
        offset: Duration = _NO_OFFSET,
        *,
        timezone: str | None = None,
        week_start: str | None = None,
        starts: Starts = "grid",
    ) -> None:
        if starts not in ("grid", "first row"):
            raise InvalidArgumentError(
                f"starts={starts!r} is neither 'grid' nor 'first row'. Write, for instance, "
                "Tumbling('10 minutes', starts='first row')."
            )
        hold(self, starts=starts)
        by_calendar = calendars.size_of(size)
        if timezone is None:
            require_no_week_start(week_start)
            if by_calendar is not None and by_calendar[1] == "month":
                raise InvalidArgumentError(
                    f"size={size!r} is not of a fixed length: months and years differ. Write Tumbling({size!r}, "
                    "timezone='UTC') for windows by the calendar of a time zone, or give it in days, as in "
                    "Tumbling('30 days')."
                )
            size_us = durations.positive(size, "size", "Tumbling({})")
            offset_us = durations.microseconds(offset, "offset", "offset={}") % size_us
            if starts == "first row" and offset_us:
                raise _not_on_a_grid("offset", offset)
            hold(self, size_us=size_us, offset_us=offset_us, calendar=None)
            return
        if starts == "first row":
            raise _not_on_a_grid("timezone", timezone)
        if by_calendar is None:
            raise not_by_calendar("size", size, timezone, f"Tumbling('1 day', timezone={timezone!r})")
        hold(self, size_us=0, offset_us=0, calendar=calendar_of(by_calendar, 1, timezone, week_start, offset))

    def __repr__(self) -> str:
        if self.calendar is not None:
            return f"Tumbling({calendars.written(self.calendar.number, self.calendar.unit)!r}{self.calendar.options()})"
        starts = "" if self.starts == "grid" else f", starts={self.starts!r}"
        return f"Tumbling({durations.written(self.size_us)!r}{_offset(self.offset_us)}{starts})"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Sliding:
    """Windows of one size that start every ``slide``. A row falls into each window that covers it.

    - ``size``, ``slide``: ``slide`` need not divide ``size``.
    - ``offset``: shifts the starts of windows relative to the epoch; only its remainder by ``slide`` matters.
    - ``timezone``, ``week_start``: windows of the calendar, as in :class:`Tumbling`. ``slide`` must divide ``size``
      then: ``Sliding("7 days", "1 day", timezone="Europe/Berlin")``.
    - ``gaps``: permits a slide that is longer than ``size``. Rows in a gap are in no window.

    >>> Sliding("1 minute", "1 second")
    Sliding('60 seconds', '1 second')

    Raises :class:`InvalidArgumentError` when ``size`` or ``slide`` is not a duration longer than zero, when ``offset``
    is not a duration, when ``slide`` is longer than ``size`` without ``gaps=True``, and as :class:`Tumbling` does with
    ``timezone``.
    """

    size_us: int
    """Microseconds; 0 for calendar windows, and so is ``slide_us``."""
    slide_us: int
    offset_us: int
    calendar: Calendar | None

    @explained(
        "Sliding('1 hour', '5 minutes')",
        {"slide": "Say how far apart windows start; those that follow one another are Tumbling('1 hour')."},
        "Sliding",
    )
    def __init__(
        self,
        size: Duration,
        slide: Duration,
        offset: Duration = _NO_OFFSET,
        *,
        timezone: str | None = None,
        week_start: str | None = None,
        gaps: bool = False,
    ) -> None:
        if timezone is not None:
            example = f"Sliding('7 days', '1 day', timezone={timezone!r})"
            length, step = calendars.size_of(size), calendars.size_of(slide)
            if length is None:
                raise not_by_calendar("size", size, timezone, example)
            if step is None:
                raise not_by_calendar("slide", slide, timezone, example)
            slides = calendars.slides_of(length, step)
            if not slides:
                raise InvalidArgumentError(
                    f"slide={slide!r} does not divide size={size!r}, as windows by the calendar of "
                    f"timezone={timezone!r} require. Write, for instance, {example}."
                )
            calendar = calendar_of(step, slides, timezone, week_start, offset)
            hold(self, size_us=0, slide_us=0, offset_us=0, calendar=calendar)
            return
        require_no_week_start(week_start)
        size_us = durations.positive(size, "size", "Sliding({}, '1 second')")
        slide_us = durations.positive(slide, "slide", "Sliding('1 minute', {})")
        if slide_us > size_us and not gaps:
            raise InvalidArgumentError(
                f"slide={slide!r} is longer than size={size!r}, so rows between two windows would be in none. The size "
                f"comes first: Sliding({slide!r}, {size!r}). If the gaps are intended, add gaps=True."
            )
        offset_us = durations.microseconds(offset, "offset", "offset={}") % slide_us
        hold(self, size_us=size_us, slide_us=slide_us, offset_us=offset_us, calendar=None)

    def __repr__(self) -> str:
        if self.calendar is not None:
            number, unit = self.calendar.number, self.calendar.unit
            size, slide = calendars.written(number * self.calendar.slides, unit), calendars.written(number, unit)
            return f"Sliding({size!r}, {slide!r}{self.calendar.options()})"
        size, slide = durations.written_alike(self.size_us, self.slide_us)
        gaps = ", gaps=True" if self.slide_us > self.size_us else ""
        return f"Sliding({size!r}, {slide!r}{_offset(self.offset_us)}{gaps})"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Cumulate:
    """Windows that grow in steps from one start, as Flink SQL's ``CUMULATE``.

    All windows of a cycle of ``size`` start with it, and one ends after each ``step``. With ``Cumulate("1 day", "1
    hour")`` they hold the totals of a day so far, hour by hour. A row is stored once, and is in each window of its
    cycle that ends after it. A window without new rows closes too, once its cycle has rows.

    ``step`` must divide ``size``. ``offset`` shifts the cycles relative to the epoch; only its remainder by ``size``
    matters.

    With ``timezone``, the cycles are days, weeks, months, quarters or years of the calendar there, as in
    :class:`Tumbling`, with its ``offset`` and ``week_start``. A step is then a number of days or months, or a time that
    divides a day and each change of clocks in the zone since 2000. On a day when clocks change, steps of an hour make
    23 or 25 windows. A step belongs to the cycle in which it starts.

    >>> Cumulate("1 day", "1 hour")
    Cumulate('24 hours', '1 hour')
    >>> Cumulate("1 month", "1 day", timezone="Europe/Berlin")
    Cumulate('1 month', '1 day', timezone='Europe/Berlin')

    Raises :class:`InvalidArgumentError` when ``size`` or ``step`` is not a duration longer than zero, when ``step``
    does not divide ``size``, and when ``offset`` is not a duration. With ``timezone`` it raises as :class:`Tumbling`
    does; the query is rejected when a step of a time does not divide a change of clocks.
    """

    size_us: int
    """Microseconds; 0 for calendar windows."""
    step_us: int
    """Microseconds; 0 for a step of days or months."""
    offset_us: int
    calendar: Calendar | None
    """The cycles, in a time zone."""
    calendar_step: tuple[int, str] | None
    """The step in days, weeks or months, in a time zone."""

    @explained("Cumulate('1 day', '1 hour')", {"step": "Say how often a window ends."}, "Cumulate")
    def __init__(
        self,
        size: Duration,
        step: Duration,
        offset: Duration = _NO_OFFSET,
        *,
        timezone: str | None = None,
        week_start: str | None = None,
    ) -> None:
        if timezone is not None:
            cycle, steps = calendars.size_of(size), calendars.size_of(step)
            if cycle is None:
                raise not_by_calendar("size", size, timezone, f"Cumulate('1 day', '1 hour', timezone={timezone!r})")
            if steps is not None and not calendars.divides(steps, cycle):
                raise InvalidArgumentError(
                    f"step={step!r} does not divide size={size!r} by the calendar. Give a step that does, such as "
                    f"Cumulate('1 month', '1 day', timezone={timezone!r})."
                )
            step_us = 0 if steps is not None else durations.positive(step, "step", "Cumulate('1 day', {})")
            calendar = calendar_of(cycle, 1, timezone, week_start, offset)
            hold(self, size_us=0, step_us=step_us, offset_us=0, calendar=calendar, calendar_step=steps)
            return
        require_no_week_start(week_start)
        hold(self, calendar=None, calendar_step=None)
        size_us = durations.positive(size, "size", "Cumulate({}, '1 second')")
        step_us = durations.positive(step, "step", "Cumulate('1 minute', {})")
        if size_us % step_us:
            raise InvalidArgumentError(
                f"step={step!r} does not divide size={size!r}. Give a step that does, such as "
                "Cumulate('1 day', '1 hour')."
            )
        offset_us = durations.microseconds(offset, "offset", "offset={}") % size_us
        hold(self, size_us=size_us, step_us=step_us, offset_us=offset_us)

    def __repr__(self) -> str:
        if self.calendar is not None:
            size = calendars.written(self.calendar.number, self.calendar.unit)
            steps = self.calendar_step
            step = durations.written(self.step_us) if steps is None else calendars.written(*steps)
            return f"Cumulate({size!r}, {step!r}{self.calendar.options()})"
        size, step = durations.written_alike(self.size_us, self.step_us)
        return f"Cumulate({size!r}, {step!r}{_offset(self.offset_us)})"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Session:
    """Windows without a fixed grid. A key's rows are in one session as long as they are no more than ``gap`` apart.

    A session is ``[first, last + gap)``. A row exactly at ``last + gap`` still joins it. A row between two open
    sessions merges them into one. ``gap`` is a duration, or a Column with a gap for each row: an interval, or text that
    Spark reads as one. A row whose gap is null, in months, zero or negative is in no session.

    - ``max_length``: the longest session. It ends at ``first + max_length`` then, and a row at that time begins the
      next one.
    - ``ends_with``: a boolean column, or its name. A session also ends with a row for which it is true, such as a
      logout; that row is the session's last. Its end is one microsecond after that row. A null is not true.

    With either of these, the rows of one batch are taken in order of event time, and of arrival where times are equal.
    A row of a later batch joins the session that it falls into. It merges sessions only if the result is no longer than
    ``max_length``, and it ends a session only as its last row, and if the clock has not passed that end. ``early=`` at
    an interval or with each row, ``late="emit"``, ``ids``, ``dedupe_by`` and ``.collect()`` work;
    ``Early(count=...)``, ``on_time``, ``accumulate=False`` and ``late="reopen"`` raise an error.

    >>> Session("600 seconds")
    Session('10 minutes')
    >>> Session("30 minutes", max_length="6 hours", ends_with="is_logout")
    Session('30 minutes', max_length='6 hours', ends_with='is_logout')

    Two specs are equal when their lengths are equal, and their columns have the same name or are the same Column
    object, because Columns cannot be compared.

    Raises :class:`InvalidArgumentError` when ``gap`` is neither a Column nor a duration longer than zero, when
    ``max_length`` is not a duration longer than zero or shorter than ``gap``, and when ``ends_with`` is not a column.
    """

    gap_us: int | None
    gap: Column | None
    max_length_us: int | None
    ends_with: Column | str | None

    @explained("Session('10 minutes')", {"gap": "Say how long a pause ends a session."}, "Session")
    def __init__(
        self,
        gap: Duration | Column,
        *,
        max_length: Duration | None = None,
        ends_with: Column | str | None = None,
    ) -> None:
        if ends_with is not None:
            column_of_row(ends_with, "Session('30 minutes', ends_with=F.col('event') == 'logout')")
        most = None
        if max_length is not None:
            most = durations.positive(max_length, "max_length", "Session('30 minutes', max_length={})")
        hold(self, max_length_us=most, ends_with=ends_with)
        if isinstance(gap, Column):
            hold(self, gap_us=None, gap=gap)
            return
        if isinstance(gap, str) and gap.isidentifier():
            raise InvalidArgumentError(
                f"gap={gap!r} is not a duration. Write, for instance, Session('10 seconds'), or where {gap!r} is a "
                f"column that holds each row's gap, Session(F.col({gap!r}))."
            )
        gap_us = durations.positive(gap, "gap", "Session({})")
        if most is not None and most < gap_us:
            raise InvalidArgumentError(
                f"max_length={max_length!r} is shorter than gap={gap!r}, so no pause would ever end a session. Give a "
                f"longer max_length, or write Tumbling({max_length!r}, starts='first row')."
            )
        hold(self, gap_us=gap_us, gap=None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and same_parts(self._parts, other._parts)

    def __hash__(self) -> int:
        return hash((Session, *hashable_parts(self._parts)))

    def __repr__(self) -> str:
        gap = self.gap if self.gap_us is None else durations.written(self.gap_us)
        most = "" if self.max_length_us is None else f", max_length={durations.written(self.max_length_us)!r}"
        ends = "" if self.ends_with is None else f", ends_with={self.ends_with!r}"
        return f"Session({gap!r}{most}{ends})"

    @property
    def _parts(self) -> tuple[object, ...]:
        return self.gap_us, self.gap, self.max_length_us, self.ends_with


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
        before_us = durations.not_negative(before, "before", "Around({})")
        after_us = durations.not_negative(after, "after", "Around('1 minute', {})")
        hold(self, before_us=before_us, after_us=after_us)

    def __repr__(self) -> str:
        return f"Around({durations.written(self.before_us)!r}, {durations.written(self.after_us)!r})"


def _not_on_a_grid(name: str, value: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{name}={value!r} shifts a grid, and windows with starts='first row' are on none. Leave one of them out."
    )


def _offset(us: int) -> str:
    return f", offset={durations.written(us)!r}" if us else ""
