"""Random programs with Python aggregates against models in plain Python: windows and options, merges and restarts.

A program has a window, options, a number of rows that wait, and a restart, all drawn from the seed. Each of its keys is
another case. The models hold the rows of panes in lists, and share no code with the aggregates or the operator.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from mullion import Count, Early, Global, PerKey, PythonAggregate, Session, Sliding, Watermark, windowed
from mullion.windows import Late, Window
from tests.support.cache_sizes import draw_size
from tests.support.checked import Case, CheckedQuery, bounds_of, length, settings
from tests.support.clocked import ClockedQuery
from tests.support.functions.python_aggregates import WAITING, Ids
from tests.support.models.arrival_model import Arrival, ArrivalModel, Shown
from tests.support.models.custom_model import CustomRules
from tests.support.models.model import SECOND, AroundRules, CumulativeRules, Row, Rules
from tests.support.models.random_steps import steps
from tests.support.models.session_model import SessionRules
from tests.support.seeds import SEED
from tests.support.streams import Feed

PROGRAMS = 32
KEYS = 24
LATE: tuple[Late, ...] = ("drop", "emit", "reopen", "reopen each")


class Figures(PythonAggregate, returns="array<bigint>"):
    """The number of rows, their sum and the sum of their squares, row by row, in an accumulator that never changes."""

    def create(self) -> tuple[int, int, int]:
        return 0, 0, 0

    def add_row(self, figures: tuple[int, int, int], n: int) -> tuple[int, int, int]:
        count, total, squares = figures
        return count + 1, total + n, squares + n * n

    def merge(self, a: tuple[int, int, int], b: tuple[int, int, int]) -> tuple[int, int, int]:
        return a[0] + b[0], a[1] + b[1], a[2] + b[2]


class Largest(PythonAggregate, returns="array<bigint>"):
    """The largest ids of three classes, in a dict that ``merge`` changes."""

    def create(self) -> dict[int, int]:
        return {}

    def add(self, largest: dict[int, int], rows: pa.RecordBatch) -> dict[int, int]:
        for n in rows["id"].to_pylist():
            largest[n % 3] = max(n, largest.get(n % 3, n))
        return largest

    def merge(self, a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
        for key, n in b.items():
            a[key] = max(n, a.get(key, n))
        return a

    def finish(self, largest: dict[int, int]) -> list[int]:
        return sorted(largest.values())


class Histogram(PythonAggregate, returns="array<bigint>"):
    """The number of ids of each class, in a NumPy array that all methods change."""

    classes: int

    def create(self) -> np.ndarray[Any, Any]:
        return np.zeros(self.classes, dtype="int64")

    def add(self, counts: np.ndarray[Any, Any], rows: pa.RecordBatch) -> np.ndarray[Any, Any]:
        counts += np.bincount(rows["id"].to_numpy() % self.classes, minlength=self.classes)
        return counts

    def merge(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        a += b
        return a

    def finish(self, counts: np.ndarray[Any, Any]) -> list[int]:
        counts[0] += 1000  # A firing must not change the accumulator.
        return [int(n) for n in counts]


def results_of(ids: Sequence[int]) -> tuple[list[int], list[int], list[int], list[int]]:
    """The results of the four aggregates for rows with these ids."""
    largest = sorted(max(i for i in ids if i % 3 == of) for of in {i % 3 for i in ids})
    counts = [sum(1 for i in ids if i % 4 == of) + (1000 if of == 0 else 0) for of in range(4)]
    return sorted(ids), [len(ids), sum(ids), sum(i * i for i in ids)], largest, counts


def aggregates() -> dict[str, Column]:
    return {
        "ids": Ids("id").column(),
        "figures": Figures("id").column(),
        "largest": Largest("id").column(),
        "counts": Histogram("id", classes=4).column(),
    }


@dataclass(frozen=True)
class Program(Case):
    """A query of the model with Python aggregates. With ``distinct``, each row comes twice or more."""

    distinct: bool = False
    has_text: ClassVar[bool] = False

    def _more_options(self) -> dict[str, Any]:
        return {"dedupe_by": "id"} if self.distinct else {}

    def _aggregates(self) -> dict[str, Column]:
        return aggregates()

    def results(self, ids: Sequence[int]) -> tuple[Any, ...]:
        return results_of(sorted(set(ids)) if self.distinct else ids)

    def nothing_made(self) -> tuple[None, ...]:
        return None, None, None, None


def drawn_rules(chance: random.Random) -> Rules | SessionRules | AroundRules | CustomRules:
    """A window with options, of those that go together."""
    size = chance.choice([6, 10, 12]) * SECOND
    contract: dict[str, Any] = {
        "delay": chance.choice([0, 1, 3]) * SECOND,
        "lateness": chance.choice([0, 0, 2, 9]) * SECOND,
        "late": chance.choice(LATE[:3]),
    }
    fires = chance.choice(["closes", "closes", "early", "early", "count", "on time"])
    if fires == "on time" and not contract["lateness"]:
        # The pane's end is its close.
        fires = "closes"
    if fires == "early":
        contract |= {"early": chance.choice([2, 5]) * SECOND, "unchanged": chance.random() < 0.3}
    if fires == "count":
        contract |= {"count": chance.choice([2, 3])}
    if fires == "on time":
        contract |= {"on_time": True}
    if fires != "closes" and chance.random() < 0.4 and not contract.get("unchanged"):
        contract |= {"accumulate": False}
    match chance.randrange(7):
        case 0:
            return Rules(size, size, offset=chance.choice([0, 1, -3]) * SECOND, **contract)
        case 1 | 2:
            slide = chance.choice([2, 3, 4, 5]) * SECOND
            return Rules(size, slide, empty=contract["late"] != "reopen" and chance.random() < 0.2, **contract)
        case 3 | 4:
            gaps = chance.choice([(), (4 * SECOND, 2 * SECOND, 9 * SECOND)])
            return SessionRules(gap=chance.choice([3, 5]) * SECOND, gaps=gaps, **contract)
        case 5:
            return CumulativeRules(12 * SECOND, chance.choice([2, 3, 4]) * SECOND, **contract)
        case _:
            del contract["late"]
            return AroundRules(
                before=chance.choice([0, 3, 6]) * SECOND, after=2 * SECOND, **{**contract, "accumulate": True}
            )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", range(PROGRAMS))
def test_a_random_program_has_the_results_of_the_model_and_leaves_nothing(
    number: int, spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(f"{SEED} python aggregates {number}")
    rules = drawn_rules(chance)
    waiting = chance.choice([1, 2, 3, 64])
    case = Program(
        f"program {number}, {rules}, {waiting} waiting rows",
        rules,
        restart_after=chance.choice([None, 2, 4]),
        distinct=rules.early is None and rules.count is None and not rules.empty and chance.random() < 0.4,
    )
    size = draw_size(spark, chance)
    with settings(spark, {WAITING: str(waiting)}), CheckedQuery(spark, tmp_path, case) as query:
        for at, step in enumerate(steps(chance, rules, case.restart_after, KEYS)):
            query.context = f"{case.name}, {size}, step {at}, MULLION_SEED={SEED}"
            again = [row for row in step.rows or () if case.distinct and chance.random() < 0.5]
            query.perform(replace(step, rows=[*(step.rows or ()), *again]) if again else step)
        query.finish()


# --- Windows that process rows one by one -----------------------------------------------------------------------------


ARRIVING = {
    "count": Arrival(kind="count", size=5, slide=2),
    "count, each row": Arrival(kind="count", size=4, slide=3, running=True),
    "global": Arrival(kind="every", size=4),
    "sliding, per key, reopen": Arrival(
        kind="aligned", size=10 * SECOND, slide=4 * SECOND, lateness=SECOND, late="reopen", per_key=True
    ),
    "sliding, per key, early": Arrival(
        kind="aligned", size=10 * SECOND, slide=5 * SECOND, delay=SECOND, early=3 * SECOND, per_key=True
    ),
    "sessions, per key, emit": Arrival(
        kind="session", size=3 * SECOND, delay=2 * SECOND, lateness=SECOND, late="emit", per_key=True
    ),
    "sessions, each row": Arrival(kind="session", size=3 * SECOND, delay=3 * SECOND, running=True),
    "sliding, each row, per key": Arrival(
        kind="aligned", size=10 * SECOND, slide=4 * SECOND, running=True, per_key=True
    ),
}


def window_of(rules: Arrival) -> Window:
    match rules.kind:
        case "count":
            return Count(rules.size, rules.slide)
        case "every":
            return Global.every(rules.size)
        case "session":
            return Session(length(rules.size))
        case _:
            return Sliding(length(rules.size), length(rules.slide))


Arrived = tuple[str | None, int | None, int | None, str, int | None, str]


def expected(firings: Sequence[Shown]) -> Counter[Arrived]:
    return Counter(
        (*firing[:5], str(firing.ids[0] if firing.firing == "late" else results_of(firing.ids))) for firing in firings
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ARRIVING)
def test_rows_one_by_one_have_the_results_of_the_model(name: str, spark: SparkSession, tmp_path: Path) -> None:
    rules = ARRIVING[name]
    chance = random.Random(f"{SEED} python aggregates {name}")
    feed = Feed(tmp_path / "in", "k string, id bigint")
    model = ArrivalModel(rules)

    def started() -> ClockedQuery:
        stream = spark.readStream.schema(feed.ddl).option("maxFilesPerTrigger", 1).parquet(str(feed.folder))
        timed = stream.withColumn("ts", F.timestamp_micros("t"))
        panes = windowed(
            timed if rules.is_numbered else timed.withWatermark("ts", f"{rules.delay // 1000} milliseconds"),
            window_of(rules),
            by="k",
            time=None if rules.is_numbered else "ts",
            allowed_lateness=length(rules.lateness),
            early=Early(each_row=True)
            if rules.running
            else None
            if rules.early is None
            else Early(length(rules.early)),
            late=rules.late,
            clock=PerKey() if rules.per_key else Watermark(),
        ).agg(*(column.alias(result) for result, column in aggregates().items()))
        bounds = [F.col("window.start"), F.col("window.end")] if rules.is_numbered else [*bounds_of("window")]
        late = F.col("late_row.id") if rules.late == "emit" else F.lit(None)
        results = F.struct(*aggregates()).alias("results")
        chosen = panes.select("k", *bounds, "pane.firing", "pane.seq", results, late.alias("late_id"))
        return ClockedQuery(chosen, checkpoint=tmp_path / "checkpoint")

    def fired(query: ClockedQuery) -> Counter[Arrived]:
        return Counter(
            (*row[:5], str(row.late_id if row.firing == "late" else tuple(row.results))) for row in query.settle()
        )

    front, ids = 100 * SECOND, 0
    with settings(spark, {WAITING: str(chance.choice([1, 2, 64]))}):
        query = started()
        try:
            for number in range(7):
                keys = [None, *(f"k{i}" for i in range(KEYS))]
                rows = [
                    Row(0, key, front - chance.choice([0, 0, 1, 2, 5, 14]) * SECOND)
                    for key in keys
                    for _ in range(chance.choice([0, 0, 1, 2, 6]))
                ]
                chance.shuffle(rows)
                if number == 6:
                    # The clock of each key passes all its panes.
                    rows = [Row(0, key, front + 1000 * SECOND) for key in keys]
                rows = [row._replace(id=ids + i) for i, row in enumerate(rows)]
                ids += len(rows)
                feed.write([(row.time, row.key, row.id) for row in rows])
                if number == 3:
                    query.stop()
                    query = started()
                got, wanted = fired(query), expected(model.settle(rows))
                assert got == wanted, (
                    f"{name}, MULLION_SEED={SEED}, batch {number}: missing {list((wanted - got).elements())[:3]}, "
                    f"not expected {list((got - wanted).elements())[:3]}"
                )
                front += chance.choice([0, 1, 4, 11]) * SECOND
            last = query.progress[-1]["stateOperators"][0]
            assert last["customMetrics"]["panesOpen"] == len(model.open)
            if not rules.is_numbered:
                # Only the panes of each key's last row are open.
                assert all(ids_ and min(ids_) >= ids - len(keys) for _, _, _, ids_ in model.open)
        finally:
            query.stop()
