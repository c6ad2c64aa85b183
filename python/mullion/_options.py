"""What is asked of panes beside their window, their keys and what they hold."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column

from mullion import _durations
from mullion.windows import Early


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one :func:`mullion.windowed`, checked. Lengths of time are microseconds."""

    time: Column | str | None
    allowed_lateness_us: int
    early: Early | None
    on_time: bool
    accumulate: bool
    late: str
    empty: str
    idle_after_us: int | None
    running: bool = False
    per_key: bool = False
    ids: bool = False
    dedupe_by: tuple[Column | str, ...] = ()
    at_end: str = "keep"
    follows_wall: bool = False
    late_by: str = "panes"
    new_aggregates: str = "refuse"
    on_change: str = "refuse"

    def written(self) -> list[str]:
        """As arguments of the call, but those that say what is so anyway."""
        parts = [f"time={self.time!r}"]
        if self.allowed_lateness_us:
            parts.append(f"allowed_lateness={_durations.written(self.allowed_lateness_us)!r}")
        if self.early is not None:
            parts.append(f"early={self.early!r}")
        if self.on_time:
            parts.append("on_time=True")
        if not self.accumulate:
            parts.append("accumulate=False")
        if self.empty != "skip":
            parts.append(f"empty={self.empty!r}")
        if self.idle_after_us is not None:
            parts.append(f"idle_after={_durations.written(self.idle_after_us)!r}")
        if self.running:
            parts.append("running=True")
        if self.per_key:
            parts.append(f"watermark={'per key with wall time' if self.follows_wall else 'per key'!r}")
        if self.late_by != "panes":
            parts.append(f"late_by={self.late_by!r}")
        if self.ids:
            parts.append("ids=True")
        if self.dedupe_by:
            parts.append(f"dedupe_by={list(self.dedupe_by)!r}")
        if self.new_aggregates != "refuse":
            parts.append(f"new_aggregates={self.new_aggregates!r}")
        if self.on_change != "refuse":
            parts.append(f"on_change={self.on_change!r}")
        if self.at_end != "keep":
            parts.append(f"at_end={self.at_end!r}")
        return [*parts, f"late={self.late!r}"]
