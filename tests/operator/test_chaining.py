"""Windows before and after other stateful operators: the results of a batch, or an error when the query starts."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache, reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Early, InvalidArgumentError, Sliding, Tumbling, UnsupportedError, windowed
from tests.support.checked import bounds_of, settings, with_the_jar_alone
from tests.support.clocked import ClockedQuery
from tests.support.streams import SECOND, Feed, batches_of

COLUMNS = "k string, j int, v bigint"


def totals(n: str = "*", s: str = "v") -> list[Column]:
    return [(F.count(n) if n == "*" else F.sum(n)).alias("n"), F.sum(s).alias("s"), F.max(s).alias("most")]


def ours(rows: DataFrame, **arguments: Any) -> DataFrame:
    """Windows of ten seconds by both keys."""
    arguments = {"window": Tumbling("10 seconds"), "by": ["k", "j"], "time": "ts", **arguments}
    return windowed(rows, **arguments).agg(*totals())


def sparks(rows: DataFrame) -> DataFrame:
    """The windows of ``ours`` by Spark."""
    return rows.groupBy("k", "j", F.window("ts", "10 seconds").alias("window")).agg(*totals())


def of_minutes(panes: DataFrame, by: list[str]) -> DataFrame:
    """Totals of panes per minute by Spark."""
    minute = F.window(F.window_time("window"), "1 minute").alias("window")
    return panes.groupBy(*by, minute).agg(*totals("n", "s"))


SPARK_FIRST = "Spark's window, then windowed"

# A chain over a stream, and the same over a batch with Spark's windows.
CHAINS: dict[str, tuple[Callable[[DataFrame], DataFrame], Callable[[DataFrame], DataFrame]]] = {
    "windowed, then windowed by the same keys": (
        lambda rows: windowed(
            ours(rows, allowed_lateness="7 seconds"), Tumbling("1 minute"), by=["k", "j"], time="window"
        ).agg(*totals("n", "s")),
        lambda rows: of_minutes(sparks(rows), ["k", "j"]),
    ),
    "windowed, then windowed by fewer keys, then by none": (
        lambda rows: windowed(
            windowed(ours(rows), Tumbling("30 seconds"), by="k", time="window").agg(*totals("n", "s")),
            Tumbling("1 minute"),
            time="window",
            allowed_lateness="5 seconds",
        ).agg(*totals("n", "s")),
        lambda rows: (
            rows.groupBy("k", "j", F.window("ts", "10 seconds").alias("window"))
            .agg(*totals())
            .groupBy("k", F.window(F.window_time("window"), "30 seconds").alias("window"))
            .agg(*totals("n", "s"))
            .groupBy(F.window(F.window_time("window"), "1 minute").alias("window"))
            .agg(*totals("n", "s"))
        ),
    ),
    "windowed, then sliding": (
        lambda rows: windowed(
            ours(rows, allowed_lateness="7 seconds"), Sliding("50 seconds", "20 seconds"), by="k", time="window"
        ).agg(*totals("n", "s")),
        lambda rows: (
            sparks(rows)
            .groupBy("k", F.window(F.window_time("window"), "50 seconds", "20 seconds").alias("window"))
            .agg(*totals("n", "s"))
        ),
    ),
    "sliding, then tumbling": (
        lambda rows: windowed(
            ours(rows, window=Sliding("15 seconds", "10 seconds")), Tumbling("1 minute"), by="j", time="window"
        ).agg(*totals("n", "s")),
        lambda rows: of_minutes(
            rows.groupBy("k", "j", F.window("ts", "15 seconds", "10 seconds").alias("window")).agg(*totals()), ["j"]
        ),
    ),
    "windowed, then Spark's window": (
        lambda rows: of_minutes(ours(rows, allowed_lateness="7 seconds"), ["k"]),
        lambda rows: of_minutes(sparks(rows), ["k"]),
    ),
    "windowed, then Spark's groupBy on the same window": (
        lambda rows: ours(rows).groupBy("window").agg(*totals("n", "s")),
        lambda rows: sparks(rows).groupBy("window").agg(*totals("n", "s")),
    ),
    SPARK_FIRST: (
        lambda rows: windowed(sparks(rows), Tumbling("1 minute"), by="k", time="window").agg(*totals("n", "s")),
        lambda rows: of_minutes(sparks(rows), ["k"]),
    ),
    "Spark's deduplication, then windowed, then Spark's": (
        lambda rows: ours(rows.dropDuplicates(["v", "ts"])).dropDuplicates(["k", "j", "window"]),
        lambda rows: sparks(rows.dropDuplicates(["v", "ts"])),
    ),
}


def shown(frame: DataFrame) -> list[str]:
    keys = [name for name in ("k", "j") if name in frame.columns]
    rows = frame.select(*keys, *bounds_of("window"), "n", "s", "most").collect()
    return sorted(repr(row) for row in rows)


@pytest.fixture(scope="module")
def feed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    """Rows up to fifteen seconds out of order, over some minutes, written before any query starts.

    All are after the epoch, where Spark's clock starts: windows that end before it are late to Spark's operators.
    """
    rng = random.Random(2024)
    feed = Feed(tmp_path_factory.mktemp("in"), COLUMNS)
    number = 0
    for batch in range(4):
        rows = []
        for _ in range(80):
            time = 100 + 45 * batch + rng.uniform(0, 45) - rng.uniform(0, 15)
            rows.append((int(time * SECOND), rng.choice([None, "a", "b"]), rng.randrange(2), number))
            number += 1
        feed.write([*rows, *rows[:10]] if batch else rows)
    feed.flood()
    return feed


@pytest.fixture(scope="module")
def of_a_batch(spark: SparkSession, feed: Feed) -> Callable[[str], list[str]]:
    """Returns the expected result of a chain, computed once for all modes."""
    rows = feed.batch(spark)
    return cache(lambda chain: shown(CHAINS[chain][1](rows)))


# In update mode Spark's aggregates emit every change, and no stateful operator may follow them. One worker runs
# all modes of a chain, because it caches the expected result.
MODES = [
    pytest.param(chain, mode, marks=pytest.mark.xdist_group(chain))
    for chain in CHAINS
    for mode in ("append", "update")
    if (chain, mode) != (SPARK_FIRST, "update")
]


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore::mullion.DroppedRowsWarning")
@pytest.mark.parametrize(("chain", "output_mode"), MODES)
def test_a_chain_gives_what_a_batch_gives(
    spark: SparkSession,
    tmp_path: Path,
    feed: Feed,
    of_a_batch: Callable[[str], list[str]],
    chain: str,
    output_mode: str,
) -> None:
    panes = CHAINS[chain][0](feed.stream(spark, "15 seconds"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint", output_mode=output_mode) as query:
        fired = spark.createDataFrame(query.settle(), panes.schema)
        operators = query.progress[-1]["stateOperators"]
    expected = of_a_batch(chain)
    if output_mode == "update" and "pane" not in panes.columns:
        # Spark's aggregates emit every change; the last one is final.
        assert set(expected) <= set(shown(fired))
    else:
        assert shown(fired) == expected
    assert sum(operator["numRowsDroppedByWatermark"] for operator in operators) == 0
    ours = [operator for operator in operators if operator["operatorName"] == "mullionWindow"]
    assert all(operator["customMetrics"]["panesOpen"] == 0 for operator in ours)


@pytest.fixture(scope="module", params=["with the extension", "with the JAR alone"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> SparkSession:
    """Sessions with Mullion added at the start or later: errors are raised immediately or before the first batch."""
    return spark if request.param == "with the extension" else with_the_jar_alone(spark)


def refused(chain: DataFrame, checkpoint: Path, output_mode: str = "append") -> str:
    """The error of a query over a chain, which must have written neither state nor output."""

    def run() -> None:
        writer = chain.writeStream.format("noop").outputMode(output_mode)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    with pytest.raises(UnsupportedError) as refusal:
        run()
    assert not (checkpoint / "state").exists()
    assert not list(checkpoint.glob("commits/[0-9]*"))
    return str(refusal.value)


@pytest.mark.filterwarnings("ignore::mullion.DroppedRowsWarning")
def test_sparks_aggregates_are_rejected_before_a_window_in_update_mode(
    session: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    chain = CHAINS[SPARK_FIRST][0](feed.stream(session))
    assert "Use outputMode('append')" in refused(chain, tmp_path, "update")


def test_a_key_that_is_the_event_time_is_no_event_time_of_its_panes(spark: SparkSession, feed: Feed) -> None:
    """A pane closes after its rows' times, so its rows would be late for a second window."""
    keys: dict[str, Any] = {
        "itself": "ts",
        "by another name": F.col("ts").alias("at"),
        "a window of it": F.window("ts", "1 second").alias("at"),
    }
    for what, key in keys.items():
        panes = ours(feed.stream(spark), by=["k", key])
        name = panes.columns[1]
        for after in (panes, panes.withColumnRenamed(name, "renamed"), panes.drop("window")):
            column = next(c for c in after.columns if c in {name, "renamed"})
            with pytest.raises(InvalidArgumentError, match=f"on event time {column}, but") as error:
                windowed(after, Tumbling("1 minute"), time=column).agg(F.count("*").alias("n"))
            if "window" in after.columns:
                assert "time='window'" in str(error.value), what


