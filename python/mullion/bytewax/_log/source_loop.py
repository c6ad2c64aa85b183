"""Reads the sources of a dataflow into the log of inputs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from mullion._util.clock import Clock, ManualClock
from mullion.bytewax._key_windows.times import micros
from mullion.bytewax._log.file_ranges import FileRange, LinesIn, RangedFile, ranged
from mullion.bytewax._log.log import InputLog, LogEntry
from mullion.bytewax._values.copies import copied
from mullion.bytewax.dataflow import Dataflow, Step
from mullion.bytewax.inputs import AbortExecution, DynamicSource, FixedPartitionedSource
from mullion.errors import FunctionError, UnsupportedError

_ITEMS_OF_AN_ENTRY: Final = 20_000
_BYTES_OF_AN_ENTRY: Final = 8 << 20
"""The approximate size limit of an entry. Entries with large items have fewer of them."""

_ENTRIES_WAITING: Final = 64
_SECONDS_OF_AN_ENTRY: Final = 0.25
"""The time limit of an entry, which bounds the latency of sources that trickle without pause."""

_SPELL_SECONDS: Final = 1.0
"""Items read without a pause share one system time for this long."""

_POLL_SECONDS: Final = 0.005


@dataclass
class _Part:
    step: int
    step_id: str
    name: str
    source: Any
    keeps_place: bool
    ranged: RangedFile | None = None
    """The file as byte ranges, if tasks can read it instead of this program."""

    reopen: Callable[[int], Any] | None = None
    behind: bool = False
    """True if tasks have read the file past the position of :attr:`source`."""

    ended: bool = False
    awake: datetime | None = None
    """The result of the source's last ``next_awake()``, called after it was built and after each read."""

    def __post_init__(self) -> None:
        self.awake = self.source.next_awake()


