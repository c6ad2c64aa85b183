"""Rules for the parameters of Turbine's windows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mullion.errors import InvalidArgumentError
from mullion.turbine._spec import END, LONGEST_MS, START, VALUE, Callbacks, called
from mullion.turbine.aggregates import Aggregate, Multi


def require_lengths(lengths: dict[str, int], what: str) -> None:
    """Raises an error for invalid lengths, and for windows with gaps between them."""
    for parameter, length in lengths.items():
        require_positive_ms(length, parameter, what)
    if lengths.get("slide_ms", 0) > lengths.get("size_ms", LONGEST_MS):
        raise InvalidArgumentError(
            f"slide_ms={lengths['slide_ms']} of {what} is longer than size_ms={lengths['size_ms']}: rows between two "
            "windows would be in none. Give a slide_ms up to size_ms; where they are equal it is a tumbling window."
        )


def require_lateness(allowed_lateness_ms: object, what: str) -> None:
    """Raises an error unless an allowed lateness is a length or 0."""
    if (
        isinstance(allowed_lateness_ms, bool)
        or not isinstance(allowed_lateness_ms, int)
        or not 0 <= allowed_lateness_ms <= LONGEST_MS
    ):
        raise InvalidArgumentError(
            f"allowed_lateness_ms={allowed_lateness_ms!r} of {what} is not a whole number of milliseconds, from 0 "
            f"to {LONGEST_MS}. Write, for instance, allowed_lateness_ms=5_000."
        )


def require_time(time_column: object, what: str) -> None:
    """Raises an error unless a time is the name of a column."""
    if time_column is not None and (not isinstance(time_column, str) or not time_column):
        raise InvalidArgumentError(
            f"time_column={time_column!r} of {what} does not name a column. Name an Int64 column of milliseconds "
            "since the epoch, as in time_column='event_ts_ms', or leave it out for processing time."
        )


def require_names(what: str, keys: tuple[str, ...], value: Aggregate | Multi) -> None:
    """Raises an error if a pane would have two columns of one name."""
    parts = list(value.parts) if isinstance(value, Multi) else [VALUE]
    for taken in (START, END):
        if taken in keys or taken in parts:
            raise InvalidArgumentError(
                f"{what} has a {'key' if taken in keys else 'Multi value'} called {taken!r}, as the column of a "
                "pane's time is. Call it otherwise."
            )
    both = [part for part in parts if part in keys]
    if both:
        raise InvalidArgumentError(
            f"{what} has a key and a value that are both called {both[0]!r}, and on_close would get two columns of "
            f"that name. Name the value, as in value=agg.Multi(total={value!r})."
            if not isinstance(value, Multi)
            else f"{what} has a key and a Multi value that are both called {both[0]!r}. Call one otherwise."
        )


def require_positive_ms(length: object, parameter: str, what: str) -> None:
    """Raises an error unless a length is a positive integer."""
    if isinstance(length, bool) or not isinstance(length, int) or not 0 < length <= LONGEST_MS:
        raise InvalidArgumentError(
            f"{parameter}={length!r} of {what} is not a whole number of milliseconds above 0. Write, for instance, "
            f"{parameter}=60_000 for a minute."
        )


def keys_of(what: str, key: object, partition_key: str | None) -> tuple[str, ...]:
    """The key of a window; by default the ``partition_key`` of its subscription."""
    if key is None:
        return () if partition_key is None else (partition_key,)
    listed = [key] if isinstance(key, str) else key
    if not isinstance(listed, (list, tuple)) or not all(isinstance(each, str) and each for each in listed):
        raise InvalidArgumentError(
            f"key={key!r} of {what} is not a list of columns' names. Write, for instance, key=['region']."
        )
    twice = [each for each in listed if listed.count(each) > 1]
    if twice:
        raise InvalidArgumentError(f"key={key!r} of {what} names {twice[0]!r} twice. Name it once.")
    if partition_key is not None and partition_key not in listed:
        raise InvalidArgumentError(
            f"key={key!r} of {what} lacks {partition_key!r}, the partition_key of its subscription. In Turbine's "
            'documentation, every window "must be keyed (at least) by the same column", and the '
            'partition_key "is auto-injected: you never write it again on the window". The second sentence is about '
            f"windows without key=. Write key={[partition_key, *listed]!r}, or leave key out for [{partition_key!r}]."
        )
    return tuple(listed)


def callbacks_of(
    what: str,
    on_close_each: Callable[..., Any] | None,
    on_close: Callable[..., Any] | None,
    interval_ms: int | None,
    on_early_fire_each: Callable[..., Any] | None,
    on_early_fire: Callable[..., Any] | None,
) -> Callbacks:
    """The callbacks of a window, all in one form."""
    if on_close_each is not None and on_close is not None:
        raise InvalidArgumentError(
            f"{what} has both on_close_each= and on_close=. Give one: on_close_each is called for each pane, on_close "
            "once for all that close in a tick."
        )
    if on_close_each is None and on_close is None:
        raise InvalidArgumentError(
            f"{what} has no close callback, so that nothing would come of it. Give on_close_each=, called for each "
            "pane as (state, window, value), or on_close=, called once for all that close in a tick as (state, panes)."
        )
    if on_early_fire_each is not None and on_early_fire is not None:
        raise InvalidArgumentError(
            f"{what} has both on_early_fire_each= and on_early_fire=. Give the one that mirrors its close callback, "
            f"{'on_early_fire_each' if on_close_each is not None else 'on_early_fire'}."
        )
    each = on_close_each is not None
    early = on_early_fire_each if each else on_early_fire
    if early is None and (on_early_fire_each is not None or on_early_fire is not None):
        have, want = ("on_early_fire", "on_early_fire_each") if each else ("on_early_fire_each", "on_early_fire")
        raise InvalidArgumentError(
            f"{what} mixes forms: {'on_close_each' if each else 'on_close'}= goes with {want}=, and it has {have}=. "
            f"Write {want}=, with {'(state, window, value)' if each else '(state, panes)'}."
        )
    if early is not None and interval_ms is None:
        raise InvalidArgumentError(
            f"{what} has an early callback and no early_fire_interval_ms=, so that it would never be called. Add, for "
            "instance, early_fire_interval_ms=10_000."
        )
    if interval_ms is not None:
        if early is None:
            raise InvalidArgumentError(
                f"{what} has early_fire_interval_ms={interval_ms!r} and no early callback to call. Add "
                f"{'on_early_fire_each' if each else 'on_early_fire'}=, or leave the interval out."
            )
        require_positive_ms(interval_ms, "early_fire_interval_ms", what)
    close = on_close_each if on_close_each is not None else on_close
    assert close is not None
    suffix = "_each" if each else ""
    _require_callable(what, f"on_close{suffix}", close, each)
    if early is not None:
        _require_callable(what, f"on_early_fire{suffix}", early, each)
    return Callbacks(close, early, each)


def _require_callable(what: str, parameter: str, function: object, each: bool) -> None:
    shape = "(state, window, value)" if each else "(state, panes)"
    if not callable(function):
        raise InvalidArgumentError(
            f"{parameter}={function!r} of {what} cannot be called. Give a function of {shape}, as in "
            f"{parameter}=self._emit."
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*([None] * (3 if each else 2)))
    except TypeError:
        raise InvalidArgumentError(
            f"{parameter}={called(function)} of {what} takes {signature} and is called with {shape}. Change its "
            f"parameters, or give it as {parameter.removesuffix('_each') if each else parameter + '_each'}=, which is "
            f"called with {'(state, panes)' if each else '(state, window, value)'}."
        ) from None
