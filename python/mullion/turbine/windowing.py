"""The six windows of Turbine, and the rules by which they are made.

A window belongs to a subscription (``self``), has a name, and computes an aggregate for each key. Every rule about its
parameters is checked when it is built, never when it fires::

    class revenue:
        def __init__(self) -> None:
            self._win = win.PersistentTumbling(
                self, name="revenue_5m", size_ms=5 * 60_000, key=["region"],
                value=agg.Sum("amount"), time_column="event_ts_ms", allowed_lateness_ms=5_000,
                on_close_each=self._commit,
                early_fire_interval_ms=10_000, on_early_fire_each=self._live_gauge,
            )

All times are whole milliseconds since the epoch, and all lengths whole milliseconds. The name is what a window's state
is kept under: windows may be reordered in the code, and two of one name are an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Protocol, TypedDict, Unpack, final

import pyarrow as pa

from mullion import windows as native
from mullion._code.methods import name_of
from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.turbine.aggregates import Aggregate, Multi, require_aggregate

__all__ = [
    "InMemorySession",
    "InMemorySliding",
    "InMemoryTumbling",
    "PersistentSession",
    "PersistentSliding",
    "PersistentTumbling",
    "Window",
]

LONGEST_MS: Final = (2**63 - 1) // 1000
"""The longest that a window may be: engine time is microseconds in 64 bits."""

START, END = "window_start_ms", "window_end_ms"

VALUE = "value"

KAFKA_TIME = "_kafka_ts_ms"


@dataclass(frozen=True, slots=True)
class Window:
    """The pane that a callback is told of: ``[start_ms, end_ms)`` in milliseconds since the epoch, and its key.

    ``group`` has the value of each key field by its name. A session ends at its last event plus the gap.
    """

    start_ms: int
    end_ms: int
    group: dict[str, Any]


@final
@dataclass(frozen=True, slots=True)
class Callbacks:
    """What is called when a pane closes and, if asked for, while it is open; both in one form."""

    close: Callable[..., Any]
    early: Callable[..., Any] | None
    each: bool


@final
@dataclass(frozen=True, slots=True)
class Spec:
    """All that a window is: what it was made with, checked."""

    kind: str
    name: str
    size_ms: int | None
    slide_ms: int | None
    gap_ms: int | None
    key: tuple[str, ...]
    value: Aggregate | Multi
    time_column: str | None
    allowed_lateness_ms: int
    early_fire_interval_ms: int | None
    callbacks: Callbacks
    idle_tick_ms: int | None

    @property
    def in_memory(self) -> bool:
        """Whether its panes are in memory alone."""
        return self.idle_tick_ms is not None

    @property
    def parts(self) -> dict[str, Aggregate]:
        """The aggregates by the columns in which they come out."""
        return self.value.parts if isinstance(self.value, Multi) else {VALUE: self.value}

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns without which a batch does not enter the window, in order: key, time, then those of the value."""
        time = () if self.time_column is None else (self.time_column,)
        return tuple(dict.fromkeys((*self.key, *time, *sorted(self.value.columns))))

    def native(self) -> native.Window:
        """The window as the operator knows it."""
        if self.gap_ms is not None:
            return native.Session(f"{self.gap_ms} milliseconds")
        size = f"{self.size_ms} milliseconds"
        if self.slide_ms is not None:
            return native.Sliding(size, f"{self.slide_ms} milliseconds")
        return native.Tumbling(size)


class Host(Protocol):
    """The subscription that is being made, as its windows see it."""

    @property
    def partition_key(self) -> str | None:
        """The column that its rows are sharded by."""

    def add(self, window: TurbineWindow) -> None:
        """Takes a window in; refuses one whose name is taken."""


BUILDING: ContextVar[tuple[object, Host] | None] = ContextVar("mullion_turbine_building", default=None)
"""The object whose ``__init__`` runs, and its subscription."""

UPDATING: ContextVar[Callable[[TurbineWindow, pa.RecordBatch], None] | None] = ContextVar(
    "mullion_turbine_updating", default=None
)
"""What takes the rows that ``process`` gives to a window, while it runs in a worker."""


