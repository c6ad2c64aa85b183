"""Programs over sources and sinks that are no topics."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import InvalidArgumentError, UnsupportedError, topics
from mullion._programs.app import App
from mullion._programs.jobs import Job, job_of
from mullion._programs.report import Part
from mullion._programs.sinks import CallbackSink, Sink, TopicSink
from mullion._programs.sources import FrameSource, RowsSource, Source, TopicSource

# Workers do not have the folder of the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Piped(App):
    """One job from a source to a sink."""

    api: ClassVar[str] = "trial"

    def pipe(self, source: Source, sink: Sink, rows: Callable[[DataFrame], DataFrame] = lambda rows: rows) -> None:
        self.job = job_of(self, "pipe", source, sink, rows)

    def _jobs(self) -> Sequence[Job]:
        return [self.job]

    def _parts(self) -> Sequence[Part]:
        return []


class Collected:
    """What a sink was given, by batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[object]] = {}

    def __call__(self, rows: DataFrame, number: int) -> None:
        self.batches[number] = [row.n for row in rows.select("n").orderBy("n").collect()]

    @property
    def rows(self) -> list[object]:
        return [n for number in sorted(self.batches) for n in self.batches[number]]


def piped(spark: SparkSession, folder: Path) -> Piped:
    return Piped("piped", broker=f"dir:{folder}/topics", checkpoint=folder / "state", spark=spark)


def test_rows_of_an_iterable_go_through_once_and_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    collected = Collected()
    for numbers in ([1, 2, 3], [1, 2, 3], [1, 2, 3, 4, 5]):
        app = piped(spark, tmp_path)
        rows = ({"n": n} for n in numbers)
        app.pipe(RowsSource("numbers", lambda rows=rows: rows, batch=2), CallbackSink(collected))  # type: ignore[misc]
        app.run(until="drained")
        assert collected.rows == numbers
    app.pipe(RowsSource("none", list), CallbackSink(collected))
    with pytest.raises(InvalidArgumentError, match="The source 'none' of the job 'pipe' has no rows"):
        app.run(until="drained")


def test_a_stream_of_the_callers_goes_to_a_topic_and_a_topic_to_a_function(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(4).write.parquet(str(tmp_path / "ids"))
    app = piped(spark, tmp_path)
    app.pipe(
        FrameSource(lambda session: session.readStream.schema("id long").parquet(str(tmp_path / "ids"))),
        TopicSink(("ids",)),
        lambda rows: rows.mapInArrow(published, topics.OUTPUTS),
    )
    app.run(until="drained")
    assert sorted(topics.read(app.broker, "ids")["n"].to_pylist()) == [0, 1, 2, 3]

    collected = Collected()
    reading = Piped("reading", broker=app.broker, checkpoint=tmp_path / "reading", spark=spark)
    reading.pipe(TopicSource("ids"), CallbackSink(collected), lambda rows: rows.where(F.col("n") > 1))
    assert reading.job.reads == ("ids",)
    reading.run(until="drained")
    assert collected.rows == [2, 3]


def published(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = topics.encoded(batch.rename_columns(["n"]))
        arrays = [pa.array(["ids"]), pa.nulls(1, pa.string()), pa.array([rows], pa.binary())]
        yield pa.RecordBatch.from_arrays(arrays, names=["topic", "key", "batch"])


def test_a_batch_is_no_source_and_a_function_takes_nothing_for_topics(spark: SparkSession, tmp_path: Path) -> None:
    app = piped(spark, tmp_path)
    app.pipe(FrameSource(lambda session: session.range(3).toDF("n")), CallbackSink(Collected()))
    with pytest.raises(InvalidArgumentError, match="is given a DataFrame that is a batch"):
        app.run(until="drained")
    publisher = CallbackSink(Collected()).publisher(app)
    with pytest.raises(UnsupportedError, match="Give the job a TopicSink"):
        publisher.publish_made(spark.range(1), 0, lambda batches: [])
