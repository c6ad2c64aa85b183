"""Plain values and their JSON texts.

:func:`plain` converts the values of a program: records, dates, decimals and similar types. :func:`text_of` writes plain
values unchanged. :func:`read` reads external texts.

Two readers share one definition of JSON: :func:`read` here, and ``JsonText`` in the JVM for streams. A text is one
value of RFC 8259 in UTF-8, surrounded only by space; floats may also be ``NaN``, ``Infinity`` and ``-Infinity``. Of two
fields of one name the last counts.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from mullion.errors import InvalidArgumentError

MOST_DIGITS: Final = 1000
"""The maximum number of characters of a number."""

MOST_DEPTH: Final = 100
"""The maximum nesting depth of lists and records, which the stack limits."""

NESTED: Final = (dict, list, tuple, set, frozenset)


def plain(value: Any, path: str = "value") -> Any:
    """A value in the types of JSON. Raises an :class:`InvalidArgumentError` with the location of an unsupported value.

    Dates are ISO 8601, decimals and UUIDs text, lengths of time seconds, bytes base64, sets lists in order of their
    text, enumerations their values, and records their fields.
    """
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool:
        return value
    if kind is float:
        if math.isfinite(value):
            return value
        raise InvalidArgumentError(f"{path}={value!r} has no place in JSON. Leave it out, or make it None.")
    if hasattr(kind, "to_representation"):
        return value.to_representation()
    if isinstance(value, Mapping):
        return {_name(key, path): plain(item, f"{path}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{path}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, AbstractSet):
        return sorted((plain(item, path) for item in value), key=lambda item: (type(item).__name__, str(item)))
    if isinstance(value, Enum):
        return plain(value.value, path)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (str, int, float)):
        # A subclass of one of these: only the base value is kept.
        return plain(next(base(value) for base in (str, int, float) if isinstance(value, base)), path)
    raise InvalidArgumentError(
        f"{path}={value!r} ({kind.__name__}) cannot be written as JSON. Make it a record, or of numbers, text, dates, "
        "lists and dicts."
    )


def dumps(value: Any) -> bytes:
    """A value as JSON in UTF-8, in the shortest form."""
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _name(key: Any, path: str) -> str:
    """A dict's key: JSON has only text."""
    if isinstance(key, str):
        return str(key)
    if isinstance(key, (bool, int, float, Decimal, UUID, date, Enum)):
        named = plain(key, path)
        return named if isinstance(named, str) else json.dumps(named)
    raise InvalidArgumentError(
        f"{path} has the key {key!r} ({type(key).__name__}), and JSON's keys are text. Use text for it."
    )


# -- texts


def text_of(value: Any) -> str:
    """A value as JSON text that UTF-8 can encode. Raises :class:`ValueError` for an unreadable nesting depth."""
    if is_deep(value, MOST_DEPTH):
        raise ValueError(f"it has more than {MOST_DEPTH} lists and records in one another")
    text = json.dumps(value, ensure_ascii=False)
    # Half of a surrogate pair can only be an escape.
    return text if is_text(text) else json.dumps(value)


def read(value: bytes | None, *, exact: bool = False) -> Any:
    """The value of a JSON text. Raises :class:`ValueError` for invalid texts.

    With ``exact``, integers beyond 64 bits are decimals.
    """
    if value is None:
        return None
    text = value.decode("utf-8")
    try:
        large = exact and _LARGE.search(text)
        parsed = (_EXACT if large else _PLAIN if len(text) <= MOST_DIGITS else _CHECKED).decode(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {MOST_DEPTH} deep") from None
    if text.count("[") + text.count("{") > MOST_DEPTH and is_deep(parsed, MOST_DEPTH):
        raise ValueError(f"it is nested more than {MOST_DEPTH} deep")
    if "\\u" in text:
        # Half of a surrogate pair is not text.
        json.dumps(parsed, ensure_ascii=False).encode("utf-8")
    return parsed


def _int(digits: str) -> int:
    return int(_number(digits))


def _exact_int(digits: str) -> int | Decimal:
    number = _int(digits)
    return number if -(2**63) <= number < 2**63 else Decimal(number)


def _number(digits: str) -> str:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"it has a number of more than {MOST_DIGITS} digits")
    return digits


_LARGE = re.compile(r"\d{19}")
_PLAIN = json.JSONDecoder()
_CHECKED = json.JSONDecoder(parse_int=_int, parse_float=lambda digits: float(_number(digits)))
_EXACT = json.JSONDecoder(parse_int=_exact_int, parse_float=lambda digits: float(_number(digits)))


def is_deep(value: Any, most: int) -> bool:
    """True if lists and records are nested deeper than ``most``."""
    level = [value] if isinstance(value, NESTED) else []
    for _ in range(most):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, NESTED)
        ]
        if not level:
            return False
    return True


def is_text(value: str) -> bool:
    """True if UTF-8 can encode a text, which excludes half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
