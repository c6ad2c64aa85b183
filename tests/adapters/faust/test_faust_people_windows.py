# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, misc, type-arg"
"""Programs with windowed tables as people write them for Faust, run whole: by Spark, over topics in a folder.

Each reports the values of its tables for every event. Plain Python computes the expected values from the ranges that
Faust's documents define.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import mullion.faust as faust
from mullion import topics
from mullion.testing import ManualClock
from tests.support.seeds import SEED

cloudpickle.register_pickle_by_value(sys.modules[__name__])

NOW = 60.0
LONG = timedelta(hours=1)


class Event(faust.Record):
    i: int
    k: str
    page: str
    n: int
    at: float


class Row(NamedTuple):
    i: int
    k: str
    page: str
    n: int
    at: float
    time: float


Answers = list[tuple[int, float]]


def rows(number: int) -> list[Row]:
    rng = random.Random(SEED + number)
    batch = []
    for i in range(24):
        time = 4.0 * i + rng.choice([0, 0.5, -7, -15.25])
        batch.append(
            Row(i, rng.choice("abc"), rng.choice(["/", "/in"]), rng.randrange(1, 9), time + 30, max(time, 0.0))
        )
    return batch


def tumbling(time: float, size: float) -> list[float]:
    return [time // size * size]


def hopping(time: float, size: float, step: float) -> list[float]:
    starts, start = [], time // step * step
    while start > time - size:
        starts.append(start)
        start -= step
    return starts


def read(sums: dict[Any, float], key: Any, time: float, step: float) -> float:
    """The value of the latest range that contains a time."""
    return sums[key, time // step * step]


# -- programs


def views(app: faust.App, events: Any, out: Any) -> Callable[[list[Row]], Answers]:
    """Counts of a key by window, as of the event."""
    table = app.Table("views", default=int).tumbling(10.0, expires=LONG)

    @app.agent(events)
    async def count(stream):
        async for event in stream:
            table[event.k] += 1
            await out.send(value={"i": event.i, "got": float(table[event.k].current())})

    def answers(batch: list[Row]) -> Answers:
        sums: dict[Any, float] = defaultdict(float)
        expected = []
        for row in batch:
            sums[row.k, tumbling(row.time, 10)[0]] += 1
            expected.append((row.i, read(sums, row.k, row.time, 10)))
        return expected

    return answers


def amounts(app: faust.App, events: Any, out: Any) -> Callable[[list[Row]], Answers]:
    """Sums of windows that hop; the latest one is read."""
    table = app.Table("amounts", default=float, window=faust.HoppingWindow(20, 5, expires=LONG))

    @app.agent(events)
    async def add(stream):
        async for event in stream:
            table[event.k] += event.n
            await out.send(value={"i": event.i, "got": table[event.k].value()})

    def answers(batch: list[Row]) -> Answers:
        sums: dict[Any, float] = defaultdict(float)
        expected = []
        for row in batch:
            for start in hopping(row.time, 20, 5):
                sums[row.k, start] += row.n
            expected.append((row.i, read(sums, row.k, row.time, 5)))
        return expected

    return answers


def means(app: faust.App, events: Any, out: Any) -> Callable[[list[Row]], Answers]:
    """A dict of a sum and a number, changed and written back."""
    table = app.Table("means", default=lambda: {"sum": 0, "count": 0}).hopping(12, 6, expires=LONG)

    @app.agent(events)
    async def mean(stream):
        async for event in stream:
            stats = table[event.k]
            stats["sum"] += event.n
            stats["count"] += 1
            table[event.k] = stats
            parts = table[event.k].current()
            await out.send(value={"i": event.i, "got": parts["sum"] / parts["count"]})

    def answers(batch: list[Row]) -> Answers:
        amounts: dict[Any, list[int]] = defaultdict(list)
        expected = []
        for row in batch:
            for start in hopping(row.time, 12, 6):
                amounts[row.k, start].append(row.n)
            values = amounts[row.k, row.time // 6 * 6]
            expected.append((row.i, sum(values) / len(values)))
        return expected

    return answers


def of_field(app: faust.App, events: Any, out: Any) -> Callable[[list[Row]], Answers]:
    """Windows of a field of the event, and not of its message."""
    table = app.Table("of-field", default=int).tumbling(20, expires=LONG).relative_to_field(Event.at)

    @app.agent(events)
    async def add(stream):
        async for event in stream:
            table[event.k] += event.n
            await out.send(value={"i": event.i, "got": float(table[event.k].value())})

    def answers(batch: list[Row]) -> Answers:
        sums: dict[Any, float] = defaultdict(float)
        expected = []
        for row in batch:
            sums[row.k, row.at // 20 * 20] += row.n
            expected.append((row.i, read(sums, row.k, row.at, 20)))
        return expected

    return answers


def trends(app: faust.App, events: Any, out: Any) -> Callable[[list[Row]], Answers]:
    """The value of a key at an earlier time, and its value now."""
    table = app.Table("trends", default=int).tumbling(8, expires=LONG)

    @app.agent(events)
    async def compare(stream):
        async for event in stream:
            table[event.k] += event.n
            more = table[event.k].current() - table[event.k].delta(timedelta(seconds=16))
            await out.send(value={"i": event.i, "got": float(more)})

    def answers(batch: list[Row]) -> Answers:
        sums: dict[Any, float] = defaultdict(float)
        expected = []
        for row in batch:
            sums[row.k, row.time // 8 * 8] += row.n
            expected.append((row.i, read(sums, row.k, row.time, 8) - read(sums, row.k, row.time - 16, 8)))
        return expected

    return answers


def at_present(app: faust.App, events: Any, out: Any) -> Callable[[list[Row]], Answers]:
    """The value of the window that contains the clock."""
    table = app.Table("present", default=int).tumbling(15, expires=LONG)

    @app.agent(events)
    async def look(stream):
        async for event in stream:
            table[event.k] += 1
            await out.send(value={"i": event.i, "got": float(table[event.k].now())})

    def answers(batch: list[Row]) -> Answers:
        sums: dict[Any, float] = defaultdict(float)
        expected = []
        for row in batch:
            sums[row.k, row.time // 15 * 15] += 1
            expected.append((row.i, read(sums, row.k, NOW, 15)))
        return expected

    return answers


def constant_keys(app: faust.App, events: Any, out: Any) -> Callable[[list[Row]], Answers]:
    """Two tables with one key each, written down."""
    amount = app.Table("amount", default=float).hopping(60, 30, expires=LONG, key_index=True)
    number = app.Table("number", default=int).tumbling(timedelta(minutes=1), expires=LONG)

    @app.agent(events)
    async def sell(stream):
        async for event in stream:
            amount["amount_1min"] += event.n
            number["number_1min"] += 1
            got = amount["amount_1min"].current() * 1000 + number["number_1min"].current()
            await out.send(value={"i": event.i, "got": float(got)})

    def answers(batch: list[Row]) -> Answers:
        sums: dict[Any, float] = defaultdict(float)
        expected = []
        for row in batch:
            for start in hopping(row.time, 60, 30):
                sums["amount", start] += row.n
            sums["number", row.time // 60 * 60] += 1
            got = read(sums, "amount", row.time, 30) * 1000 + read(sums, "number", row.time, 60)
            expected.append((row.i, got))
        return expected

    return answers


def by_page(app: faust.App, events: Any, out: Any) -> Callable[[list[Row]], Answers]:
    """A stream that is grouped by a field, and a window of that."""
    table = app.Table("pages", default=int).tumbling(30, expires=LONG)

    @app.agent(events)
    async def count(stream):
        async for event in stream.group_by(Event.page):
            table[event.page] += event.n
            await out.send(value={"i": event.i, "got": float(table[event.page].current())})

    def answers(batch: list[Row]) -> Answers:
        sums: dict[Any, float] = defaultdict(float)
        expected = []
        for row in batch:
            sums[row.page, row.time // 30 * 30] += row.n
            expected.append((row.i, read(sums, row.page, row.time, 30)))
        return expected

    return answers


class EvenMinutes(faust.Window):
    """A window of one's own: there is one in each even half of a minute."""

    def ranges(self, timestamp):
        start = timestamp // 30 * 30
        return [(start, start + 30)] if start % 60 == 0 else []