class Common(TypedDict, total=False):
    """What all six windows are made with, beside their lengths.

    - ``name``: unique in the app; the window's state is kept under it.
    - ``key``: the column, or the list of columns, whose values have panes of their own; ``group`` of a pane. Left out,
      it is the subscription's ``partition_key``, and where there is none all rows are one group.
    - ``value``: an aggregate, or :class:`~mullion.turbine.aggregates.Multi`.
    - ``time_column``: an Int64 column, milliseconds since the epoch. ``None`` for processing time.
    - ``allowed_lateness_ms``: how long after a window's end its pane stays open. 0 by default.
    - ``on_close_each``: ``(state, window, value)`` for each pane that closes; or ``on_close``: ``(state, panes)`` for
      all that close in one tick, a ``pyarrow.Table``; with a ``partition_key`` for those of a shard. Exactly one of
      them.
    - ``early_fire_interval_ms`` and ``on_early_fire_each`` or ``on_early_fire``: the same for open panes, every so
      often, in the form of the close.
    """

    name: str
    value: Aggregate | Multi
    key: str | Sequence[str] | None
    time_column: str | None
    allowed_lateness_ms: int
    on_close_each: Callable[..., Any] | None
    on_close: Callable[..., Any] | None
    early_fire_interval_ms: int | None
    on_early_fire_each: Callable[..., Any] | None
    on_early_fire: Callable[..., Any] | None


