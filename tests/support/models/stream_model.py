"""A plain model of a query over several streams, each with its own watermark: tumbling panes, and a sum per key.

Times are seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

Row = tuple[int, str, int]


@dataclass
class Stream:
    delay: int
    watermark: int | None = None
    quiet: tuple[int, int] | None = None
    """The readings of the wall clock and the event clock when the stream was first empty."""


@dataclass
class StreamModel:
    delays: Sequence[int]
    size: int
    idle_after: int | None
    choose: Callable[[Iterable[int]], int] = min
    wall: int = 0
    clock: int = 0
    before: int | None = None
    batches: int = 0
    late: list[Row] = field(default_factory=list)
    closed: list[tuple[str, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.streams = [Stream(delay) for delay in self.delays]
        self.open: dict[tuple[str, int], int] = defaultdict(int)

    def restart(self) -> None:
        for stream in self.streams:
            stream.quiet = None

    def settle(self, rows: Sequence[Sequence[Row]] | None, *, ticks: bool) -> None:
        """Runs the batches of the query: one for the rows or ticks, then those with due panes."""
        none: list[list[Row]] = [[] for _ in self.streams]
        if rows is not None or ticks:
            self.batch(rows or none)
        while True:
            for stream in self.streams:
                self.begin_quiet(stream)
            if not (self.due(self.clock) or self.due(self.reading())):
                break
            self.batch(none)

    def due(self, clock: int) -> bool:
        return any(start + self.size <= clock for _, start in self.open)

    def batch(self, rows: Sequence[Sequence[Row]]) -> None:
        self.batches += 1
        for time, key, value in (row for of in rows for row in of):
            start = time // self.size * self.size
            if self.before is not None and self.before >= start + self.size:
                self.late.append((time, key, value))
            else:
                self.open[key, start] += value
        for key, start in [pane for pane in self.open if pane[1] + self.size <= self.clock]:
            self.closed.append((key, start, self.open.pop((key, start))))
        self.before = self.clock
        for stream, own in zip(self.streams, rows, strict=True):
            if own:
                latest = max(time for time, _, _ in own) - stream.delay
                stream.watermark = latest if stream.watermark is None else max(stream.watermark, latest)
                stream.quiet = None
            else:
                self.begin_quiet(stream)
        self.clock = max(self.clock, self.reading())

    def begin_quiet(self, stream: Stream) -> None:
        if stream.quiet is None:
            stream.quiet = (self.wall, max(self.clock, stream.watermark or 0))

    def is_idle(self, stream: Stream) -> bool:
        return (
            self.idle_after is not None and stream.quiet is not None and self.wall - stream.quiet[0] >= self.idle_after
        )

    def reading(self) -> int:
        awake = [stream for stream in self.streams if not self.is_idle(stream)]
        if awake:
            return self.choose([stream.watermark or 0 for stream in awake])
        quiet_since = [
            stream.quiet for stream in self.streams if stream.watermark is not None and stream.quiet is not None
        ]
        last = max((since for since, _ in quiet_since), default=None)
        leading = [(since, clock) for since, clock in quiet_since if since == last]
        return max((max(clock, min(self.wall, clock + self.wall - since)) for since, clock in leading), default=0)