def own_window(app: faust.App, events: Any, out: Any) -> Callable[[list[Row]], Answers]:
    """A window of one's own, which not all events are in."""
    table = app.Table("own", default=int, window=EvenMinutes())

    @app.agent(events)
    async def add(stream):
        async for event in stream:
            table[event.k] += event.n
            await out.send(value={"i": event.i, "got": float(table[event.k].value())})

    def answers(batch: list[Row]) -> Answers:
        sums: dict[Any, float] = defaultdict(float)
        expected = []
        for row in batch:
            if row.time // 30 * 30 % 60 == 0:
                sums[row.k, row.time // 30 * 30] += row.n
            expected.append((row.i, read(sums, row.k, row.time, 30)))
        return expected

    return answers


def sliding(app: faust.App, events: Any, out: Any) -> Callable[[list[Row]], Answers]:
    """All of a key in the time before an event."""
    table = app.Table("sliding", default=int, window=faust.SlidingWindow(before=10, after=0, expires=3600))

    @app.agent(events)
    async def add(stream):
        async for event in stream:
            table[event.k] += event.n
            await out.send(value={"i": event.i, "got": float(table[event.k].current())})

    def answers(batch: list[Row]) -> Answers:
        expected = []
        for number, row in enumerate(batch):
            before = batch[: number + 1]
            total = sum(one.n for one in before if one.k == row.k and row.time - 10 <= one.time <= row.time)
            expected.append((row.i, float(total)))
        return expected

    return answers


def alerts(app: faust.App, events: Any, out: Any) -> Callable[[list[Row]], Answers]:
    """Something is said only of keys that come too often within a window."""
    table = app.Table("attempts", default=int).hopping(30, 10, expires=LONG)

    @app.agent(events)
    async def watch(stream):
        async for event in stream:
            table[event.k] += 1
            if table[event.k].current() >= 2:
                await out.send(value={"i": event.i, "got": float(table[event.k].current())})

    def answers(batch: list[Row]) -> Answers:
        sums: dict[Any, float] = defaultdict(float)
        expected = []
        for row in batch:
            for start in hopping(row.time, 30, 10):
                sums[row.k, start] += 1
            total = read(sums, row.k, row.time, 10)
            expected += [(row.i, total)] if total >= 2 else []
        return expected

    return answers


def helpers(app: faust.App, events: Any, out: Any) -> Callable[[list[Row]], Answers]:
    """Functions that count and add up by windows."""
    count = faust.windowed_count(app.Table("helped", default=int), faust.TumblingWindow(10, expires=3600))
    total = faust.windowed_sum(app.Table("helped-sum", default=int), faust.TumblingWindow(20, expires=3600))

    @app.agent(events)
    async def add(stream):
        async for event in stream:
            got = 1000 * total(event.k, event.n) + count(event.k)
            await out.send(value={"i": event.i, "got": float(got)})

    def answers(batch: list[Row]) -> Answers:
        sums: dict[Any, float] = defaultdict(float)
        expected = []
        for row in batch:
            sums[row.k, "n", row.time // 10 * 10] += 1
            sums[row.k, "sum", row.time // 20 * 20] += row.n
            of_count, of_sum = sums[row.k, "n", row.time // 10 * 10], sums[row.k, "sum", row.time // 20 * 20]
            expected.append((row.i, 1000 * of_sum + of_count))
        return expected

    return answers


def closed(app: faust.App, events: Any, out: Any) -> Callable[[list[Row]], Answers]:
    """Lists that are made one when their window closes; a list is read, changed and written back."""

    def close(key, values):
        out.send_soon(value={"i": int(key[1][0]), "got": sum(values) / len(values)})

    table = app.Table("lists", default=list, partitions=1, on_window_close=close).tumbling(10, expires=1)

    @app.agent(events)
    async def keep(stream):
        async for event in stream:
            values = table["all"].value()
            values.append(event.n)
            table["all"] = values

    def answers(batch: list[Row]) -> Answers:
        amounts: dict[float, list[int]] = defaultdict(list)
        latest = float("-inf")
        # Ranges go with the batch, and a row is too old for its range by the largest time before it.
        for row in batch:
            latest = max(latest, row.time)
            if row.time // 10 * 10 + 10 > (latest - 1) // 10 * 10:
                amounts[row.time // 10 * 10].append(row.n)
        return [(int(s), sum(v) / len(v)) for s, v in amounts.items() if s + 10 <= (latest - 1) // 10 * 10]

    return answers


CHEAP = (views, means, by_page)
MORE = (amounts, of_field, trends, at_present, constant_keys, own_window, sliding, alerts, helpers, closed)


def hold(program: Any, spark: SparkSession, folder: Path, compiled: bool) -> None:
    clock = ManualClock()
    clock.advance(timedelta(seconds=NOW))
    app = faust.App("whole", broker=f"dir:{folder}/topics", spark=spark, clock=clock, compiled=compiled)
    out = app.topic("out")
    answers = program(app, app.topic("events", key_type=str, value_type=Event), out)
    batch = rows(len(program.__name__))
    if program is closed:
        batch = sorted(batch, key=lambda row: row.time)
    with app.start() as running:
        for start in range(0, len(batch), 7):
            some = batch[start : start + 7]
            values = [{"i": row.i, "k": row.k, "page": row.page, "n": row.n, "at": row.at} for row in some]
            topics.produce(app.broker, "events", values, [row.time for row in some], [row.k for row in some])
            running.settle()
    came = sorted((row["i"], row["got"]) for row in topics.read(app.broker, "out").to_pylist())
    assert came == sorted(answers(batch)), f"MULLION_SEED={SEED}"
    assert came


@pytest.mark.parametrize("program", CHEAP)
def test_a_program_with_windows_gives_the_answers_of_plain_python(
    program: Any, spark: SparkSession, tmp_path: Path
) -> None:
    hold(program, spark, tmp_path, compiled=True)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("program", MORE)
def test_more_programs_with_windows_give_the_answers_of_plain_python(
    program: Any, compiled: bool, spark: SparkSession, tmp_path: Path
) -> None:
    hold(program, spark, tmp_path, compiled)
