"""The log of inputs: items of the sources in numbered files, until Spark has processed them.

::

    00000000000000000007     the oldest entry that a micro-batch may still need
    00000000000000000008
    00000000000000000009     the newest entry: sources resume from it after a restart, so it is never deleted

A file is one entry: batches of items, or byte ranges of files; the system time at which they were read; the positions
of the sources after it; and the inputs that had ended. An entry appears atomically under the next number. Therefore
each item is in one entry, and each entry in one micro-batch. ``pyfunction/dataflow/EntryLog.scala`` reads the log.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Final

from pyspark import cloudpickle

from mullion.bytewax._log.file_ranges import FileRange
from mullion.bytewax._values.values import classes_written, decode_one, encode_one, importable, learn

_DIGITS: Final = 20


@dataclass(frozen=True)
class LogEntry:
    """One read of the sources.

    - ``batches``: ``(step of the input, number, items)``; numbers count all batches of all sources.
    - ``ranges``: lines of files that the entry does not contain; tasks read them.
    - ``snapshots``: positions of the parts of the sources, by step id and name.
    - ``ended_before``, ``ended_now``: the inputs, as steps, that had ended before and after this entry.
    """

    now_us: int
    batches: Sequence[tuple[int, int, list[Any]]]
    snapshots: Mapping[str, Mapping[str, Any]]
    ended_before: frozenset[int] = frozenset()
    ended_now: frozenset[int] = frozenset()
    ranges: Sequence[FileRange] = ()

    @property
    def next_batch(self) -> int:
        """One more than the largest batch number in this entry, 0 if it has none."""
        ranges = [one.first + one.batches * one.stride for one in self.ranges]
        return max((*(number + 1 for _, number, _ in self.batches), *ranges), default=0)

    @property
    def inputs(self) -> set[int]:
        """The inputs that have items in this entry, as steps."""
        return {step for step, _, _ in self.batches} | {one.step for one in self.ranges}


def read_entry(written: bytes) -> LogEntry:
    """Decodes the content of a file of the log, and registers its classes."""
    length = int.from_bytes(written[:4], "big")
    learn(_classes_in(written[4 : 4 + length]))
    now_us, steps, numbers, items, snapshots, before, now, *ranges = decode_one(written[4 + length :])
    batches, at = [], 0
    for step, (number, count) in zip(steps, numbers, strict=True):
        batches.append((step, number, items[at : at + count]))
        at += count
    of_files = [FileRange(*one) for one in (ranges[0] if ranges else ())]
    return LogEntry(now_us, batches, snapshots, frozenset(before), frozenset(now), of_files)


def _classes_in(head: bytes) -> dict[str, type]:
    """The program's own classes by name. They cannot be imported, so entries contain them pickled."""
    return cloudpickle.loads(head) if head else {}


def learn_from(folder: str) -> None:
    """Registers the classes of all items so far, for workers that read no entries in Python."""
    learn(_newest_classes(Path(folder)))


def _newest_classes(folder: Path) -> dict[str, type]:
    """The classes of all items so far. Each entry repeats the classes of earlier ones."""
    newest = max(_numbers(folder), default=None)
    if newest is None:
        return {}
    with _file(folder, newest).open("rb") as file:
        return _classes_in(file.read(int.from_bytes(file.read(4), "big")))


def _written(entry: LogEntry, classes: dict[str, type]) -> bytes:
    """Encodes an entry. Adds the classes of its items that cannot be imported to ``classes``."""
    items = [item for _, _, batch in entry.batches for item in batch]
    steps = [step for step, _, _ in entry.batches]
    numbers = [(number, len(batch)) for _, number, batch in entry.batches]
    ranges = ([astuple(one) for one in entry.ranges],) if entry.ranges else ()
    ended = (entry.ended_before, entry.ended_now)
    with classes_written() as of_values:
        body = encode_one((entry.now_us, steps, numbers, items, entry.snapshots, *ended, *ranges))
    classes.update((name, kind) for name, kind in of_values.items() if not importable(kind))
    head: bytes = cloudpickle.dumps(classes) if classes else b""  # type: ignore[no-untyped-call]
    return b"".join((len(head).to_bytes(4, "big"), head, body))


class InputLog:
    """Writes the log in a folder.

    - ``is_durable``: True if entries must survive a crash of the machine.
    - ``classes``: the dataflow's own classes by name.
    """

    def __init__(self, folder: Path, is_durable: bool = True, classes: Mapping[str, type] | None = None) -> None:
        self._folder = folder
        self._is_durable = is_durable
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob(".*"):
            unfinished.unlink()
        self._next = max(_numbers(folder), default=-1) + 1
        self._classes = {**_newest_classes(folder), **(classes or {})}

    @property
    def next_number(self) -> int:
        return self._next

    def newest(self) -> LogEntry | None:
        return read_entry(_file(self._folder, self._next - 1).read_bytes()) if self._next else None

    def append(self, entry: LogEntry) -> int:
        """Writes an entry atomically. Returns its size in bytes."""
        hidden = self._folder / f".{self._next}"
        written = _written(entry, self._classes)
        with hidden.open("wb") as file:
            file.write(written)
            if self._is_durable:
                file.flush()
                os.fsync(file.fileno())
        hidden.rename(_file(self._folder, self._next))
        self._next += 1
        return len(written)

    def waiting(self) -> int:
        return len(_numbers(self._folder))


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number:0{_DIGITS}d}"


def _numbers(folder: Path) -> list[int]:
    return [int(name) for name in os.listdir(folder) if len(name) == _DIGITS and name.isdigit()]  # noqa: PTH208
