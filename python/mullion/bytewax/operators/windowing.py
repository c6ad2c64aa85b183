"""The windows of Bytewax 0.21, as in ``bytewax.operators.windowing``.

Each key has a separate clock and separate windows. A window operator returns three streams, all of
``(key, (window id, value))``::

    down    results of windows         late    late values         meta    metadata of closed windows

The module also accepts calls of the variant that ``seed.windowing`` completes, if they are unambiguous. The result of
an operator used as a stream is its ``down`` without window ids. :class:`WindowConfig` replaces a clock and a windower.
``fold_window`` needs no merger, and ``join_window`` accepts its sides first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from mullion.bytewax._key_windows import contents as held
from mullion.bytewax._key_windows.contents import Fold, FoldAgain, Join, JoinEmitMode, JoinInsertMode, MakeContents
from mullion.bytewax._key_windows.interfaces import (
    Clock,
    ClockLogic,
    Windower,
    WindowerLogic,
    WindowLogic,
    WindowMetadata,
)
from mullion.bytewax._key_windows.specs import (
    EventClock,
    FixedWindower,
    SessionWindower,
    SlidingWindower,
    SystemClock,
    TumblingWindower,
    WindowConfig,
    WindowSpec,
    identity,
    require_both,
)
from mullion.bytewax._key_windows.times import UTC_MAX, UTC_MIN, ZERO_TD
from mullion.bytewax._key_windows.windowers import LATE_SESSION_ID
from mullion.bytewax.dataflow import AsStream, Dataflow, KeyedStream, Stream, operator
from mullion.bytewax.operators._core import StatefulBatchLogic, require_callable
from mullion.bytewax.operators._stateful import join_label_merge, require_join_modes
from mullion.bytewax.operators._stateless import key_on, map_value
from mullion.errors import UnsupportedError, WrongCallError

__all__ = [
    "LATE_SESSION_ID",
    "UTC_MAX",
    "UTC_MIN",
    "ZERO_TD",
    "Clock",
    "ClockLogic",
    "EventClock",
    "JoinEmitMode",
    "JoinInsertMode",
    "SessionWindower",
    "SlidingWindower",
    "StatefulBatchLogic",
    "SystemClock",
    "TumblingWindower",
    "WindowConfig",
    "WindowLogic",
    "WindowMetadata",
    "WindowOut",
    "Windower",
    "WindowerLogic",
    "collect_window",
    "count_window",
    "fold_window",
    "join_window",
    "max_window",
    "min_window",
    "reduce_window",
    "window",
]

V = TypeVar("V")
W = TypeVar("W")
X = TypeVar("X")
S = TypeVar("S")
U = TypeVar("U")
C = TypeVar("C")
DK = TypeVar("DK")
DV = TypeVar("DV")
SC = TypeVar("SC")
SW = TypeVar("SW")
W_co = TypeVar("W_co", covariant=True)


@dataclass(frozen=True)
class WindowOut(AsStream, Generic[V, W]):
    """The output streams of a window operator, of ``(key, (window id, value))``.

    - ``down``: results of windows; ``late``: late values.
    - ``meta``: a :class:`WindowMetadata` for each closed window.

    Used as a stream, it is ``down`` without the window ids.
    """

    down: KeyedStream[tuple[int, W]]
    late: KeyedStream[tuple[int, V]]
    meta: KeyedStream[tuple[int, WindowMetadata]]

    def flow(self) -> Dataflow:
        """The dataflow of the streams."""
        return self.down.flow()

    def as_stream(self) -> Stream[tuple[str, W]]:
        """Adds a step that removes the window ids from ``down``."""
        return map_value("without_window_id", self.down, _second)

    def then(self, op_fn: Callable[..., Any], step_id: str, *args: Any, **kwargs: Any) -> Any:
        """Returns ``op_fn(step_id, windows, ...)``, to chain steps."""
        return op_fn(step_id, self, *args, **kwargs)


def _second(pair: tuple[Any, W]) -> W:
    return pair[1]


def _taking_config(call: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces a :class:`WindowConfig` among the arguments by its clock and windower."""

    @functools.wraps(call)
    def taking(*args: Any, **kwargs: Any) -> Any:
        for index, one in enumerate(args):
            if isinstance(one, WindowConfig):
                return call(*args[:index], one.clock, one.windower, *args[index + 1 :], **kwargs)
        for name in ("clock", "config", "window_config"):
            one = kwargs.get(name)
            if isinstance(one, WindowConfig):
                others = {key: value for key, value in kwargs.items() if key != name}
                return call(*args, clock=one.clock, windower=one.windower, **others)
        return call(*args, **kwargs)

    return taking


