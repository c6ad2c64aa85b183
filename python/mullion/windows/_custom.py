"""Custom windows: ranges computed from each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, final

from pyspark.sql import Column

from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError
from mullion.windows._spec import hold, name_of

RangesOf: TypeAlias = Callable[[datetime], Iterable[tuple[datetime, datetime]] | None]
"""A function from a row's time, in UTC, to the ranges that the row falls into."""


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Custom:
    """Custom windows. A row falls into every range of a list that is computed from the row.

    ``ranges`` is one of two:

    - a column, by name or as a Column, of type ``array<struct<start: timestamp, end: timestamp>>``, or of one such
      struct. The JVM computes it.
    - a function from a row's time, a ``datetime`` in UTC, to a list of ``(start, end)``, two datetimes with a time
      zone. It runs in Python workers, over Arrow.

    A range is half-open, ``[start, end)``, may have any length, and need not contain the row's time. Equal ranges of
    two rows are one window, and a range that a row lists twice counts once. A row with an empty list, null or ``None``
    is in no window. A range that ends at or before its start, or contains a null, fails the query, and the error shows
    the range.

    >>> from datetime import timedelta
    >>> def whole_day(time):
    ...     start = time.replace(hour=0, minute=0, second=0, microsecond=0)
    ...     return [(start, start + timedelta(days=1))]
    >>> Custom(whole_day)
    Custom(whole_day)
    >>> Custom("shifts")
    Custom('shifts')

    Two specs are equal when they have the same name, the same Column object or the same function, because Columns
    cannot be compared. A checkpoint identifies a function by its name, so Mullion cannot detect a change in its body.

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
        hold(self, ranges=ranges)

    @property
    def function(self) -> str | None:
        """The function's name; ``None`` if the ranges are a column."""
        if isinstance(self.ranges, (Column, str)):
            return None
        return name_of(self.ranges)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Custom):
            return False
        if isinstance(self.ranges, Column) or isinstance(other.ranges, Column):
            return self.ranges is other.ranges
        return bool(self.ranges == other.ranges)

    def __hash__(self) -> int:
        return hash((Custom, id(self.ranges) if isinstance(self.ranges, Column) else self.ranges))

    def __repr__(self) -> str:
        return f"Custom({self.function or repr(self.ranges)})"
