"""Rows that are processed one by one, in order of arrival: random streams against a model.

A random case is a key; hundreds of them share a query.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Count,
    Early,
    Global,
    PerKey,
    Session,
    Sliding,
    Tumbling,
    Watermark,
    read_panes,
    windowed,
)
from mullion.windows import Window
from tests.support.checked import bounds_of, length
from tests.support.clocked import ClockedQuery
from tests.support.models.arrival_model import Arrival, ArrivalModel, KeyPanes, Shown
from tests.support.models.model import SECOND, Row
from tests.support.models.ordered_model import OrderedPanes
from tests.support.seeds import SEED
from tests.support.streams import Feed

KEYS = 240
BATCHES = 8
TEN = 10 * SECOND

CASES = {
    "count": Arrival(kind="count", size=3, slide=3),
    "count, overlapping": Arrival(kind="count", size=5, slide=2),
    "count, each row begins one, collect": Arrival(kind="count", size=4, slide=1, collect="time"),
    "count, gaps, running": Arrival(kind="count", size=2, slide=5, running=True),
    "count, overlapping, running": Arrival(kind="count", size=4, slide=3, running=True),
    "global, every": Arrival(kind="every", size=4),
    "global, a sum": Arrival(kind="sum", size=25),
    "global, every, a row ends it, running": Arrival(kind="every", size=6, ends=4, running=True),
    "global, changes, a row ends it": Arrival(kind="changes", size=40, ends=7),
    "count, timeout": Arrival(kind="every", size=4, timeout=5 * SECOND),
    "count, timeout, collect": Arrival(kind="every", size=9, timeout=6 * SECOND, collect="arrival"),
    "count, timeout, running": Arrival(kind="every", size=3, timeout=3 * SECOND, running=True),
    "global, when, collect": Arrival(kind="when", size=3, collect="arrival"),
    "global, changes, running": Arrival(kind="changes", size=40, running=True),
    "tumbling, collect by time, emit": Arrival(
        kind="aligned", size=TEN, slide=TEN, delay=2 * SECOND, late="emit", collect="time"
    ),
    "sliding, collect by arrival, lateness": Arrival(
        kind="aligned", size=TEN, slide=4 * SECOND, lateness=3 * SECOND, collect="arrival"
    ),
    "sessions, collect by time, emit": Arrival(
        kind="session", size=4 * SECOND, delay=4 * SECOND, late="emit", collect="time"
    ),
    "sliding, collect by arrival, reopen": Arrival(
        kind="aligned", size=TEN, slide=4 * SECOND, late="reopen", collect="arrival"
    ),
    "sessions, collect by time, reopen": Arrival(kind="session", size=2 * SECOND, late="reopen", collect="time"),
    "tumbling, collect by time, early, emit": Arrival(
        kind="aligned", size=TEN, slide=TEN, delay=2 * SECOND, early=3 * SECOND, late="emit", collect="time"
    ),
    "sliding, collect by time, early, reopen": Arrival(
        kind="aligned", size=TEN, slide=4 * SECOND, lateness=SECOND, early=2 * SECOND, late="reopen", collect="time"
    ),
    "sessions, collect by arrival, early": Arrival(
        kind="session", size=3 * SECOND, delay=2 * SECOND, lateness=SECOND, early=2 * SECOND, collect="arrival"
    ),
    "tumbling, running, emit": Arrival(kind="aligned", size=TEN, slide=TEN, delay=SECOND, late="emit", running=True),
    "sliding, running, lateness": Arrival(
        kind="aligned", size=TEN, slide=3 * SECOND, lateness=5 * SECOND, running=True
    ),
    "sessions, running": Arrival(kind="session", size=3 * SECOND, delay=3 * SECOND, running=True),
    "tumbling, per key, emit": Arrival(
        kind="aligned", size=TEN, slide=TEN, delay=2 * SECOND, late="emit", per_key=True
    ),
    "sliding, per key, reopen": Arrival(
        kind="aligned", size=TEN, slide=4 * SECOND, lateness=SECOND, late="reopen", per_key=True
    ),
    "sliding, per key, early": Arrival(
        kind="aligned", size=TEN, slide=5 * SECOND, delay=SECOND, early=3 * SECOND, per_key=True
    ),
    "sliding, per key, running": Arrival(kind="aligned", size=TEN, slide=4 * SECOND, running=True, per_key=True),
    "tumbling, per key, collect": Arrival(kind="aligned", size=TEN, slide=TEN, collect="time", per_key=True),
    "sessions, per key, emit": Arrival(
        kind="session", size=3 * SECOND, delay=2 * SECOND, lateness=SECOND, late="emit", per_key=True
    ),
    "tumbling, per key with wall time, emit": Arrival(
        kind="aligned", size=TEN, slide=TEN, delay=2 * SECOND, late="emit", per_key=True, goes_on=True
    ),
    "sliding, per key with wall time, late by watermark, collect": Arrival(
        kind="aligned",
        size=TEN,
        slide=4 * SECOND,
        lateness=SECOND,
        delay=3 * SECOND,
        per_key=True,
        goes_on=True,
        late_by="watermark",
        collect="time",
    ),
    "sessions, per key with wall time, late by watermark, emit": Arrival(
        kind="session", size=6 * SECOND, delay=4 * SECOND, late="emit", per_key=True, goes_on=True, late_by="watermark"
    ),
    "sessions, a longest length": Arrival(kind="ordered", size=4 * SECOND, delay=4 * SECOND, most=7 * SECOND),
    "sessions, a row ends them, emit": Arrival(kind="ordered", size=3 * SECOND, delay=2 * SECOND, late="emit", ends=4),
    "sessions, both, lateness, early, collect": Arrival(
        kind="ordered",
        size=4 * SECOND,
        delay=SECOND,
        lateness=2 * SECOND,
        early=2 * SECOND,
        collect="time",
        most=6 * SECOND,
        ends=5,
    ),
    "sessions, both, running": Arrival(
        kind="ordered", size=4 * SECOND, delay=3 * SECOND, running=True, most=9 * SECOND, ends=7
    ),
    "sessions, both, per key, emit": Arrival(
        kind="ordered", size=3 * SECOND, delay=2 * SECOND, late="emit", per_key=True, most=8 * SECOND, ends=5
    ),
    "sessions, both, per key with wall time, late by watermark": Arrival(
        kind="ordered",
        size=4 * SECOND,
        delay=3 * SECOND,
        late="emit",
        per_key=True,
        goes_on=True,
        late_by="watermark",
        most=8 * SECOND,
        ends=5,
    ),
    "tumbling from the first row, lateness, emit": Arrival(
        kind="first row", size=5 * SECOND, delay=2 * SECOND, lateness=SECOND, late="emit"
    ),
    "tumbling from the first row, early, collect": Arrival(
        kind="first row", size=7 * SECOND, delay=3 * SECOND, early=2 * SECOND, collect="time"
    ),
    "tumbling from the first row, per key, running": Arrival(
        kind="first row", size=6 * SECOND, delay=SECOND, per_key=True, running=True
    ),
    "sessions, per key, collect": Arrival(
        kind="session", size=3 * SECOND, delay=4 * SECOND, collect="arrival", per_key=True
    ),
}


def window_of(rules: Arrival) -> Window:
    match rules.kind:
        case "count":
            return Count(rules.size, rules.slide)
        case "every":
            if rules.timeout is not None:
                return Count(rules.size, timeout=length(rules.timeout))
            return Global.every(rules.size, ends_with=None if rules.ends is None else F.col("id") % rules.ends == 0)
        case "sum":
            return Global.when(F.sum(F.col("id") % 10) > rules.size)
        case "when":
            return Global.when(F.col("id") % rules.size == 0)
        case "changes":
            ends_with = None if rules.ends is None else F.col("id") % rules.ends == 0
            return Global.changes(F.floor(F.col("id") / rules.size) % 3, ends_with=ends_with)
        case "session":
            return Session(length(rules.size))
        case "first row":
            return Tumbling(length(rules.size), starts="first row")
        case "ordered":
            return Session(
                length(rules.size),
                max_length=None if rules.most is None else length(rules.most),
                ends_with=None if rules.ends is None else F.col("id") % rules.ends == 0,
            )
    if rules.size == rules.slide:
        return Tumbling(length(rules.size))
    return Sliding(length(rules.size), length(rules.slide), gaps=True)


def panes_of(rules: Arrival, rows: DataFrame) -> DataFrame:
    """The query with the columns that ``counted`` reads."""
    windows = windowed(
        rows,
        window_of(rules),
        by="k",
        time=None if rules.is_numbered and rules.collect != "time" else "ts",
        allowed_lateness=length(rules.lateness),
        early=Early(each_row=True) if rules.running else None if rules.early is None else Early(length(rules.early)),
        late=rules.late,
        clock=PerKey(rules.goes_on, rules.late_by) if rules.per_key else Watermark(),
    )
    if rules.collect is None:
        # One list, for any slices in which the rows were stored.
        # The texts are long enough for a record per distinct text.
        texts = F.expr("count(DISTINCT repeat(id % 3, 1200)) FILTER (WHERE id >= 0)").alias("texts")
        panes = windows.agg(F.sort_array(F.collect_list("id")).alias("ids"), F.sum("id").alias("total"), texts)
        panes = panes.where(
            "total IS NULL OR total = aggregate(ids, 0L, (a, b) -> a + b) AND "
            "texts = size(array_distinct(transform(filter(ids, i -> i >= 0), i -> i % 3)))"
        ).drop("total", "texts")
    else:
        panes = windows.collect(rules.collect).withColumn("ids", F.expr("transform(rows, r -> r.id)"))
    late = F.array("late_row.id") if rules.late == "emit" else F.array().cast("array<bigint>")
    return panes.select("k", *bounds(rules), "pane.firing", "pane.seq", F.coalesce("ids", late).alias("ids"))


def bounds(rules: Arrival) -> list[Any]:
    if rules.is_numbered:
        return [F.col("window.start").alias("start"), F.col("window.end").alias("end")]
    return list(bounds_of("window"))


def counted(panes: list[Any]) -> Counter[Shown]:
    return Counter(Shown(r.k, r.start, r.end, r.firing, r.seq, tuple(r.ids)) for r in panes)


def difference(got: Counter[Any], wanted: Counter[Any]) -> str:
    missing, more = list((wanted - got).elements()), list((got - wanted).elements())
    return f"{len(missing)} are missing, such as {missing[:4]}; {len(more)} are not expected, such as {more[:4]}"


def batch_of(rules: Arrival, chance: random.Random, number: int, first_id: int) -> list[Row]:
    """Rows of some keys. The stream's clock and each key's clock advance with the number of the batch."""
    now = 100 * SECOND + number * 4 * SECOND
    rows = []
    for key in range(KEYS):
        if chance.random() < 0.4:
            continue
        for _ in range(chance.randint(1, 6)):
            # The key decides if its rows are late, in order, or have equal times.
            behind = chance.choice([0, 0, 1, 2, 3, 5, 8, 14 + key % 7]) * SECOND
            odd = chance.choice([0, 0, 0, chance.randrange(SECOND)])
            rows.append((f"k{key}" if key else None, now - behind + odd // 1000 * 1000))
    chance.shuffle(rows)
    return [Row(first_id + i, key, time) for i, (key, time) in enumerate(rows)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_rows_fire_and_close_as_in_the_model(name: str, spark: SparkSession, tmp_path: Path) -> None:
    rules = CASES[name]
    chance = random.Random(f"{SEED} {name}")
    feed = Feed(tmp_path / "in", "k string, id bigint")
    delay = None if rules.is_numbered else f"{rules.delay // 1000} milliseconds"
    model = ArrivalModel(rules, OrderedPanes if rules.kind in ("ordered", "first row") else KeyPanes)

    def started() -> ClockedQuery:
        stream = spark.readStream.schema(feed.ddl).option("maxFilesPerTrigger", 1).parquet(str(feed.folder))
        timed = stream.withColumn("ts", F.timestamp_micros("t"))
        rows = timed if delay is None else timed.withWatermark("ts", delay)
        return ClockedQuery(panes_of(rules, rows), checkpoint=tmp_path / "checkpoint", start_ms=wall // 1000)

    wall = 0
    query = started()
    ids = 0
    closes: Counter[Shown] = Counter()
    try:
        for number in range(BATCHES):
            rows = batch_of(rules, chance, number, ids)
            ids += len(rows)
            passes = chance.choice([0, 1, 2, 4, 9]) * SECOND if rules.follows_wall else 0
            wall += passes
            if passes and number not in (3, 6):
                query.advance(length(passes))
                got, wanted = counted(query.settle()), Counter(model.settle([], wall))
                assert got == wanted, f"{name}, before batch {number}: {difference(got, wanted)}"
                closes += Counter({firing: n for firing, n in got.items() if firing.firing == "close"})
            feed.write([(row.time, row.key, row.id) for row in rows])
            # While a query is stopped, time may pass and rows may arrive.
            if number in (3, 6):
                query.stop()
                query = started()
            got, wanted = counted(query.settle()), Counter(model.settle(rows, wall))
            assert got == wanted, f"{name}, batch {number}: {difference(got, wanted)}"
            closes += Counter({firing: n for firing, n in got.items() if firing.firing == "close"})
        assert closes, "a case in which nothing closes"
        if rules.late != "drop" or rules.per_key:
            assert rules.is_numbered or model.late > 0, "a case without late rows"
        open_now = Counter((k, start, ids) for k, start, _, ids in model.open)
        read = read_panes(tmp_path / "checkpoint", spark=spark)
        if rules.collect is not None:
            read = read.withColumn("ids", F.expr("transform(rows, r -> r.id)"))
        read_open = Counter((r.k, r.start, tuple(r.ids)) for r in read.select("k", *bounds(rules), "ids").collect())
        assert read_open == open_now, f"{name}, open: {difference(read_open, open_now)}"
    finally:
        query.stop()
    if rules.timeout is not None:
        wall += 1000 * SECOND
        query = started()
        try:
            assert counted(query.settle()) == Counter(model.settle([], wall))
            assert model.open == []
            last = query.progress[-1]["stateOperators"][0]
            assert (last["customMetrics"]["panesOpen"], int(last["numRowsTotal"])) == (0, len(model.keys))
        finally:
            query.stop()
    elif rules.is_numbered:
        files = sorted(feed.folder.glob("*.parquet"))
        # Files are read one at a time: Spark reads the longest of several files first.
        rows_of = [spark.read.schema(feed.ddl).parquet(str(file)) for file in files]
        batch = reduce(DataFrame.union, rows_of).withColumn("ts", F.timestamp_micros("t"))
        got = counted(panes_of(rules, batch).collect())
        wanted = Counter({firing._replace(number=0): n for firing, n in closes.items()})
        assert got == wanted, f"{name}, as a batch: {difference(got, wanted)}"
    elif not rules.per_key:
        feed.write([(4_000_000_000 * SECOND, None, -1)])
        query = started()
        try:
            query.settle()
            last = query.progress[-1]["stateOperators"][0]
            # The records of the last row: its panes, its key and the key's timer.
            assert last["customMetrics"]["panesOpen"] <= 4
            assert int(last["numRowsTotal"]) <= 2 + last["customMetrics"]["panesOpen"]
        finally:
            query.stop()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name, rules in CASES.items() if rules.kind in ("ordered", "first row")])
def test_a_batch_has_the_windows_of_its_rows_in_order(name: str, spark: SparkSession, tmp_path: Path) -> None:
    rules = CASES[name]
    chance = random.Random(f"{SEED} {name}")
    feed = Feed(tmp_path / "in", "k string, id bigint")
    rows = [row for number in range(BATCHES) for row in batch_of(rules, chance, number, 1000 * number)]
    feed.write([(row.time, row.key, row.id) for row in rows])
    # A query with all rows in its first batch, without an earlier clock.
    model = ArrivalModel(replace(rules, per_key=False, goes_on=False, late_by="panes"), OrderedPanes)
    closed = [firing for firing in model.settle(rows) if firing.firing == "close"]
    wanted = Counter(firing._replace(number=0) for firing in closed)
    wanted += Counter(Shown(key, start, end, "close", 0, ids) for key, start, end, ids in model.open)
    got = counted(panes_of(rules, feed.batch(spark)).collect())
    assert got == wanted, f"{name}: {difference(got, wanted)}"
