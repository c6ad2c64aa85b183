"""Dead letters as records of their topic: the one place where they are written, and nothing in it can fail.

What a hostile message holds may have no place in JSON (``NaN``), in text (half a surrogate pair, bytes that are none)
or on the stack (five thousand lists in one another). Its letter is worth more than its exact shape: each part is
written as well as it can be, and at last as Python shows it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mullion._codec.json import plain
from mullion.faust.agents import DeadLetter

_LONGEST = 10_000
_LONGEST_VALUE = 400_000
"""In characters: with what JSON adds to it, a letter is below the megabyte that Kafka takes by default."""


def record_of(letter: DeadLetter) -> tuple[str | None, dict[str, Any]]:
    """The key and the fields of a dead letter: text that is text, and a time."""
    fields = {
        "topic": clean(letter.topic),
        "agent": clean(letter.agent),
        "reason": clean(letter.reason),
        "value": _written(letter.value),
        "timestamp": letter.timestamp,
    }
    return None if letter.key is None else _first(lambda: _key(letter.key), lambda: shown(letter.key)), fields


def clean(text: str, longest: int = _LONGEST) -> str:
    """A text with what UTF-8 has no place for shown as escapes, and of a huge one the beginning."""
    cut = text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"
    return cut.encode("utf-8", "backslashreplace").decode()


def shown(value: Any) -> str:
    """A value as Python shows it; one that cannot be shown by its type."""
    return _first(lambda: clean(repr(value)), lambda: f"<{type(value).__name__} that cannot be shown>")


def message_of(error: BaseException) -> str:
    """An error as its type and its text."""
    return f"{type(error).__name__}: {_first(lambda: clean(str(error)), lambda: 'it cannot be shown')}"


def _key(key: Any) -> str:
    return clean(key) if isinstance(key, str) else clean(json.dumps(plain(key)))


def _written(value: Any) -> str:
    text = (
        value
        if isinstance(value, NotJson)
        else _first(
            lambda: json.dumps(plain(value)),
            # NaN and what is infinite.
            lambda: json.dumps(value, default=repr),
            lambda: shown(value),
        )
    )
    # Control characters and quotes take more room in JSON than they have characters.
    longest = _LONGEST_VALUE if len(json.dumps(text[:_LONGEST_VALUE])) <= 2 * _LONGEST_VALUE else _LONGEST_VALUE // 6
    return clean(text, longest)


class NotJson(str):
    """The text of a message that is not JSON: a letter has it as it is."""

    __slots__ = ()


def _first(*ways: Callable[[], str]) -> str:
    """What the first way gives that does not fail."""
    for way in ways[:-1]:
        try:
            return way()
        except Exception:  # noqa: S112
            continue
    return ways[-1]()
