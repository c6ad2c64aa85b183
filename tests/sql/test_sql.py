"""Windows asked for in SQL: ``mullion_windowed(TABLE(rows), ...)`` gives what ``windowed(...).agg(...)`` gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Around,
    Count,
    Cumulate,
    Custom,
    Early,
    Global,
    InvalidArgumentError,
    MullionError,
    Session,
    Sliding,
    Tumbling,
    UnknownColumnError,
    UnsupportedError,
    together,
    windowed,
)
from mullion.windows import Window
from tests.sql.conftest import rows_of

TUMBLING = "window => 'tumbling', size => '1 hour'"


def by_sql(spark: SparkSession, arguments: str, table: str = "rows_of_sql") -> DataFrame:
    return spark.sql(f"SELECT * FROM mullion_windowed(TABLE({table}), {arguments})")


def over(spark: SparkSession, arguments: str) -> DataFrame:
    return spark.sql(f"SELECT * FROM mullion_windowed({arguments})")


@pytest.mark.parametrize(
    ("text", "window", "time"),
    [
        (TUMBLING, lambda: Tumbling("1 hour"), "ts"),
        (
            "window => 'tumbling', size => INTERVAL 1 HOUR, offset => '5 minutes'",
            lambda: Tumbling("1 hour", "5 minutes"),
            "ts",
        ),
        (
            "window => 'tumbling', size => '1 day', timezone => 'Asia/Tokyo'",
            lambda: Tumbling("1 day", timezone="Asia/Tokyo"),
            "ts",
        ),
        (
            "window => 'tumbling', size => '1 day', timezone => 'Asia/Tokyo', offset => INTERVAL 5 HOURS",
            lambda: Tumbling("1 day", timezone="Asia/Tokyo", offset="5 hours"),
            "ts",
        ),
        (
            "window => 'tumbling', size => '1 week', timezone => 'UTC', week_start => 'Sunday'",
            lambda: Tumbling("1 week", timezone="UTC", week_start="Sunday"),
            "ts",
        ),
        (
            "window => 'tumbling', size => '1 year', timezone => 'UTC', offset => '3 months'",
            lambda: Tumbling("1 year", timezone="UTC", offset="3 months"),
            "ts",
        ),
        (
            "window => 'sliding', size => '7 days', slide => '1 day', timezone => 'UTC'",
            lambda: Sliding("7 days", "1 day", timezone="UTC"),
            "ts",
        ),
        (
            "window => 'sliding', size => '5 minutes', slide => '30 minutes', gaps => true",
            lambda: Sliding("5 minutes", "30 minutes", gaps=True),
            "ts",
        ),
        (
            "window => 'cumulate', size => '1 day', step => '1 hour'",
            lambda: Cumulate("1 day", "1 hour"),
            "ts",
        ),
        (
            "window => 'cumulate', size => '1 day', step => '30 minutes', timezone => 'Europe/Berlin'",
            lambda: Cumulate("1 day", "30 minutes", timezone="Europe/Berlin"),
            "ts",
        ),
        (
            "window => 'cumulate', size => '1 month', step => '1 day', timezone => 'Europe/Berlin'",
            lambda: Cumulate("1 month", "1 day", timezone="Europe/Berlin"),
            "ts",
        ),
        (
            "window => 'sliding', size => '2 hours', slide => '30 minutes'",
            lambda: Sliding("2 hours", "30 minutes"),
            "ts",
        ),
        ("window => 'session', gap => '30 minutes'", lambda: Session("30 minutes"), "ts"),
        (
            "window => 'session', gap_column => 'make_dt_interval(0, v)'",
            lambda: Session(F.expr("make_dt_interval(0, v)")),
            "ts",
        ),
        (
            "window => 'tumbling', size => '50 minutes', starts => 'first row'",
            lambda: Tumbling("50 minutes", starts="first row"),
            "ts",
        ),
        (
            "window => 'session', gap => '30 minutes', max_length => '40 minutes', ends_with => 'v = 2'",
            lambda: Session("30 minutes", max_length="40 minutes", ends_with=F.col("v") == 2),
            "ts",
        ),
        ("window => 'around', before => '1 hour'", lambda: Around("1 hour"), "ts"),
        (
            "window => 'custom', ranges => 'mullion_windows(ts, \"1 hour\")'",
            lambda: Custom(F.expr("mullion_windows(ts, '1 hour')")),
            "ts",
        ),
        ("window => 'count', length => 2", lambda: Count(2), None),
        (
            "window => 'count', length => 2, timeout => '10 seconds'",
            lambda: Count(2, timeout="10 seconds"),
            None,
        ),
        ("window => 'global', every => 2", lambda: Global.every(2), None),
        ("window => 'global', when => 'v > 1'", lambda: Global.when(F.col("v") > 1), None),
        ("window => 'global', changes => 'v'", lambda: Global.changes("v"), None),
        ("window => 'global', when => 'sum(v) > 2'", lambda: Global.when(F.sum("v") > 2), None),
        (
            "window => 'global', every => 3, ends_with => 'sum(v) > 2'",
            lambda: Global.every(3, ends_with=F.sum("v") > 2),
            None,
        ),
        (
            "window => 'global', changes => 'v', ends_with => 'v = 2'",
            lambda: Global.changes("v", ends_with=F.col("v") == 2),
            None,
        ),
    ],
)
def test_a_batch_gives_what_python_gives(
    spark: SparkSession, rows: DataFrame, text: str, window: Callable[[], Window], time: str | None
) -> None:
    named = "NULL" if time is None else f"'{time}'"
    aggregates = "count(*) AS n, sum(v) / count(*) AS mean"
    keys = "k, upper(k) AS K2"
    sql = by_sql(spark, f"{text}, time => {named}, by => '{keys}', aggregates => '{aggregates}'")
    python = windowed(rows, window(), by=["k", F.upper("k").alias("K2")], time=time).agg(
        F.count("*").alias("n"), (F.sum("v") / F.count("*")).alias("mean")
    )
    assert rows_of(sql) == rows_of(python)


def test_keys_may_be_said_by_partition_by_and_rows_come_from_any_query(spark: SparkSession, rows: DataFrame) -> None:
    text = f"{TUMBLING}, time => 'ts', aggregates => 'sum(v) AS s'"
    expected = rows_of(windowed(rows.where("v > 1"), Tumbling("1 hour"), by="k", time="ts").agg(F.sum("v").alias("s")))
    few = "TABLE(SELECT * FROM rows_of_sql WHERE v > 1) PARTITION BY k"
    assert rows_of(over(spark, f"{few}, {text}")) == expected
    named = "WITH few AS (SELECT * FROM rows_of_sql WHERE v > 1), same AS (SELECT * FROM few)"
    of_few = f"SELECT * FROM mullion_windowed(TABLE(same), by => 'k', {text})"
    assert rows_of(spark.sql(f"{named} {of_few}")) == expected
    twice = spark.sql(f"{named} SELECT * FROM ({of_few}) UNION ALL SELECT * FROM ({of_few})")
    assert twice.count() == 2 * len(expected[1])
    collected = by_sql(spark, f"{TUMBLING}, time => 'ts', by => 'k', collect => 'rows', collect_order => 'time'")
    assert rows_of(collected) == rows_of(windowed(rows, Tumbling("1 hour"), by="k", time="ts").collect(order="time"))


def test_a_stream_runs_as_pythons_and_its_checkpoint_is_read_in_sql(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
) -> None:
    rows.coalesce(1).write.json(str(tmp_path / "in"))
    stream = spark.readStream.schema("k string, ts timestamp, v int").json(str(tmp_path / "in"))
    stream.withWatermark("ts", "0 seconds").createOrReplaceTempView("stream_of_sql")
    options = "late => 'emit', early_count => 1, ids => true, allowed_lateness => INTERVAL 0 SECONDS"
    panes = by_sql(
        spark, f"{TUMBLING}, time => 'ts', by => 'k', aggregates => 'sum(v) AS s', {options}", "stream_of_sql"
    )
    same = windowed(
        stream.withWatermark("ts", "0 seconds"),
        Tumbling("1 hour"),
        by="k",
        time="ts",
        late="emit",
        early=Early(count=1),
        ids=True,
    ).agg(F.sum("v").alias("s"))
    assert panes.isStreaming
    assert panes.dtypes == same.dtypes
    checkpoint = str(tmp_path / "checkpoint")
    writer = panes.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    fired = spark.read.parquet(str(tmp_path / "out")).select("k", "pane.firing", "s").collect()
    assert sorted(map(tuple, fired)) == [("a", "close", 3), ("a", "early", 3), ("b", "early", 5)]
    open_now = spark.sql(f"SELECT k, s FROM mullion_read_panes('{checkpoint}')").collect()
    assert [tuple(row) for row in open_now] == [("b", 5)]
    why = spark.sql(f"SELECT k, waits_for FROM mullion_open_panes(checkpoint => '{checkpoint}')").collect()
    assert [tuple(row) for row in why] == [("b", "1 hour of event time")]


DAYS = "window => 'tumbling', size => '{}', timezone => '{}', time => 'ts', aggregates => 'count(*)'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time => 'ts', windw => 'x'", "has no argument 'windw'. Did you mean 'window'?"),
        ("time => 'ts', running => true", "has no argument 'running'. Did you mean 'early_each_row'?"),
        (f"{TUMBLING}, aggregates => 'count(*)'", "was not given time"),
        ("time => 'ts', aggregates => 'count(*)'", "was not given window"),
        ("window => 'tumbling', time => 'ts', aggregates => 'count(*)'", "was not given size"),
        ("window => 'hopping', time => 'ts', aggregates => 'count(*)'", "none of 'tumbling', 'sliding'"),
        (f"{TUMBLING}, slide => '1 hour', time => 'ts', aggregates => 'count(*)'", "slide has no effect"),
        ("window => 'tumbling', size => '1 month', time => 'ts', aggregates => 'count(*)'", "no fixed length"),
        ("window => 'tumbling', size => '0 hours', time => 'ts', aggregates => 'count(*)'", "longer than zero"),
        ("window => 'tumbling', size => 5, time => 'ts', aggregates => 'count(*)'", "must be an interval"),
        (f"{TUMBLING}, time => 'ts'", "has no aggregates for its panes"),
        (f"{TUMBLING}, time => 'ts', aggregates => 'count(*)', collect => 'rows'", "and not both"),
        (f"{TUMBLING}, time => 'ts', aggregates => 'count(*', by => 'k'", "is not a list of columns"),
        (f"{TUMBLING}, time => 'ts', aggregates => 'count(*) FROM t'", "more than a list of columns"),
        (f"{TUMBLING}, time => 'ts, k', aggregates => 'count(*)'", "is one column"),
        (f"{TUMBLING}, time => 'ts', aggregates => 'count(*)', late => 'emitt'", "none of 'drop', 'emit'"),
        (f"{TUMBLING}, time => 'ts', aggregates => 'count(*)', early_each_row => 'yes'", "must be true or false"),
        (f"{TUMBLING}, time => 'ts', aggregates => 'count(*)', allowed_lateness => '-1 hour'", "is negative"),
        ("window => 'count', length => 'two', time => NULL, aggregates => 'count(*)'", "must be a whole number"),
        ("window => 'global', time => NULL, aggregates => 'count(*)'", "one of every, when and changes"),
        (f"{TUMBLING}, time => 'k', aggregates => 'count(*)'", "time => 'k' is of type string"),
        (f"{TUMBLING}, time => NULL, aggregates => 'count(*)', late => 'emit'", "processing time"),
        (f"{DAYS.format('99999999999 years', 'UTC')}", "is not a number of days"),
        (f"{DAYS.format('0 days', 'UTC')}", "is not a number of days"),
        (f"{DAYS.format('1 day', 'Nowhere')}", "Nowhere"),
        ("window => 'count', length => 0, time => NULL, aggregates => 'count(*)'", "0"),
        ("window => 'count', length => 5, every => -1, time => NULL, aggregates => 'count(*)'", "-1"),
        ("window => 'global', every => 0, time => NULL, aggregates => 'count(*)'", "0"),
        (f"{TUMBLING}, time => 'ts', aggregates => 'count(*)', early_count => 0", "0"),
        (f"{TUMBLING}, time => 'ts', collect => 'rows', max_rows => 0", "0"),
    ],
)
def test_a_wrong_argument_is_rejected_by_name(spark: SparkSession, rows: DataFrame, text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message.replace("(", r"\(").replace("*", r"\*")):
        by_sql(spark, text)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (f"TABLE(rows_of_sql), {TUMBLING}, time => ts", "time => ts of mullion_windowed .* as text: time => 'ts'."),
        (f"TABLE(rows_of_sql), {TUMBLING}, time => 'ts', by => concat(k, 'x')", r"by => 'concat\(k, \\'x\\'\)'\."),
        (f"TABLE(rows_of_sql), {TUMBLING}, time => 'ts', aggregates => sum(v)", r"aggregates => 'sum\(v\)'\."),
        (f"TABLE(rows_of_sql), {TUMBLING}, time => 'ts', aggregates => count(*)", "must be text.*aggregates => '...'"),
        (f"TABLE(rows_of_sql), {TUMBLING}, time => 'ts', by => user", "by => .*user.* must be text.*by => '...'"),
        (f"rows_of_sql, {TUMBLING}, time => 'ts'", r"rows_of_sql of .* must be a table.* TABLE\(rows_of_sql\)\."),
        (f"rows => rows_of_sql, {TUMBLING}, time => 'ts'", r"Write rows => TABLE\(rows_of_sql\)\."),
    ],
)
def test_a_column_as_an_argument_is_reported_with_the_text_or_the_table(
    spark: SparkSession, rows: DataFrame, call: str, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        over(spark, call)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("mullion_together(hours => hours_of_sql)", r"Write hours => TABLE\(hours_of_sql\)\."),
        ("mullion_asof_join(TABLE(a), b, by => 'k')", r"^b of mullion_asof_join .* Write TABLE\(b\)\."),
        ("mullion_windowed_join(TABLE(a), right => c.b)", r"Write right => TABLE\(c\.b\)\."),
        ("mullion_read_panes(folder)", r"Write it as text: checkpoint => 'folder'\."),
        ("mullion_recover(checkpoint => folder)", r"Write it as text: checkpoint => 'folder'\."),
    ],
)
def test_every_function_reports_columns_as_arguments(spark: SparkSession, query: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        spark.sql(f"SELECT * FROM (SELECT * FROM {query}) WHERE 1 = (SELECT 1)")


def test_a_variable_of_the_session_is_an_argument(spark: SparkSession, rows: DataFrame) -> None:
    spark.sql("DECLARE OR REPLACE VARIABLE hour_of_sql STRING DEFAULT '1 hour'")
    try:
        text = "window => 'tumbling', size => {}, time => 'ts', by => 'k', aggregates => 'count(*) AS n'"
        assert rows_of(by_sql(spark, text.format("hour_of_sql"))) == rows_of(by_sql(spark, text.format("'1 hour'")))
    finally:
        spark.sql("DROP TEMPORARY VARIABLE hour_of_sql")


def test_a_message_spells_options_as_the_request_does_also_when_its_query_starts(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^on_time => true .* allowed_lateness => '10 minutes'"):
        by_sql(spark, f"{TUMBLING}, time => 'ts', on_time => true, aggregates => 'count(*) AS n'")
    with pytest.raises(InvalidArgumentError, match=r"^on_time=True .* allowed_lateness='10 minutes'"):
        windowed(rows, Tumbling("1 hour"), time="ts", on_time=True).agg(F.count("*"))
    rows.coalesce(1).write.json(str(tmp_path / "in"))
    stream = spark.readStream.schema("k string, ts timestamp, v int").json(str(tmp_path / "in"))
    stream.withWatermark("ts", "0 seconds").createOrReplaceTempView("late_of_sql")
    of_sql = by_sql(spark, f"{TUMBLING}, time => 'ts', late => 'emit', aggregates => 'sum(v) AS s'", "late_of_sql")
    of_python = windowed(spark.table("late_of_sql"), Tumbling("1 hour"), time="ts", late="emit").agg(F.sum("v"))
    for panes, spelt in ((of_sql, "and with late => 'drop'"), (of_python, "and with late='drop'")):
        writer = panes.groupBy("window").count().writeStream.format("noop").outputMode("append")
        with pytest.raises(UnsupportedError, match=spelt):
            writer.option("checkpointLocation", str(tmp_path / spelt.replace("'", ""))).start().awaitTermination()


def test_arguments_that_python_rejects_are_rejected_in_sql(spark: SparkSession, rows: DataFrame) -> None:
    with pytest.raises(UnsupportedError, match="whose values Spark cannot compare"):
        by_sql(spark, f"{TUMBLING}, time => 'ts', aggregates => 'count(DISTINCT parse_json(k)) AS n'")
    with pytest.raises(MullionError, match="ORDER BY and WITH SINGLE PARTITION have no effect"):
        spark.sql(
            f"SELECT * FROM mullion_windowed(TABLE(rows_of_sql) PARTITION BY k ORDER BY ts, {TUMBLING}, time => 'ts')"
        )
    with pytest.raises(InvalidArgumentError, match="keys twice"):
        spark.sql(
            f"SELECT * FROM mullion_windowed(TABLE(rows_of_sql) PARTITION BY k, by => 'k', {TUMBLING}, time => 'ts')"
        )
    with pytest.raises(InvalidArgumentError, match="instead of rows"):
        over(spark, f"'rows_of_sql', {TUMBLING}, time => 'ts'")
    with pytest.raises(InvalidArgumentError, match="There is no state in /nowhere"):
        spark.sql("SELECT * FROM mullion_read_panes('/nowhere')")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{TUMBLING}, time => 'tss', aggregates => 'count(*)'",
            r"time => 'tss': .*no column 'tss'\. Did you mean 'ts'\?",
        ),
        (f"{TUMBLING}, time => 'ts', by => 'upper(kk)', aggregates => 'count(*)'", r"by => 'upper\(kk\).*mean 'k'\?"),
        (f"{TUMBLING}, time => 'ts', aggregates => 'sum(vv) AS s'", r"aggregates: .*'vv'\. Did you mean 'v'\?"),
        (
            f"{TUMBLING}, time => 'ts', aggregates => 'sum(v)', dedupe_by => 'id'",
            r"dedupe_by => 'id': .*It has 'k'",
        ),
        ("window => 'session', gap_column => 'pause', time => 'ts', aggregates => 'sum(v)'", "gap_column => 'pause'"),
        (
            "window => 'global', changes => 'vv', time => NULL, aggregates => 'sum(v)'",
            "changes => 'vv'",
        ),
    ],
)
def test_an_unknown_column_is_named_with_the_one_that_was_meant(
    spark: SparkSession, rows: DataFrame, text: str, message: str
) -> None:
    with pytest.raises(UnknownColumnError, match=message):
        by_sql(spark, text)


HOURS = (
    f"SELECT * FROM mullion_windowed(TABLE({{0}}), {TUMBLING}, time => 'ts', by => 'k', aggregates => 'sum(v) AS s')"
)
VISITS = (
    "SELECT * FROM mullion_windowed(TABLE({0}), window => 'session', gap => '40 minutes', time => 'ts', by => 'k', "
    "aggregates => 'count(*) AS n')"
)


def in_python(rows: DataFrame) -> DataFrame:
    return together(
        hours=windowed(rows, Tumbling("1 hour"), by="k", time="ts").agg(F.sum("v").alias("s")),
        visits=windowed(rows, Session("40 minutes"), by="k", time="ts").agg(F.count("*").alias("n")),
    )


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT * FROM mullion_together(hours => TABLE({HOURS}), visits => TABLE({VISITS}))",
        f"WITH a AS ({HOURS}), b AS ({VISITS}) SELECT * FROM mullion_together(visits => TABLE(b), hours => TABLE(a))",
        "SELECT * FROM mullion_together(hours => TABLE(hours_of_sql), visits => TABLE(visits_of_sql))",
    ],
)
def test_windows_are_put_together_as_in_python(spark: SparkSession, rows: DataFrame, text: str) -> None:
    for name, panes in (("hours_of_sql", HOURS), ("visits_of_sql", VISITS)):
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {panes.format('rows_of_sql')}")
    joined_panes = spark.sql(text.format("rows_of_sql"))
    expected = in_python(rows)
    assert sorted(joined_panes.dtypes) == sorted(expected.dtypes)
    assert rows_of(joined_panes.select(*expected.columns)) == rows_of(expected)


def test_windows_of_a_stream_that_are_put_together_share_an_operator(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
) -> None:
    rows.coalesce(1).write.json(str(tmp_path / "in"))
    stream = spark.readStream.schema("k string, ts timestamp, v int").json(str(tmp_path / "in"))
    stream = stream.withWatermark("ts", "0 seconds")
    stream.createOrReplaceTempView("stream_together")
    joined_panes = spark.sql(
        f"SELECT * FROM mullion_together(hours => TABLE({HOURS}), visits => TABLE({VISITS}))".format("stream_together")
    )
    checkpoint = str(tmp_path / "checkpoint")

    def fired(panes: DataFrame) -> int:
        writer = panes.select(*in_python(stream).columns).writeStream.format("parquet")
        writer = writer.option("path", str(tmp_path / "out")).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
        return spark.read.parquet(str(tmp_path / "out")).count()

    assert fired(joined_panes) == 1
    assert len(list((tmp_path / "checkpoint" / "state").iterdir())) == 1
    # Python's query resumes from the checkpoint: it is the same query.
    spark.sql("SELECT 'b' AS k, timestamp'2024-01-01 14:00:00' AS ts, 7 AS v").write.mode("append").json(
        str(tmp_path / "in")
    )
    assert fired(in_python(stream)) == 4


def test_a_recovery_in_sql_is_rejected_for_a_folder_without_state(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgumentError, match="There is no state in /nowhere"):
        spark.sql("SELECT * FROM mullion_recover('/nowhere')")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "was given no window"),
        (f"TABLE({HOURS})", "a table without a name"),
        ("hours => 'rows_of_sql'", "hours => 'rows_of_sql' of mullion_together are no panes|are no panes"),
        ("hours => TABLE(rows_of_sql)", "'hours' is not a result of windowed"),
        (f"hours => TABLE({HOURS}) PARTITION BY k", "say nothing to panes"),
    ],
)
def test_what_are_no_panes_is_rejected_by_the_windows_name(
    spark: SparkSession, rows: DataFrame, text: str, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        spark.sql(f"SELECT * FROM mullion_together({text.format('rows_of_sql')})").collect()
