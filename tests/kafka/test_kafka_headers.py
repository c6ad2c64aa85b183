"""Headers of Kafka records."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mullion import topics
from mullion.errors import InvalidArgumentError, UnsupportedError
from tests.support.kafka.kafka_server import KafkaServer
from tests.support.seeds import SEED

# One worker of pytest runs all of these tests, with one broker.
pytestmark = pytest.mark.xdist_group("kafka")

RANGES = [*range(1, 0x300), 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFE, 0xFFFF, 0x1F600, 0x10FFFF]

HEADERS: list[Any] = [
    {"id": b"\x00\xff", "trace": b"t-1"},
    [("id", b"1"), ("id", None), ("", b"x" * 100_000)],
    None,
    {"Größe \U0001f600": "ü".encode()},
]
AS_READ = [
    [("id", b"\x00\xff"), ("trace", b"t-1")],
    [("id", b"1"), ("id", None), ("", b"x" * 100_000)],
    [],
    [("Größe \U0001f600", "ü".encode())],
]


def pairs(rows: Any) -> list[list[tuple[str, bytes | None]]]:
    return [[(header["key"], header["value"] and bytes(header["value"])) for header in row] for row in rows]


def test_headers_return_in_order_and_in_a_stream_and_reach_another_topic(
    kafka: KafkaServer, spark: SparkSession, tmp_path: Path
) -> None:
    broker = topics.broker(kafka.url)
    topics.produce(broker, "headed", range(4), keys=["k"] * 4, timestamps=[1, 2, 3, 4], headers=HEADERS)
    assert pairs(topics.read(broker, "headed", headers=True)["_headers"].to_pylist()) == AS_READ
    assert topics.read(broker, "headed").column_names == ["value", "_key", "_timestamp"]

    rows = broker.stream(spark, "headed", headers=True)
    assert rows.columns == ["value", "_key", "_timestamp", "_headers", "_columns"]

    def outputs(batches: Any) -> Any:
        for batch in batches:
            for row in batch.to_pylist():
                encoded = topics.encoded(pa.RecordBatch.from_pylist([{"value": row["value"]}]))
                output = {"topic": "headed-on", "key": row["_key"], "batch": encoded, "headers": row["_headers"]}
                yield pa.RecordBatch.from_pylist([output], schema=made_of)

    made_of = pa.schema(
        [
            ("topic", pa.string()),
            ("key", pa.string()),
            ("batch", pa.binary()),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ]
    )
    publisher = broker.publisher()
    writer = rows.mapInArrow(outputs, topics.OUTPUTS_WITH_HEADERS).writeStream.foreachBatch(publisher.publish)
    writer.option("checkpointLocation", str(tmp_path / "on")).trigger(availableNow=True).start().awaitTermination()
    publisher.close()
    there = topics.read(broker, "headed-on", headers=True)
    assert there["value"].to_pylist() == [0, 1, 2, 3]
    assert pairs(there["_headers"].to_pylist()) == AS_READ


def test_random_headers_come_back_as_they_were_sent(kafka: KafkaServer) -> None:
    rng = random.Random(SEED)

    def name() -> str:
        return "".join(chr(rng.choice(RANGES)) for _ in range(rng.choice([0, 1, 3, 40, 5000])))

    def header() -> tuple[str, bytes | None]:
        return name(), None if rng.random() < 0.2 else rng.randbytes(rng.choice([0, 1, 7, 3000]))

    sent = [[header() for _ in range(rng.choice([0, 1, 2, 60]))] for _ in range(100)]
    topics.produce(kafka.url, "random-headers", range(100), keys=["k"] * 100, timestamps=range(1, 101), headers=sent)
    there = topics.read(kafka.url, "random-headers", headers=True)
    assert pairs(there["_headers"].to_pylist()) == sent, f"MULLION_SEED={SEED}"


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"a": b"b"}, r"headers={'a': b'b'} is not a list with each row's headers"),
        (
            [{"a": "text"}],
            r"headers\[0\] has \('a', 'text'\), which is not a name, without NUL, and bytes",
        ),
        ([{1: b"b"}], r"has \(1, b'b'\), which is not a name"),
        ([{"\ud800": b"b"}], "which is not a name"),
        ([{"a\0b": b"b"}], "which is not a name"),
        ([b"bytes"], r"headers\[0\]=b'bytes' \(bytes\) is not the headers of a row"),
        ([7], r"headers\[0\]=7 \(int\) is not the headers of a row"),
        ([None, None], "headers"),
    ],
)
def test_headers_that_kafka_does_not_take_are_rejected(kafka: KafkaServer, headers: Any, why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        topics.produce(kafka.url, "refused-headers", [{"n": 1}], headers=headers)
    assert topics.read(kafka.url, "refused-headers").num_rows == 0


def test_a_column_with_the_name_of_headers_is_rejected_where_they_are_asked_for(
    kafka: KafkaServer, spark: SparkSession
) -> None:
    broker = topics.broker(kafka.url)
    topics.produce(broker, "named", [{"_Headers": 1}])
    for refused in (
        lambda: topics.read(broker, "named", headers=True),
        lambda: broker.stream(spark, "named", headers=True),
    ):
        with pytest.raises(InvalidArgumentError, match="'_Headers' of its values has the name of the column for Kafka"):
            refused()
    with pytest.raises(UnsupportedError, match=r"leave out raw= and unfit="):
        broker.stream(spark, "named", headers=True, raw=True)
