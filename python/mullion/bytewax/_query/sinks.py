"""Writes the output of a dataflow: runs its sinks and inspectors in the driver, batch by batch.

A file next to the checkpoint, the note, records the last written batch and the position of each sink part after it. A
batch that Spark repeats is not written again, unless its write was interrupted. Then a partitioned sink resumes from
the positions in the note and overwrites the incomplete output. A dynamic sink cannot go back and may write some items
of that batch twice.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from itertools import groupby, repeat
from pathlib import Path
from typing import Any

from pyspark.sql import Row

from mullion._util.files import json_in, reading, replace_text
from mullion.bytewax._query.chunks import END, PARTS, READ
from mullion.bytewax._values.values import decode_columns, decode_one, encode_one
from mullion.bytewax.dataflow import Dataflow, Step
from mullion.bytewax.outputs import DynamicSink, FixedPartitionedSink
from mullion.errors import FunctionError, UnsupportedError, WrongCallError


class _Inspector:
    def __init__(self, inspect: Any) -> None:
        self._inspect = inspect

    def write(self, items: Sequence[Any], batch: int) -> None:
        for item in items:
            self._inspect(item, batch, 0)

    def place(self) -> Any:
        return None

    def close(self) -> None:
        pass


class _Dynamic:
    def __init__(self, step_id: str, sink: DynamicSink[Any]) -> None:
        self._part = sink.build(step_id, 0, 1)

    def write(self, items: Sequence[Any], batch: int) -> None:
        self._part.write_batch(list(items))

    def place(self) -> Any:
        return None

    def close(self) -> None:
        self._part.close()


class _Partitioned:
    def __init__(self, step_id: str, sink: FixedPartitionedSink[Any, Any], places: dict[str, Any]) -> None:
        self._step_id = step_id
        self._sink = sink
        self._names = sorted(sink.list_parts())
        if not self._names:
            raise UnsupportedError(f"The output {step_id!r} has no parts: its sink lists none.")
        self._parts = {name: sink.build_part(step_id, name, places.get(name)) for name in self._names}

    def write(self, items: Sequence[Any], batch: int) -> None:
        of_parts: dict[str, list[Any]] = {}
        for item in items:
            if not isinstance(item, tuple) or len(item) != 2 or not isinstance(item[0], str):
                raise WrongCallError(
                    f"The output {self._step_id!r} takes (key, value) pairs, whose key selects the partition, and "
                    f"got {item!r} ({type(item).__name__}). Put key_on(...) before it."
                )
            name = self._names[self._sink.part_fn(item[0]) % len(self._names)]
            of_parts.setdefault(name, []).append(item[1])
        for name, values in of_parts.items():
            self._parts[name].write_batch(values)

    def place(self) -> Any:
        return {name: part.snapshot() for name, part in self._parts.items()}

    def close(self) -> None:
        for part in self._parts.values():
            part.close()


class Outputs:
    """The sinks and inspectors of a dataflow, resumed from the positions in the file ``note``.

    ``entry`` is the number of the newest log entry whose items were written.
    """

    def __init__(self, flow: Dataflow, note: Path) -> None:
        self._note = note
        self._batch = self.entry = -1
        places: dict[str, Any] = {}
        if note.exists():
            content = json_in(note, dict)
            with reading(note):
                self._batch, self.entry = content["batch"], content["entry"]
            places = decode_one(base64.b64decode(content["places"]))
        self._ends = {
            number: (step, self._opened(step, places.get(step.step_id)))
            for number, step in enumerate(flow._steps)
            if step.kind in ("output", "inspect")
        }

    @staticmethod
    def _opened(step: Step, place: Any) -> Any:
        if step.kind == "inspect":
            return _Inspector(step.does)
        if isinstance(step.does, FixedPartitionedSink):
            return _Partitioned(step.step_id, step.does, place or {})
        if isinstance(step.does, DynamicSink):
            return _Dynamic(step.step_id, step.does)
        raise UnsupportedError(
            f"The output {step.step_id!r} writes to {step.does!r}, which is neither a FixedPartitionedSink nor a "
            "DynamicSink. Write a subclass of one of these."
        )

    def write(self, rows: Sequence[Row], batch: int) -> None:
        """Writes the rows of a batch, in the order of the origins of their items."""
        if batch <= self._batch:
            return
        items_rows = [row for row in rows if row["target"] != END]
        origins: list[tuple[int, int, str]] = []
        all_items: list[Any] = []
        for row in sorted(items_rows, key=lambda row: (row["first"], row["part"])):
            if row["target"] == READ:
                self.entry = max(self.entry, row["first"])
                continue
            at, keys, _, _, values = decode_columns(bytes(row["data"]), PARTS)
            origins += zip(at, repeat(row["target"]), keys, strict=False)
            all_items += values
        # The items of each row are sorted already, so timsort only merges runs.
        order = sorted(range(len(all_items)), key=origins.__getitem__)
        for target, own in groupby(order, lambda number: origins[number][1]):
            self._write(target, list(map(all_items.__getitem__, own)), batch)
        self._batch = batch
        places = {step.step_id: end.place() for step, end in self._ends.values()}
        encoded = base64.b64encode(encode_one(places)).decode()
        replace_text(self._note, json.dumps({"batch": batch, "entry": self.entry, "places": encoded}))

    def _write(self, target: int, items: list[Any], batch: int) -> None:
        step, end = self._ends[target]
        try:
            end.write(items, batch)
        except (FunctionError, WrongCallError):
            raise
        except Exception as error:
            what = "inspector" if step.kind == "inspect" else "sink"
            raise FunctionError(f"The {what} of {step.step_id!r} failed: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        for _, end in self._ends.values():
            end.close()
