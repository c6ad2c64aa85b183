"""The conversion of JSON to the types of fields: one reader per type, built once.

A reader accepts a value and its path, and returns the field's value or raises :class:`ValidationError`. Structure is
always converted (records, dates, decimals, lists of them). Plain values (numbers, text) stay unchanged by default. The
model's option ``validation=True`` rejects values of another type; ``coerce=True`` converts them to the declared type.
Without these two options, ``None`` stays ``None`` in every field. An empty date, or a number beyond the seconds of the
year 9999, such as milliseconds, stays unchanged, as in Faust.
"""

from __future__ import annotations

import base64
import binascii
import collections.abc
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, TypeAlias
from uuid import UUID

from mullion.errors import MullionError

Reader: TypeAlias = Callable[[Any, str], Any]


class ValidationError(MullionError, ValueError):
    """A value that its field cannot hold. ``field`` is the path, such as ``Order.items[0].price``."""

    condition = "INVALID_RECORD"

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason

    def __reduce__(self) -> tuple[type[ValidationError], tuple[str, str]]:
        return type(self), (self.field, self.reason)


@dataclass(frozen=True, slots=True)
class Reading:
    """A model's options for reading its fields."""

    validation: bool = False
    coerce: bool = False
    isodates: bool = True
    date_parser: Callable[[Any], datetime] | None = None
    coercions: Mapping[Any, Callable[[Any], Any]] = field(default_factory=dict)


_SEQUENCES = {
    list: list,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
    set: set,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    frozenset: frozenset,
}
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_LAST_SECOND = 253_402_300_799
"""The last second of the year 9999, the last one of a ``datetime``."""
_BOOLS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


def reader_of(kind: Any, how: Reading) -> Reader:
    read = _reader_of(kind, how)
    if how.validation or how.coerce or read is _as_it_is or kind in (int, float, str, bool):
        return read
    return lambda value, path: None if value is None else read(value, path)


def _reader_of(kind: Any, how: Reading) -> Reader:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    own = how.coercions.get(kind)
    if own is not None:
        return _coercion_reader(kind, own)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments, how)
    if origin is typing.Literal:
        return _literal(arguments)
    if origin in (typing.Annotated, typing.Final):
        return reader_of(arguments[0], how)
    if (origin or kind) is tuple:
        return _tuple(arguments, how)
    if (origin or kind) in _SEQUENCES:
        return _sequence(_SEQUENCES[origin or kind], arguments, how)
    if (origin or kind) in _MAPPINGS:
        return _mapping(arguments, how)
    if not isinstance(kind, type):
        return _as_it_is
    if hasattr(kind, "_read"):
        return typing.cast(Reader, kind._read)
    if issubclass(kind, Enum):
        return _enum(kind)
    if issubclass(kind, (datetime, date, time)):
        return _moment(kind, how)
    if kind in (Decimal, UUID, timedelta, bytes):
        return _of_text(kind)
    if kind in (int, float, str, bool):
        return _scalar(kind, how)
    return _of_class(kind) if how.validation and kind is not object else _as_it_is


def _as_it_is(value: Any, _: str) -> Any:
    return value


def _invalid(value: Any, path: str, meant: str) -> ValidationError:
    return ValidationError(path, f"{value!r} ({type(value).__name__}) is not {meant}.")


def _coercion_reader(kind: Any, coercion: Callable[[Any], Any]) -> Reader:
    def read(value: Any, path: str) -> Any:
        if isinstance(kind, type) and isinstance(value, kind):
            return value
        try:
            return coercion(value)
        except Exception as error:
            raise ValidationError(path, f"{value!r} could not be coerced: {type(error).__name__}: {error}") from error

    return read


def _union(arms: tuple[Any, ...], how: Reading) -> Reader:
    others = [arm for arm in arms if arm is not type(None)]
    optional = len(others) < len(arms)
    # A value of exactly one member type is not converted to another: 1 stays an int in ``int | str``.
    exact = [reader_of(arm, Reading(True, False, how.isodates, how.date_parser, how.coercions)) for arm in others]
    loose = [reader_of(arm, how) for arm in others]

    def read(value: Any, path: str) -> Any:
        if value is None and optional:
            return None
        if len(loose) == 1:
            return loose[0](value, path)
        reasons = []
        for arm in [*exact, *loose]:
            try:
                return arm(value, path)
            except ValidationError as refused:
                reasons.append(refused.reason)
        raise ValidationError(path, f"it is none of the types it may be. {' '.join(dict.fromkeys(reasons))}")

    return read


def _literal(allowed: tuple[Any, ...]) -> Reader:
    def read(value: Any, path: str) -> Any:
        if any(type(value) is type(one) and value == one for one in allowed):
            return value
        raise ValidationError(path, f"{value!r} is not one of {', '.join(map(repr, allowed))}.")

    return read


