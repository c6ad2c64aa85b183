"""Messages of programs on Spark: their topics, order, fields and headers, and dead letters."""

from __future__ import annotations

import json
import sys
from collections import Counter, deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import mullion.faust as faust
from mullion import InvalidArgumentError, MullionError, topics
from mullion._util.clock import ManualClock
from mullion.faust._agent_run.outside_state import OutsideState
from mullion.faust._agent_run.worker import Worker, outputs
from mullion.faust._context import Sent
from mullion.faust.agents import DeadLetter
from mullion.topics._json_rows import values_in
from tests.support.faust.spark_app import app_in, put, table_of

pytestmark = pytest.mark.usefixtures("spark")
# Workers do not have the folder of the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


@pytest.mark.always
@pytest.mark.parametrize("compiled", [True, False])
def test_group_by_and_send_reach_their_topics_and_iteration_sees_all_keys(
    tmp_path: Path, spark: SparkSession, compiled: bool
) -> None:
    app = app_in(tmp_path, spark=spark, clock=ManualClock(90_000), compiled=compiled)
    grouped, out = app.topic("grouped"), app.topic("out")
    counts = app.Table("counts", default=int).tumbling(10, expires=1000)
    totals = app.Table("totals", default=int)

    @app.agent(app.topic("in"))
    async def group(stream: Any) -> None:
        async for value in stream.group_by("k", topic=grouped):
            counts[value["k"]] += 1

    @app.agent(grouped, sink=[app.topic("sums")])
    async def total(stream: Any) -> Any:
        async for event in stream.group_by("k").events():
            totals[event.key] += event.value["n"]
            await out.send(value=event.key, timestamp=5.25)
            await out.send(value=event.key)
            yield sum(totals.values())

    put(app, "in", *(({"k": f"k{n % 7}", "n": n}, float(n)) for n in range(21)))
    app.run(until="drained")
    sent = topics.read(app.broker, "grouped")
    assert sorted(zip(sent["_key"].to_pylist(), sent["n"].to_pylist(), strict=True)) == sorted(
        (f"k{n % 7}", n) for n in range(21)
    )
    assert max(topics.read(app.broker, "sums")["value"].to_pylist()) == sum(range(21))
    assert sorted(topics.read(app.broker, "out")["_timestamp"].to_pylist()) == [5.25] * 21 + [90.0] * 21
    assert sum(table_of(app, "counts").values()) == 21
    assert {part.name: part.runs for part in app.explain().parts} == {"agent group": "Python", "agent total": "Python"}


@pytest.mark.always
@pytest.mark.parametrize("compiled", [True, False])
def test_null_goes_to_the_dead_letters_of_a_typed_topic(tmp_path: Path, spark: SparkSession, compiled: bool) -> None:
    class Order(faust.Record):
        k: str

    app = app_in(tmp_path, spark=spark, compiled=compiled)
    texts, orders = (app.Table(name, default=int).tumbling(10, expires=1000) for name in ("texts", "orders"))
    anything = app.Table("anything", default=int)

    @app.agent(app.topic("texts", value_type=str))
    async def of_texts(stream: Any) -> None:
        async for text in stream:
            texts[text] += 1

    @app.agent(app.topic("orders", value_type=Order))
    async def of_orders(stream: Any) -> None:
        async for order in stream:
            orders[order.k] += 1

    @app.agent(app.topic("anything"))
    async def of_anything(stream: Any) -> None:
        async for value in stream:
            anything[str(value)] += 1

    app.broker.produce_json("texts", ["a", None, "b"], [0.0] * 3, [None] * 3)
    app.broker.produce_json("orders", [{"k": "a"}, None, {"k": "b"}], [0.0] * 3, [None] * 3)
    app.broker.produce_json("anything", ["a", None], [0.0] * 2, [None] * 2)
    app.run(until="drained")
    assert table_of(app, "texts") == table_of(app, "orders") == {("a", 0.0): 1, ("b", 0.0): 1}
    assert table_of(app, "anything") == {"a": 1, "None": 1}
    letters = topics.read(app.broker, app.dead_letters).to_pylist()
    assert {(one["agent"], one["value"]) for one in letters} == {("of_texts", "null"), ("of_orders", "null")}


def test_a_worker_logs_dead_letters(caplog: pytest.LogCaptureFixture) -> None:
    letters = [DeadLetter("in", "agent", f"reason {n}", None, n, 0.0) for n in range(3)]
    Worker([], [], [], "shop-dead-letters", OutsideState((), frozenset()))._log_dead_letters(letters)
    assert caplog.messages == [
        "3 messages of the topic 'in' were rejected for the agent 'agent' and are in the topic 'shop-dead-letters'. "
        "The first one: reason 0"
    ]


