"""Which windows a row falls into, and when an open pane fires.

Specs are values: frozen, comparable, refused when wrong.

Lengths are whole microseconds. A window is half-open, ``[start, end)``. It is aligned to the epoch in UTC, or to the
calendar of a time zone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias, final

from pyspark.sql import Column

from mullion import _calendar, _durations
from mullion._calls import explained
from mullion._durations import Duration
from mullion.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow

RangesOf: TypeAlias = Callable[[datetime], Iterable[tuple[datetime, datetime]] | None]
"""A function from a row's time, in UTC, to the ranges that the row falls into."""

SplitOf: TypeAlias = (
    Callable[["pyarrow.RecordBatch"], Iterable[int] | None]
    | Callable[["pyarrow.RecordBatch", int], Iterable[int] | None]
)
"""A function from the buffered rows of a key, and where those of this batch begin, to where new windows start."""

Late: TypeAlias = Literal["drop", "emit", "reopen", "reopen each"]
"""What becomes of a row whose pane has closed."""

LateBy: TypeAlias = Literal["panes", "watermark"]
"""What makes a row late."""

Empty: TypeAlias = Literal["skip", "emit"]
"""What becomes of windows without rows."""

AtEnd: TypeAlias = Literal["keep", "close"]
"""What becomes of panes that are open when the input ends."""

Store: TypeAlias = Literal["rocksdb", "hdfs", "memory"]
"""Where state is kept."""

Watermark: TypeAlias = Literal["stream", "per key", "per key with wall time"]
"""Whose event clock closes panes."""

Order: TypeAlias = Literal["arrival", "time"]
"""How the rows of a pane are ordered."""

