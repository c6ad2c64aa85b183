"""Messages of any shape: an agent reads the message that was sent, independent of the messages around it."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.types import DecimalType, StructField, StructType

import mullion.faust as faust
import mullion.turbine as turbine
from mullion import topics
from mullion.topics import KafkaBroker, _types, decoded, encoded
from mullion.topics._folder.json import filed
from mullion.topics._json_rows import batches, texts, values_in
from mullion.topics._kafka import client as _kafka_client
from tests.support.seeds import SEED

# Workers do not have the folder of the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

UNUSUAL: list[Any] = [
    {"n": 1},
    {"n": 2.5, "items": [["a", 1]]},
    {"items": []},
    {"n": "x"},
    {"n": None, "m": {"a": 1}},
    {"m": {"b": 1}},
    {"m": {"a": 1, "b": None}},
    {"m": {}},
    {},
    5,
    None,
    "x",
    [1, "a"],
    {"value": 5},
    {"value": [1, {}]},
    {"N": 1, "n": 2},
    {"_key": 2, "_json": "{}", "": 3, "a\nb": 4, "\0n": 1},
    {"n": 2**70, "x": -0.0},
    {"n": 2**53 + 1},
    {"é": "\ud800", "\udfff": "é"},
    [[[[]]], {"a": [{"b": [None]}]}],
]
NAMES = ["n", "x", "m", "N", "items", "value", "_key", "_json", "", "a\nb", "é", "n.x", "`", "\0n", "later"]


def any_value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(12 if depth < 3 else 8)
    if kind > 9:
        return {rng.choice(NAMES): any_value(rng, depth + 1) for _ in range(rng.randrange(4))}
    if kind > 7:
        return [any_value(rng, depth + 1) for _ in range(rng.randrange(3))]
    return rng.choice(
        [
            None,
            rng.random() < 0.5,
            rng.randrange(-9, 9),
            rng.choice([1, -1]) * rng.randrange(2**52, 2**66),
            rng.choice([0.5, -0.0, 1.0, 1e300, 2.0**53]),
            rng.choice(["", "x", "é", "null", "1", "\ud800", "\U0001f600", '"\\\n']),
            rng.randrange(-9, 9),
            "word",
        ]
    )


def message(rng: random.Random) -> Any:
    """A random value: mostly records with common fields."""
    if rng.random() < 0.15:
        return any_value(rng)
    usual: list[Any] = [{"n": rng.randrange(9), "x": rng.random()}, {"n": 1}, {"n": 2, "m": {"a": 1}}]
    fields: dict[str, Any] = dict(rng.choice(usual))
    if rng.random() < 0.5:
        fields[rng.choice(NAMES)] = any_value(rng, 1)
    return fields


def texts_of(values: Sequence[Any]) -> list[str]:
    return [json.dumps(value, sort_keys=True) for value in values]


@pytest.fixture(params=["dir", pytest.param("kafka", marks=pytest.mark.xdist_group("kafka"))])
def broker(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> topics.Broker:
    """Each kind of broker."""
    server = request.getfixturevalue("kafka") if request.param == "kafka" else None
    return topics.broker(f"dir:{tmp_path / 'topics'}" if server is None else server.url)


def put(broker: topics.Broker, topic: str, values: Sequence[Any], keys: Sequence[str] | None = None) -> None:
    """Sends values: to Kafka with its client, to a folder in several calls, as an App does."""
    keys = keys or ["k"] * len(values)
    if isinstance(broker, KafkaBroker):
        rows = [(key, json.dumps(value).encode(), 1_000_000) for key, value in zip(keys, values, strict=True)]
        _kafka_client.produce(broker.servers, topic, rows)
        return
    for start in range(0, len(values), 7):
        part = values[start : start + 7]
        broker.produce_json(topic, part, [1.0] * len(part), keys[start : start + 7])


def forwarding(broker: topics.Broker, name: str, folder: Path) -> faust.App:
    """An App with two agents: the first forwards its input to the second, which prints and yields it."""
    app = faust.App(name, broker=broker, checkpoint=folder / name)
    mid, out = app.topic(f"{name}-mid"), app.topic(f"{name}-out")

    @app.agent(app.topic(f"{name}-in"))
    async def forward(stream: Any) -> None:
        async for value in stream:
            await mid.send(key="k", value=value)

    @app.agent(mid, sink=[out])
    async def show(stream: Any) -> Any:
        async for value in stream:
            print(json.dumps(value, sort_keys=True))
            yield value

    return app


def shown(app: faust.App, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    app.run(until="drained")
    return capsys.readouterr().out.splitlines()


def reading(broker: topics.Broker, topic: str, folder: Path) -> faust.App:
    app = faust.App(f"{topic}-reader", broker=broker, checkpoint=folder / f"{topic}-reader")

    @app.agent(app.topic(topic))
    async def show(stream: Any) -> None:
        async for value in stream:
            print(json.dumps(value, sort_keys=True))

    return app


@pytest.mark.slow
def test_messages_of_any_shape_are_read_as_they_were_sent_in_any_order(
    broker: topics.Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = SEED
    rng = random.Random(seed)
    firsts: list[list[Any]] = [[{"n": 1}], [5], [{}], [[1, "a"], None], [message(rng), message(rng)]]
    for number, first in enumerate(firsts):
        name = f"shapes{number}-{seed}"
        put(broker, f"{name}-mid", first)
        sent = list(first)
        read: list[str] = []
        for part in ([*UNUSUAL, *(message(rng) for _ in range(20))], [message(rng) for _ in range(30)]):
            put(broker, f"{name}-in", part)
            sent += part
            read += shown(forwarding(broker, name, tmp_path), capsys)
        assert read == texts_of(sent), f"MULLION_SEED={seed}"
        # Another App reads all yielded values.
        assert Counter(shown(reading(broker, f"{name}-out", tmp_path), capsys)) == Counter(texts_of(sent))


@pytest.mark.sampled(1)
def test_later_messages_may_have_new_fields_and_types(
    broker: topics.Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"later-{SEED}"
    put(broker, f"{name}-mid", [{"n": 1}])
    put(broker, f"{name}-in", UNUSUAL)
    app = forwarding(broker, name, tmp_path)
    assert shown(app, capsys) == texts_of([{"n": 1}, *UNUSUAL])
    put(broker, f"{name}-in", [{"items": [["b", 2]], "more": 1.5}, {"more": 2}])
    again = shown(forwarding(broker, name, tmp_path), capsys)
    assert again == texts_of([{"items": [["b", 2]], "more": 1.5}, {"more": 2}])
    assert shown(reading(broker, f"{name}-out", tmp_path), capsys)[: len(UNUSUAL) + 1] == texts_of([{"n": 1}, *UNUSUAL])


def summing(broker: topics.Broker, topic: str, folder: Path, *, compiled: bool) -> faust.App:
    app = faust.App(f"{topic}-{compiled}", broker=broker, checkpoint=folder / f"{topic}-{compiled}", compiled=compiled)
    sums = app.Table("sums", default=int).tumbling(1e6)

    @app.agent(app.topic(topic), on_error="dead_letter")
    async def add(stream: Any) -> None:
        async for event in stream:
            sums[event["k"]] += event["n"]

    return app


@pytest.mark.sampled(1)
def test_sums_in_the_jvm_equal_those_of_python_for_messages_of_many_shapes(
    broker: topics.Broker, tmp_path: Path
) -> None:
    seed = SEED
    rng, topic = random.Random(seed), f"sums-{seed}"
    unusual: list[Any] = [
        {"k": "a", "n": 2**64},
        {"k": "b", "n": 1, "more": [["x", 1]]},
        {"k": 1, "n": 1},
        {"k": 1.0, "n": 1.5},
        {"k": 0.5, "n": 3},
        {"k": False, "n": 1},
        {"n": 1, "k": "c", "N": 5},
        {"k": "é", "n": 2.0},
    ]
    bad: list[Any] = [{"k": "a"}, {"k": "a", "n": "x"}, {"n": 1}, 7, "x", [1], {"k": ["a"], "n": 1}]
    usual = [{"k": rng.choice("abc"), "n": rng.choice([rng.randrange(9), rng.randrange(9) / 2])} for _ in range(60)]
    expected: dict[Any, Any] = {}
    apps: dict[bool, faust.App] = {}
    # Usual messages first: their fields become the columns. Unusual messages follow.
    for part in (usual[:20], [*usual[20:40], *unusual, *bad], usual[40:]):
        values = list(part)
        put(broker, topic, values)
        for value in values:
            if value not in bad:
                expected[value["k"]] = expected.get(value["k"], 0) + value["n"]
        for compiled in (True, False):
            apps[compiled] = summing(broker, topic, tmp_path, compiled=compiled)
            apps[compiled].run(until="drained")
    assert apps[True].explain().parts[0].runs == "JVM"
    for app in apps.values():
        rows = app.table("sums").read().collect()
        sums = {json.loads(row.key): json.loads(row.value) for row in rows}
        assert sums == expected, f"MULLION_SEED={seed}"
        assert {key: type(value) for key, value in sums.items()} == {k: type(v) for k, v in expected.items()}
        letters = topics.read(broker, app.dead_letters).to_pylist()
        assert len(letters) == len(bad)


def test_readers_of_columns_receive_a_marked_text_for_other_values(tmp_path: Path, spark: SparkSession) -> None:
    broker = topics.broker(f"dir:{tmp_path / 'topics'}")
    put(broker, "orders", [{"n": 1}])
    began = broker.stream(spark, "orders")
    put(broker, "orders", [{"n": 2, "items": [["a", 1]]}, {"n": "x"}])
    table = topics.read(broker, "orders")
    assert table.schema.field("_json").metadata == {b"mullion": b"json"}
    assert table.select(["n", "_json"]).to_pylist() == [
        {"n": 1, "_json": None},
        {"n": 2, "_json": '{"n": 2, "items": [["a", 1]]}'},
        {"n": None, "_json": '{"n": "x"}'},
    ]
    later = broker.stream(spark, "orders")
    assert later.schema["_json"].metadata == {"mullion": "json"}
    assert [(row.n, row._json is None) for row in rows_of(later, tmp_path)] == [(1, True), (2, False), (None, False)]
    with pytest.raises(Exception, match="a JSON value came that has no place in the columns of this query: "):
        rows_of(began, tmp_path)


def rows_of(stream: Any, folder: Path) -> list[Any]:
    collected: list[Any] = []
    query = (
        stream.writeStream.foreachBatch(lambda rows, _: collected.extend(rows.collect()))
        .option("checkpointLocation", str(folder / f"cp{random.random()}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return collected


def test_readers_of_columns_receive_floats_if_ints_and_floats_are_mixed(tmp_path: Path, spark: SparkSession) -> None:
    broker = topics.broker(f"dir:{tmp_path / 'topics'}")
    put(broker, "orders", [{"n": 1}, {"n": 2.5}, {"n": 3}])
    assert topics.read(broker, "orders").select(["n"]).to_pylist() == [{"n": 1.0}, {"n": 2.5}, {"n": 3.0}]
    assert [row.n for row in rows_of(broker.stream(spark, "orders"), tmp_path)] == [1.0, 2.5, 3.0]
    assert "_json" not in broker.stream(spark, "orders").columns


def test_rows_that_fit_their_columns_have_no_text(tmp_path: Path) -> None:
    broker = topics.DirBroker(tmp_path)
    rows: list[Any] = [{"n": n, "x": 0.5, "of": {"a": "b"}, "all": [1, None], "none": None} for n in range(3)]
    broker.produce_json("plain", rows, [1.0] * 3, [None] * 3)
    (file,) = (tmp_path / "plain").glob("[0-9]*.parquet")
    names = pq.read_schema(file).names
    assert not any("_json" in name or "_sent" in name for name in names)
    assert len(list(batches(rows))) == 1


def test_random_values_survive_batches_and_files() -> None:
    seed = SEED
    rng = random.Random(seed)
    for _ in range(30):
        schema: Any = filed(list(batches([message(rng) for _ in range(3)])), StructType()).values.schema
        values = [message(rng) for _ in range(20)]
        decoded_batches = [decoded(encoded(batch)) for batch in batches(values)]
        assert texts_of([value for batch in decoded_batches for value in values_in(batch)]) == texts_of(values), seed
        assert texts_of(values_in(texts(values))) == texts_of(values)
        rows = filed(decoded_batches, _types.schema_of(schema))
        assert len(rows.columns) == len(values)
        sent = [None] * len(values) if rows.sent is None else rows.sent.to_pylist()
        unusual = rows.values["_json"].to_pylist() if "_json" in rows.values.column_names else [None] * len(values)
        for value, one, other in zip(values, sent, unusual, strict=True):
            assert one is None or other is None
            text = one or other
            assert text is None or texts_of([json.loads(text)]) == texts_of([value]), seed


def test_a_column_of_decimals_shows_ints_that_fit_and_no_floats() -> None:
    schema = StructType([StructField("d", DecimalType(10, 2))])
    rows = filed(list(batches([{"d": 5}, {"d": 2.5}, {"d": 10**9}])), schema)
    assert [row["d"] for row in rows.values.to_pylist()] == [5, None, None]
    assert rows.values["_json"].to_pylist() == [None, '{"d": 2.5}', '{"d": 1000000000}']
    assert rows.sent is not None
    assert rows.sent.to_pylist() == ['{"d": 5}', None, None]


def test_turbine_receives_the_text_of_values_that_columns_do_not_hold(tmp_path: Path, spark: SparkSession) -> None:
    broker = topics.broker(f"dir:{tmp_path / 'topics'}")
    put(broker, "orders", [{"n": 1}, {"n": 2.5}, {"n": "x"}])
    app = turbine.App("odd", broker=broker, checkpoint=tmp_path / "app", spark=spark)

    @app.subscribe("orders", publish_to="seen")
    class Orders:
        def process(self, batch: pa.RecordBatch, state: Any) -> Any:
            rows = [{"n": row["n"], "text": row.get("_json")} for row in batch.to_pylist()]
            return pa.RecordBatch.from_pylist(rows)

    app.run(until="drained")
    assert topics.read(broker, "seen").select(["n", "text"]).to_pylist() == [
        {"n": 1.0, "text": None},
        {"n": 2.5, "text": None},
        {"n": None, "text": '{"n": "x"}'},
    ]
