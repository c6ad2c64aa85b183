"""Calendar lengths: days, weeks and months, whose duration varies."""

from __future__ import annotations

import difflib
import re
import zoneinfo
from datetime import timedelta

from mullion.errors import InvalidArgumentError

_LENGTH = re.compile(r"\s*(-?[1-9][0-9]{0,3})\s+(day|week|month|quarter|year)s?\s*", re.IGNORECASE)
_UNITS = {"day": (1, "day"), "week": (1, "week"), "month": (1, "month"), "quarter": (3, "month"), "year": (12, "month")}
_FIXED = re.compile(r"(UTC|GMT|UT)?[+-][0-9]{1,2}(:?[0-9]{2}){0,2}|Z")


def size_of(size: object) -> tuple[int, str] | None:
    """A size in calendar units: the number of days, weeks or months; ``None`` if it is not a whole number."""
    if isinstance(size, timedelta):
        return (size.days, "day") if size.days > 0 and size == timedelta(days=size.days) else None
    count, unit = _length_of(size) or (0, "")
    return (count, unit) if count > 0 else None


def months_of(offset: object) -> int | None:
    """An offset in months; ``None`` if it is not a number of months, quarters or years."""
    count, unit = _length_of(offset) or (0, "")
    return count if unit == "month" else None


def slides_of(size: tuple[int, str], slide: tuple[int, str]) -> int | None:
    """The number of slides in a window; ``None`` if the slide does not divide the size."""
    (count, unit), (step, step_unit) = _plain(*size), _plain(*slide)
    return count // step if unit == step_unit and count % step == 0 else None


def divides(step: tuple[int, str], size: tuple[int, str]) -> bool:
    """True if every calendar length of ``size`` is a whole number of steps. A single day divides any length."""
    return _plain(*step) == (1, "day") or slides_of(size, step) is not None


def _length_of(length: object) -> tuple[int, str] | None:
    match = _LENGTH.fullmatch(length) if isinstance(length, str) else None
    if match is None:
        return None
    each, unit = _UNITS[match[2].lower()]
    return int(match[1]) * each, unit


def _plain(count: int, unit: str) -> tuple[int, str]:
    return (count * 7, "day") if unit == "week" else (count, unit)


def written(count: int, unit: str) -> str:
    """``(12, "month")`` as ``'1 year'``: text that reads back as the same."""
    if unit == "month" and count % 12 == 0:
        count, unit = count // 12, "year"
    return f"{count} {unit}{'' if count == 1 else 's'}"


def require_timezone(timezone: object) -> None:
    """Raises :class:`InvalidArgumentError` for an unknown time zone, if this machine has a database of them."""
    if not isinstance(timezone, str):
        raise InvalidArgumentError(
            f"timezone={timezone!r} ({type(timezone).__name__}) is not a name. Write, for instance, "
            "timezone='America/New_York'."
        )
    names = zoneinfo.available_timezones()
    # Without a database in Python, the JVM checks the name.
    if timezone in names or _FIXED.fullmatch(timezone) or not names:
        return
    close = difflib.get_close_matches(timezone, names, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise InvalidArgumentError(
        f"timezone={timezone!r} is not a time zone.{hint} Give one by its name in the IANA database, such as "
        "'America/New_York' or 'UTC', or an offset such as '+02:00'."
    )