_NO_OFFSET = "0 seconds"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Tumbling:
    """Windows that follow one another without overlap or gap. A row falls into exactly one.

    - ``size``: how long a window is.
    - ``offset``: shifts where windows start from the epoch. Only its remainder by ``size`` matters, so it may be
      negative or longer than a window.
    - ``timezone``: a name of the IANA database such as ``"America/New_York"``. Windows are then whole days, weeks,
      months, quarters or years of the calendar there, from midnight to midnight. A day on which clocks change has 23 or
      25 hours. Weeks begin on Monday, months on their first day. Several days are counted from 1970-01-01, several
      weeks from the Monday of that week, several months from January 1970.

    Without ``timezone``, windows of a day begin at midnight in UTC, whatever the session's time zone.

    >>> Tumbling("60 minutes", offset="75 minutes")
    Tumbling('1 hour', offset='15 minutes')
    >>> Tumbling("1 quarter", timezone="America/New_York")
    Tumbling('3 months', timezone='America/New_York')

    Raises :class:`InvalidArgumentError` when ``size`` is not a duration longer than zero, or ``offset`` is not a
    duration. With ``timezone`` it raises when the time zone is unknown, when ``size`` is not whole days, weeks, months,
    quarters or years, and when there is an ``offset``.
    """

    size_us: int
    """Microseconds; 0 where the calendar says how long a window is."""
    offset_us: int
    calendar: tuple[int, str] | None
    """How many of which unit a window is by the calendar: ``day``, ``week`` or ``month``."""
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
            _hold(self, size_us=size_us, offset_us=offset_us, calendar=None, timezone=None)
            return
        if by_calendar is None:
            raise InvalidArgumentError(
                f"size={size!r} is not of whole days, weeks, months, quarters or years, which windows by the calendar "
                f"of timezone={timezone!r} are of. Write Tumbling('1 day', timezone={timezone!r}), or leave timezone "
                "out."
            )
        if _durations.microseconds(offset, "offset", "offset={}") != 0:
            raise InvalidArgumentError(
                f"offset={offset!r} is for windows of one length, and those by the calendar of timezone={timezone!r} "
                "begin at midnight there. Leave one of them out."
            )
        _calendar.require_timezone(timezone)
        _hold(self, size_us=0, offset_us=0, calendar=by_calendar, timezone=timezone)

    def __repr__(self) -> str:
        if self.calendar is not None:
            return f"Tumbling({_calendar.written(*self.calendar)!r}, timezone={self.timezone!r})"
        return f"Tumbling({_durations.written(self.size_us)!r}{_offset(self.offset_us)})"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Sliding:
    """Windows of one size that start every ``slide``. A row falls into each window that covers it.

    ``slide`` need not divide ``size``. A slide longer than ``size`` leaves gaps, and rows in a gap are in no window.
    ``offset`` shifts where windows start from the epoch; only its remainder by ``slide`` matters.

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
        _hold(self, size_us=size_us, slide_us=slide_us, offset_us=offset_us)

    def __repr__(self) -> str:
        size, slide = _durations.written_alike(self.size_us, self.slide_us)
        return f"Sliding({size!r}, {slide!r}{_offset(self.offset_us)})"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Session:
    """Windows that follow the rows. A key's rows are in one session while none comes more than ``gap`` after the last.

    A session is ``[first, last + gap)``. A row exactly at ``last + gap`` still joins it. A row between two open
    sessions merges them into one. ``gap`` is a duration, or a Column that gives each row its own gap: an interval, or
    text that Spark reads as one. A row whose gap is null, in months, or not longer than zero is in no session.

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
            _hold(self, gap_us=None, gap=gap)
            return
        if isinstance(gap, str) and gap.isidentifier():
            raise InvalidArgumentError(
                f"gap={gap!r} is not a duration. Write, for instance, Session('10 seconds'), or where {gap!r} is a "
                f"column that holds each row's gap, Session(F.col({gap!r}))."
            )
        _hold(self, gap_us=_durations.positive(gap, "gap", "Session({})"), gap=None)

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

    There is a pane for each key and each time that a row of the key has. It holds the key's rows in that window, as
    long as they come while the pane is open. As a half-open interval the window is
    ``[t - before, t + after + 1 microsecond)``. A row is late when no window that is open, or may still open, can hold
    it. Rows are kept no longer than that.

    Without ``after``, a window ends at its row, as for a moving average. Faust's sliding windows are these. Kafka
    Streams' sliding windows are these and windows that begin just after a row.

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
        _hold(self, before_us=before_us, after_us=after_us)

    def __repr__(self) -> str:
        return f"Around({_durations.written(self.before_us)!r}, {_durations.written(self.after_us)!r})"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Custom:
    """Windows that each row brings itself. A row falls into every range of a list that is computed from the row.

    ``ranges`` is one of two:

    - a column, by name or as a Column, of type ``array<struct<start: timestamp, end: timestamp>>``, or of one such
      struct. The JVM computes it.
    - a function that gets a row's time, a ``datetime`` in UTC, and returns a list of ``(start, end)``, two datetimes
      with a time zone each. It runs in Python workers, over Arrow.

    A range is half-open, ``[start, end)``, may have any length, and need not hold the row's time. Equal ranges of two
    rows are one window, and a range that a row lists twice counts once. A row with an empty list, or with null or
    ``None`` in its place, is in no window. A range that ends at or before its start, or has a null in it, fails the
    query, and the error shows the range.

    >>> from datetime import timedelta
    >>> def whole_day(time):
    ...     start = time.replace(hour=0, minute=0, second=0, microsecond=0)
    ...     return [(start, start + timedelta(days=1))]
    >>> Custom(whole_day)
    Custom(whole_day)
    >>> Custom("shifts")
    Custom('shifts')

    Two specs are equal when they have the same name, the same Column object or the same function, because Columns
    cannot be compared. A checkpoint knows a function by its name alone, and cannot see that its body changed.

    Raises :class:`InvalidArgumentError` when ``ranges`` is neither a column nor callable.
    """

    ranges: Column | str | RangesOf

    @explained(
        "Custom('ranges')", {"ranges": "Name the column, or the function, that gives a row its ranges."}, "Custom"
    )
    def __init__(self, ranges: Column | str | RangesOf) -> None:
        if not isinstance(ranges, (Column, str)) and not callable(ranges):
            raise InvalidArgumentError(
                f"ranges={ranges!r} ({type(ranges).__name__}) is neither a column nor a function of a row's time. "
                "Write Custom('ranges') for a column that holds each row's ranges, or Custom(lambda time: [(start, "
                "end)])."
            )
        _hold(self, ranges=ranges)

    @property
    def function(self) -> str | None:
        """The function's name; ``None`` where the ranges are a column."""
        if isinstance(self.ranges, (Column, str)):
            return None
        return _name_of(self.ranges)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Custom):
            return False
        mine, theirs = self.ranges, other.ranges
        if isinstance(mine, Column) or isinstance(theirs, Column):
            return mine is theirs
        return bool(mine == theirs)

    def __hash__(self) -> int:
        return hash((Custom, id(self.ranges) if isinstance(self.ranges, Column) else self.ranges))

    def __repr__(self) -> str:
        return f"Custom({self.function or repr(self.ranges)})"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Count:
    """Windows of ``size`` rows that start every ``every`` rows, for each key in order of arrival.

    The rows of a key are numbered from 0. Without ``every``, each row is in one window. If ``every`` is less than
    ``size``, windows overlap; if it is more, the rows between two windows are in none. The column ``window`` holds row
    numbers, ``start`` and ``end``, instead of times. A pane closes with the row that completes it. There is no clock
    and no late row, so write ``time=None``; a stream needs no watermark.

    A window that is not complete does not come out, not even on a batch DataFrame. State keeps the number of rows that
    each key has had, a small record for each key, as long as the query lasts.

    >>> Count(100, every=100)
    Count(100)

    Raises :class:`InvalidArgumentError` when ``size`` or ``every`` is not a whole number above zero.
    """

    size: int
    every: int

    @explained("Count(100)", {"size": "Say how many rows a window has."}, "Count")
    def __init__(self, size: int, every: int | None = None) -> None:
        size = _rows(size, "size", "Count(100)")
        _hold(self, size=size, every=size if every is None else _rows(every, "every", "Count(100, every=10)"))

    def __repr__(self) -> str:
        return f"Count({self.size}{'' if self.every == self.size else f', every={self.every}'})"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Global:
    """One window after another over all rows of a key. A trigger closes each window, and the next one begins there.

    You make it with :meth:`every`, :meth:`when`, :meth:`changes` or, with a Python function, :meth:`split`. Rows are
    taken in order of arrival, and the column ``window`` holds their numbers, as for :class:`Count`. A window that its
    trigger has not closed does not come out.

    Two specs are equal when they close after the same number of rows, by the same function over the same columns, or by
    the same Column object, because Columns cannot be compared.
    """

    count: int | None
    condition: Column | str | None
    changing: Column | str | None
    splitting: SplitOf | None
    columns: tuple[str, ...] | None

    def __init__(self, trigger: object = None) -> None:
        meant = "Global.every(100), Global.when(F.col('done')), Global.changes('status') or Global.split(function)"
        if callable(trigger) and not isinstance(trigger, Column):
            raise InvalidArgumentError(
                f"Global({trigger!r}) does not say what the function is for. Write Global.split(function) for one that "
                "gets a key's buffered rows, or say when a window closes with a column: Global.when(F.col('done'))."
            )
        raise InvalidArgumentError(f"Global() does not say when a window closes. Write {meant}.")

    @classmethod
    @explained("Global.every(100)", name="Global.every")
    def every(cls, rows: int) -> Global:
        """Closes a window after every ``rows`` rows.

        >>> Global.every(100)
        Global.every(100)
        """
        return cls._of(count=_rows(rows, "rows", "Global.every(100)"))

    @classmethod
    @explained("Global.when(F.col('done'))", name="Global.when")
    def when(cls, condition: Column | str) -> Global:
        """Closes a window after each row for which ``condition``, a boolean column, is true. A null is not true."""
        return cls._of(condition=_of_row(condition, "Global.when(F.col('status') == 'done')"))

    @classmethod
    @explained("Global.changes('status')", name="Global.changes")
    def changes(cls, column: Column | str) -> Global:
        """Closes a window before each row whose ``column`` differs from the row before it. Nulls are equal.

        >>> Global.changes("status")
        Global.changes('status')
        """
        return cls._of(changing=_of_row(column, "Global.changes('status')"))

    @classmethod
    @explained("Global.split(function)", name="Global.split")
    def split(cls, function: SplitOf, columns: Sequence[str] | None = None) -> Global:
        """Closes windows where a Python function says.

        - ``function`` gets the rows of a key that are in no closed window yet, its buffer, as a ``pyarrow.RecordBatch``
          in order of arrival. If it takes a second argument, it also gets the index of the first row that came in this
          batch. It returns the indices of the buffer at which new windows start, ascending, as a list or an array. The
          rows before the first index are one window, and the rows from the last index on stay buffered.
          ``len(buffer)`` as the last index leaves nothing; ``[]`` or ``None`` splits nothing. This is the trigger of
          ``global_window`` in the KX Stream Processor.
        - ``columns``: the columns of the input that the function sees; ``None`` for all.

        Python workers call the function once a batch for each key that got rows, with the whole buffer of the key. The
        buffer is read again each time, and must fit into the memory of a task;
        ``spark.sql.streaming.stateStore.mullion.maxAccumulatorBytes`` limits its bytes. On a batch DataFrame the
        function is called once, with all rows of a key, so the result is that of a stream only if the function does not
        depend on how rows come in batches. It must give the same result for the same rows, because a batch may be tried
        again.

        If the function raises, or returns something that is not such a list of indices, the query fails with a
        :class:`FunctionError` that has the key and the line. Once you have mended the function, the query goes on from
        its checkpoint. A checkpoint knows a function by its name alone, and cannot see that its body changed.

        >>> def after_gaps(trades):
        ...     times = trades["ms"].to_pylist()
        ...     return [i for i in range(1, len(times)) if times[i] - times[i - 1] > 5000]
        >>> Global.split(after_gaps, columns=["ms"])
        Global.split(after_gaps, columns=['ms'])

        Raises :class:`InvalidArgumentError` when ``function`` cannot be called with one argument or with two, or
        ``columns`` is not a list of names.
        """
        _takes_offset(function)
        if columns is not None:
            listed = isinstance(columns, (list, tuple)) and len(columns) > 0
            if not listed or not all(isinstance(column, str) for column in columns):
                raise InvalidArgumentError(
                    f"columns={columns!r} ({type(columns).__name__}) is not a list of columns' names. Write "
                    "columns=['price', 'size'], or leave it out for all."
                )
        return cls._of(splitting=function, columns=None if columns is None else tuple(columns))

    @property
    def function(self) -> str | None:
        """The function's name; ``None`` where windows close by a column or a number of rows."""
        return None if self.splitting is None else _name_of(self.splitting)

    @property
    def takes_offset(self) -> bool:
        """Whether the function takes the index at which the rows of the batch begin."""
        return self.splitting is not None and _takes_offset(self.splitting)

    @classmethod
    def _of(
        cls,
        count: int | None = None,
        condition: Column | str | None = None,
        changing: Column | str | None = None,
        splitting: SplitOf | None = None,
        columns: tuple[str, ...] | None = None,
    ) -> Global:
        made = object.__new__(cls)
        _hold(made, count=count, condition=condition, changing=changing, splitting=splitting, columns=columns)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Global) and all(
            mine is its if isinstance(mine, Column) or isinstance(its, Column) else mine == its
            for mine, its in zip(self._fields, other._fields, strict=True)
        )

    def __hash__(self) -> int:
        return hash((Global, *(id(part) if isinstance(part, Column) else part for part in self._fields)))

    def __repr__(self) -> str:
        if self.count is not None:
            return f"Global.every({self.count})"
        if self.splitting is not None:
            seen = "" if self.columns is None else f", columns={list(self.columns)!r}"
            return f"Global.split({self.function}{seen})"
        return f"Global.changes({self.changing!r})" if self.condition is None else f"Global.when({self.condition!r})"

    @property
    def _fields(self) -> tuple[object, ...]:
        return self.count, self.condition, self.changing, self.splitting, self.columns


