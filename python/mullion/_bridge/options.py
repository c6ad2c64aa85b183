"""The options of panes other than their window, keys and contents."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column

from mullion._util import durations
from mullion.windows import Early, EmitFor, PerKey, Upgrade, Watermark


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one :func:`mullion.windowed`, checked. Lengths of time are microseconds."""

    time: Column | str | None
    allowed_lateness_us: int
    early: Early | None
    on_time: bool
    accumulate: bool
    late: str
    empty: str | EmitFor
    clock: Watermark | PerKey = Watermark()  # noqa: RUF009
    ids: bool = False
    dedupe_by: tuple[Column | str, ...] = ()
    at_end: str = "keep"
    upgrade: Upgrade = Upgrade()  # noqa: RUF009

    def written(self) -> list[str]:
        """As arguments of the call, without defaults."""
        parts = [f"time={self.time!r}"]
        if self.allowed_lateness_us:
            parts.append(f"allowed_lateness={durations.written(self.allowed_lateness_us)!r}")
        if self.early is not None:
            parts.append(f"early={self.early!r}")
        if self.on_time:
            parts.append("on_time=True")
        if not self.accumulate:
            parts.append("accumulate=False")
        if self.empty != "skip":
            parts.append(f"empty={self.empty!r}")
        if self.clock != Watermark():
            parts.append(f"clock={self.clock!r}")
        if self.ids:
            parts.append("ids=True")
        if self.dedupe_by:
            parts.append(f"dedupe_by={list(self.dedupe_by)!r}")
        if self.upgrade != Upgrade():
            parts.append(f"upgrade={self.upgrade!r}")
        if self.at_end != "keep":
            parts.append(f"at_end={self.at_end!r}")
        return [*parts, f"late={self.late!r}"]
