"""Topics in a folder as streams: each call is a micro-batch, and a query's start fixes the columns."""

from __future__ import annotations

import datetime
import decimal
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mullion import topics
from mullion.errors import InvalidArgumentError, MullionError
from mullion.topics._folder.topic import DirTopic
from mullion.topics._records import values_of
from tests.support.kafka.topic_batches import batches, values
from tests.support.models import random_rows
from tests.support.seeds import SEED

UTC = datetime.UTC


@pytest.fixture
def broker(tmp_path: Path) -> topics.DirBroker:
    return topics.DirBroker(tmp_path / "topics")


def test_each_call_is_a_micro_batch_with_its_rows_in_order_and_its_columns(
    broker: topics.DirBroker, spark: SparkSession
) -> None:
    topics.produce(broker, "orders", [{"n": i, "amount": 1} for i in range(1000)], timestamps=range(1000))
    topics.produce(broker, "orders", [{"n": 0, "amount": None}], keys=["k"])
    topics.produce(broker, "orders", [{"n": 1}])
    topics.produce(broker, "orders", [{"n": 2, "amount": 0.5, "why:not": "x"}])

    stream = broker.stream(spark, "orders")
    assert stream.columns == ["n", "amount", "why:not", "_key", "_timestamp", "_columns"]
    had = [topics.has_columns("n", "amount").alias("both"), topics.has_columns("why").alias("why")]
    first, *rest = batches(stream.select("*", *had), broker.path)

    assert [(row.n, row.amount, row._timestamp.timestamp()) for row in first] == [(i, 1.0, i) for i in range(1000)]
    assert [[(row.n, row.amount, row["why:not"], row._key, row.both, row.why) for row in batch] for batch in rest] == [
        [(0, None, None, "k", True, False)],
        [(1, None, None, None, False, False)],
        [(2, 0.5, "x", None, True, False)],
    ]


def random_value(rng: random.Random, kind: str) -> Any:
    """A value of one of the types of a column."""
    if rng.random() < 0.2:
        return None
    match kind:
        case "number":
            return rng.choice([rng.randrange(-(2**40), 2**40), rng.uniform(-1, 1)])
        case "text":
            return rng.choice(["", "a", "ö"])
        case "list":
            return [random_value(rng, "number") for _ in range(rng.randrange(3))]
        case "record":
            return {name: random_value(rng, "number") for name in "abc" if rng.random() < 0.5}
    raise AssertionError(kind)


def simplified(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: simplified(inner) for name, inner in value.items() if simplified(inner) is not None} or None
    return value


def test_a_stream_has_what_a_read_has_for_random_calls(broker: topics.DirBroker, spark: SparkSession) -> None:
    rng = random.Random(SEED)
    kinds = ["number", "text", "list", "record"]
    expected = []
    for _call in range(30):
        names = rng.sample([f"{kind}_{i}" for kind in kinds for i in range(2)], rng.randrange(1, 6))
        rows = [{name: random_value(rng, name.split("_")[0]) for name in names} for _ in range(rng.randrange(1, 4))]
        topics.produce(broker, "random", rows)
        expected += rows

    read = values(topics.read(broker, "random"))
    about = DirTopic(broker.path, "random").about()
    for row, fields in zip(read, expected, strict=True):
        for name, value in row.items():
            wanted = fields.get(name)
            # A record without values equals null.
            assert simplified(value) == pytest.approx(simplified(wanted)), f"{name}, MULLION_SEED={SEED}"

    streamed = [row for batch in batches(broker.stream(spark, "random"), broker.path) for row in batch]
    shown = [{name: row.asDict(recursive=True)[name] for name in about.schema.names} for row in streamed]
    assert shown == read, f"MULLION_SEED={SEED}"


def test_random_rows_of_random_types_survive_or_are_rejected(
    broker: topics.DirBroker, spark: SparkSession, tmp_path: Path
) -> None:
    seed = SEED
    tables: list[pa.Table] = []

    def produce(call: Any) -> None:
        topics.produce(broker, "random", call)
        tables.append(values_of("random", call))

    rows = random_rows.accepted_calls(random.Random(seed), 40, produce)
    streamed = random_rows.streamed(broker.stream(spark, "random"), tmp_path / "checkpoint")
    random_rows.publish(spark, tmp_path, tables, broker.publisher(), "published")
    ways = {
        "read": values(topics.read(broker, "random")),
        "streamed": [{name: row[name] for name in row if not name.startswith("_")} for row in streamed],
        "published": values(topics.read(broker, "published")),
    }
    for way, actual in ways.items():
        assert len(actual) == len(rows), f"{way}, MULLION_SEED={seed}"
        for row, expected in zip(actual, rows, strict=True):
            assert random_rows.same(row, expected), f"{way} as {row}, was {expected}: MULLION_SEED={seed}"