Window: TypeAlias = Tumbling | Sliding | Session | Around | Custom | Count | Global


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Early:
    """Fires a pane that is still open: at an interval, after a number of rows, or whichever comes first.

    - ``every``: an interval of the pane's clock, counted from when the pane opened or last fired. The clock is event
      time while rows come, and wall time while none come.
    - ``wall``: instead of ``every``, an interval of the wall clock alone. It suits dashboards.
    - ``count``: a number of rows that the pane has got since it opened or last fired.
    - ``unchanged``: with ``True``, panes fire at the interval even if they got no row since they last fired.

    A pane fires early at most once a batch, when all rows of the batch are in it, and not in the batch in which it
    closes. Panes that hold their rows (``.collect()``) fire with the very row that makes ``count``, as often as there
    is one in a batch.

    >>> Early(every="60 seconds")
    Early('1 minute')
    >>> Early(count=1000)
    Early(count=1000)
    >>> Early(wall="10 seconds")
    Early(wall='10 seconds')

    Raises :class:`InvalidArgumentError` when none of them is given, ``every`` or ``wall`` is not a duration longer than
    zero, both are given, ``count`` is not a whole number above zero, or ``unchanged`` is not a bool.
    """

    every_us: int | None
    unchanged: bool
    count: int | None
    wall_us: int | None

    @explained("Early(every='1 minute')", name="Early")
    def __init__(
        self,
        every: Duration | None = None,
        unchanged: bool = False,
        *,
        count: int | None = None,
        wall: Duration | None = None,
    ) -> None:
        if every is None and count is None and wall is None:
            raise InvalidArgumentError(
                "Early() says neither every nor count: when is a pane to fire? Write Early(every='1 minute') or "
                "Early(count=1000)."
            )
        every_us = None if every is None else _durations.positive(every, "every", "Early(every={})")
        wall_us = None if wall is None else _durations.positive(wall, "wall", "Early(wall={})")
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
                "unchanged=True says which panes fire at an interval, and there is none. Write, for instance, "
                "Early(every='1 minute', unchanged=True)."
            )
        _hold(self, every_us=every_us, unchanged=unchanged, count=count, wall_us=wall_us)

    def __repr__(self) -> str:
        parts = [] if self.every_us is None else [repr(_durations.written(self.every_us))]
        if self.unchanged:
            parts.append("unchanged=True")
        if self.count is not None:
            parts.append(f"count={self.count}")
        if self.wall_us is not None:
            parts.append(f"wall={_durations.written(self.wall_us)!r}")
        return f"Early({', '.join(parts)})"


