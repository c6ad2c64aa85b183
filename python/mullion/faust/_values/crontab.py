"""Crontabs: five fields of minutes, hours, days of the month, months and days of the week.

::

    30 8 * * 1-5       8:30 from Monday to Friday
    */15 * * * *       every quarter of an hour
    0 0 1,15 * mon     midnight of the 1st, the 15th, and of every Monday

If both kinds of days are restricted, either is enough, as in cron. A time that a clock change skips is not due that
day; a time that occurs twice is due the first time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, final

from mullion.errors import InvalidArgumentError

_NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MOST_DAYS: Final = 366 * 9
"""Any existing date recurs within this number of days: around 2100, 29 February is eight years apart."""


@final
@dataclass(frozen=True)
class Crontab:
    """A crontab in a timezone.

    >>> Crontab.of("30 8 * * *").next_us(0) // 1_000_000 == 8 * 3600 + 30 * 60
    True
    """

    text: str
    timezone: tzinfo
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool

    @classmethod
    def of(cls, text: str, timezone: tzinfo = UTC) -> Crontab:
        """Parses a crontab. Raises :class:`InvalidArgumentError` for invalid text, or if it is never due."""
        fields = _NAMED.get(text.strip().lower(), text).split() if isinstance(text, str) else []
        if len(fields) != len(_FIELDS):
            raise _invalid(text, f"has {len(fields)} fields of 5")
        minutes, hours, days, months, weekdays = (
            _values(text, field, *about) for field, about in zip(fields, _FIELDS, strict=True)
        )
        # As in croniter, which Faust uses: a step restricts the days.
        either = fields[2] != "*" and fields[4] != "*"
        crontab = cls(
            text,
            timezone,
            tuple(sorted(minutes)),
            tuple(sorted(hours)),
            frozenset(days),
            frozenset(months),
            frozenset(one % 7 for one in weekdays),
            either,
        )
        if not any(crontab._is_due_on(date(2000, 1, 1) + timedelta(days)) for days in range(_MOST_DAYS)):
            raise _invalid(text, "names a day that does not exist")
        return crontab

    def next_us(self, after_us: int) -> int:
        """Returns the next due time after a time; both in microseconds since the epoch."""
        after = _EPOCH + timedelta(microseconds=after_us)
        # Starts a day earlier, because its last times may come after the first times of the next day.
        day = after.astimezone(self.timezone).date() - timedelta(days=1)
        for _ in range(_MOST_DAYS):
            if self._is_due_on(day):
                times = [self._at(day, hour, minute) for hour in self.hours for minute in self.minutes]
                due = min((one for one in times if one is not None and one > after), default=None)
                if due is not None:
                    return (due - _EPOCH) // _MICROSECOND
            day += timedelta(days=1)
        raise _invalid(self.text, "is never due")

    def _is_due_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month or of_week if self.either else of_month and of_week

    def _at(self, day: date, hour: int, minute: int) -> datetime | None:
        """A local time in UTC; ``None`` if a clock change skips it."""
        naive = datetime(day.year, day.month, day.day, hour, minute)
        localize = getattr(self.timezone, "localize", None)
        # Timezones of pytz must not be set as ``tzinfo``; they have ``localize``.
        local = naive.replace(tzinfo=self.timezone) if localize is None else localize(naive, is_dst=True)
        there = local.astimezone(UTC)
        return there if there.astimezone(self.timezone).replace(tzinfo=None) == naive else None

    def __str__(self) -> str:
        return self.text


def _values(text: str, field: str, name: str, least: int, most: int) -> set[int]:
    values: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        if slash and (not step.isdecimal() or int(step) == 0):
            raise _invalid(text, f"has the step {step!r} in its {name}")
        first, dash, last = span.partition("-")
        if span == "*":
            low, high = least, most - (name == "weekday")
        else:
            low = _number(text, first, name, least, most)
            high = _number(text, last, name, least, most) if dash else (most if slash else low)
        if low > high:
            raise _invalid(text, f"has the range {span!r} in its {name}, which ends before it begins")
        values.update(range(low, high + 1, int(step) if slash else 1))
    return values


def _number(text: str, part: str, name: str, least: int, most: int) -> int:
    names = {"month": _MONTHS, "weekday": _DAYS}.get(name, ())
    if part.lower()[:3] in names and part.isalpha():
        return names.index(part.lower()[:3]) + least
    if not part.isdecimal() or not least <= int(part) <= most:
        raise _invalid(text, f"has {part!r} for its {name}, which is from {least} to {most}")
    return int(part)


def _invalid(text: object, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"crontab({text!r}) {why}. Write minute, hour, day of the month, month and day of the week, as in "
        "crontab('30 8 * * 1-5')."
    )
