"""Random windows over random batches, each against a model in plain Python: see ``kx_model``."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from mullion.kx import sp
from tests.support.cache_sizes import draw_size
from tests.support.kx import kx_model
from tests.support.seeds import SEED

CASES = 12
"""The number of pipelines that run at once, each in its own query."""

CHAINS = 3
"""The number of pipelines with two windows, each of one query or two."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000

Model = kx_model.Timed | kx_model.Counted | kx_model.Triggered
Split = Callable[[list[int], int], list[int] | None]


def over_a_hundred(buffer: list[int], offset: int) -> list[int]:
    """A window ends with each value over 100."""
    return [index + 1 for index, value in enumerate(buffer) if value > 100]


def with_each_batch(buffer: list[int], offset: int) -> list[int] | None:
    """A window begins with each batch but the first of a buffer."""
    return [offset] if offset else None


def by_sevens(buffer: list[int], offset: int) -> list[int]:
    """Full sevens go."""
    return list(range(7, len(buffer) + 1, 7))


def everything(buffer: list[int], offset: int) -> list[int]:
    """Nothing stays."""
    return [len(buffer)]


class Trigger:
    """A function of the model as the trigger of a pipeline."""

    def __init__(self, split: Split) -> None:
        self.split = split
        self.__qualname__ = split.__name__

    def __call__(self, name: str, buffer: pa.Table, offset: int, metadata: dict[str, Any], data: pa.Table) -> Any:
        assert buffer.slice(offset).equals(data)
        return self.split(buffer["v"].to_pylist(), offset)


