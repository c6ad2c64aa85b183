"""Plain values and their texts, in JSON.

Out go any values of a program's (:func:`plain`: records, dates, decimals and their like), or plain values as they are
(:func:`text_of`). In comes what others wrote, be it what it may.

Two readers have one idea of what JSON is: :func:`read` here, and ``JsonText`` in the JVM for streams. A text is one
value of RFC 8259 in UTF-8, with nothing before or after it but space; floats may also be ``NaN``, ``Infinity`` and
``-Infinity``. Of two fields of one name the last counts.
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
"""How many characters a number may have."""

MOST_DEPTH: Final = 100
"""How many lists and records may be in one another: more of them there is no room for on the stack."""

NESTED: Final = (dict, list, tuple, set, frozenset)


def plain(value: Any, path: str = "value") -> Any:
    """A value as JSON can hold it; one that it cannot hold is an :class:`InvalidArgumentError` that says where it is.

    Dates are ISO 8601, decimals and UUIDs text, lengths of time seconds, bytes base64, sets lists in order of their
    text, enumerations their values, and records what their fields are.
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
        return {_name(key, path): plain(held, f"{path}[{key!r}]") for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(held, f"{path}[{i}]") for i, held in enumerate(value)]
    if isinstance(value, AbstractSet):
        return sorted((plain(held, path) for held in value), key=lambda held: (type(held).__name__, str(held)))
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
        # A class of somebody's own that is one of these: what it is beyond that is not kept.
        return plain(next(base(value) for base in (str, int, float) if isinstance(value, base)), path)
    raise InvalidArgumentError(
        f"{path}={value!r} ({kind.__name__}) cannot be written as JSON. Make it a record, or of numbers, text, dates, "
        "lists and dicts."
    )


def dumps(value: Any) -> bytes:
    """A value as JSON in UTF-8, as short as it can be."""
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
    """A value as JSON, in text that UTF-8 has. Raises :class:`ValueError` for what nobody could read again."""
    if is_deep(value, MOST_DEPTH):
        raise ValueError(f"it has more than {MOST_DEPTH} lists and records in one another")
    text = json.dumps(value, ensure_ascii=False)
    # Half of a surrogate pair has a place in escapes alone.
    return text if is_text(text) else json.dumps(value)


def read(value: bytes | None, *, exact: bool = False) -> Any:
    """What a value holds; raises :class:`ValueError` where that is not JSON.

    With ``exact``, ints beyond 64 bits are decimals.
    """
    if value is None:
        return None
    text = value.decode("utf-8")
    try:
        large = exact and _LARGE.search(text)
        found = (_EXACT if large else _PLAIN if len(text) <= MOST_DIGITS else _CHECKED).decode(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {MOST_DEPTH} deep") from None
    if text.count("[") + text.count("{") > MOST_DEPTH and is_deep(found, MOST_DEPTH):
        raise ValueError(f"it is nested more than {MOST_DEPTH} deep")
    if "\\u" in text:
        # Half of a surrogate pair is not text.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    return found


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
    """Whether a value has more than so many lists and records in one another."""
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
    """Whether UTF-8 has a text: half of a surrogate pair it has not."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
