"""Time as Faust writes it, in float seconds or ``timedelta``; internally whole microseconds.

Window edges are never floats: ``0.1 + 0.2`` is not ``0.3``, but their microseconds are equal.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from mullion.errors import InvalidArgumentError

Seconds: TypeAlias = float | timedelta
"""A length of time: a number of seconds, or a :class:`datetime.timedelta`."""

LONGEST_US = 2**63 - 1
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def length_us(value: object, name: str) -> int:
    """Returns a length of time, of either sign, in microseconds. Raises :class:`InvalidArgumentError`."""
    if isinstance(value, timedelta):
        us = value // _MICROSECOND
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise InvalidArgumentError(f"{name}={value!r} is not a length of time. Give a finite number of seconds.")
        us = nearest_us(value)
        if us / 1_000_000 != value:
            raise InvalidArgumentError(
                f"{name}={value!r} seconds is not a whole number of microseconds, the finest that time is measured in. "
                f"Round it, as in {name}={seconds(us)!r}."
            )
    else:
        raise InvalidArgumentError(
            f"{name}={value!r} ({type(value).__name__}) is not a length of time. Give seconds or a datetime.timedelta, "
            f"as in {name}=60 or {name}=timedelta(minutes=1)."
        )
    if abs(us) > LONGEST_US:
        raise InvalidArgumentError(
            f"{name}={value!r} is longer than the {LONGEST_US} microseconds (about 292 thousand years) that time can "
            "span. Give a shorter one."
        )
    return us


def positive_us(value: object, name: str) -> int:
    """Returns a length of at least one microsecond. Raises :class:`InvalidArgumentError` for any other value."""
    us = length_us(value, name)
    if us <= 0:
        raise InvalidArgumentError(f"{name}={value!r} must be longer than zero. Give, for instance, {name}=60.")
    return us


def not_negative_us(value: object, name: str) -> int:
    """Returns a length of zero or more. Raises :class:`InvalidArgumentError` for any other value."""
    us = length_us(value, name)
    if us < 0:
        raise InvalidArgumentError(f"{name}={value!r} is negative. Give {name}=0 for none, or a length of time.")
    return us


def expires_us(value: object, otherwise: int | None) -> int | None:
    """The retention of ranges: ``None`` is the window's default, and 0 is unlimited, as in faust-streaming."""
    if value is None:
        return otherwise
    return not_negative_us(value, "expires") or None


def time_us(value: object, name: str = "timestamp") -> int:
    """Returns microseconds since the epoch, from seconds or a ``datetime`` (UTC if it has no timezone)."""
    if isinstance(value, datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise InvalidArgumentError(
            f"{name}={value!r} ({type(value).__name__}) is not a point in time. Give seconds since the epoch, or a "
            "datetime."
        )
    return nearest_us(value)


def nearest_us(value: float) -> int:
    """Returns the microsecond nearest to a number of seconds, without rounding twice."""
    numerator, denominator = value.as_integer_ratio()
    return (numerator * 2_000_000 + denominator) // (2 * denominator)


def seconds(us: int) -> float:
    """Returns the float of seconds nearest to microseconds."""
    return us / 1_000_000


def short(us: int) -> str:
    """Formats microseconds as seconds: ``300_000_000`` as ``'300'``, ``1_500_000`` as ``'1.5'``."""
    sign, us = ("-", -us) if us < 0 else ("", us)
    full_seconds, rest = divmod(us, 1_000_000)
    return f"{sign}{full_seconds}" + (f".{rest:06d}".rstrip("0") if rest else "")