def some_batches(chance: random.Random) -> list[list[kx_model.Row]]:
    """Batches with advancing times, out of order, some far apart, some before 1970."""
    now = chance.choice([0, 5 * SECOND, -30 * SECOND, 1_700_000_000 * SECOND])
    batches = []
    for _ in range(chance.randint(1, 6)):
        batch = []
        for _ in range(chance.choice([1, 2, 5, 12])):
            now += chance.choice([0, 0, SECOND // 3, SECOND, 2 * SECOND, 7 * SECOND])
            behind = chance.choice([0, 0, 0, SECOND, 12 * SECOND, 40 * SECOND])
            batch.append((now - behind, chance.randint(0, 120)))
        batches.append(batch)
    return batches


def some_window(chance: random.Random) -> tuple[sp.window.Window, Model]:
    """A window of a pipeline, and the same of the model."""
    kind = chance.choice(["tumbling", "sliding", "sliding", "count", "global"])
    if kind == "count":
        size, frequency = chance.randint(1, 6), chance.choice([None, 1, 2, 5, 9])
        return sp.window.count(size, frequency), kx_model.Counted(size, frequency or size)
    if kind == "global":
        split = chance.choice([over_a_hundred, with_each_batch, by_sevens, everything])
        return sp.window.global_window(Trigger(split)), kx_model.Triggered(split)
    slide = chance.choice([1, 3, 10]) * SECOND
    length = slide if kind == "tumbling" else chance.choice([2, 4, 10, 15]) * SECOND
    options = {
        "lateness": chance.choice([0, 0, 2, 15]) * SECOND,
        "passthrough": chance.random() < 0.5,
        "sort": chance.random() < 0.5,
    }
    flush = chance.choice([None, None, None, 1, 2, 4])
    skip = chance.random() < 0.5
    arguments = {**options, "lateness": (options["lateness"], "us"), "time_column": "time", "skip_empty_windows": skip}
    if flush is not None:
        arguments["count_trigger"] = flush
    if chance.random() < 0.3:
        del arguments["time_column"]
        arguments["time_assigner"] = lambda data: data["time"]
    period = timedelta(microseconds=slide)
    window = (
        sp.window.tumbling(period, **arguments)  # type: ignore[arg-type]
        if kind == "tumbling"
        else sp.window.sliding(period, (length, "us"), **arguments)  # type: ignore[arg-type]
    )
    return window, kx_model.Timed(slide, length, skip_empty=skip, flush=flush, **options)  # type: ignore[arg-type]


def of_rows(batch: list[kx_model.Row]) -> pa.Table:
    times = pa.array([time for time, _ in batch], pa.timestamp("us", tz="UTC"))
    return pa.table({"time": times, "v": [value for _, value in batch]})


def seen_in(out: list[Any]) -> Callable[[dict[str, Any], pa.Table], None]:
    def collect(metadata: dict[str, Any], data: pa.Table) -> None:
        values = data["v"].to_pylist()
        if metadata.get("late"):
            out.append(("late", values))
            return
        start, end = metadata["window"]
        if isinstance(start, datetime):
            start, end = ((each - EPOCH) // timedelta(microseconds=1) for each in (start, end))
        out.append(((start, end), metadata["partial"], values))

    return collect


def case(chance: random.Random, number: int) -> tuple[sp.Pipeline, list[Any], Model, list[list[kx_model.Row]]]:
    window, model = some_window(chance)
    batches = some_batches(chance)
    tables = [of_rows(batch) for batch in batches]
    out: list[Any] = []
    # Through a function of Python, or from the JVM as it is.
    after = [sp.map(lambda data: data)] if chance.random() < 0.3 else []
    line: sp.Pipeline = sp.read.from_expr(lambda: iter(tables)) | window
    for each in after:
        line = line | each
    writer = sp.write.to_callback(seen_in(out), params=["metadata", "data"], name=f"case-{number}")
    return line | writer, out, model, batches


def chained(chance: random.Random, number: int) -> tuple[sp.Pipeline, list[Any], list[Any], str]:
    """A window after one of event time: its output, and the expected output."""
    first, of_first = some_window(chance)
    while not isinstance(of_first, kx_model.Timed) or of_first.flush is not None or of_first.passthrough:
        first, of_first = some_window(chance)
    second, of_second = some_window(chance)
    batches, end = some_batches(chance), number % 2 == 0
    tables = [of_rows(batch) for batch in batches]
    out: list[Any] = []
    middle = [sp.map(lambda data: data)] if chance.random() < 0.5 else []
    line: sp.Pipeline = sp.read.from_expr(lambda: iter(tables)) | first
    for each in middle:
        line = line | each
    line = line | second | sp.write.to_callback(seen_in(out), params=["metadata", "data"], name=f"chain-{number}")
    rounds = [[row for *_, rows in firings for row in rows] for firings in of_first.rounds(batches, end=end)]
    expected = of_second.run([batch for batch in rounds if batch], end=end)
    return line, out, expected, f"{line!r}, {of_first}, {of_second}, {batches}, end={end}"


def test_windows_after_windows_of_event_time_give_what_the_models_give(spark: SparkSession) -> None:
    seed = SEED
    for round_number in range(int(os.environ.get("MULLION_TEST_ROUNDS", 1))):
        chance = random.Random(seed + round_number)
        size = draw_size(spark, chance)
        cases = [chained(chance, number) for number in range(CHAINS)]
        for until in ("end", "drained"):
            some = cases[until == "drained" :: 2]
            sp.run(*(line for line, *_ in some), spark=spark, until=until)
        for _, out, expected, what in cases:
            assert by_window(out) == by_window(expected), f"MULLION_SEED={seed + round_number}, {size}: {what}"


def by_window(out: list[Any]) -> list[Any]:
    """Sorts outputs by window. The outputs of one window keep their order."""
    return sorted(out, key=lambda each: (each[0] != "late", each[0] if each[0] != "late" else ()))


def test_random_windows_give_what_the_model_gives(spark: SparkSession) -> None:
    seed = SEED
    for round_number in range(int(os.environ.get("MULLION_TEST_ROUNDS", 1))):
        chance = random.Random(seed + round_number)
        size = draw_size(spark, chance)
        cases = [case(chance, number) for number in range(CASES)]
        end = chance.random() < 0.5
        sp.run(*(line for line, *_ in cases), spark=spark, until="end" if end else "drained")
        for line, out, model, batches in cases:
            expected = model.run(batches, end=end)
            if isinstance(model, kx_model.Timed) and (model.flush is not None or model.passthrough):
                # Whether a partial batch, late records or a window comes first in a micro-batch is not said.
                out, expected = by_window(out), by_window(expected)
            assert out == expected, (
                f"MULLION_SEED={seed + round_number}, {size}: {line!r}, {model}, {batches}, end={end}"
            )
