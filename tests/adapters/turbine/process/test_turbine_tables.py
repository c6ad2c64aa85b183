"""A callback of the table form is called once a tick with all panes, or once a tick and shard."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from mullion import turbine
from mullion.errors import FunctionError, InvalidArgumentError
from mullion.turbine import aggregates as agg
from mullion.turbine import testing
from mullion.turbine import windowing as win

_numbers = itertools.count()


def app_with(spark: SparkSession, partitions: int) -> turbine.App:
    """An App whose session has so many shuffle partitions."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    return turbine.App(f"tables-{next(_numbers)}", spark=session)


def shares(state: Any, panes: pa.Table) -> pa.RecordBatch:
    """Each pane with its part of the total of all panes that it came with."""
    values = panes["value"].cast(pa.float64())
    shared = panes.append_column("share", pc.divide(values, pc.sum(values)))
    return shared.combine_chunks().to_batches()[0]


REGIONS = [f"region {number}" for number in range(8)]


def _sales(ts: int) -> list[dict[str, Any]]:
    return [{"region": region, "amount": 1 + number, "ts": ts} for number, region in enumerate(REGIONS)]


@pytest.mark.parametrize(("partitions", "kind"), [(2, win.PersistentTumbling), (8, win.InMemoryTumbling)])
@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
def test_shares_of_a_total_add_up_to_one_however_many_partitions_keep_the_panes(
    spark: SparkSession, partitions: int, kind: Any, together: bool
) -> None:
    app = app_with(spark, partitions)

    @app.subscribe("sales", publish_to={"minutes": "by-minute", "hours": "by-hour"}, together=together)
    class sales:
        def __init__(self) -> None:
            options: dict[str, Any] = {"key": "region", "value": agg.Sum("amount"), "time_column": "ts"}
            self._minutes = kind(
                self,
                name="minutes",
                size_ms=60_000,
                **options,
                on_close=shares,
                early_fire_interval_ms=20_000,
                on_early_fire=shares,
            )
            self._hours = kind(self, name="hours", size_ms=3_600_000, **options, on_close=shares)

        def process(self, batch, state):
            self._minutes.update(batch, state)
            self._hours.update(batch, state)

    with testing.run(app) as t:
        t.feed("sales", _sales(1_000))
        t.feed("sales", _sales(21_000))
        t.feed("sales", [{"region": "a last one", "amount": 0, "ts": 4_000_000}])
        total = sum(range(1, 9))
        minutes = [(r["region"], r["window_start_ms"], r["value"], r["share"]) for r in t.outputs("by-minute")]
        minutes = [row for row in minutes if row[0] != "a last one"]
        shares_of_all = [(region, 0, 2 * (1 + n), (1 + n) / total) for n, region in enumerate(REGIONS)]
        assert [sorted(minutes[:8]), sorted(minutes[8:16])] == [shares_of_all, shares_of_all], "early, and at the close"
        hours = [(r["region"], r["window_start_ms"], r["value"], r["share"]) for r in t.outputs("by-hour")]
        assert sorted(hours) == shares_of_all


@pytest.mark.slow
def test_shares_of_a_total_add_up_to_one_with_as_many_partitions_as_spark_has_by_itself(spark: SparkSession) -> None:
    app = app_with(spark, 200)

    @app.subscribe("sales", publish_to="shares")
    class sales:
        def __init__(self) -> None:
            self._win = win.InMemoryTumbling(
                self,
                name="minutes",
                size_ms=60_000,
                key="region",
                value=agg.Sum("amount"),
                time_column="ts",
                on_close=shares,
            )

        def process(self, batch, state):
            # In Python.
            self._win.update(batch.filter(pc.is_valid(batch["region"])), state)

    with testing.run(app) as t:
        t.feed("sales", _sales(1_000))
        t.feed("sales", [{"region": "north", "amount": 0, "ts": 120_000}])
        assert sum(row["share"] for row in t.outputs("shares")) == pytest.approx(1.0)


