"""The parameters of a pipeline's window, as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Final, final

from mullion.kx._operators import Operator

ANY_COUNT: Final = 2**63 - 1
"""The default of ``count_trigger``: no number of records flushes the buffer."""


@final
@dataclass(frozen=True, repr=False)
class Window(Operator):
    """A window, made by one of the functions of :mod:`mullion.kx.sp.window`. Times are in microseconds.

    - ``shape``: ``"timer"``, ``"tumbling"``, ``"sliding"``, ``"count"`` or ``"global_window"``.
    - ``size_us`` and ``slide_us``: the length of a window of time, and the interval between window starts.
    """

    shape: str
    size_us: int = 0
    slide_us: int = 0
    time_column: str | None = None
    time_assigner: Callable[..., Any] | None = None
    params: tuple[str, ...] = ("data",)
    pandas: bool = False
    lateness_us: int = 0
    passthrough: bool = False
    sort: bool = False
    count_trigger: int = ANY_COUNT
    skip_empty_windows: bool = False
    size: int = 0
    frequency: int = 0
    trigger: Callable[..., Any] | None = None
    mixed_schemas: bool = False

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The shape: a pipeline names its windows by it."""
        return self.shape

    @property
    def on_event_time(self) -> bool:
        """True if its rows have event times."""
        return self.shape in ("tumbling", "sliding")

    @property
    def clocked(self) -> bool:
        """True for windows of time, False for windows of records."""
        return self.on_event_time or self.shape == "timer"

    def __repr__(self) -> str:
        if self.shape == "count":
            arguments = [repr(self.size)] + ([f"frequency={self.frequency}"] if self.frequency != self.size else [])
        elif self.shape == "global_window":
            arguments = [getattr(self.trigger, "__qualname__", repr(self.trigger))]
        elif self.shape == "sliding":
            arguments = [repr(timedelta(microseconds=self.slide_us)), repr(timedelta(microseconds=self.size_us))]
        else:
            arguments = [repr(timedelta(microseconds=self.size_us))]
        skipped = {"name", "where", "shape", "size_us", "slide_us", "size", "frequency", "trigger"}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in skipped or value == each.default:
                continue
            if each.name == "lateness_us":
                arguments.append(f"lateness={timedelta(microseconds=value)!r}")
            elif callable(value):
                arguments.append(f"{each.name}={getattr(value, '__qualname__', value)}")
            else:
                arguments.append(f"{each.name}={value!r}")
        if self.name is not None:
            arguments.append(f"name={self.name!r}")
        return f"{self.shape}({', '.join(arguments)})"
