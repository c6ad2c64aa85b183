"""Lengths of time: conversion of text or ``timedelta`` to microseconds, and to the text of the JVM."""

from __future__ import annotations

import difflib
import re
from datetime import timedelta
from fractions import Fraction
from typing import TypeAlias

from mullion.errors import InvalidArgumentError

Duration: TypeAlias = str | timedelta
"""A length of time: text in Spark's format (``"1 hour 30 minutes"``) or a :class:`datetime.timedelta`."""

LONGEST_US = 2**63 - 1

_UNITS = {
    "week": 7 * 86_400_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
# Weeks are read but not written: '14 days' shows better where windows start than '2 weeks'.
_WRITTEN = {name: us for name, us in _UNITS.items() if name != "week"}
_SHORT = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "secs": "second",
    "m": "minute",
    "min": "minute",
    "mins": "minute",
    "h": "hour",
    "hr": "hour",
    "hrs": "hour",
    "d": "day",
    "w": "week",
}
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?")
_GLUED = re.compile(r"([+-]?[0-9.]+)([a-z]+)")


def microseconds(value: object, name: str, fix: str) -> int:
    """A duration as microseconds, of either sign.

    ``name`` is the parameter's name and ``fix`` a call with ``{}`` for the value, both for the message. Raises
    :class:`InvalidArgumentError` for a value that is not a duration of whole microseconds within 64 bits.
    """
    if isinstance(value, str):
        exact = _parsed(value, name, fix)
    elif isinstance(value, timedelta):
        # A pandas Timedelta is a timedelta too, with nanoseconds in addition to the three fields.
        nanoseconds = Fraction(int(getattr(value, "nanoseconds", 0)), 1000)
        exact = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds + nanoseconds
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        raise InvalidArgumentError(
            f"{name}={value!r} has no unit. If seconds are meant, write {_example(fix, _counted(value, 'second'))}."
        )
    else:
        raise InvalidArgumentError(
            f"{name}={value!r} ({type(value).__name__}) is not a duration. Give text or a datetime.timedelta, as in "
            f"{_example(fix)}."
        )
    if exact.denominator != 1:
        raise InvalidArgumentError(
            f"{name}={value!r} is not a whole number of microseconds, the finest that Spark's timestamps hold. "
            f"Round it, as in {_example(fix, written(round(exact) or 1))}."
        )
    if abs(exact) > LONGEST_US:
        raise InvalidArgumentError(
            f"{name}={value!r} is longer than the {LONGEST_US} microseconds (about 292 thousand years) that a "
            f"timestamp can span. Give a shorter one, as in {_example(fix)}."
        )
    return int(exact)


def positive(value: object, name: str, fix: str) -> int:
    """A duration of at least one microsecond; anything else is an :class:`InvalidArgumentError`."""
    us = microseconds(value, name, fix)
    if us <= 0:
        raise InvalidArgumentError(
            f"{name}={_shown(value)} is {'zero' if us == 0 else 'negative'}, and must be longer than zero. "
            f"Write, for instance, {_example(fix)}."
        )
    return us


def not_negative(value: object, name: str, fix: str) -> int:
    """A duration of zero or more; anything else is an :class:`InvalidArgumentError`."""
    us = microseconds(value, name, fix)
    if us < 0:
        raise InvalidArgumentError(
            f"{name}={_shown(value)} is negative. Write {_example(fix, '0 seconds')} for none, or a length of time."
        )
    return us


def written(us: int) -> str:
    """``90_000_000`` as ``'1 minute 30 seconds'``: text that reads back as the same microseconds."""
    if us == 0:
        return "0 seconds"
    sign, rest = ("-", -us) if us < 0 else ("", us)
    words = []
    for unit, length in _WRITTEN.items():
        count, rest = divmod(rest, length)
        if count:
            words.append(f"{sign}{_counted(count, unit)}")
    return " ".join(words)


def written_alike(us: int, other: int) -> tuple[str, str]:
    """Two durations in one unit if readable (``'60 seconds'`` and ``'1 second'``), otherwise in separate units."""
    for unit, length in _WRITTEN.items():
        counts = (Fraction(us, length), Fraction(other, length))
        if all(count.denominator == 1 for count in counts):
            if max(counts) < 1000:
                return _counted(int(counts[0]), unit), _counted(int(counts[1]), unit)
            break
    return written(us), written(other)


def _parsed(text: str, name: str, fix: str) -> Fraction:
    words = text.lower().split()
    if words and words[0] == "interval":
        words = words[1:]
    if not words:
        raise InvalidArgumentError(f"{name}={text!r} is not a duration. Write, for instance, {_example(fix)}.")
    if len(words) == 1 and (glued := _GLUED.fullmatch(words[0])):
        words = [*glued.groups()]
        unit = _unit_meant(words[1])
        suggestion = _example(fix, _counted(words[0], unit)) if unit else _example(fix)
        raise InvalidArgumentError(f"{name}={text!r} is not a duration as Spark writes one. Write {suggestion}.")
    if len(words) == 1 and _NUMBER.fullmatch(words[0]):
        raise InvalidArgumentError(
            f"{name}={text!r} has no unit. If seconds are meant, write {_example(fix, _counted(words[0], 'second'))}."
        )
    total = Fraction(0)
    for number, unit in zip(words[::2], [*words[1::2], ""], strict=False):
        if not _NUMBER.fullmatch(number) or not unit:
            raise InvalidArgumentError(
                f"{name}={text!r} is not a duration: it must be numbers, each followed by its unit. "
                f"Write, for instance, {_example(fix)}."
            )
        total += Fraction(number) * _length_of(unit, text, name, fix)
    return total


def _length_of(unit: str, text: str, name: str, fix: str) -> int:
    length = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
    if length is not None:
        return length
    if unit.removesuffix("s") in ("month", "year", "quarter"):
        raise InvalidArgumentError(
            f"{name}={text!r} is not of a fixed length: months and years differ. Give it in days, as in "
            f"{_example(fix, '30 days')}."
        )
    meant = _unit_meant(unit)
    hint = f"did you mean '{meant}s'? " if meant else ""
    raise InvalidArgumentError(
        f"{name}={text!r} is not a duration: {unit!r} is not a unit; {hint}The units are "
        f"{', '.join(unit + 's' for unit in reversed(_UNITS))}. Write, for instance, {_example(fix)}."
    )


def _unit_meant(unit: str) -> str | None:
    if unit in _UNITS or unit.removesuffix("s") in _UNITS:
        return unit.removesuffix("s")
    close = difflib.get_close_matches(unit, [name + "s" for name in _UNITS], n=1)
    return _SHORT.get(unit) or (close[0].removesuffix("s") if close else None)


def _counted(count: object, unit: str) -> str:
    return f"{count} {unit}{'' if str(count) in ('1', '1.0') else 's'}"


def _example(fix: str, duration: str = "10 seconds") -> str:
    return fix.format(repr(duration))


def _shown(value: object) -> str:
    return repr(value)