# A second withWatermark, and True if a window on the first one's clock is between them.
REDEFINED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "at once": lambda panes: panes.withWatermark("end", "1 second"),
    "then windowed": lambda panes: windowed(
        panes.withWatermark("end", "1 second"), Tumbling("1 minute"), by="k", time="end"
    ).agg(F.sum("n").alias("n")),
    "then Spark's window": lambda panes: (
        panes.withWatermark("end", "1 second").groupBy(F.window("end", "1 minute")).agg(F.sum("n").alias("n"))
    ),
}


@pytest.mark.parametrize("after", REDEFINED)
def test_a_second_watermark_over_panes_is_rejected_with_the_workaround(
    session: SparkSession, tmp_path: Path, feed: Feed, after: str
) -> None:
    """The first watermark waits for the second one, which waits for panes that wait for the first."""
    panes = ours(feed.stream(session)).withColumn("end", F.col("window.end"))
    message = refused(REDEFINED[after](panes), tmp_path)
    assert "withWatermark('end', ...)" in message
    assert "time='window'" in message


def test_panes_that_have_no_watermark_may_be_given_one(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", COLUMNS)
    rows = spark.readStream.schema(feed.ddl).parquet(str(feed.folder))
    panes = windowed(rows, Tumbling("10 seconds"), by="k", time=None).agg(F.count("*").alias("n"))
    minutes = windowed(
        panes.select("k", "n", F.col("window.end").alias("at")).withWatermark("at", "0 seconds"),
        Tumbling("1 minute"),
        time="at",
    ).agg(F.sum("n").alias("n"))
    with ClockedQuery(minutes.select("n"), checkpoint=tmp_path / "checkpoint") as query:
        fired = []
        for _ in range(9):
            feed.write([(0, "a", 0, 0)] * 2)
            fired += query.settle()
            query.advance("10 seconds")
            fired += query.settle()
        assert [row.n for row in fired] == [10]


def test_a_chain_that_is_restarted_loses_nothing_and_repeats_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """The query stops with open panes at both levels, and with closes between the first and the second."""
    feed = Feed(tmp_path / "in", COLUMNS)
    stream, batch = CHAINS["windowed, then windowed by the same keys"]
    fired: list[Any] = []
    for life in range(3):
        feed.write([(int((50 * life + i) * SECOND), "ab"[i % 2], i % 3, 100 * life + i) for i in range(50)])
        if life == 2:
            feed.flood()
        panes = stream(feed.stream(spark, "1 second"))
        with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
            fired += query.settle()
    assert shown(spark.createDataFrame(fired, panes.schema)) == shown(batch(feed.batch(spark)))


def test_two_windows_over_one_stream_are_joined(spark: SparkSession, tmp_path: Path, feed: Feed) -> None:
    def joined(rows: DataFrame, of: Callable[..., DataFrame]) -> DataFrame:
        least, most = (of(rows).select("k", "j", "window", "n", "s").alias(side) for side in ("left", "right"))
        return least.join(most.withColumnRenamed("s", "most").drop("n"), ["k", "j", "window"])

    panes = joined(feed.stream(spark, "15 seconds"), ours)
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        fired = spark.createDataFrame(query.settle(), panes.schema)
    assert shown(fired) == shown(joined(feed.batch(spark), sparks))


def test_two_windows_over_one_stream_go_into_one_output(spark: SparkSession, tmp_path: Path, feed: Feed) -> None:
    def both(rows: DataFrame) -> DataFrame:
        slid = ours(rows, window=Sliding("20 seconds", "10 seconds"), late="emit", early=Early("1 minute"))
        return ours(rows).union(slid.drop("late_row"))

    panes = both(feed.stream(spark, "15 seconds"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        fired = spark.createDataFrame(query.settle(), panes.schema).where("pane.firing = 'close'")
    assert shown(fired) == shown(both(feed.batch(spark)))


@pytest.mark.filterwarnings("ignore::mullion.DroppedRowsWarning")
def test_two_windows_over_rows_that_spark_shuffled_before_are_as_each_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark shuffles once for both if no watermark is below. Otherwise one of them would never get the time."""
    feed = Feed(tmp_path / "in", COLUMNS)
    files = spark.readStream.schema(feed.ddl).option("maxFilesPerTrigger", 1).parquet(str(feed.folder))
    shuffled = {
        "before the watermark": files.repartition(2, "v")
        .withColumn("ts", F.timestamp_micros("t"))
        .withWatermark("ts", "0 seconds"),
        "after it": feed.stream(spark).dropDuplicates(["k", "ts", "v"]),
    }

    def of(rows: DataFrame, size: str) -> DataFrame:
        panes = windowed(
            rows, Tumbling(size), by="k", time="ts", early=Early("2 seconds"), allowed_lateness="3 seconds"
        )
        return panes.agg(F.count("*").alias("n")).select(F.lit(size).alias("size"), "*")

    # A query with early firings runs a batch at its start, which needs the first rows.
    first, *later = (1, 2, 4, 5, 9, 13, 24)
    feed.write([(first * SECOND, key, 1, first) for key in "ab"])
    queries = {
        (name, *sizes): ClockedQuery(
            reduce(DataFrame.union, [of(rows, size) for size in sizes]), checkpoint=tmp_path / f"{name} {sizes}"
        )
        for name, rows in shuffled.items()
        for sizes in [("5 seconds",), ("10 seconds",), ("5 seconds", "10 seconds")]
    }
    try:
        for second in (first, *later):
            if second != first:
                feed.write([(second * SECOND, key, 1, second) for key in "ab"])
            fired = {of: sorted(map(str, query.settle())) for of, query in queries.items()}
            for name in shuffled:
                alone = fired[name, "10 seconds"] + fired[name, "5 seconds"]
                assert fired[name, "5 seconds", "10 seconds"] == sorted(alone), f"{name}, {second}"
        batches = {of: len(batches_of(query)) for of, query in queries.items()}
        assert all(len({n for of, n in batches.items() if of[0] == name}) == 1 for name in shuffled), batches
        read = {
            name: sum(report["numInputRows"] for report in queries[name, "5 seconds", "10 seconds"].progress)
            for name in shuffled
        }
        assert read == {"before the watermark": 14, "after it": 28}
    finally:
        for query in queries.values():
            query.stop()


# The results of a stateful operator over panes that are not final.
DOWNSTREAM: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "windowed": lambda panes, _: windowed(panes, Tumbling("1 minute"), by="k", time="window").agg(
        F.sum("n").alias("n")
    ),
    "window": lambda panes, _: of_minutes(panes, ["k"]),
    "groupBy": lambda panes, _: panes.groupBy("window").agg(F.sum("n").alias("n")),
    "dropDuplicates": lambda panes, _: panes.dropDuplicates(["k", "window"]),
    "dropDuplicatesWithinWatermark": lambda panes, _: panes.dropDuplicatesWithinWatermark(["k"]),
    "join": lambda panes, other: panes.join(other, ["k", "window"]),
    "a projection and a filter, then groupBy": lambda panes, _: (
        panes.where("n > 1").select("window", F.col("n").alias("m")).groupBy("window").agg(F.sum("m").alias("m"))
    ),
}
NOT_FINAL: dict[str, dict[str, Any]] = {
    "early firings": {"early": Early("1 minute")},
    "late rows": {"late": "emit"},
    "reopened panes": {"late": "reopen"},
}


@pytest.mark.parametrize("what", NOT_FINAL)
@pytest.mark.parametrize("operator", DOWNSTREAM)
def test_panes_that_are_not_final_are_rejected_before_a_stateful_operator(
    session: SparkSession, tmp_path: Path, feed: Feed, operator: str, what: str
) -> None:
    rows = feed.stream(session, "15 seconds")
    message = refused(DOWNSTREAM[operator](ours(rows, **NOT_FINAL[what]), ours(rows)), tmp_path)
    assert what in message
    assert "in a second query" in message


@pytest.mark.parametrize("what", NOT_FINAL)
def test_panes_that_are_not_final_reach_stateless_operators(
    spark: SparkSession, tmp_path: Path, feed: Feed, what: str
) -> None:
    panes = ours(feed.stream(spark, "15 seconds"), **NOT_FINAL[what])
    names = spark.createDataFrame([("a", "first"), ("b", "second")], "k string, name string")
    chain = panes.where("n > 0").join(names, "k").withColumn("double", F.col("n") * 2)
    with ClockedQuery(chain, checkpoint=tmp_path / "checkpoint") as query:
        assert {row.name for row in query.settle()} == {"first", "second"}


def test_a_left_semi_join_of_panes_is_rejected_with_an_inner_join_that_gives_the_same(
    session: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    keys = ["k", "j", "window"]

    def many(rows: DataFrame, of: Callable[..., DataFrame]) -> DataFrame:
        return of(rows).where("n > 2").select(*keys)

    rows = feed.stream(session, "15 seconds")
    message = refused(ours(rows).join(many(rows, ours), keys, "left_semi"), tmp_path / "rejected")
    assert "left_semi join" in message
    assert "panes.join(other.select(keys).dropDuplicates(keys), keys)" in message
    batch = sparks(feed.batch(session))
    wanted = {"left_semi": batch.join(many(feed.batch(session), sparks), keys, "left_semi")}
    wanted["left_anti"] = batch.join(many(feed.batch(session), sparks), keys, "left_anti")
    other = many(rows, ours).withColumn("is_there", F.lit(True))
    chains = {
        "left_semi": ours(rows).join(many(rows, ours).dropDuplicates(keys), keys),
        "left_anti": ours(rows).join(other, keys, "left_outer").where("is_there IS NULL"),
    }
    for how, chain in chains.items():
        with ClockedQuery(chain, checkpoint=tmp_path / how) as query:
            fired = session.createDataFrame(query.settle(), chain.schema)
        assert shown(fired) == shown(wanted[how]) != []


def test_complete_mode_is_rejected_after_a_window_too(session: SparkSession, tmp_path: Path, feed: Feed) -> None:
    chain = ours(feed.stream(session)).groupBy("k").agg(F.sum("n").alias("n"))
    assert "outputMode('append')" in refused(chain, tmp_path, "complete")


def test_one_watermark_for_all_operators_is_rejected(session: SparkSession, tmp_path: Path, feed: Feed) -> None:
    conf = "spark.sql.streaming.statefulOperator.allowMultiple"
    with settings(session, {conf: "false"}):
        refusal = refused(ours(feed.stream(session)), tmp_path / "checkpoint")
    assert f"{conf} is false" in refusal
    assert "Set it to true" in refusal