def _windows(
    step_id: str, up: Stream[Any], clock: Any, windower: Any, contents: MakeContents, ordered: bool
) -> WindowOut[Any, Any]:
    require_both(f"The step {step_id!r}", clock, windower)
    if not isinstance(ordered, bool):
        raise WrongCallError(f"The step {step_id!r}: ordered={ordered!r} is neither True nor False.")
    spec = WindowSpec(clock, windower, contents, ordered)
    down, late, meta = up.flow()._add("window", [up], ["down", "late", "meta"], spec)
    return WindowOut(down, late, meta)


@_taking_config
@operator
def window(
    step_id: str,
    up: KeyedStream[V],
    clock: Clock[V, Any],
    windower: Windower[Any],
    builder: Callable[[Any], WindowLogic[V, W, Any]],
    ordered: bool = True,
) -> WindowOut[V, W]:
    """Runs a separate logic for each window. ``builder`` receives the stored snapshot, or ``None`` for a new window.

    With ``ordered=True``, values enter in time order, each once the watermark reaches its time. Otherwise they enter in
    order of arrival.
    """
    require_callable(step_id, "builder", builder)
    return _windows(step_id, up, clock, windower, held.Own(builder), ordered)


def _appended(values: list[V], value: V) -> list[V]:
    values.append(value)
    return values


def _added(values: set[V], value: V) -> set[V]:
    values.add(value)
    return values


def _updated(values: dict[Any, Any], more: dict[Any, Any]) -> dict[Any, Any]:
    values.update(more)
    return values


def _put(step_id: str, values: dict[Any, Any], item: Any) -> dict[Any, Any]:
    try:
        key, value = item
    except (TypeError, ValueError):
        raise WrongCallError(
            f"The step {step_id!r} collects into a dict, of (key, value) pairs, and got {item!r} "
            f"({type(item).__name__})."
        ) from None
    values[key] = value
    return values


@_taking_config
@operator
def collect_window(
    step_id: str,
    up: KeyedStream[V],
    clock: Clock[V, Any],
    windower: Windower[Any],
    into: Any = list,
    ordered: bool = True,
) -> WindowOut[V, Any]:
    """Collects the values of each window ``into`` a ``list``, a ``set`` or a ``dict``."""
    if into is list:
        fold = Fold(list, _appended, list.__add__)
    elif into is set:
        fold = Fold(set, _added, set.union)
    elif into is dict:
        fold = Fold(dict, partial(_put, step_id), _updated)
    else:
        raise WrongCallError(
            f"The step {step_id!r}: into={into!r} is neither list, set nor dict. Use fold_window for others."
        )
    return _windows(step_id, up, clock, windower, fold, ordered)


def _zero() -> int:
    return 0


def _one_more(count: int, value: Any) -> int:
    return count + 1


def _sum(one: int, other: int) -> int:
    return one + other


@_taking_config
@operator
def count_window(
    step_id: str, up: Stream[X], clock: Clock[X, Any], windower: Windower[Any], key: Callable[[X], str]
) -> WindowOut[X, int]:
    """Counts the items of each window and key."""
    require_callable(step_id, "key", key)
    keyed = key_on("keyed", up, key)
    return _windows(step_id, keyed, clock, windower, Fold(_zero, _one_more, _sum), False)


@_taking_config
@operator
def fold_window(
    step_id: str,
    up: KeyedStream[V],
    clock: Clock[V, Any],
    windower: Windower[Any],
    builder: Callable[[], S],
    folder: Callable[[S, V], S],
    merger: Callable[[S, S], S] | None = None,
    ordered: bool = True,
) -> WindowOut[V, S]:
    """Folds the values of each window into the result of ``builder``.

    ``merger`` combines the states of two merged sessions. Without it, a session keeps its values, and folds them in
    time order when it closes.
    """
    require_callable(step_id, "builder", builder)
    require_callable(step_id, "folder", folder)
    if merger is not None:
        require_callable(step_id, "merger", merger)
    merges = not isinstance(windower, FixedWindower)
    fold = FoldAgain(builder, folder) if merges and merger is None else Fold(builder, folder, merger)
    return _windows(step_id, up, clock, windower, fold, ordered)


