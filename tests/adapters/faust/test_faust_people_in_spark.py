"""Programs as people write them for Faust, run by Spark: started before their topics have messages, with tasks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import mullion.faust as faust
from mullion import topics
from mullion._util.clock import ManualClock
from mullion.topics._kafka import client
from tests.support.faust.programs import faust_people as people
from tests.support.kafka.kafka_server import KafkaServer

for module in (sys.modules[__name__], people):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def values(app: faust.App, topic: str) -> list[Any]:
    return list(topics.read(app.broker, topic).to_pylist())


def test_a_program_starts_before_its_producers_and_reads_what_they_send_whatever_it_is(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = faust.App("early", broker=f"dir:{tmp_path}/topics", spark=spark, clock=ManualClock())
    people.people(app)
    people.means(app)
    people.raw(app)
    people.stages(app)
    people.settings(app)
    counts = app.Table("seen", default=int)

    @app.agent(app.topic("anything"))
    async def note(stream: Any) -> None:
        async for value in stream:
            counts[value["kind"]] += 1

    with app.start() as running:
        running.settle()
        topics.produce(app.broker, "joining", ["ann", "bob"], keys=["here", "here"], timestamps=[0.0, 0.0])
        topics.produce(app.broker, "leaving", ["bob"], keys=["here"], timestamps=[0.0])
        topics.produce(app.broker, "readings", [{"date": at, "value": at / 2} for at in (1, 2, 30)], [0.0] * 3)
        app.broker.produce_json("readings", [{"date": "1970-01-01T00:01:00+00:00", "value": 1.0}], [0.0], [None])
        topics.produce(app.broker, "bytes", ['{"a": 1}'], timestamps=[0.0])
        topics.produce(app.broker, "adding", [{"x": 2, "y": 1}, {"x": 0, "y": 7}], timestamps=[0.0, 0.0])
        topics.produce(app.broker, "anything", [{"kind": "a"}, {"kind": "b"}, {"kind": "a"}], timestamps=[0.0] * 3)
        topics.produce(app.broker, "n", [2, 3], keys=["a", "a"], timestamps=[0.0, 0.0])
        running.settle()
        running.advance("10 seconds")
        running.settle()
    assert "| a   | 5     |" in capsys.readouterr().out
    assert [json.loads(row.value) for row in app.table("people").read().collect()] == [["ann"]]
    assert {row.key: row.value for row in app.table("seen").read().collect()} == {'"a"': "2", '"b"': "1"}
    assert [(one["count"], one["mean"], one["since"]) for one in values(app, "means")] == [
        (2, 0.75, 0.0),
        (1, 15.0, 30.0),
    ]
    assert [one["value"] for one in values(app, "told")] == ["first: 7"]
    assert [one["value"] for one in values(app, "made")] == ['{"got": {"a": 1}}']


def test_topics_of_a_pattern_are_those_that_the_query_began_with(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def app() -> faust.App:
        orders_app = faust.App("orders", broker=f"dir:{tmp_path}/topics", spark=spark)
        counts = orders_app.Table("counts", default=int, partitions=1)

        @orders_app.agent(
            orders_app.topic(pattern="orders-.*"), on_error="dead_letter", sink=[orders_app.topic("counted")]
        )
        async def count(stream: Any) -> Any:
            async for value in stream:
                counts["all"] += value["n"]
                yield {"so_far": counts["all"]}

        return orders_app

    with pytest.raises(faust.InvalidArgumentError, match=r"No topic of dir:.* matches the pattern 'orders-\.\*'"):
        app().run(until="drained")
    topics.produce(app().broker, "orders-eu", [{"n": 1}])
    topics.produce(app().broker, "orders-us", [{"n": 2}, {"n": None}])
    app().run(until="drained")
    topics.produce(app().broker, "orders-asia", [{"n": 4}])
    topics.produce(app().broker, "orders-eu", [{"n": 8}])
    app().run(until="drained")
    assert "the topic 'orders-asia' came after the query began" in caplog.text
    assert "orders-dead-letters" not in caplog.text
    assert topics.read(app().broker, "orders-dead-letters").num_rows == 1
    assert max(row["so_far"] for row in values(app(), "counted")) == 11
    assert {part.name for part in app().explain().parts} == {"agent count@orders-eu", "agent count@orders-us"}


@pytest.mark.xdist_group("kafka")
def test_topics_of_a_pattern_in_kafka_are_those_that_the_query_began_with(
    spark: SparkSession, kafka: KafkaServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def app() -> faust.App:
        patterned_app = faust.App("patterned", broker=kafka.url, spark=spark, checkpoint=tmp_path / "patterned")
        counts = patterned_app.Table("counts", default=int, partitions=1)

        @patterned_app.agent(
            patterned_app.topic(pattern="patterned-.*"), sink=[patterned_app.topic("counts-of-patterned")]
        )
        async def count(stream: Any) -> Any:
            async for value in stream:
                counts["all"] += value["n"]
                yield {"so_far": counts["all"]}

        return patterned_app

    with pytest.raises(faust.InvalidArgumentError, match=r"No topic of kafka:.* matches the pattern 'patterned-\.\*'"):
        app().run(until="drained")
    topics.produce(kafka.url, "patterned-eu", [{"n": 1}])
    topics.produce(kafka.url, "patterned-us", [{"n": 2}])
    topics.produce(kafka.url, "not-patterned-eu", [{"n": 100}])
    app().run(until="drained")
    topics.produce(kafka.url, "patterned-asia", [{"n": 4}])
    topics.produce(kafka.url, "patterned-eu", [{"n": 8}])
    app().run(until="drained")
    assert "the topic 'patterned-asia' came after the query began" in caplog.text
    assert sorted(row["so_far"] for row in values(app(), "counts-of-patterned"))[-1] == 11
    assert {part.name for part in app().explain().parts} == {"agent count@patterned-eu", "agent count@patterned-us"}


def test_a_program_restarts_once_the_field_of_its_shards_appears(spark: SparkSession, tmp_path: Path) -> None:
    app = faust.App("fresh", broker=f"dir:{tmp_path}/topics", spark=spark, clock=ManualClock())
    counts = app.Table("seen", default=int)

    @app.agent(app.topic("anything"))
    async def note(stream: Any) -> None:
        async for value in stream:
            counts[value["kind"]] += 1

    with app.start() as running:
        running.settle()
        for _ in range(2):
            topics.produce(app.broker, "anything", [{"kind": "a"}, {"kind": "b"}, {"kind": "a"}], timestamps=[0.0] * 3)
            running.settle()
    assert {row.key: row.value for row in app.table("seen").read().collect()} == {'"a"': "4", '"b"': "2"}
    assert "its events are in shards by kind" in str(app.explain())


def test_tasks_run_next_to_the_query_and_read_the_tables_of_the_last_batch(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def new_app(words: list[str]) -> faust.App:
        app = faust.App("beside", broker=f"dir:{tmp_path}/topics", spark=spark)
        people.words(app)

        @app.on_rebalance_complete.connect
        async def begun(sender: Any, **kwargs: Any) -> None:
            print("begun", sorted(app.tables["counts"].items()))

        @app.task
        async def feed(app: Any) -> None:
            for word in words:
                await app.send("posts", value=word)
            while not app.should_stop:
                await app.sleep(60)

        @app.command()
        async def tally() -> None:
            print(sorted(app.tables["counts"].items()), app.tables["counts"]["fox"])

        return app

    new_app(["the fox", "the dog"]).run(until="drained")
    app = new_app(["fox"])
    app.run(until="drained")
    assert app.command_line(["tally"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "begun []",
        "begun [('dog', 1), ('fox', 1), ('the', 2)]",
        "[('dog', 1), ('fox', 2), ('the', 2)] 2",
    ]


@pytest.mark.xdist_group("kafka")
def test_raw_values_of_kafka_are_bytes_and_text_as_they_are(spark: SparkSession, tmp_path: Path, kafka: Any) -> None:
    broker = topics.KafkaBroker(kafka.servers)
    app = faust.App("raw", broker=broker, checkpoint=tmp_path / "raw", spark=spark)
    people.raw(app)
    broker.produce_json("bytes", ['{"a":  1}', "12"], [1.0, 2.0], [None, None], raw=True)
    broker.produce_json("text", ["hello", '"quoted"'], [1.0, 2.0], ['"k"', '"k"'], raw=True)
    app.run(until="drained")
    values = [record.value for record in client.read(kafka.servers, "made")]
    assert {"bytes", "text", "made"} <= set(broker.topics())
    assert sorted(values, key=repr) == [b'k: "quoted"', b"k: hello", b'{"got": 12}', b'{"got": {"a": 1}}']
