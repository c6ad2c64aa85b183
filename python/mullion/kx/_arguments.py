"""Checks of the arguments of ``sp``: durations, columns, functions and the lists of their parameters."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeAlias

from mullion import errors
from mullion._program.report import shown
from mullion._util import durations
from mullion._util.checks import did_you_mean
from mullion.errors import InvalidArgumentError, UnsupportedError

Timedelta: TypeAlias = timedelta | tuple[int, str] | Any
"""A length of time: ``datetime.timedelta``, ``numpy.timedelta64``, or a number and a unit such as ``(10, 's')``."""

HERE: Final = str(Path(errors.__file__).parent)
"""The folder of Mullion: code outside it is the user's."""

_SECOND: Final = 1_000_000
# NumPy's abbreviations, and words.
_UNITS: Final = {
    "W": Fraction(7 * 86_400 * _SECOND),
    "D": Fraction(86_400 * _SECOND),
    "h": Fraction(3_600 * _SECOND),
    "m": Fraction(60 * _SECOND),
    "s": Fraction(_SECOND),
    "ms": Fraction(1_000),
    "us": Fraction(1),
    "ns": Fraction(1, 1_000),
}
_WORDS: Final = {
    "week": "W",
    "day": "D",
    "hour": "h",
    "minute": "m",
    "second": "s",
    "millisecond": "ms",
    "microsecond": "us",
    "nanosecond": "ns",
}
_UNEQUAL: Final = ("Y", "M", "year", "years", "month", "months")


class OperatorParams(StrEnum):
    """The possible parameters of an operator's function, in the order of ``params=``.

    - ``operator``: the operator's id, a text.
    - ``metadata``: a dict that describes the batch; see :class:`mullion.kx.sp.Operator`.
    - ``data``: the batch, a ``pyarrow.Table``.
    """

    operator = "operator"
    metadata = "metadata"
    data = "data"


def duration_us(value: object, name: str, call: str, *, zero: bool = False) -> int:
    """A length of time in microseconds. ``call`` is a correct call with ``{}`` in place of the length, for messages.

    Raises :class:`InvalidArgumentError` for a value that is no length of time, has a fraction of a microsecond, or is
    not positive (with ``zero``: is negative).
    """
    exact = _exact_us(value, name, call)
    if exact.denominator != 1:
        raise InvalidArgumentError(
            f"{name}={value!r} is not a whole number of microseconds, the finest that Spark's timestamps hold. Round "
            f"it, as in {call.format(written(max(1, round(exact))))}."
        )
    us = int(exact)
    if abs(us) > durations.LONGEST_US:
        raise InvalidArgumentError(
            f"{name}={value!r} is longer than the {durations.LONGEST_US} microseconds (about 292 thousand years) that "
            f"a timestamp can span. Give a shorter one, as in {call.format(EXAMPLE)}."
        )
    if us < 0 or (us == 0 and not zero):
        meant = "none below zero, as in (0, 's')" if zero else EXAMPLE
        raise InvalidArgumentError(
            f"{name}={value!r} is {'negative' if us < 0 else 'zero'}, and must be {'zero or ' if zero else ''}longer. "
            f"Write {call.format(EXAMPLE)}, or {meant}."
        )
    return us


EXAMPLE: Final = "timedelta(seconds=10)"


def written(us: int) -> str:
    """Microseconds as the source text of a ``timedelta``."""
    return f"timedelta(microseconds={us})" if us % _SECOND else f"timedelta(seconds={us // _SECOND})"


def _exact_us(value: object, name: str, call: str) -> Fraction:
    if isinstance(value, timedelta):
        # A pandas Timedelta is a timedelta, and has nanoseconds in addition to the three fields.
        nanoseconds = Fraction(int(getattr(value, "nanoseconds", 0)), 1000)
        return (value.days * 86_400 + value.seconds) * _SECOND + value.microseconds + nanoseconds
    if type(value).__module__ == "numpy" and type(value).__name__ == "timedelta64":
        return _of_numpy(value, name, call)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], str):
        count, unit = value
        # NumPy's integers have ``__index__`` too.
        if isinstance(count, bool) or not hasattr(count, "__index__"):
            raise InvalidArgumentError(
                f"{name}={value!r}: {count!r} ({type(count).__name__}) is not a whole number of {unit!r}. Write, for "
                f"instance, {call.format((10, 's'))}."
            )
        return int(count.__index__()) * _unit_us(unit, f"{name}={value!r}", call)
    hint = ""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        hint = f" It has no unit: if seconds are meant, write {call.format((round(value) or 1, 's'))}."
    elif isinstance(value, str):
        try:
            us = durations.microseconds(value, name, "{}")
        except InvalidArgumentError:
            us = 0
        hint = f" Write {call.format(written(us))}." if us else ""
    raise InvalidArgumentError(
        f"{name}={value!r} ({type(value).__name__}) is not a length of time: a datetime.timedelta, a numpy.timedelta64 "
        f"or a number and a unit, as in (10, 's').{hint or f' Write, for instance, {call.format(EXAMPLE)}.'}"
    )