def _name_of(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__)).rsplit("<locals>.", 1)[-1]


def _takes_offset(function: object) -> bool:
    """Whether a function that splits wants a second argument. What can be called with one gets one."""
    if not callable(function):
        raise InvalidArgumentError(
            f"function={function!r} ({type(function).__name__}) cannot be called. Write, for instance, "
            "Global.split(lambda buffer: [len(buffer)])."
        )
    try:
        signature = inspect.signature(function)
    except ValueError:
        # What is written in C may not say.
        return False
    for arguments in (1, 2):
        try:
            signature.bind(*range(arguments))
        except TypeError:
            continue
        return arguments == 2
    raise InvalidArgumentError(
        f"{_name_of(function)}{signature} cannot be called with the buffered rows, nor with them and the index at "
        "which those of this batch begin. Write def function(buffer) or def function(buffer, offset)."
    )


def _rows(rows: object, name: str, example: str) -> int:
    if isinstance(rows, int) and not isinstance(rows, bool) and rows > 0:
        return rows
    raise InvalidArgumentError(
        f"{name}={rows!r} ({type(rows).__name__}) is not a whole number of rows above 0. Write, for instance, "
        f"{example}."
    )


def _of_row(column: object, example: str) -> Column | str:
    if isinstance(column, (Column, str)):
        return column
    raise InvalidArgumentError(
        f"{column!r} ({type(column).__name__}) is neither a column's name nor a Column. Write, for instance, {example}."
    )


def _offset(us: int) -> str:
    return f", offset={_durations.written(us)!r}" if us else ""


def _hold(spec: object, **fields: object) -> None:
    """Sets the fields of a frozen value while it is being made."""
    for name, value in fields.items():
        object.__setattr__(spec, name, value)
