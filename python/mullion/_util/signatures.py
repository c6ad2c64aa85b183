"""Calls with wrong arguments: errors that report missing ones, and suggest names for unknown ones."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar

from mullion.errors import WrongCallError

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")

_MEANT: Final = {
    "key": "by",
    "keys": "by",
    "group_by": "by",
    "groupBy": "by",
    "partition_by": "by",
    "time_column": "time",
    "timestamp": "time",
    "ts": "time",
    "event_time": "time",
    "lateness": "allowed_lateness",
    "grace": "allowed_lateness",
    "trigger": "early",
    "timeout": "gap",
    "every": "slide",
    "hop": "slide",
    "length": "size",
    "duration": "size",
    "tz": "timezone",
    "time_zone": "timezone",
}
"""Names of the same parameters in other engines."""

LONGEST: Final = 60
"""The longest value that a message repeats, in characters."""

_INSTEAD: Final = {
    "state": "State is always in RocksDB: leave it out.",
    "watermark": "Write clock=PerKey(), or clock=PerKey(wall_time=True). The delay of Spark's watermark belongs to the "
    "stream: df.withWatermark('ts', '5 minutes').",
    "late_by": "Write clock=PerKey(late_by='watermark').",
    "forget_after": "Write clock=PerKey(forget_after='7 days'), or Count(100, forget_after='7 days').",
    "max_ahead": "Write clock=Watermark(max_ahead='1 hour').",
    "idle_after": "Write clock=Watermark(idle_after='30 seconds').",
    "running": "Write early=Early(each_row=True).",
    "new_aggregates": "Write upgrade=Upgrade(new_aggregates='from now').",
    "on_change": "Write upgrade=Upgrade(window='drain').",
}
"""The replacements of former arguments."""


def explained(
    example: str, missing: Mapping[str, str] | None = None, name: str | None = None
) -> Callable[[Callable[_Given, _Made]], Callable[_Given, _Made]]:
    """Makes a function raise :class:`WrongCallError` for a call that does not match its signature.

    - ``example``: a valid call.
    - ``missing``: the message for each missing argument, by its name.
    - ``name``: the name in messages, if not the function's.
    """

    def wrapped(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
        signature = inspect.signature(function)
        called = name or function.__name__

        @functools.wraps(function)
        def calling(*args: _Given.args, **kwargs: _Given.kwargs) -> _Made:
            try:
                signature.bind(*args, **kwargs)
            except TypeError:
                raise _refusal(called, signature, args, kwargs, example, missing or {}) from None
            return function(*args, **kwargs)

        return calling

    return wrapped


def _refusal(
    called: str,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    example: str,
    missing: Mapping[str, str],
) -> WrongCallError:
    parameters = {name: one for name, one in signature.parameters.items() if name not in ("self", "cls")}
    positional = args[len(signature.parameters) - len(parameters) :]
    for name in kwargs:
        if name not in parameters:
            meant = _did_you_mean(name, kwargs[name], [*parameters])
            accepted = f" It accepts {', '.join(parameters)}. Write, for instance, {example}."
            return WrongCallError(f"{called}() has no argument {name!r}.{meant or accepted}")
    placed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [name for name, one in parameters.items() if one.kind in placed]
    if len(positional) > len(places):
        named = [name for name in parameters if name not in places]
        hint = f" Give the others by name: {', '.join(f'{one}=' for one in named)}." if named else ""
        if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
            hint = " Give each a name."
        accepted = f"{len(places)} ({', '.join(places)})" if places else "none"
        return WrongCallError(
            f"{called}() was given {len(positional)} positional argument{'s' * (len(positional) != 1)}, and accepts "
            f"{accepted}."
            f"{hint} Write, for instance, {example}."
        )
    for name in places[: len(positional)]:
        if name in kwargs:
            return WrongCallError(f"{called}() was given {name!r} twice: by its place and by its name.")
    lacking = [
        name
        for name, one in parameters.items()
        if one.default is inspect.Parameter.empty and name not in kwargs and name not in places[: len(positional)]
    ]
    explanation = missing.get(lacking[0], "") if lacking else ""
    return WrongCallError(
        f"{called}() was not given {' and '.join(map(repr, lacking))}.{explanation and ' ' + explanation} Write, "
        f"for instance, {example}."
    )


def _did_you_mean(name: str, value: object, names: list[str]) -> str:
    if name in _INSTEAD:
        return f" {_INSTEAD[name]}"
    meant = _MEANT.get(name)
    if meant not in names:
        meant = next(iter(difflib.get_close_matches(name.lower(), names, n=1)), None)
    if meant is None:
        return ""
    shown = repr(value) if isinstance(value, (str, int, float, list)) else "..."
    return f" Did you mean {meant!r}? Write {meant}={shown if len(shown) <= LONGEST else '...'}."
