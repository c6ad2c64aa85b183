"""The checked parameters of a window, and the pane that callbacks receive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final, final

from mullion import windows as native
from mullion._pyfunction.methods import name_of
from mullion.errors import UnsupportedError
from mullion.turbine.aggregates import Aggregate, Multi

LONGEST_MS: Final = (2**63 - 1) // 1000
"""The greatest length of a window: engine time is microseconds in 64 bits."""

START, END = "window_start_ms", "window_end_ms"

VALUE = "value"

KAFKA_TIME = "_kafka_ts_ms"


@dataclass(frozen=True, slots=True)
class Window:
    """A pane, as callbacks receive it: ``[start_ms, end_ms)`` in milliseconds since the epoch, and its key.

    ``group`` has the value of each key field by its name. A session ends at its last event plus the gap.
    """

    start_ms: int
    end_ms: int
    group: dict[str, Any]


@final
@dataclass(frozen=True, slots=True)
class Callbacks:
    """The callbacks for panes that close and, optionally, for open panes; both in the same form."""

    close: Callable[..., Any]
    early: Callable[..., Any] | None
    each: bool


@final
@dataclass(frozen=True, slots=True)
class Spec:
    """The checked parameters of a window."""

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
    def parts(self) -> dict[str, Aggregate]:
        """The aggregates by the names of their result columns."""
        return self.value.parts if isinstance(self.value, Multi) else {VALUE: self.value}

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that a batch must have to enter the window, in order: key, time, columns of the value."""
        time = () if self.time_column is None else (self.time_column,)
        return tuple(dict.fromkeys((*self.key, *time, *sorted(self.value.columns))))

    def arguments(self) -> list[str]:
        """The parameters that differ from their defaults, as source text, without the callbacks."""
        return [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if self._says(each.name)]

    def _says(self, field: str) -> bool:
        value = getattr(self, field)
        if field in ("kind", "callbacks"):
            return False
        return value is not None and not (field == "allowed_lateness_ms" and value == 0)

    def native(self) -> native.Window:
        """The window of the engine."""
        if self.gap_ms is not None:
            return native.Session(f"{self.gap_ms} milliseconds")
        size = f"{self.size_ms} milliseconds"
        if self.slide_ms is not None:
            return native.Sliding(size, f"{self.slide_ms} milliseconds", gaps=True)
        return native.Tumbling(size)


@final
@dataclass(frozen=True)
class Elsewhere:
    """A placeholder for a callback in a worker's copy of a window."""

    name: str

    def __call__(self, *arguments: object) -> None:
        raise UnsupportedError(f"{self.name} is called when panes fire, and not through the window.")


def called(function: Callable[..., Any]) -> str:
    """The name of a callback in messages."""
    if isinstance(function, Elsewhere):
        return function.name
    return name_of(function)