def _of_numpy(value: Any, name: str, call: str) -> Fraction:
    shown = f"{name}={value!r}"
    if str(value) == "NaT":
        raise InvalidArgumentError(f"{shown} is not a length of time. Write, for instance, {call.format(EXAMPLE)}.")
    # timedelta64[25s] counts in units of 25 seconds.
    unit = str(value.dtype).removeprefix("timedelta64").strip("[]")
    digits = unit[: len(unit) - len(unit.lstrip("0123456789"))]
    count = int(value.astype("int64")) * int(digits or 1)
    return count * _unit_us(unit[len(digits) :], shown, call)


def _unit_us(unit: str, shown: str, call: str) -> Fraction:
    length = _UNITS.get(unit) or _UNITS.get(_WORDS.get(unit.removesuffix("s"), ""))
    if length is not None:
        return length
    if unit in _UNEQUAL:
        why = "months and years differ in length. Give days"
    else:
        units = ", ".join(map(repr, _UNITS))
        why = f"{unit!r} is none of the units {units}.{did_you_mean(unit, [*_UNITS, *_WORDS])} Give one of them"
    raise InvalidArgumentError(f"{shown}: {why}, as in {call.format((10, 's'))}.")


def column_name(value: object, name: str, example: str) -> str:
    """The name of a column, from text or from a symbol of q (``kx.SymbolAtom``)."""
    if isinstance(value, str) and value:
        return value
    # PyKX is no dependency, so its symbols are recognized by the name of their class.
    if type(value).__name__ == "SymbolAtom" and str(value):
        return str(value)
    raise InvalidArgumentError(
        f"{name}={value!r} ({type(value).__name__}) is not the name of a column. Write {example}."
    )


def require_count(value: object, name: str, call: str) -> int:
    """A positive integer; raises :class:`InvalidArgumentError` for any other value."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < 1:
        raise InvalidArgumentError(
            f"{name}={value!r} ({type(value).__name__}) is not a whole number of records above 0. Write, for "
            f"instance, {call}."
        )
    return int(value.__index__())


def function_of(value: object, name: str, example: str) -> Callable[..., Any]:
    """A function, or the one that a text names: a name where ``sp`` is called, or ``'module.name'``."""
    if callable(value):
        return value
    if isinstance(value, str) or type(value).__name__ == "SymbolAtom":
        function = _object_named(str(value))
        if callable(function):
            return function
        raise InvalidArgumentError(
            f"{name}={value!r} names no function that is there: neither where it is written nor as 'module.name'. "
            f"Write {example}."
        )
    raise InvalidArgumentError(
        f"{name}={value!r} ({type(value).__name__}) is neither a function nor the name of one. Write {example}."
    )


def is_users(frame: FrameType) -> bool:
    """Returns True if a frame runs user code, not code of Mullion or code generated by ``dataclass``."""
    file = frame.f_code.co_filename
    return not file.startswith(HERE) and file != "<string>"


def here() -> str:
    """The ``file:line`` of the user code that is running."""
    frame = inspect.currentframe()
    while frame is not None and not is_users(frame):
        frame = frame.f_back
    return "" if frame is None else f"{shown(frame.f_code.co_filename)}:{frame.f_lineno}"


def _object_named(text: str) -> object:
    frame = inspect.currentframe()
    while frame is not None and not is_users(frame):
        frame = frame.f_back
    if frame is not None:
        for names in (frame.f_locals, frame.f_globals):
            if text in names:
                return names[text]
    module, _, attribute = text.rpartition(".")
    if not module:
        return None
    try:
        return getattr(sys.modules.get(module) or import_module(module), attribute, None)
    except ImportError:
        return None


def params_of(value: object, kind: str) -> tuple[str, ...]:
    """The parameters of a function; raises :class:`InvalidArgumentError`."""
    names = [each.value for each in OperatorParams]
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, Sequence) or not listed:
        raise InvalidArgumentError(
            f"params={value!r} is not a list of what the function of {kind} is called with. Write, for instance, "
            "params=['metadata', 'data']."
        )
    for each in listed:
        if not isinstance(each, str) or each not in names:
            raise InvalidArgumentError(
                f"params={value!r} holds {each!r}, which is not one of {', '.join(map(repr, names))}."
                f"{did_you_mean(each, names)}"
            )
    return tuple(str(OperatorParams(each).value) for each in listed)


def missing_name(module: str, name: str, names: Sequence[str], elsewhere: Mapping[str, str]) -> Exception:
    """The error for a name that a module lacks: with the alternative to a part of KX, or with the names that exist."""
    if name in elsewhere:
        return UnsupportedError(f"{module}.{name} is not there. Write {elsewhere[name]}.")
    return AttributeError(f"{module} has no {name!r}.{did_you_mean(name, names)} It has {', '.join(names)}.")
