"""Windows by the calendar of a time zone: their lengths, the days of their weeks, and their offsets."""

from __future__ import annotations

import calendar as names
from dataclasses import dataclass
from typing import final

from mullion._util import calendars, durations
from mullion._util.durations import Duration
from mullion.errors import InvalidArgumentError

_DAY_US = 86_400_000_000
_FEBRUARY_US = 28 * _DAY_US


@final
@dataclass(frozen=True, slots=True)
class Calendar:
    """The calendar of a window: ``slides`` steps of ``number`` days, weeks or months in a time zone."""

    number: int
    unit: str
    """``day``, ``week`` or ``month``."""
    slides: int
    timezone: str
    week_start: str
    offset_months: int
    offset_us: int
    """The local time after midnight at which windows start, in microseconds."""

    def options(self) -> str:
        """The keyword arguments that a ``repr`` shows after the lengths."""
        offsets = [calendars.written(self.offset_months, "month")] if self.offset_months else []
        offsets += [durations.written(self.offset_us)] if self.offset_us else []
        shift = "".join(f", offset={offset!r}" for offset in offsets)
        start = "" if self.week_start == "Monday" else f", week_start={self.week_start!r}"
        return f", timezone={self.timezone!r}{start}{shift}"


def calendar_of(
    step: tuple[int, str], slides: int, timezone: str, week_start: str | None, offset: Duration
) -> Calendar:
    number, unit = step
    calendars.require_timezone(timezone)
    if week_start is not None:
        if unit != "week":
            raise InvalidArgumentError(
                f"week_start={week_start!r} is for windows of weeks. Leave it out, or give the length in weeks, such "
                "as '1 week'."
            )
        if week_start not in names.day_name:
            raise InvalidArgumentError(
                f"week_start={week_start!r} is not a day of the week. Give its English name, such as "
                "week_start='Sunday'."
            )
    months = calendars.months_of(offset) if unit == "month" else None
    offset_us = 0 if months is not None else durations.microseconds(offset, "offset", "offset={}")
    if unit == "month" and not 0 <= offset_us < _FEBRUARY_US:
        raise InvalidArgumentError(
            f"offset={offset!r} does not fit windows of months: it must be at least 0 and less than 28 days, because "
            "February has 28. Give a number of months, such as offset='3 months', or a shorter duration."
        )
    step_us = number * {"day": 1, "week": 7}.get(unit, 0) * _DAY_US
    return Calendar(
        number,
        unit,
        slides,
        timezone,
        week_start or "Monday",
        (months or 0) % number,
        offset_us % step_us if step_us else offset_us,
    )


def not_by_calendar(name: str, value: object, timezone: str, example: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{name}={value!r} is not a number of days, weeks, months, quarters or years, as windows by the calendar of "
        f"timezone={timezone!r} require. Write {example}, or leave timezone out: windows start with the hours of UTC "
        "then, and offset='30 minutes' shifts them to the hours of a time zone such as Asia/Kolkata."
    )


def require_no_week_start(week_start: str | None) -> None:
    if week_start is not None:
        raise InvalidArgumentError(
            f"week_start={week_start!r} needs a time zone. Write Tumbling('1 week', timezone='UTC', "
            f"week_start={week_start!r})."
        )
