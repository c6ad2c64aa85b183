"""Random results of one window and of several windows in one query, against Spark's ``groupBy``, which shares no code
with Mullion.

A case is a column, and a query has thirty. ``MULLION_SEED`` repeats a failed run, and ``MULLION_TEST_ROUNDS`` is the
number of rounds.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mullion import Early, Session, Sliding, Tumbling, read_panes, together, windowed
from tests.support.cache_sizes import draw_size
from tests.support.checked import settings
from tests.support.clocked import ClockedQuery
from tests.support.models.random_results import COLUMNS, KEYS, Results, random_rows
from tests.support.seeds import SEED
from tests.support.streams import Feed

ROUNDS = int(os.environ.get("MULLION_TEST_ROUNDS", "1"))
NAMES = [
    *("n", "N", "v", "V", "sum(v)", "SUM(v)", "count(1)", "sum(v) FILTER (WHERE b)", "a.b", "a`b", "kk", "Kk", "ts"),
    *("value", "slice", "start", "end", "firing", "made", "computed", "key_0", "result_0", "0", "ä", "Ä", "x y"),
]
"""Names of results: some differ only in case, and some have other meanings."""

Rows: TypeAlias = list[tuple[Any, ...]]


@dataclass
class Asked:
    """A window with keys and results, and its equivalent of Spark."""

    window: Tumbling | Sliding | Session
    sparks: Column
    keys: list[str]
    results: dict[str, Column] = field(default_factory=dict)

    def ours(self, rows: DataFrame, **options: Any) -> DataFrame:
        return windowed(rows, self.window, by=[KEYS[key]() for key in self.keys], time="ts", **options).agg(
            *self._named()
        )

    def expected(self, rows: DataFrame) -> DataFrame:
        window = self.sparks
        if isinstance(self.window, Session):
            # Spark applies DISTINCT before it merges sessions and counts values twice, so sessions are computed first.
            key_columns = [KEYS[key]() for key in self.keys]
            keys = [
                (F.col(key) if isinstance(key, str) else key).alias(f"key {at}") for at, key in enumerate(key_columns)
            ]
            row = F.struct(*(F.col(f"`{name}`") for name in rows.columns))
            sessions = rows.groupBy(*keys, window.alias("session")).agg(F.collect_list(row).alias("rows"))
            rows = sessions.select("session", F.explode("rows").alias("row")).select("row.*", "session")
            window = F.col("session")
        return rows.groupBy(*(KEYS[key]() for key in self.keys), window.alias("window")).agg(*self._named())

    def _named(self) -> list[Column]:
        return [column.alias(name) for name, column in self.results.items()]

    def __str__(self) -> str:
        return f"{self.window} by {self.keys}"


def random_window(rng: random.Random) -> tuple[Tumbling | Sliding | Session, Column]:
    """Equal windows of Mullion and Spark. Distances between rows never equal the gap of sessions."""

    def ms(length: int) -> timedelta:
        return timedelta(milliseconds=length)

    slide, size = sorted(rng.randrange(1, 13) * 1000 for _ in range(2))
    offset = rng.choice([0, 0, 500])
    kind = rng.choice(["tumbling", "sliding", "session"])
    if kind == "session":
        gap = rng.randrange(200, 900) * 1000 + 500
        return Session(timedelta(microseconds=gap)), F.session_window("ts", f"{gap} microseconds")
    if kind == "tumbling" or size == slide:
        of_spark = F.window("ts", f"{size} milliseconds", startTime=f"{offset} milliseconds")
        return Tumbling(ms(size), ms(offset)), of_spark
    of_spark = F.window("ts", f"{size} milliseconds", f"{slide} milliseconds", f"{offset} milliseconds")
    return Sliding(ms(size), ms(slide), ms(offset), gaps=True), of_spark


def ask(rng: random.Random, rows: DataFrame, results: int, types: dict[str, str]) -> Asked:
    """A window with this many results. ``types`` has the names in other windows: each name has one type."""
    window, of_spark = random_window(rng)
    query = Asked(window, of_spark, rng.sample(list(KEYS), rng.choice([0, 1, 1, 2, 2, 3])))
    make = Results(rng, query.keys)
    query.results = {f"c{number}": make.one() for number in range(results)}
    fields = query.expected(rows).schema.fields[-results:]
    case_matters = rows.sparkSession.conf.get("spark.sql.caseSensitive") == "true"

    def folded(name: str) -> str:
        return name if case_matters else name.lower()

    taken = {folded(key) for key in KEYS}
    named: dict[str, Column] = {}
    for column, kind in zip(query.results.values(), (of.dataType.simpleString() for of in fields), strict=True):
        # A query rejects two names that differ only in case.
        free = [name for name in NAMES if folded(name) not in taken and types.get(name, kind) == kind]
        free = [name for name in free if all(folded(other) != folded(name) or other == name for other in types)]
        name = rng.choice(free) if free and rng.random() < 0.7 else f"{len(named)} {kind}"
        types[name] = kind
        taken.add(folded(name))
        named[name] = column
    query.results = named
    return query


def values_of(panes: DataFrame, rows: Iterable[Row], query: Asked) -> Rows:
    """Keys, start, end and results of panes, by the positions of their columns."""
    keys, window, results = query.keys, panes.columns.index("window"), list(query.results)
    of_keys, of_results = ([panes.columns.index(name) for name in names] for names in (keys, results))
    epoch, us = datetime.fromtimestamp(0), timedelta(microseconds=1)
    return [
        (*(row[i] for i in of_keys), *((end - epoch) // us for end in row[window]), *(row[i] for i in of_results))
        for row in rows
    ]


def same(ours: Rows, expected: Rows, query: Asked, context: str) -> None:
    """Fails with the result that differs."""
    keys = len(query.keys) + 2

    def compare(what: object, *places: int) -> None:
        is_, should = (
            Counter(repr([*row[:keys], *(row[keys + place] for place in places)]) for row in rows)
            for rows in (ours, expected)
        )
        more, less = list((is_ - should).items())[:3], list((should - is_).items())[:3]
        assert is_ == should, f"{context}, {query}: {what} gives {more} for {less}"

    compare("which panes there are")
    for place, (name, column) in enumerate(query.results.items()):
        compare(f"{name!r}, {column}", place)
    compare("all", *range(len(query.results)))


@pytest.mark.parametrize("number", range(ROUNDS))
def test_random_results_are_those_of_a_group_by(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)
    seeded = SEED
    print(f"MULLION_SEED={seeded}")
    rng = random.Random(f"{seeded} {number}")
    chosen = {
        "spark.sql.caseSensitive": rng.choice(["true", "false"]),
        "spark.sql.ansi.enabled": rng.choice(["true", "false"]),
        "spark.sql.codegen.wholeStage": rng.choice(["true", "true", "false"]),
    }
    early = rng.choice([None, None, Early(count=7)])
    size = draw_size(spark, rng)
    context = f"MULLION_SEED={seeded}, round {number}, {chosen}, {early}, {size}"
    feed = Feed(tmp_path / "in", COLUMNS)
    batches = [random_rows(rng, count, 1000 * at, (0, 15_000)) for at, count in enumerate((40, 120))]
    with settings(spark, chosen):
        feed.write(batches[0])
        alone = ask(rng, feed.batch(spark), 30, {})
        types: dict[str, str] = {}
        several = {name: ask(rng, feed.batch(spark), 10, types) for name in ("a", "B", "c1")}

        def of_one(rows: DataFrame) -> DataFrame:
            return alone.ours(rows, allowed_lateness="1 hour", early=early)

        def of_several(rows: DataFrame) -> DataFrame:
            options = {"allowed_lateness": "1 hour", "early": early}
            return together(**{name: query.ours(rows, **options) for name, query in several.items()})

        ways = {"alone": of_one, "together": of_several}
        outputs: list[tuple[str, str, DataFrame, list[Row]]] = []
        for way, of in ways.items():
            with ClockedQuery(of(feed.stream(spark)), checkpoint=tmp_path / way) as query:
                query.settle()
        feed.write(batches[1])
        queries = {way: ClockedQuery(of(feed.stream(spark)), checkpoint=tmp_path / way) for way, of in ways.items()}
        try:
            for way, query in queries.items():
                query.settle()
                read = read_panes(tmp_path / way, panes=ways[way](feed.stream(spark)))
                outputs.append((way, "open panes", read, read.collect()))
            feed.flood()
            for way, query in queries.items():
                closed = [row for row in query.settle() if row.pane.firing == "close"]
                outputs.append((way, "closed", ways[way](feed.stream(spark)), closed))
        finally:
            for query in queries.values():
                query.stop()
        for way, of in ways.items():
            panes = of(feed.batch(spark))
            outputs.append((way, "of a batch", panes, panes.collect()))

        for name, query_ in {"": alone, **several}.items():
            grouped = query_.expected(feed.batch(spark))
            expected = values_of(grouped, grouped.collect(), query_)
            for way, when, panes, rows in outputs:
                if (way == "alone") == (name == ""):
                    mine = [row for row in rows if not name or row.window_name == name]
                    same(values_of(panes, mine, query_), expected, query_, f"{context}, {way} {name}, {when}")
