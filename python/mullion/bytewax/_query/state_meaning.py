"""Descriptions of the state of steps, stored next to the state and compared at each start.

The state identifies tumbling and sliding windows by number. A number means another window if the length changes::

    TumblingWindower(1 minute)     window 5 is [12:05, 12:06)      stored: 0:01:00 long, one every 0:01:00
    TumblingWindower(2 minutes)    window 5 is [12:10, 12:12)      raises an error

The gap of sessions, the functions, and the wait duration of a clock may change.
"""

from __future__ import annotations

from mullion.bytewax._dataflow_plan import PlannedStep
from mullion.bytewax._key_windows.contents import Join
from mullion.bytewax._key_windows.specs import SessionWindower, SlidingWindower, TumblingWindower, WindowSpec

__all__ = ["differences", "meaning_of"]


def meaning_of(step: PlannedStep) -> dict[str, str]:
    """Describes the state of a stateful step in words, by property."""
    spec = step.does
    if not isinstance(spec, WindowSpec):
        return {"kind": "a step with state of its own"}
    contents = type(spec.contents).__name__
    if isinstance(spec.contents, Join):
        contents += f" of {spec.contents.sides} sides"
    return {
        "kind": "a window",
        "windows": _windows_of(spec),
        "clock": type(spec.clock).__name__,
        "contents": contents,
    }


def _windows_of(spec: WindowSpec) -> str:
    windower = spec.windower
    if isinstance(windower, (TumblingWindower, SlidingWindower)):
        every = windower.offset if isinstance(windower, SlidingWindower) else windower.length
        return f"{windower.length} long, one every {every}, from {windower.align_to.isoformat()}"
    return "sessions" if isinstance(windower, SessionWindower) else f"those of {type(windower).__name__}"


def differences(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Describes the properties that differ, in words."""
    names = [name for name in old if name in new and old[name] != new[name]]
    return [f"its {name} was [{old[name]}] and is now [{new[name]}]" for name in names]