def test_the_schema_is_fixed_at_the_first_start_and_kept(
    broker: topics.DirBroker, spark: SparkSession, tmp_path: Path
) -> None:
    remembered = tmp_path / "state" / "orders.schema.json"
    topics.produce(broker, "orders", [{"n": 1, "who": None}])
    first = broker.stream(spark, "orders", remembered=remembered)
    topics.produce(broker, "orders", [{"n": 2, "more": 1}])
    assert [[(row.n, row.who) for row in batch] for batch in batches(first, broker.path)] == [[(1, None)], [(2, None)]]

    again = broker.stream(spark, "orders", remembered=remembered)
    assert again.columns == first.columns
    assert broker.stream(spark, "orders").columns == ["n", "who", "more", "_key", "_timestamp", "_columns"]

    topics.produce(broker, "orders", [{"n": 0.5}])
    with pytest.raises(InvalidArgumentError, match="'n' the query began with bigint, and the topic has double"):
        broker.stream(spark, "orders", remembered=remembered)
    topics.produce(broker, "other", [{"x": 1}])
    with pytest.raises(InvalidArgumentError, match="'n' the query began with bigint, and the topic has none"):
        broker.stream(spark, "other", remembered=remembered)


def test_a_column_that_becomes_wider_under_a_running_query_stops_it_before_a_row_is_misread(
    broker: topics.DirBroker, spark: SparkSession
) -> None:
    topics.produce(broker, "orders", [{"n": 1}])
    stream = broker.stream(spark, "orders")
    topics.produce(broker, "orders", [{"n": 2}])
    topics.produce(broker, "orders", [{"n": 2.5}])
    topics.produce(broker, "orders", [{"n": 3}])

    numbers: list[int] = []
    query = (
        stream.writeStream.foreachBatch(lambda rows, _: numbers.extend(row.n for row in rows.collect()))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match="Topic 'orders': a column became wider since this query started"):
        query.awaitTermination()
    assert numbers == [1, 2]


def _prices(stream: DataFrame) -> list[Any]:
    prices: list[Any] = []
    query = stream.writeStream.foreachBatch(lambda rows, _: prices.extend(row.price for row in rows.collect()))
    query.trigger(availableNow=True).start().awaitTermination()
    return prices


def test_decimals_that_are_declared_are_written_streamed_and_read_with_all_of_their_digits(
    broker: topics.DirBroker, spark: SparkSession
) -> None:
    price, fine = decimal.Decimal("1.50"), decimal.Decimal("12345678901234567890.12")
    topics.produce(broker, "sums", [{"price": price}])
    # A topic with rows, and one without.
    streams = [broker.stream(spark, "sums", schema="price decimal(30, 2)")]
    streams.append(broker.stream(spark, "prices", schema="price decimal(30, 2), of struct<d: decimal(10, 4)>"))
    for topic in ("sums", "prices"):
        topics.produce(broker, topic, [{"price": fine}, {"price": None}])
        topics.produce(broker, topic, [{"price": 3}])
        topics.produce(broker, topic, [{"price": decimal.Decimal("0.1")}])
        with pytest.raises(
            InvalidArgumentError, match=r"'price' is double here, and decimal\(30,2\) in the topic.*Send"
        ):
            topics.produce(broker, topic, [{"price": 0.25}])
    topics.produce(broker, "prices", [{"of": {"d": decimal.Decimal("1.5")}}])

    fitting = [fine, None, decimal.Decimal(3), decimal.Decimal("0.1")]
    for topic, stream in zip(("sums", "prices"), streams, strict=True):
        prices = _prices(stream)
        assert prices == ([price, *fitting] if topic == "sums" else [*fitting, None])
        table = topics.read(broker, topic)
        assert table["price"].to_pylist() == prices
        assert table["price"].type == pa.decimal128(30, 2)
    assert topics.read(broker, "prices")["of"].to_pylist()[-1] == {"d": decimal.Decimal("1.5000")}


