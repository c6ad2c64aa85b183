"""Dead letters as records of their topic. Writing one never fails.

A hostile message may contain values that are invalid in JSON (``NaN``) or in text (half a surrogate pair, bytes that
are not UTF-8). Its nesting may be too deep for the stack (five thousand lists). Keeping the letter matters more than
its exact form: each part is written as exactly as possible, and as a last resort as its ``repr``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mullion._util.codec.json import plain
from mullion.faust.agents import DeadLetter

_LONGEST = 10_000
_LONGEST_VALUE = 400_000
"""In characters: with JSON's overhead, a letter stays below Kafka's default limit of one megabyte."""


def record_of(letter: DeadLetter) -> tuple[str | None, dict[str, Any]]:
    """The key and the fields of a dead letter: valid text, and a time."""
    fields = {
        "topic": clean(letter.topic),
        "agent": clean(letter.agent),
        "reason": clean(letter.reason),
        "value": _written(letter.value),
        "timestamp": letter.timestamp,
    }
    return None if letter.key is None else _first(lambda: _key(letter.key), lambda: shown(letter.key)), fields


def clean(text: str, longest: int = _LONGEST) -> str:
    """Escapes characters that are invalid in UTF-8, and truncates long text."""
    cut = text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"
    return cut.encode("utf-8", "backslashreplace").decode()


def shown(value: Any) -> str:
    """The ``repr`` of a value; its type if ``repr`` fails."""
    return _first(lambda: clean(repr(value)), lambda: f"<{type(value).__name__} that cannot be shown>")


def message_of(error: BaseException) -> str:
    """The type and the text of an error."""
    return f"{type(error).__name__}: {_first(lambda: clean(str(error)), lambda: 'it cannot be shown')}"


def _key(key: Any) -> str:
    return clean(key) if isinstance(key, str) else clean(json.dumps(plain(key)))


def _written(value: Any) -> str:
    text = (
        value
        if isinstance(value, NotJson)
        else _first(
            lambda: json.dumps(plain(value)),
            # NaN and infinities.
            lambda: json.dumps(value, default=repr),
            lambda: shown(value),
        )
    )
    # Control characters and quotes are longer in JSON.
    longest = _LONGEST_VALUE if len(json.dumps(text[:_LONGEST_VALUE])) <= 2 * _LONGEST_VALUE else _LONGEST_VALUE // 6
    return clean(text, longest)


class NotJson(str):
    """The text of a message that is not JSON: a letter contains it unchanged."""

    __slots__ = ()


def _first(*ways: Callable[[], str]) -> str:
    """Returns the result of the first function that does not fail."""
    for way in ways[:-1]:
        try:
            return way()
        except Exception:  # noqa: S112
            continue
    return ways[-1]()
