"""What the state of steps means, as far as it follows from a dataflow: noted beside it, and compared at each start.

Windows of one length are kept by their number, so that with another length an open one would be another window::

    TumblingWindower(1 minute)     window 5 is [12:05, 12:06)      noted: 0:01:00 long, every 0:01:00
    TumblingWindower(2 minutes)    window 5 is [12:10, 12:12)      refused

The gap of sessions, what functions do, and how long a clock waits may change.
"""

from __future__ import annotations

from mullion.bytewax._run.plan import PlannedStep
from mullion.bytewax._windows.contents import Join
from mullion.bytewax._windows.specs import SessionWindower, SlidingWindower, TumblingWindower, WindowSpec

__all__ = ["differences", "kept_as"]


def kept_as(step: PlannedStep) -> dict[str, str]:
    """What the state of a step with state means, by what it is of, in words."""
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


def differences(was: dict[str, str], now: dict[str, str]) -> list[str]:
    """What is no longer as it was, in words."""
    names = [name for name in was if name in now and was[name] != now[name]]
    return [f"its {name} was [{was[name]}] and is now [{now[name]}]" for name in names]