def test_decimals_and_floats_are_no_one_column_wherever_they_are(broker: topics.DirBroker) -> None:
    price = decimal.Decimal("0.10")
    for first, second in ((price, 0.1), (0.1, price)):
        for row in (lambda n: {"n": n}, lambda n: {"n": {"x": n}}):
            with pytest.raises(InvalidArgumentError, match=r"column '(n|n\.x)' has one type, and data\[0\] has"):
                topics.produce(broker, "mixed", [row(first), row(second)])
    assert not broker.path.exists()

    one = {"n": price, "of": {"d": price}, "all": [price], "f": 1.5}
    topics.produce(broker, "prices", [one])
    refused = [
        ({"of": {"d": 0.25}}, r"'of\.d' is double here, and decimal\(2,2\) in the topic.* Send decimals"),
        ({"all": [0.25]}, r"'all\[\]' is double here, and decimal\(2,2\) in the topic"),
        ({"f": price}, r"'f' is decimal\(2,2\) here, and double in the topic, .* Send float"),
        (pa.table({"n": pa.array([0.5], pa.float32())}), r"'n' is float here, and decimal\(2,2\) in the topic"),
    ]
    for rows, message in refused:
        with pytest.raises(InvalidArgumentError, match=message):
            topics.produce(broker, "prices", rows if isinstance(rows, pa.Table) else [rows])
    # Values that fit are exact: as decimals of the column, or of a wider one.
    topics.produce(broker, "prices", [{"of": {"d": 0}, "all": [0, None]}])
    assert topics.read(broker, "prices").schema.field("all").type == pa.list_(pa.decimal128(2, 2))
    topics.produce(broker, "prices", [{"of": {"d": 7}, "f": 2}])
    records = values(topics.read(broker, "prices"))
    assert [row["of"] and row["of"]["d"] for row in records] == [price, decimal.Decimal(0), decimal.Decimal(7)]
    assert [row["all"] for row in records] == [[price], [decimal.Decimal(0), None], None]
    assert [row["f"] for row in records] == [1.5, None, 2.0]


def test_a_schema_that_is_given_is_announced_to_producers_who_then_keep_to_it(
    broker: topics.DirBroker, spark: SparkSession
) -> None:
    declared = "amount double, who string, at struct<x: bigint>, `when` timestamp"
    stream = broker.stream(spark, "orders", schema=declared)
    topics.produce(broker, "orders", [{"amount": 1, "when": datetime.datetime(2024, 1, 1, tzinfo=UTC)}])
    topics.produce(broker, "orders", [{"who": None, "at": {"x": 3}, "more": True}])

    shown = [[tuple(row) for row in batch] for batch in batches(stream.drop("_timestamp", "_columns"), broker.path)]
    at = datetime.datetime(2024, 1, 1)
    assert shown == [[(1.0, None, None, at, None)], [(None, None, Row(x=3), None, None)]]
    with pytest.raises(InvalidArgumentError, match="column 'amount' is string here, and double in the topic"):
        topics.produce(broker, "orders", [{"amount": "1"}])
    with pytest.raises(InvalidArgumentError, match=r"'amount' schema= \w+ bigint, and the topic has double"):
        broker.stream(spark, "orders", schema="amount bigint")
    with pytest.raises(InvalidArgumentError, match="'amount' is string here, and double in the topic"):
        broker.stream(spark, "orders", schema="amount string")
    same = pa.schema({"amount": pa.float64(), "at": pa.struct({"x": pa.int64()})})
    assert broker.stream(spark, "orders", schema=same).columns[:2] == ["amount", "at"]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, "has no rows yet, and so no columns. .* schema='region string, amount double'"),
        ("", "schema= has no columns"),
        ("amount dubble", "schema='amount dubble' is not a schema as DDL"),
        (5, r"schema=5 \(int\) is not a schema"),
        ("_key string", "schema= has the column '_key', which is the topic's own"),
        (pa.schema({"a": pa.duration("s")}), "Arrow type duration"),
        (pa.schema({}), "schema= has no columns"),
    ],
)
def test_a_stream_without_a_schema_is_rejected_with_the_fix(
    broker: topics.DirBroker, spark: SparkSession, schema: Any, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        broker.stream(spark, "orders", schema=schema)


def test_a_note_of_a_later_format_is_rejected(broker: topics.DirBroker) -> None:
    topics.produce(broker, "orders", [{"n": 1}])
    note = broker.path / "orders" / "_topic.json"
    note.write_text(note.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(MullionError, match="is of format 2: a later Mullion wrote it"):
        topics.read(broker, "orders")


def test_the_files_can_be_read_by_others(broker: topics.DirBroker, spark: SparkSession) -> None:
    topics.produce(broker, "orders", [{"n": 1}], keys=["k"], timestamps=[2])
    folder = broker.path / "orders"
    assert spark.read.parquet(str(folder)).select("n:bigint", F.unix_micros("_timestamp")).first() == (1, 2_000_000)
    assert pq.read_table(next(folder.glob("*.parquet")))["_key"].to_pylist() == ["k"]
