"""Pipelines whose process and JVM are killed somewhere in a batch, again and again, against a model in plain Python."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mullion import topics
from mullion.kx import sp
from tests.support.killing import committed, kill_after, session_of_its_own, somewhere_in_a_batch
from tests.support.kx import kx_model
from tests.support.seeds import SEED

pytestmark = pytest.mark.slow

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
WRITERS = ("late", "totals", "overlapping", "counts", "sevens")


def program(home: Path, spark: SparkSession | None) -> sp.App:
    """Windows of each kind over one callback; what functions keep is in the state of their queries."""

    def describe(metadata: dict[str, Any], data: pa.Table) -> dict[str, Any]:
        start = metadata["window"][0] if "window" in metadata else None
        return {
            "start": (start - EPOCH) // timedelta(microseconds=1) if isinstance(start, datetime) else start,
            "late": metadata.get("late", False),
            "v": ",".join(map(str, data["v"].to_pylist())),
        }

    def shown(metadata: dict[str, Any], data: pa.Table) -> dict[str, Any]:
        return describe(metadata, data) | {"partial": metadata["partial"]}

    def by_sevens(name: str, buffer: pa.Table, offset: int, metadata: dict[str, Any], data: pa.Table) -> list[int]:
        return list(range(7, buffer.num_rows + 1, 7))

    def added(metadata: dict[str, Any], data: pa.Table, total: dict[str, Any]) -> dict[str, Any]:
        start = (metadata["window"][0] - EPOCH) // timedelta(microseconds=1)
        return {"start": start, "v": total["v"] + sum(data["v"].to_pylist()), "batches": total["batches"] + 1}

    def so_far(data: pa.Table, total: int) -> int:
        return total + sum(map(int, data["v"].to_pylist()))

    read = sp.read.from_callback("rows", name="rows", schema="time timestamp, v bigint")
    described = sp.map(describe, params=["metadata", "data"])
    late = sp.window.tumbling((10, "s"), "time", (2, "s"), passthrough=True, name="w-late")
    full = sp.window.tumbling((10, "s"), "time", count_trigger=3, skip_empty_windows=True, name="w-totals")
    totals = sp.reduce(added, {"start": 0, "v": 0, "batches": 0}, name="reduced")
    overlapping = sp.window.sliding((10, "s"), (25, "s"), "time", count_trigger=3, name="w-overlapping")
    sevens = sp.window.global_window(by_sevens, name="w-sevens")
    running = sp.accumulate(so_far, 0, lambda total: {"total": total}, name="running")
    ends = [
        late | described | sp.write.to_topic("late", name="late"),
        full | totals | sp.write.to_topic("totals", name="totals"),
        overlapping | sp.map(shown, params=["metadata", "data"]) | sp.write.to_topic("overlapping", name="overlapping"),
        sp.window.count(7, 5, name="w-counts") | described | sp.write.to_file(home / "counts", "json", name="counts"),
        sevens | running | sp.write.to_topic("sevens", name="sevens"),
    ]
    return sp.App("killed", read | ends, broker=f"dir:{home / 'topics'}", checkpoint=home / "state", spark=spark)


def published(home: Path, topic: str) -> Counter[str]:
    table = topics.read(f"dir:{home / 'topics'}", topic).drop_columns(["_key", "_timestamp"])
    return Counter(json.dumps(row, sort_keys=True) for row in table.to_pylist())


def written(home: Path) -> Counter[str]:
    lines = [line for file in (home / "counts").rglob("*.json") for line in file.read_text().splitlines()]
    return Counter(json.dumps(json.loads(line), sort_keys=True) for line in lines)


def told_by(firings: list[kx_model.Out], *, partials: bool = False) -> Counter[str]:
    rows: Counter[str] = Counter()
    for firing in firings:
        start, values = (None, firing[1]) if firing[0] == "late" else (firing[0][0], firing[2])
        row = {"start": start, "late": firing[0] == "late", "v": ",".join(map(str, values))}
        if partials:
            row["partial"] = firing[1]
        rows[json.dumps({k: v for k, v in row.items() if v is not None}, sort_keys=True)] += 1
    return rows


def totals_of(firings: list[kx_model.Out]) -> Counter[str]:
    """The results of ``reduce`` for windows whose records arrive three at a time."""
    rows = [{"start": start, "v": sum(values), "batches": -(-len(values) // 3)} for (start, _), _, values in firings]
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def without_nulls(rows: Counter[str]) -> Counter[str]:
    cleaned: Counter[str] = Counter()
    for text, count in rows.items():
        row = {name: value for name, value in json.loads(text).items() if value is not None}
        cleaned[json.dumps(row, sort_keys=True)] += count
    return cleaned


def test_pipelines_that_are_killed_again_and_again_give_each_window_once_and_lose_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    batches: list[list[kx_model.Row]] = []

    def publish(app: sp.App, batch: list[kx_model.Row]) -> None:
        batches.append(batch)
        times = pa.array([time for time, _ in batch], pa.timestamp("us", tz="UTC"))
        app.publish("rows", pa.table({"time": times, "v": [value for _, value in batch]}))

    app = program(tmp_path, spark)
    checkpoints = [tmp_path / "state" / name / "query" for name in WRITERS]
    for _ in range(4):
        for _ in range(8):
            now = len(batches) * 3 * SECOND
            publish(
                app,
                [(now + rng.randrange(-15, 6) * SECOND // 2, rng.randrange(100)) for _ in range(rng.randrange(1, 9))],
            )
        killed, *others = rng.sample(checkpoints, len(checkpoints))
        kill_after(tmp_path, somewhere_in_a_batch(killed, rng, *others), __file__)
    assert any(committed(checkpoint) for checkpoint in checkpoints)
    publish(app, [(300 * SECOND, 1)])
    program(tmp_path, spark).run(until="drained")

    seed = f"MULLION_SEED={SEED}"
    late = kx_model.Timed(10 * SECOND, 10 * SECOND, 2 * SECOND, passthrough=True).run(batches, end=False)
    assert without_nulls(published(tmp_path, "late")) == told_by(late), seed
    full = kx_model.Timed(10 * SECOND, 10 * SECOND, skip_empty=True).run(batches, end=False)
    assert published(tmp_path, "totals") == totals_of(full), seed
    overlapping = kx_model.Timed(10 * SECOND, 25 * SECOND, flush=3).run(batches, end=False)
    assert published(tmp_path, "overlapping") == told_by(overlapping, partials=True), seed
    assert written(tmp_path) == told_by(kx_model.Counted(7, 5).run(batches, end=False)), seed
    values = [value for batch in batches for _, value in batch]
    sums = [sum(values[:until]) for until in range(7, len(values) + 1, 7)]
    assert published(tmp_path, "sevens") == Counter(f'{{"total": {total}}}' for total in sums), seed


if __name__ == "__main__":
    home = Path(sys.argv[1])
    program(home, session_of_its_own(home)).run(until="drained")
