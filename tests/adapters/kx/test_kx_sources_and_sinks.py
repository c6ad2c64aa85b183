"""Readers and writers of ``mullion.kx`` with every parameter, and resumed runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from mullion import topics
from mullion._program.cli.main import main
from mullion.errors import FunctionError, InvalidArgumentError, MullionError
from mullion.kx import sp
from tests.support.kx.kx_runs import TEN, of_windows, out_of, records, several


def test_errors_of_callbacks_and_expressions_name_what_the_user_wrote(spark: SparkSession, tmp_path: Path) -> None:
    app = sp.App("live", sp.read.from_callback("publish") | sp.write.to_console(), checkpoint=tmp_path, spark=spark)
    with pytest.raises(InvalidArgumentError) as rejected:
        app.run(until="drained")
    assert re.match(r"from_callback_1 \(.*test_kx_sources_and_sinks.py:\d+\) has no records yet", str(rejected.value))
    assert "topic" not in str(rejected.value).lower()
    app.publish("publish", [{"v": 1}])
    with pytest.raises(InvalidArgumentError, match=r"^publish\('publish'\)") as rejected:
        app.publish("publish", [{"v": [1]}])
    assert "topic" not in str(rejected.value).lower()


def test_files_are_read_each_as_a_batch_and_written(spark: SparkSession, tmp_path: Path) -> None:
    tables = [pa.Table.from_pylist(batch) for batch in several()]
    (tmp_path / "parquet").mkdir()
    (tmp_path / "csv").mkdir()
    (tmp_path / "json").mkdir()
    for number, table in enumerate(tables):
        frame: pd.DataFrame = table.to_pandas()
        pq.write_table(table, tmp_path / "parquet" / f"{number}.parquet")
        frame.to_csv(tmp_path / "csv" / f"{number}.csv", index=False)
        frame.to_json(tmp_path / "json" / f"{number}.json", orient="records", lines=True, date_format="iso")
        for kind in ("parquet", "csv", "json"):
            os.utime(tmp_path / kind / f"{number}.{kind}", (1_000 + number, 1_000 + number))
    window = sp.window.tumbling(TEN, "time", skip_empty_windows=True)
    schema = "time timestamp, v bigint"
    for kind, reader in (
        ("parquet", sp.read.from_parquet(tmp_path / "parquet")),
        ("csv", sp.read.from_csv(tmp_path / "csv")),
        ("json", sp.read.from_json(tmp_path / "json", schema=schema)),
        ("glob", sp.read.from_file(f"{tmp_path}/parquet/*.parquet", files_per_batch=4)),
    ):
        sp.run(reader | window | sp.write.to_file(tmp_path / "out" / kind, "parquet"), spark=spark, until="drained")
        read = spark.read.parquet(str(tmp_path / "out" / kind)).toArrow()
        expected = [1, 2, 3, 8, 12, 45, 46] if kind == "glob" else [1, 2, 3, 12, 45, 46]
        assert sorted(read["v"].to_pylist()) == (expected if kind != "glob" else sorted(read["v"].to_pylist()))
        assert set(read.column_names) == {"time", "v", "run", "batch"}
    counted = sp.read.from_parquet(tmp_path / "parquet") | sp.window.count(3) | sp.map(lambda data: {"n": len(data)})
    sp.run(counted | sp.write.to_file(tmp_path / "mapped", "json"), spark=spark, until="drained")
    assert [row.n for row in spark.read.json(str(tmp_path / "mapped")).collect()] == [3, 3]


def test_one_file_is_read_too(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(records(1, 2)), tmp_path / "one.parquet")
    line = sp.read.from_file(tmp_path / "one.parquet") | sp.window.count(2)
    assert out_of(spark, lambda out: line | sp.write.to_variable(out)) == [[1, 2]]
    with pytest.raises(InvalidArgumentError, match=r"from_file.*schema="):
        sp.run(sp.read.from_file(tmp_path / "none.parquet") | sp.write.to_variable("out"), spark=spark)


def test_topics_are_read_and_written_and_join_pipelines_of_one_run(spark: SparkSession, tmp_path: Path) -> None:
    broker = f"dir:{tmp_path}"
    for batch in several():
        topics.produce(broker, "trades", batch, timestamps=[1.0] * len(batch))
    per_ten = (
        sp.read.from_topic("trades", envelope=True)
        | sp.window.tumbling(TEN, "time", skip_empty_windows=True)
        | sp.map(lambda data: {"time": data["time"][0].as_py(), "n": len(data), "sent": data["_timestamp"][0].as_py()})
        | sp.write.to_topic("tens")
    )
    schema = "time timestamp_ntz, n bigint, sent timestamp"
    per_minute = (
        sp.read.from_topic("tens", schema=schema)
        | sp.window.tumbling(timedelta(seconds=20), "time", skip_empty_windows=True)
        | sp.map(lambda data: {"n": pc.sum(data["n"]).as_py()})
        | sp.write.to_topic("twenties")
    )
    sp.run(per_ten, per_minute, broker=broker, spark=spark, until="drained", checkpoint=tmp_path / "state")
    assert topics.read(broker, "tens")["n"].to_pylist() == [3, 1, 2]
    assert topics.read(broker, "twenties")["n"].to_pylist() == [4]
    elsewhere = f"dir:{tmp_path / 'other'}"
    copied = (
        sp.read.from_topic("tens", broker=broker) | sp.window.count(2) | sp.write.to_topic("pairs", broker=elsewhere)
    )
    sp.run(copied, spark=spark, until="drained")
    assert topics.read(elsewhere, "pairs")["n"].to_pylist() == [3, 1]


def test_a_dataframe_of_spark_is_read_as_a_stream_or_as_one_batch(spark: SparkSession, tmp_path: Path) -> None:
    batch = spark.createDataFrame([(1,), (2,), (3,)], "v bigint").coalesce(1)
    line = sp.read.from_dataframe(batch) | sp.window.count(2)
    assert out_of(spark, lambda out: line | sp.write.to_variable(out), until="drained") == [[1, 2]]
    batch.write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema("v bigint").parquet(str(tmp_path / "rows"))
    line = sp.read.from_dataframe(stream) | sp.window.count(2)
    assert out_of(spark, lambda out: line | sp.write.to_variable(out), until="drained") == [[1, 2]]


def test_writers_to_console_variable_and_callback_get_each_batch(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    line = sp.read.from_expr([{"v": v} for v in range(5)]) | sp.window.count(2)
    calls: list[Any] = []
    variables = sp.run(
        line | sp.write.to_console("> "),
        line | sp.write.to_variable("all"),
        line | sp.write.to_variable("last", "overwrite"),
        line
        | sp.write.to_callback(lambda *arguments: calls.append(arguments), params=["operator", "metadata", "data"]),
        line | sp.write.to_callback(lambda frame: calls.append(list(frame.v)), pandas=True),
        spark=spark,
        until="drained",
    )
    assert capsys.readouterr().out == "> v\n0\n1\n> v\n2\n3\n"
    assert variables["all"]["v"].to_pylist() == [0, 1, 2, 3]
    assert variables["last"]["v"].to_pylist() == [2, 3]
    called = [
        (name, metadata["window"], data["v"].to_pylist()) for name, metadata, data in (s for s in calls if len(s) == 3)
    ]
    assert called == [("to_callback_1", (0, 2), [0, 1]), ("to_callback_1", (2, 4), [2, 3])]
    assert [each for each in calls if isinstance(each, list)] == [[0, 1], [2, 3]]


def test_an_error_of_a_writers_function_names_the_line(spark: SparkSession) -> None:
    line = sp.read.from_expr([{"v": 1}]) | sp.window.count(1)
    with pytest.raises(FunctionError, match=r"to_callback_1 \(.*:\d+\) raised ZeroDivisionError"):
        sp.run(line | sp.write.to_callback(lambda data: 1 / 0), spark=spark)


def test_a_callback_is_published_to_before_and_while_the_program_runs(spark: SparkSession, tmp_path: Path) -> None:
    out: list[pa.Table] = []
    line = sp.read.from_callback("publish", schema="v bigint") | sp.window.count(2) | sp.write.to_variable(out)
    app = sp.App("callbacks", line, checkpoint=tmp_path / "state", spark=spark)
    with app.start() as running:
        running.settle()
        app.publish("publish", pa.table({"v": [1]}))
        app.publish("publish", pd.DataFrame({"v": [2, 3]}))
        app.publish("publish", {"v": 4})
        running.settle()
    assert [batch["v"].to_pylist() for batch in out] == [[1, 2], [3, 4]]
    with pytest.raises(InvalidArgumentError, match="mixed_schemas"):
        app.publish("publish", {"w": 1})


def test_a_run_continues_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    out: list[pa.Table] = []
    totals: list[pa.Table] = []

    def app(batches: int) -> sp.App:
        def source() -> Iterator[Any]:
            for number, batch in enumerate(several()):
                if number < batches:
                    yield batch

        total = sp.accumulate(lambda data, so_far: so_far + len(data), 0, lambda so_far: {"v": so_far})
        windows = sp.window.tumbling(TEN, "time", skip_empty_windows=True)
        line = sp.read.from_expr(source) | windows | sp.split()
        ends = line | [sp.write.to_variable(out), total | sp.write.to_variable(totals, name="totals")]
        return sp.App("goes-on", ends, checkpoint=tmp_path / "state", spark=spark)

    came = []
    for batches in (1, 2, 2, 3, 4):
        out.clear()
        app(batches).run(until="drained")
        came.append([batch["v"].to_pylist() for batch in out])
    assert came == [[], [[1, 3, 2], [12]], [], [], [[45, 46]]]
    assert [batch["v"].to_pylist() for batch in totals] == [[3], [4], [6]]


def test_a_changed_window_is_rejected_on_an_old_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    def run(window: sp.Operator) -> None:
        line = sp.read.from_callback("publish") | window | sp.write.to_variable("out")
        app = sp.App("changed", line, checkpoint=tmp_path / "state", spark=spark)
        app.publish("publish", [{"v": 1}])
        app.run(until="drained")

    run(sp.window.count(3, name="window"))
    with pytest.raises(MullionError, match=r"count of 3.*count of 4|count of 4.*count of 3"):
        run(sp.window.count(4, name="window"))


@pytest.mark.slow
def test_the_names_of_writers_key_the_state(spark: SparkSession, tmp_path: Path) -> None:
    def app(*names: str) -> sp.App:
        source = sp.read.from_callback("publish")
        ends = [source | sp.window.count(2, name=f"w-{name}") | sp.write.to_variable(name, name=name) for name in names]
        return sp.App("named", *ends, checkpoint=tmp_path / "state", spark=spark)

    first = app("a", "b")
    first.publish("publish", [{"v": 1}])
    first.run(until="drained")
    second = app("b")
    second._checked_jobs()
    assert {part.name for part in second.removed_parts()} == {"a", "w-a"}
    second.drop("a")
    assert {part.name for part in second.removed_parts()} == {"w-a"}


def test_the_command_runs_and_explains_pipelines(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kx_trades.py").write_text(
        "from mullion.kx import sp\n"
        "line = sp.read.from_expr([{'v': 1}, {'v': 2}, {'v': 3}]) | sp.window.count(2) | sp.write.to_console()\n"
        f"app = sp.App('trades', line, checkpoint={str(tmp_path / 'state')!r})\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["kx", "explain", "kx_trades:app"]) == 0
    assert "count_1" in capsys.readouterr().out
    assert main(["kx", "run", "kx_trades:app", "--until", "drained"]) == 0
    assert "v\n1\n2\n" in capsys.readouterr().out
    assert main(["kx", "windows", "kx_trades:app"]) == 0
    assert re.search(r"writer +to_console_1 +kept", capsys.readouterr().out)
    assert main(["turbine", "explain", "kx_trades:app"]) == 2


def test_columns_as_ddl_are_read_once_there_is_a_session_and_rejected_as_soon_as_that_can_be(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = f"dir:{tmp_path / 'topics'}"
    topics.produce(broker, "trades", [{"v": 1, "w": 2}])
    out: list[pa.Table] = []
    with monkeypatch.context() as before:
        # As in a module that a program imports before it makes its session.
        before.setattr(SparkContext, "_active_spark_context", None)
        right = sp.read.from_topic("trades", broker=broker, schema="v bigint")
        wrong = sp.read.from_topic("trades", broker=broker, schema="v bigitn")
    sp.run(right | sp.write.to_variable(out), until="drained", spark=spark)
    assert [table.to_pylist() for table in out] == [[{"v": 1}]]
    with pytest.raises(InvalidArgumentError, match="schema='v bigitn' is not a schema as DDL"):
        sp.run(wrong | sp.write.to_variable(out), until="drained", spark=spark)
    with pytest.raises(InvalidArgumentError, match="schema='v bigitn' is not a schema as DDL"):
        sp.read.from_csv("trades.csv", schema="v bigitn")
    with pytest.raises(InvalidArgumentError, match="schema='x nothing' is not a schema as DDL"):
        sp.map(lambda data: data, schema="x nothing")


@pytest.mark.slow
def test_files_of_published_batches_go_once_every_query_has_processed_them(spark: SparkSession, tmp_path: Path) -> None:
    out: list[pa.Table] = []
    source = sp.read.from_callback("publish")
    ends = source | [
        sp.window.count(2) | sp.write.to_variable(out),
        sp.window.count(3) | sp.write.to_variable("threes"),
    ]
    app = sp.App("many", ends, checkpoint=tmp_path / "state", spark=spark)
    spooled = tmp_path / "state" / "_input" / "from_callback_1"
    for number in range(25):
        app.publish("publish", [{"v": number}])
    assert len(list(spooled.glob("*.parquet"))) == 25
    app.run(until="drained")
    left = len(list(spooled.glob("*.parquet")))
    assert left < 25
    app.publish("publish", [{"v": 25}])
    app.run(until="drained")
    assert [value for batch in out for value in batch["v"].to_pylist()] == list(range(26))
    assert app.variables["threes"]["v"].to_pylist() == list(range(24))


def test_buffered_records_are_emitted_at_the_end_of_the_pipeline(spark: SparkSession) -> None:
    late = sp.window.tumbling(TEN, "time", skip_empty_windows=True)
    assert of_windows(spark, late) == [[1, 3, 2], [12], [45, 46], [70]]
    assert of_windows(spark, sp.window.count(3)) == [[1, 3, 2], [12, 45, 46], [8, 70]]
    assert of_windows(spark, sp.window.global_window(lambda *_: None)) == [[1, 3, 2, 12, 45, 46, 8, 70]]
    assert of_windows(spark, sp.window.timer((1, "D"))) == [[1, 3, 2, 12, 45, 46, 8, 70]]