class Feed:
    """Reads the sources of a dataflow into the log, from the positions of the newest log entry.

    - ``more``: called repeatedly; raises an error that ends the run, such as the failure of the query.
    - ``write``: writes output that waits, or that arrives within a number of seconds. It is called between reads.
    """

    def __init__(
        self,
        flow: Dataflow,
        log: InputLog,
        clock: Clock,
        more: Callable[[], None],
        write: Callable[[float], None],
        lines_in: LinesIn | None = None,
    ) -> None:
        self._lines_in = lines_in
        self._write = write
        self._log = log
        self._clock = clock
        self._more = more
        newest = log.newest()
        self._number = newest.next_batch if newest else 0
        self._number = max(self._number, log.next_number)
        self._places: dict[str, dict[str, Any]] = {
            step: dict(parts) for step, parts in (newest.snapshots if newest else {}).items()
        }
        self._parts: list[_Part] = []
        for number, step in enumerate(flow._steps):
            if step.kind == "input":
                self._parts += self._parts_of(number, step)
        self._ended: frozenset[int] = frozenset()
        self._most = _ITEMS_OF_AN_ENTRY

    def _parts_of(self, number: int, step: Step) -> list[_Part]:
        source, step_id = step.does, step.step_id
        if isinstance(source, FixedPartitionedSource):
            names = list(source.list_parts())
            places = self._places.setdefault(step_id, {})
            lost = sorted(set(places) - set(names))
            if lost:
                raise UnsupportedError(
                    f"The input {step_id!r} has no part {lost[0]!r} any more, which was read before. Its parts are "
                    f"{', '.join(map(repr, names)) or 'none'}. Give it what it had, or start with a new folder."
                )
            return [self._part_of(number, step_id, source, name, places.get(name)) for name in names]
        if isinstance(source, DynamicSource):
            return [_Part(number, step_id, "", source.build(step_id, 0, 1), False)]
        raise UnsupportedError(
            f"The input {step_id!r} reads {source!r}, which is neither a FixedPartitionedSource nor a DynamicSource. "
            "Write a subclass of one of these."
        )

    def _part_of(
        self, number: int, step_id: str, source: FixedPartitionedSource[Any, Any], name: str, place: Any
    ) -> _Part:
        part = _Part(number, step_id, name, source.build_part(step_id, name, place), True)
        if self._lines_in is not None:
            part.ranged = ranged(number, source, name, part.source, self._lines_in)
            part.reopen = lambda at: source.build_part(step_id, name, at)
            if part.ranged is not None:
                self._note(part)
        return part

    def run(self) -> None:
        """Reads until all sources have ended. Raises :class:`AbortExecution` if one aborts."""
        spell_until, now_us = 0.0, 0
        while True:
            self._more()
            if time.monotonic() >= spell_until:
                # Times of Spark's micro-batches are in milliseconds.
                now_us = self._clock.time_us() // 1000 * 1000
                spell_until = time.monotonic() + _SPELL_SECONDS
            ranges = self._ranges()
            batches, aborted = ([], False) if ranges else self._read()
            ended = self._ended_inputs()
            if batches or ranges or ended != self._ended:
                self._wait_for_room()
                written = self._log.append(LogEntry(now_us, batches, self._places, self._ended, ended, ranges))
                items = sum(len(batch) for _, _, batch in batches)
                if items:
                    self._most = max(1, min(_ITEMS_OF_AN_ENTRY, _BYTES_OF_AN_ENTRY * items // written))
                self._ended = ended
            if aborted:
                raise AbortExecution
            if all(part.ended for part in self._parts):
                return
            if not batches and not ranges:
                self._write(_POLL_SECONDS)
                spell_until = 0.0

    def close(self) -> None:
        for part in self._parts:
            part.source.close()

    def _ended_inputs(self) -> frozenset[int]:
        going = {part.step for part in self._parts if not part.ended}
        return frozenset(part.step for part in self._parts) - going

    def _ranges(self) -> list[FileRange]:
        """The next byte ranges of all parts, interleaved batch by batch.

        Empty unless every part is a file whose next lines the JVM can split as Python does. Then this program reads.
        """
        going = [part for part in self._parts if not part.ended]
        if not going:
            return []
        most = max(1, min((part.ranged.most for part in going if part.ranged is not None), default=0) // len(going))
        ranges = self._ranges_of(going, most)
        # The same number of batches from each part keeps the parts interleaved across entries.
        fewest = min((one.batches for one in ranges), default=most)
        if any(one.batches > fewest for one in ranges):
            ranges = self._ranges_of(going, fewest)
        if not ranges:
            return []
        for part, one in zip(going, ranges, strict=True):
            self._places[part.step_id][part.name] = one.end
            part.behind = True
        self._number += max((one.batches for one in ranges), default=0) * len(going)
        return ranges

    def _ranges_of(self, parts: list[_Part], most: int) -> list[FileRange]:
        ranges = []
        for i, part in enumerate(parts):
            at = self._places.get(part.step_id, {}).get(part.name)
            # Within a line ending, Python's `tell()` returns an opaque number instead of a byte position.
            if part.ranged is None or not isinstance(at, int) or at >= 1 << 63:
                return []
            one = part.ranged.next(at, most, self._number + i, len(parts))
            if one is None:
                return []
            ranges.append(one)
        return ranges

    def _read(self) -> tuple[list[tuple[int, int, list[Any]]], bool]:
        """Reads parts in turn until none has a batch or the entry is full. Returns the batches and True on an abort."""
        batches: list[tuple[int, int, list[Any]]] = []
        items = 0
        until = time.monotonic() + _SECONDS_OF_AN_ENTRY
        while items < self._most and time.monotonic() < until:
            count = 0
            self._write(0)
            for part in self._parts:
                if part.ended or not self._awake(part):
                    continue
                try:
                    batch = self._next(part)
                except StopIteration:
                    part.ended = True
                    self._note(part)
                    continue
                except AbortExecution:
                    return batches, True
                self._note(part)
                if batch:
                    batches.append((part.step, self._number, batch))
                    self._number += 1
                    count += len(batch)
            if not count:
                break
            items += count
        return batches, False

    def _next(self, part: _Part) -> list[Any]:
        if part.behind and part.reopen is not None:
            part.source.close()
            part.source, part.behind = part.reopen(self._places[part.step_id][part.name]), False
        try:
            batch = copied(list(part.source.next_batch()))
            part.awake = part.source.next_awake()
        except (StopIteration, AbortExecution):
            raise
        except Exception as error:
            raise FunctionError(
                f"The source of the input {part.step_id!r} failed: {type(error).__name__}: {error}"
            ) from error
        return batch

    def _note(self, part: _Part) -> None:
        if part.keeps_place:
            (self._places[part.step_id][part.name],) = copied([part.source.snapshot()])

    def _awake(self, part: _Part) -> bool:
        return part.awake is None or micros(part.awake) <= self._now_us()

    def _now_us(self) -> int:
        return micros(datetime.now(UTC)) if isinstance(self._clock, ManualClock) else self._clock.time_us()

    def _wait_for_room(self) -> None:
        while self._log.waiting() > _ENTRIES_WAITING:
            self._more()
            self._write(_POLL_SECONDS)
