"""Checks of arguments that are one of several values, or booleans."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from mullion.errors import InvalidArgumentError


def require_one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    """Raises :class:`InvalidArgumentError` for a value that is not allowed."""
    if isinstance(value, str) and value in allowed:
        return
    raise InvalidArgumentError(
        f"{name}={value!r} is not one of {', '.join(map(repr, allowed))}.{did_you_mean(value, allowed)}"
    )


def require_bool(name: str, value: object) -> None:
    """Raises :class:`InvalidArgumentError` for a value that is neither True nor False."""
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"{name}={value!r} ({type(value).__name__}) is neither True nor False.")


def described(name: str, value: object) -> str:
    """An argument as messages show it. A class is named, because its object was probably meant."""
    if isinstance(value, type):
        return f"{name}={value.__name__} (the class itself, without parentheses)"
    return f"{name}={value!r} ({type(value).__name__})"


def did_you_mean(value: object, allowed: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(value).lower(), [name.lower() for name in allowed], n=1)
    return next((f" Did you mean {name!r}?" for name in allowed if [name.lower()] == close), "")