def _elements(value: Any, path: str, kind: type) -> Iterable[Any]:
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    raise _invalid(value, path, f"a {kind.__name__}")


def _sequence(sequence_type: type, arguments: tuple[Any, ...], how: Reading) -> Reader:
    each = reader_of(arguments[0], how) if arguments else _as_it_is

    def read(value: Any, path: str) -> Any:
        return sequence_type(each(one, f"{path}[{i}]") for i, one in enumerate(_elements(value, path, sequence_type)))

    return read


def _tuple(arguments: tuple[Any, ...], how: Reading) -> Reader:
    if not arguments or arguments[-1] is Ellipsis:
        return _sequence(tuple, arguments[:1], how)
    readers = [reader_of(argument, how) for argument in arguments]

    def read(value: Any, path: str) -> Any:
        elements = list(_elements(value, path, tuple))
        if len(elements) != len(readers):
            raise ValidationError(path, f"it has {len(elements)} values, and is to have {len(readers)}.")
        return tuple(each(one, f"{path}[{i}]") for i, (each, one) in enumerate(zip(readers, elements, strict=True)))

    return read


def _mapping(arguments: tuple[Any, ...], how: Reading) -> Reader:
    # JSON keys are always text.
    keys = reader_of(arguments[0], Reading(coerce=True)) if arguments else _as_it_is
    values = reader_of(arguments[1], how) if arguments else _as_it_is

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, Mapping):
            raise _invalid(value, path, "a dict")
        return {keys(key, f"{path}[{key!r}]"): values(item, f"{path}[{key!r}]") for key, item in value.items()}

    return read


def _enum(kind: type[Enum]) -> Reader:
    def read(value: Any, path: str) -> Any:
        if isinstance(value, kind):
            return value
        try:
            return kind(value)
        except ValueError:
            named = ", ".join(repr(one.value) for one in kind)
            raise ValidationError(path, f"{value!r} is not one of {named}, the values of {kind.__name__}.") from None

    return read


def _moment(kind: type[datetime | date | time], how: Reading) -> Reader:
    is_strict = how.validation or how.coerce

    def read(value: Any, path: str) -> Any:
        if not is_strict and (value == "" or (type(value) in (int, float) and abs(value) > _LAST_SECOND)):
            return value
        if isinstance(value, kind) or not how.isodates:
            return value
        try:
            if how.date_parser is not None and issubclass(kind, datetime):
                return how.date_parser(value)
            if isinstance(value, str):
                return kind.fromisoformat(value)
            if issubclass(kind, datetime) and isinstance(value, (int, float)) and not isinstance(value, bool):
                return datetime.fromtimestamp(value, UTC)
        except (ValueError, OverflowError, OSError) as error:
            raise ValidationError(path, f"{value!r} is not a {kind.__name__}: {error}.") from error
        raise _invalid(value, path, f"a {kind.__name__}: ISO 8601 text is expected")

    return read


def _of_text(kind: type[Any]) -> Reader:
    def parse(value: Any) -> Any:
        if kind is timedelta:
            return timedelta(seconds=value)
        if kind is bytes:
            return base64.b64decode(value, validate=True)
        return kind(str(value))

    def read(value: Any, path: str) -> Any:
        if isinstance(value, kind):
            return value
        try:
            if not isinstance(value, bool):
                return parse(value)
        except (ValueError, TypeError, InvalidOperation, OverflowError, binascii.Error):
            pass
        raise _invalid(value, path, f"a {kind.__name__}")

    return read


def _scalar(kind: type[Any], how: Reading) -> Reader:
    meant = {int: "an int", float: "a float", str: "a str", bool: "a bool"}[kind]

    def is_one(value: Any) -> bool:
        if isinstance(value, bool):
            return kind is bool
        return isinstance(value, kind) or (kind is float and isinstance(value, int))

    def coerced(value: Any, path: str) -> Any:
        try:
            if kind is bool and isinstance(value, str):
                return _BOOLS[value.lower()]
            if value is not None and not isinstance(value, (list, dict)) and not (kind is int and _has_part(value)):
                return kind(value)
        except (KeyError, ValueError, TypeError, OverflowError):
            pass
        raise _invalid(value, path, meant)

    def read(value: Any, path: str) -> Any:
        if is_one(value):
            return float(value) if kind is float and (how.coerce or how.validation) else value
        if how.coerce:
            return coerced(value, path)
        if how.validation:
            raise _invalid(value, path, meant)
        return value

    return read


def _has_part(value: Any) -> bool:
    """True if conversion to int would lose a fraction."""
    return isinstance(value, float) and not value.is_integer()


def _of_class(kind: type) -> Reader:
    def read(value: Any, path: str) -> Any:
        if isinstance(value, kind):
            return value
        raise _invalid(value, path, f"a {kind.__name__}")

    return read