@pytest.mark.always
def test_tables_with_values_that_json_lacks_are_read(tmp_path: Path, spark: SparkSession) -> None:
    app = app_in(tmp_path, spark=spark)
    table = app.Table("values")
    counts = app.Table("counts", default=Counter)

    @app.agent(app.topic("in", value_type=str))
    async def keep(stream: Any) -> None:
        async for name in stream:
            counter = counts["all"]
            counter[name] += 1
            counts["all"] = counter
            table[name] = {
                "inf": float("inf"),
                "nan": [float("nan")],
                "tuple": {(1, "a"): np.float64(0.5)},
                "deque": deque([1, 2]),
                "window": faust.TumblingWindow(10).current(5.0),
            }[name]

    put(app, "in", *((name, 0.0) for name in ("inf", "nan", "tuple", "deque", "window", "inf")))
    app.run(until="drained")
    assert {json.loads(row.key): row.value for row in app.table("values").read().collect()} == {
        "inf": "Infinity",
        "nan": "[NaN]",
        "tuple": '{"[1, \\"a\\"]": 0.5}',
        "deque": "[1, 2]",
        "window": "[0.0, 10.0]",
    }
    assert table_of(app, "counts") == {"all": {"inf": 2, "nan": 1, "tuple": 1, "deque": 1, "window": 1}}


def test_headers_of_messages_need_kafka(tmp_path: Path, spark: SparkSession) -> None:
    app = app_in(tmp_path, spark=spark)
    out = app.topic("out")

    @app.agent(app.topic("in"))
    async def send(stream: Any) -> None:
        async for value in stream:
            await out.send(value=value, headers={"trace": b"t-1"})

    put(app, "in", (1, 0.0))
    with pytest.raises(MullionError, match="A row for topic 'out' has headers, and a topic in a folder has none"):
        app.run(until="drained")
    with pytest.raises(InvalidArgumentError, match=r"headers\[0\] has \('trace', 't-1'\), which is not a name"):
        out.written(None, 1, headers={"trace": "t-1"})  # type: ignore[arg-type]


def test_messages_keep_their_order_and_their_fields() -> None:
    records = [{"a": 1}, {"a": 2}, {"a": 3, "b": "x"}, 5, {"a": 4}]
    sent = [Sent("t", key, value) for key, value in zip(["k", "k", "k", 7, "k"], records, strict=True)]
    letter = DeadLetter("in", "agent", "why", "k", {"n": 1}, 2.0)
    (batch,) = outputs(sent, [letter], "dead")
    rows = [(r["topic"], r["key"], values_in(topics.decoded(r["batch"]))) for r in batch.to_pylist()]
    assert rows == [
        ("t", "k", [{"a": 1}, {"a": 2}]),
        ("t", "k", [{"a": 3, "b": "x"}]),
        ("t", "7", [5]),
        ("t", "k", [{"a": 4}]),
        ("dead", "k", [{"topic": "in", "agent": "agent", "reason": "why", "value": '{"n": 1}', "timestamp": 2.0}]),
    ]
    assert list(outputs([], [], "dead")) == []
    odd = [{"a": 1}, {"a": "x"}, {"a": [1, "x"]}]
    for as_text in (False, True):
        (mixed,) = outputs([Sent("t", None, value) for value in odd], [], "dead", as_text=as_text)
        assert [value for one in mixed["batch"].to_pylist() for value in values_in(topics.decoded(one))] == odd


def test_fields_may_have_any_name_that_is_not_the_topics_own_and_events_none(tmp_path: Path) -> None:
    for compiled in (True, False):
        app = app_in(tmp_path / str(compiled), compiled=compiled)
        docs = app.Table("docs", default=int).tumbling(10)
        out = app.topic("out")

        @app.agent(app.topic("in", value_type=dict), sink=[out])
        async def count(stream: Any, docs: Any = docs) -> Any:
            async for event in stream:
                docs[event["_id"]] += event["_source"]
                yield {}

        put(app, "in", ({"_id": "a", "_source": 2}, 1.0), ({"_id": "a", "_source": 3}, 2.0))
        app.run(until="drained")
        assert table_of(app, "docs") == {("a", 0.0): 5}
        assert len(topics.read(app.broker, "out")) == 2
