"""Lengths that the calendar has: days, weeks and months, which are not of one length everywhere or always."""

from __future__ import annotations

import difflib
import re
import zoneinfo
from datetime import timedelta

from mullion.errors import InvalidArgumentError

_SIZE = re.compile(r"\s*([1-9][0-9]{0,3})\s+(day|week|month|quarter|year)s?\s*", re.IGNORECASE)
_UNITS = {"day": (1, "day"), "week": (1, "week"), "month": (1, "month"), "quarter": (3, "month"), "year": (12, "month")}
_FIXED = re.compile(r"(UTC|GMT|UT)?[+-][0-9]{1,2}(:?[0-9]{2}){0,2}|Z")


def size_of(size: object) -> tuple[int, str] | None:
    """A size in units of the calendar: how many days, weeks or months; ``None`` for what is not of whole ones."""
    if isinstance(size, timedelta):
        return (size.days, "day") if size.days > 0 and size == timedelta(days=size.days) else None
    found = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if found is None:
        return None
    each, unit = _UNITS[found[2].lower()]
    return int(found[1]) * each, unit


def written(count: int, unit: str) -> str:
    """``(12, "month")`` as ``'1 year'``: text that reads back as the same."""
    if unit == "month" and count % 12 == 0:
        count, unit = count // 12, "year"
    return f"{count} {unit}{'' if count == 1 else 's'}"


def require_timezone(timezone: object) -> None:
    """Raises :class:`InvalidArgumentError` for what is not a time zone, as far as this machine knows them."""
    if not isinstance(timezone, str):
        raise InvalidArgumentError(
            f"timezone={timezone!r} ({type(timezone).__name__}) is not a name. Write, for instance, "
            "timezone='America/New_York'."
        )
    known = zoneinfo.available_timezones()
    # Where Python has no database of them, the JVM has, and says what it does not know.
    if timezone in known or _FIXED.fullmatch(timezone) or not known:
        return
    close = difflib.get_close_matches(timezone, known, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise InvalidArgumentError(
        f"timezone={timezone!r} is not a time zone.{hint} Give one by its name in the IANA database, such as "
        "'America/New_York' or 'UTC', or an offset such as '+02:00'."
    )