class TurbineWindow:
    """What the six windows have in common: ``process`` calls ``update``, the engine does everything else."""

    __slots__ = ("_spec",)

    _spec: Spec

    def __init__(
        self,
        subscription: object,
        lengths: dict[str, int],
        idle_tick_ms: int | None = None,
        /,
        *,
        name: str,
        value: Aggregate | Multi,
        key: str | Sequence[str] | None = None,
        time_column: str | None = None,
        allowed_lateness_ms: int = 0,
        on_close_each: Callable[..., Any] | None = None,
        on_close: Callable[..., Any] | None = None,
        early_fire_interval_ms: int | None = None,
        on_early_fire_each: Callable[..., Any] | None = None,
        on_early_fire: Callable[..., Any] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise InvalidArgumentError(
                f"name={name!r} does not name the {type(self).__name__}: its state is kept under its name. Write, for "
                "instance, name='revenue_5m'."
            )
        what = f"the window {name!r}"
        kind = _kind_of(type(self), what)
        host = _host(subscription, kind, name)
        for parameter, length in lengths.items():
            _positive_ms(length, parameter, what)
        if lengths.get("slide_ms", 0) > lengths.get("size_ms", LONGEST_MS):
            raise InvalidArgumentError(
                f"slide_ms={lengths['slide_ms']} of {what} is longer than size_ms={lengths['size_ms']}: rows between "
                "two "
                "windows would be in none. Give a slide_ms up to size_ms; where they are equal it is a tumbling window."
            )
        if (
            isinstance(allowed_lateness_ms, bool)
            or not isinstance(allowed_lateness_ms, int)
            or not 0 <= allowed_lateness_ms <= LONGEST_MS
        ):
            raise InvalidArgumentError(
                f"allowed_lateness_ms={allowed_lateness_ms!r} of {what} is not a whole number of milliseconds, from 0 "
                f"to {LONGEST_MS}. Write, for instance, allowed_lateness_ms=5_000."
            )
        if time_column is not None and (not isinstance(time_column, str) or not time_column):
            raise InvalidArgumentError(
                f"time_column={time_column!r} of {what} does not name a column. Name an Int64 column of milliseconds "
                "since the epoch, as in time_column='event_ts_ms', or leave it out for processing time."
            )
        if idle_tick_ms is not None:
            _positive_ms(idle_tick_ms, "idle_tick_ms", what)
        callbacks = _callbacks(what, on_close_each, on_close, early_fire_interval_ms, on_early_fire_each, on_early_fire)
        if not isinstance(value, Multi):
            require_aggregate(value, f"value= of {what}")
        keys = _keys(what, key, host.partition_key)
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
        object.__setattr__(
            self,
            "_spec",
            Spec(
                kind,
                name,
                lengths.get("size_ms"),
                lengths.get("slide_ms"),
                lengths.get("gap_ms"),
                keys,
                value,
                time_column,
                allowed_lateness_ms,
                early_fire_interval_ms,
                callbacks,
                idle_tick_ms,
            ),
        )
        host.add(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"the window {self.name!r} does not change once it is made")

    @property
    def name(self) -> str:
        """What it is called, and its state is kept under."""
        return self._spec.name

    @property
    def spec(self) -> Spec:
        """All that it was made with."""
        return self._spec

    def update(self, batch: pa.RecordBatch, state: object) -> None:
        """Puts the rows of a batch into the window's panes; to be called in ``process``.

        A batch without a column that the window needs (key, time, or any of the value's) is skipped whole, and counted.
        A null in such a column is not a missing column.

        Raises :class:`InvalidArgumentError` when called anywhere else, or with what is no ``RecordBatch``.
        """
        take = UPDATING.get()
        if take is None:
            raise InvalidArgumentError(
                f"update() of the window {self.name!r} was called outside of process(self, batch, state). Only process "
                "gives rows to a window."
            )
        if isinstance(batch, pa.Table):
            # One without rows has its columns all the same.
            for each in batch.to_batches() or [pa.RecordBatch.from_pylist([], schema=batch.schema)]:
                take(self, each)
            return
        if not isinstance(batch, pa.RecordBatch):
            raise InvalidArgumentError(
                f"update() of the window {self.name!r} got {type(batch).__name__} in place of a pyarrow.RecordBatch."
            )
        take(self, batch)

    def __repr__(self) -> str:
        spec = self._spec
        shown = [f"{each.name}={getattr(spec, each.name)!r}" for each in fields(Spec) if _is_given(spec, each.name)]
        callbacks = spec.callbacks
        suffix = "_each" if callbacks.each else ""
        shown.append(f"on_close{suffix}={called(callbacks.close)}")
        if callbacks.early is not None:
            shown.append(f"on_early_fire{suffix}={called(callbacks.early)}")
        return f"{spec.kind}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TurbineWindow) and self._spec == other._spec

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def __reduce__(self) -> tuple[Any, ...]:
        # In a worker it hands rows over, and is the same window; what is called when panes fire goes there by itself.
        callbacks = self._spec.callbacks
        named = Callbacks(
            _Elsewhere(called(callbacks.close)),
            None if callbacks.early is None else _Elsewhere(called(callbacks.early)),
            callbacks.each,
        )
        return _restored, (type(self), replace(self._spec, callbacks=named))


@final
@dataclass(frozen=True)
class _Elsewhere:
    """What stands for a callback in a worker's copy of a window."""

    name: str

    def __call__(self, *given: object) -> None:
        raise UnsupportedError(f"{self.name} is called when panes fire, and not through the window.")


def _restored(kind: type[TurbineWindow], spec: Spec) -> TurbineWindow:
    window = object.__new__(kind)
    object.__setattr__(window, "_spec", spec)
    return window


class PersistentTumbling(TurbineWindow):
    """Windows of ``size_ms`` that follow one another from the epoch on; durable, in RocksDB.

    See :class:`Common` for what else it takes. Raises :class:`InvalidArgumentError` for what cannot be right.
    """

    __slots__ = ()

    def __init__(self, subscription: object, *, size_ms: int, **common: Unpack[Common]) -> None:
        super().__init__(subscription, {"size_ms": size_ms}, **common)


class PersistentSliding(TurbineWindow):
    """Windows of ``size_ms`` that begin every ``slide_ms``; durable, in RocksDB. A row is in all that cover it.

    See :class:`Common` for what else it takes. Raises :class:`InvalidArgumentError` for what cannot be right.
    """

    __slots__ = ()

    def __init__(self, subscription: object, *, size_ms: int, slide_ms: int, **common: Unpack[Common]) -> None:
        super().__init__(subscription, {"size_ms": size_ms, "slide_ms": slide_ms}, **common)


class PersistentSession(TurbineWindow):
    """Windows that last while a key's rows come no further apart than ``gap_ms``; durable, in RocksDB.

    See :class:`Common` for what else it takes. Raises :class:`InvalidArgumentError` for what cannot be right.
    """

    __slots__ = ()

    def __init__(self, subscription: object, *, gap_ms: int, **common: Unpack[Common]) -> None:
        super().__init__(subscription, {"gap_ms": gap_ms}, **common)


class InMemoryTumbling(TurbineWindow):
    """As :class:`PersistentTumbling`, with its panes in memory, and a snapshot every 10 batches and at a clean stop.

    After a crash the batches since the last snapshot are done again, from the same rows, and not published again: the
    source must still have these. A quiet topic is looked at every ``idle_tick_ms``.
    """

    __slots__ = ()

    def __init__(
        self, subscription: object, *, size_ms: int, idle_tick_ms: int = 10_000, **common: Unpack[Common]
    ) -> None:
        super().__init__(subscription, {"size_ms": size_ms}, idle_tick_ms, **common)


class InMemorySliding(TurbineWindow):
    """As :class:`PersistentSliding`, with its panes in memory, and a snapshot every 10 batches and at a clean stop.

    After a crash the batches since the last snapshot are done again, from the same rows, and not published again: the
    source must still have these. A quiet topic is looked at every ``idle_tick_ms``.
    """

    __slots__ = ()

    def __init__(
        self,
        subscription: object,
        *,
        size_ms: int,
        slide_ms: int,
        idle_tick_ms: int = 10_000,
        **common: Unpack[Common],
    ) -> None:
        lengths = {"size_ms": size_ms, "slide_ms": slide_ms}
        super().__init__(subscription, lengths, idle_tick_ms, **common)


class InMemorySession(TurbineWindow):
    """As :class:`PersistentSession`, with its panes in memory, and a snapshot every 10 batches and at a clean stop.

    After a crash the batches since the last snapshot are done again, from the same rows, and not published again: the
    source must still have these. A quiet topic is looked at every ``idle_tick_ms``.
    """

    __slots__ = ()

    def __init__(
        self, subscription: object, *, gap_ms: int, idle_tick_ms: int = 10_000, **common: Unpack[Common]
    ) -> None:
        super().__init__(subscription, {"gap_ms": gap_ms}, idle_tick_ms, **common)


def called(function: Callable[..., Any]) -> str:
    """What a callback is called in messages."""
    if isinstance(function, _Elsewhere):
        return function.name
    return name_of(function)


def _is_given(spec: Spec, field: str) -> bool:
    value = getattr(spec, field)
    if field in ("kind", "callbacks"):
        return False
    return value is not None and not (field == "allowed_lateness_ms" and value == 0)


def _kind_of(window: type[TurbineWindow], what: str) -> str:
    """Which of the six windows a class is, or is made from; one that changes what a window does is refused."""
    for own in ("update", "name", "spec"):
        if getattr(window, own) is not getattr(TurbineWindow, own):
            raise UnsupportedError(
                f"{what} is a {window.__name__}, which has its own {own!r}. Rows go to windows in the JVM, "
                "where it is not called. Do it in process, before self._win.update(batch, state); a subclass may give "
                "parameters to __init__, and no more."
            )
    return next((base.__name__ for base in window.__mro__ if base.__module__ == __name__), window.__name__)


def _host(subscription: object, kind: str, name: str) -> Host:
    building = BUILDING.get()
    if building is not None and building[0] is subscription:
        return building[1]
    if UPDATING.get() is not None and building is None:
        raise UnsupportedError(
            f"The window {name!r} is made in process, from data, and {type(subscription).__name__} has no on_recover, "
            "which would make it again where its panes fire and after a restart. Write def on_recover(self, name, "
            "spec), which returns spec.window(self, on_close_each=...), or make the window in __init__."
        )
    raise InvalidArgumentError(
        f"The first argument of win.{kind}(...) is the subscription that it belongs to, and for {name!r} it is "
        f"{type(subscription).__name__}. Make windows in __init__ of a class under @app.subscribe(...), as in "
        f"self._win = win.{kind}(self, name={name!r}, ...)."
    )


def _positive_ms(length: object, parameter: str, what: str) -> None:
    if isinstance(length, bool) or not isinstance(length, int) or not 0 < length <= LONGEST_MS:
        raise InvalidArgumentError(
            f"{parameter}={length!r} of {what} is not a whole number of milliseconds above 0. Write, for instance, "
            f"{parameter}=60_000 for a minute."
        )


def _keys(what: str, key: object, partition_key: str | None) -> tuple[str, ...]:
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
            f"key={key!r} of {what} lacks {partition_key!r}, the partition_key of its subscription: the rows of one "
            f"key would be split across shards, and each would see a part of them. Write "
            f"key={[partition_key, *listed]!r}, or leave key out for [{partition_key!r}]."
        )
    return tuple(listed)


def _callbacks(
    what: str,
    on_close_each: Callable[..., Any] | None,
    on_close: Callable[..., Any] | None,
    interval_ms: int | None,
    on_early_fire_each: Callable[..., Any] | None,
    on_early_fire: Callable[..., Any] | None,
) -> Callbacks:
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
        _positive_ms(interval_ms, "early_fire_interval_ms", what)
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
