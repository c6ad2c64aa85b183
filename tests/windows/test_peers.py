"""Windows compared with those of other systems: DuckDB over batches, Flink SQL over streams with late rows."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Session, Sliding, Tumbling, windowed
from mullion.windows import Window as Spec
from tests.support.models.model import SECOND, Contract, CumulativeRules, Model, Panes, Row, Rules
from tests.support.models.session_model import SessionRules, Sessions
from tests.support.peers import Window, ask, window_of
from tests.support.seeds import SEED

pytestmark = pytest.mark.slow

KEYS = ("a", "b", "c")


def random_rows(chance: random.Random, count: int, jitter: int, step: int) -> list[tuple[int, str, int]]:
    """Rows (id, key, seconds) whose times increase by at most ``step``, each up to ``jitter`` behind."""
    time, rows = 10_000, []
    for number in range(count):
        time += chance.randrange(step + 1)
        rows.append((number, chance.choice(KEYS), time - chance.randrange(jitter + 1)))
    return rows


def test_batches_have_the_windows_of_duckdb(spark: SparkSession) -> None:
    chance = random.Random(SEED)
    specs: list[tuple[dict[str, Any], Spec]] = []
    for _ in range(4):
        size, gap = chance.randrange(2, 60), chance.randrange(1, 20)
        slide = chance.randrange(1, size + 1)
        specs += [
            ({"kind": "tumbling", "size": size, "slide": size}, Tumbling(f"{size} seconds")),
            ({"kind": "sliding", "size": size, "slide": slide}, Sliding(f"{size} seconds", f"{slide} seconds")),
            ({"kind": "session", "gap": gap}, Session(f"{gap} seconds")),
        ]
    cases = [{**case, "rows": random_rows(chance, 300, 30, chance.randrange(1, 12))} for case, _ in specs]
    for case, (_, spec), expected in zip(cases, specs, ask("duckdb", "duckdb_windows.py", cases), strict=True):
        rows = spark.createDataFrame(case["rows"], "id bigint, k string, s bigint")
        panes = windowed(rows.withColumn("ts", F.timestamp_seconds("s")), spec, by="k", time="ts").agg(
            F.collect_list("id").alias("ids")
        )
        seconds = [F.unix_seconds(f"window.{bound}").alias(bound) for bound in ("start", "end")]
        closed = [window_of(row.k, row.start, row.end, row.ids) for row in panes.select("k", *seconds, "ids").collect()]
        assert sorted(closed) == expected, f"seed {SEED}: {spec}"


def closes_of(rules: Contract, rows: list[tuple[int, str, int]]) -> list[Window]:
    """The closes of the reference model, with which ``test_differential`` compares the operator.

    The clock moves with each row, as in Flink: a batch without rows follows each batch of one row.
    """
    model: Model = Sessions(rules) if isinstance(rules, SessionRules) else Panes(_as_rules(rules))
    closed: list[Window] = []

    def take(batch_of: list[Row]) -> None:
        for batch in (model.batch(batch_of, 0), model.batch([], 0, rows_came=False)):
            for firing in batch.firings:
                assert firing.start is not None
                assert firing.end is not None
                bounds = firing.start // SECOND, firing.end // SECOND
                closed.append(window_of(str(firing.key), *bounds, firing.ids))

    for number, key, time in rows:
        take([Row(number, key, time * SECOND)])
    model.clock = 2**62
    take([])
    return sorted(closed)


def _as_rules(rules: Contract) -> Rules:
    assert isinstance(rules, Rules)
    return rules


def test_streams_with_late_rows_have_the_windows_of_flink() -> None:
    chance = random.Random(SEED)
    pairs: list[tuple[dict[str, Any], Contract]] = []
    for delay in (0, 7):
        step = chance.randrange(2, 9)
        size, slide, gap = step * chance.randrange(2, 7), chance.randrange(2, 12), chance.randrange(2, 12)
        us, lag = SECOND, delay * SECOND
        pairs += [
            ({"kind": "tumbling", "size": size}, Rules(size=size * us, slide=size * us, delay=lag)),
            ({"kind": "sliding", "size": 3 * slide, "slide": slide}, Rules(3 * slide * us, slide * us, delay=lag)),
            ({"kind": "cumulate", "size": size, "slide": step}, CumulativeRules(size * us, step * us, delay=lag)),
            ({"kind": "session", "gap": gap}, SessionRules(gap=gap * us, delay=lag)),
        ]
        for case, _ in pairs[-4:]:
            case.update(delay=delay, rows=random_rows(chance, 400, 40, 6))
    answers = ask("pyflink", "flink_windows.py", [case for case, _ in pairs])
    for (case, rules), windows in zip(pairs, answers, strict=True):
        counted = sum(window.rows for window in windows)
        expected = closes_of(rules, case["rows"])
        assert windows == expected, f"seed {SEED}: {rules}"
        # Some rows are late, and most are not.
        if case["kind"] in ("tumbling", "session"):
            assert len(case["rows"]) // 3 < counted < len(case["rows"]), rules