@_taking_config
@operator
def reduce_window(
    step_id: str,
    up: KeyedStream[V],
    clock: Clock[V, Any],
    windower: Windower[Any],
    reducer: Callable[[V, V], V],
) -> WindowOut[V, V]:
    """Reduces the values of each window to one."""
    require_callable(step_id, "reducer", reducer)
    return _windows(step_id, up, clock, windower, held.Reduction(reducer), False)


@_taking_config
@operator
def max_window(
    step_id: str,
    up: KeyedStream[V],
    clock: Clock[V, Any],
    windower: Windower[Any],
    by: Callable[[V], Any] = identity,
) -> WindowOut[V, V]:
    """The largest value of each window by ``by``."""
    require_callable(step_id, "by", by)
    return _windows(step_id, up, clock, windower, held.Reduction(partial(max, key=by)), False)


@_taking_config
@operator
def min_window(
    step_id: str,
    up: KeyedStream[V],
    clock: Clock[V, Any],
    windower: Windower[Any],
    by: Callable[[V], Any] = identity,
) -> WindowOut[V, V]:
    """The smallest value of each window by ``by``."""
    require_callable(step_id, "by", by)
    return _windows(step_id, up, clock, windower, held.Reduction(partial(min, key=by)), False)


def _of_side(ts_getter: Callable[[Any], Any], value: tuple[int, Any]) -> Any:
    return ts_getter(value[1])


@operator
def _join_window(
    step_id: str,
    *sides: KeyedStream[Any],
    clock: Any,
    windower: Any,
    insert_mode: Any,
    emit_mode: Any,
    ordered: bool,
) -> WindowOut[Any, tuple[Any, ...]]:
    require_join_modes(step_id, sides, insert_mode, emit_mode)
    require_both(f"The step {step_id!r}", clock, windower)
    merged = join_label_merge("add_names", *sides)
    if isinstance(clock, EventClock):
        clock = replace(clock, ts_getter=partial(_of_side, clock.ts_getter))
    return _windows(step_id, merged, clock, windower, Join(len(sides), insert_mode, emit_mode), ordered)


def join_window(
    step_id: str,
    *args: Any,
    clock: Any = None,
    windower: Any = None,
    insert_mode: JoinInsertMode = "last",
    emit_mode: JoinEmitMode | None = None,
    ordered: bool = True,
) -> WindowOut[Any, tuple[Any, ...]]:
    """Joins streams within windows into tuples. A side without a value is ``None``.

    The default of ``emit_mode`` depends on the form of the call:

    - ``join_window(step_id, clock, windower, *sides)``, as in Bytewax 0.21: ``"final"``, when a window closes.
    - ``join_window(step_id, *sides, clock=, windower=)``: ``"complete"``, each time all sides have a value.

    The values of ``late`` are pairs of a side's number and its value, as in Bytewax.
    """
    first = args[0] if args else None
    if isinstance(first, WindowConfig):
        args = (first.clock, first.windower, *args[1:])
    elif isinstance(clock, WindowConfig):
        clock, windower = clock.clock, clock.windower
    if args and not isinstance(args[0], (Stream, AsStream)):
        if clock is not None or windower is not None:
            raise WrongCallError(
                f"join_window({step_id!r}): a clock is given twice. Write join_window(step_id, clock, windower, "
                "*sides) or join_window(step_id, *sides, clock=, windower=)."
            )
        if len(args) < 2:
            raise WrongCallError(
                f"join_window({step_id!r}) has no windower. Write join_window(step_id, clock, windower, *sides)."
            )
        clock, windower, *rest = args
        sides, default = tuple(rest), "final"
    else:
        sides, default = args, "complete"
    return _join_window(
        step_id,
        *sides,
        clock=clock,
        windower=windower,
        insert_mode=insert_mode,
        emit_mode=default if emit_mode is None else emit_mode,
        ordered=ordered,
    )


def __getattr__(name: str) -> Any:
    if name in ("TumblingWindow", "SlidingWindow", "SessionWindow", "EventClockConfig", "SystemClockConfig"):
        new = {"EventClockConfig": "EventClock", "SystemClockConfig": "SystemClock"}.get(name, f"{name}er")
        raise UnsupportedError(f"{name} is of Bytewax before 0.20. Use {new}.")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