@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
def test_a_shard_gets_all_panes_of_its_partition_keys_in_one_table(spark: SparkSession, together: bool) -> None:
    app = app_with(spark, 2)

    @app.subscribe("sales", publish_to="shares", partition_key="region", parallelism=3, together=together)
    class sales:
        def __init__(self) -> None:
            options: dict[str, Any] = {"value": agg.Sum("amount"), "time_column": "ts", "size_ms": 60_000}
            self._pages = win.PersistentTumbling(
                self, name="pages", key=["page", "region"], on_close=self._of_region, **options
            )
            self._regions = win.PersistentTumbling(self, name="regions", on_close=self._of_shard, **options)

        def _of_region(self, state, panes):
            totals = panes.group_by("region").aggregate([("value", "sum"), ("page", "count")]).to_pylist()
            call = min(row["region"] for row in totals)
            return pa.RecordBatch.from_pylist(
                [
                    {"call": call, "region": r["region"], "total": int(r["value_sum"]), "pages": r["page_count"]}
                    for r in totals
                ]
            )

        def _of_shard(self, state, panes):
            call = min(panes["region"].to_pylist())
            return pa.RecordBatch.from_pylist(
                [{"call": call, "region": region, "total": -1, "pages": 0} for region in panes["region"].to_pylist()]
            )

        def process(self, batch, state):
            self._pages.update(batch, state)
            self._regions.update(batch, state)

    rows = [{"region": r, "page": f"page {p}", "amount": 1, "ts": 5} for r in REGIONS for p in range(5)]
    with testing.run(app) as t:
        t.feed("sales", rows)
        t.feed("sales", [{"region": "region 0", "page": "", "amount": 1, "ts": 99_000}])
        calls: dict[bool, dict[str, set[str]]] = {True: defaultdict(set), False: defaultdict(set)}
        for row in t.outputs("shares"):
            calls[row["pages"] > 0][row["call"]].add(row["region"])
            assert row["pages"] == 0 or (row["pages"], row["total"]) == (5, 5), row
        assert calls[True] == calls[False], "shards are those of the partition_key, whatever else is in the key"
        assert len(calls[True]) == 3
        assert Counter(region for regions in calls[True].values() for region in regions) == Counter(REGIONS)


def test_a_window_has_a_topic_of_its_own_where_publish_to_names_it(spark: SparkSession) -> None:
    app = app_with(spark, 2)

    def describe(state: Any, window: Any, value: Any) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([{"value": value}])

    @app.subscribe("pages", publish_to={"visits": "a", "early": "live", "process": "raw"})
    class pages:
        def __init__(self) -> None:
            options: dict[str, Any] = {
                "value": agg.Count(),
                "time_column": "ts",
                "on_close_each": describe,
                "early_fire_interval_ms": 5,
                "on_early_fire_each": describe,
            }
            self._visits = win.PersistentSession(self, name="visits", gap_ms=10, **options)
            self._minutes = win.PersistentTumbling(self, name="minutes", size_ms=10, **options)

        def process(self, batch, state):
            self._visits.update(batch, state)
            if batch["ts"][0].as_py() < 10:
                self._minutes.update(batch, state)
            return batch.select(["ts"])

    with testing.run(app) as t:
        t.feed("pages", [{"ts": 1}])
        t.feed("pages", [{"ts": 7}])
        assert [row["value"] for row in t.outputs("live")] == [2], "of minutes"
        assert [row["value"] for row in t.outputs("a")] == [2], "of visits"
        t.feed("pages", [{"ts": 99}])
        assert sorted(row["value"] for row in t.outputs("a")) == [1, 2, 2]
        assert [row["ts"] for row in t.outputs("raw")] == [1, 7, 99]
        t.advance(1_000)
        with pytest.raises(FunctionError, match=r"of the window 'minutes' returned a batch, and there is no topic"):
            t.settle()


def test_publish_to_names_callbacks_and_windows_and_nothing_else(spark: SparkSession) -> None:
    app = turbine.App("tables", spark=spark)
    with pytest.raises(
        InvalidArgumentError,
        match=r"the key 'visit'\. Its keys are 'process', 'early' and 'close', and the windows 'vi",
    ) as refused:

        @app.subscribe("pages", publish_to={"visit": "a"})
        class pages:
            def __init__(self) -> None:
                self._visits = win.PersistentSession(self, name="visits", gap_ms=10, value=agg.Count(), on_close=shares)

            def process(self, batch, state):
                self._visits.update(batch, state)

    assert "did you mean 'visits'?" in str(refused.value)
