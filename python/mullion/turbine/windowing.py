"""The six windows of Turbine, and the rules for their parameters.

A window belongs to a subscription (``self``), has a name, and computes an aggregate for each key. The constructor
checks all rules about its parameters, before any pane fires::

    class revenue:
        def __init__(self) -> None:
            self._win = win.PersistentTumbling(
                self, name="revenue_5m", size_ms=5 * 60_000, key=["region"],
                value=agg.Sum("amount"), time_column="event_ts_ms", allowed_lateness_ms=5_000,
                on_close_each=self._commit,
                early_fire_interval_ms=10_000, on_early_fire_each=self._live_gauge,
            )

All times are integer milliseconds since the epoch, and all lengths are integer milliseconds. A window's state is
stored under its name: windows may be reordered in the code, and two windows with the same name are an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Protocol, TypedDict, Unpack

import pyarrow as pa

from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.turbine._rules import (
    callbacks_of,
    keys_of,
    require_lateness,
    require_lengths,
    require_names,
    require_positive_ms,
    require_time,
)
from mullion.turbine._spec import Callbacks, Elsewhere, Spec, Window, called
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


class Host(Protocol):
    """The subscription under construction, as its windows see it."""

    @property
    def partition_key(self) -> str | None:
        """The column by which the subscription's rows are sharded."""

    def add(self, window: TurbineWindow) -> None:
        """Registers a window; raises an error if its name is in use."""


BUILDING: ContextVar[tuple[object, Host] | None] = ContextVar("mullion_turbine_building", default=None)
"""The object whose ``__init__`` runs, and its subscription."""

UPDATING: ContextVar[Callable[[TurbineWindow, pa.RecordBatch], None] | None] = ContextVar(
    "mullion_turbine_updating", default=None
)
"""The function that receives the rows that ``process`` passes to a window, while ``process`` runs in a worker."""


class Common(TypedDict, total=False):
    """The parameters of all six windows, in addition to their lengths.

    - ``name``: unique in the app; the window's state is stored under it.
    - ``key``: the column, or the list of columns, whose values have separate panes; it becomes ``group`` of a pane. The
      default is the subscription's ``partition_key``, or one group of all rows if there is none.
    - ``value``: an aggregate, or :class:`~mullion.turbine.aggregates.Multi`.
    - ``time_column``: an Int64 column, milliseconds since the epoch. ``None`` for processing time.
    - ``allowed_lateness_ms``: the time for which a pane stays open after its window's end. 0 by default.
    - ``on_close_each``: ``(state, window, value)`` for each pane that closes; or ``on_close``: ``(state, panes)`` for
      all panes that close in one tick (and, with a ``partition_key``, in one shard), a ``pyarrow.Table``. Exactly one
      of them is required.
    - ``early_fire_interval_ms`` and ``on_early_fire_each`` or ``on_early_fire``: the same for open panes, once per
      interval, in the same form as the close callback.
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
    """The common part of the six windows: ``process`` calls ``update``, and the engine does the rest."""

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
        require_lengths(lengths, what)
        require_lateness(allowed_lateness_ms, what)
        require_time(time_column, what)
        if idle_tick_ms is not None:
            require_positive_ms(idle_tick_ms, "idle_tick_ms", what)
        callbacks = callbacks_of(
            what, on_close_each, on_close, early_fire_interval_ms, on_early_fire_each, on_early_fire
        )
        if not isinstance(value, Multi):
            require_aggregate(value, f"value= of {what}")
        keys = keys_of(what, key, host.partition_key)
        require_names(what, keys, value)
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
        """The name of the window, under which its state is stored."""
        return self._spec.name

    @property
    def spec(self) -> Spec:
        """The parameters of the window."""
        return self._spec

    def update(self, batch: pa.RecordBatch, state: object) -> None:
        """Adds the rows of a batch to the window's panes. Only ``process`` may call it.

        If a batch lacks a column that the window needs (key, time, or a column of the value), all its rows are skipped
        and counted. A null in such a column is not a missing column.

        Raises :class:`InvalidArgumentError` for a call outside ``process``, and for a batch that is no ``RecordBatch``.
        """
        take = UPDATING.get()
        if take is None:
            raise InvalidArgumentError(
                f"update() of the window {self.name!r} was called outside of process(self, batch, state). Only process "
                "gives rows to a window."
            )
        if isinstance(batch, pa.Table):
            # A table without rows has no batches, but its columns are needed.
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
        shown = spec.arguments()
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
        # In a worker the window only passes rows on. Its callbacks are serialized separately.
        callbacks = self._spec.callbacks
        named = Callbacks(
            Elsewhere(called(callbacks.close)),
            None if callbacks.early is None else Elsewhere(called(callbacks.early)),
            callbacks.each,
        )
        return _restored, (type(self), replace(self._spec, callbacks=named))


def _restored(kind: type[TurbineWindow], spec: Spec) -> TurbineWindow:
    window = object.__new__(kind)
    object.__setattr__(window, "_spec", spec)
    return window


class PersistentTumbling(TurbineWindow):
    """Consecutive windows of ``size_ms``, aligned to the epoch; durable, in RocksDB.

    See :class:`Common` for the other parameters. Raises :class:`InvalidArgumentError` for invalid parameters.
    """

    __slots__ = ()

    def __init__(self, subscription: object, *, size_ms: int, **common: Unpack[Common]) -> None:
        super().__init__(subscription, {"size_ms": size_ms}, **common)


class PersistentSliding(TurbineWindow):
    """Windows of ``size_ms`` that begin every ``slide_ms``; durable, in RocksDB. A row is in each that covers it.

    See :class:`Common` for the other parameters. Raises :class:`InvalidArgumentError` for invalid parameters.
    """

    __slots__ = ()

    def __init__(self, subscription: object, *, size_ms: int, slide_ms: int, **common: Unpack[Common]) -> None:
        super().__init__(subscription, {"size_ms": size_ms, "slide_ms": slide_ms}, **common)


class PersistentSession(TurbineWindow):
    """Windows that last while consecutive rows of a key are at most ``gap_ms`` apart; durable, in RocksDB.

    See :class:`Common` for the other parameters. Raises :class:`InvalidArgumentError` for invalid parameters.
    """

    __slots__ = ()

    def __init__(self, subscription: object, *, gap_ms: int, **common: Unpack[Common]) -> None:
        super().__init__(subscription, {"gap_ms": gap_ms}, **common)


class InMemoryTumbling(TurbineWindow):
    """:class:`PersistentTumbling`, but without rows its event clock follows the wall clock after ``idle_tick_ms``."""

    __slots__ = ()

    def __init__(
        self, subscription: object, *, size_ms: int, idle_tick_ms: int = 10_000, **common: Unpack[Common]
    ) -> None:
        super().__init__(subscription, {"size_ms": size_ms}, idle_tick_ms, **common)


class InMemorySliding(TurbineWindow):
    """:class:`PersistentSliding`, but without rows its event clock follows the wall clock after ``idle_tick_ms``."""

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
    """:class:`PersistentSession`, but without rows its event clock follows the wall clock after ``idle_tick_ms``."""

    __slots__ = ()

    def __init__(
        self, subscription: object, *, gap_ms: int, idle_tick_ms: int = 10_000, **common: Unpack[Common]
    ) -> None:
        super().__init__(subscription, {"gap_ms": gap_ms}, idle_tick_ms, **common)


def _kind_of(window: type[TurbineWindow], what: str) -> str:
    """The name of the built-in window that a class is or extends. Overriding its methods raises an error."""
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
