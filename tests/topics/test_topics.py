"""Topics in a folder: produced rows are read in order, with the topic's present columns."""

from __future__ import annotations

import datetime
import decimal
import functools
import itertools
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mullion import topics
from mullion._util.clock import ManualClock
from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.topics._folder.topic import DirTopic, write_rows
from tests.support.kafka.topic_batches import batches, values

UTC = datetime.UTC


@pytest.fixture
def broker(tmp_path: Path) -> topics.DirBroker:
    return topics.DirBroker(tmp_path / "topics")


def test_rows_come_back_in_the_order_of_the_calls_with_their_keys_and_times(broker: topics.DirBroker) -> None:
    topics.produce(broker, "orders", [{"n": 1}, {"n": 2}], timestamps=[5, 1.25], keys=["a", None])
    topics.produce(broker.url, "orders", [{"n": 0}], timestamps=[0.000001])

    assert topics.read(broker, "orders").to_pylist() == [
        {"n": 1, "_key": "a", "_timestamp": 5.0},
        {"n": 2, "_key": None, "_timestamp": 1.25},
        {"n": 0, "_key": None, "_timestamp": 0.000001},
    ]


def test_a_row_without_a_time_has_that_of_the_clock(broker: topics.DirBroker) -> None:
    clock = ManualClock(start_ms=1500)
    topics.produce(broker, "orders", [{"n": 1}], clock=clock)
    clock.advance("2 seconds")
    topics.produce(broker, "orders", [{"n": 2}], clock=clock)

    assert topics.read(broker, "orders")["_timestamp"].to_pylist() == [1.5, 3.5]


def test_values_that_are_no_records_are_in_the_column_value(broker: topics.DirBroker) -> None:
    topics.produce(broker, "numbers", [3, 4.5, None])

    assert values(topics.read(broker, "numbers")) == [{"value": 3.0}, {"value": 4.5}, {"value": None}]


def test_a_topic_that_nobody_wrote_to_is_empty(broker: topics.DirBroker) -> None:
    table = topics.read(broker, "nothing")

    assert table.schema == pa.schema([("_key", pa.string()), ("_timestamp", pa.float64())])
    assert table.num_rows == 0
    assert not broker.path.exists()


def test_arrow_batches_and_tables_keep_types_that_spark_has_and_take_the_nearest_for_others(
    broker: topics.DirBroker,
) -> None:
    instant = datetime.datetime(2024, 2, 29, 12, 30, 0, 123456, UTC)
    columns: dict[str, tuple[pa.DataType, Any, pa.DataType, Any]] = {
        "int": (pa.int32(), 7, pa.int32(), 7),
        "unsigned": (pa.uint32(), 2**32 - 1, pa.int64(), 2**32 - 1),
        "largest": (pa.uint64(), 2**64 - 1, pa.decimal128(20, 0), 2**64 - 1),
        "half": (pa.float16(), 0.5, pa.float32(), 0.5),
        "date": (pa.date32(), instant.date(), pa.date32(), instant.date()),
        "instant": (pa.timestamp("ns", "Europe/Vienna"), instant, pa.timestamp("us", "UTC"), instant),
        "local": (pa.timestamp("ms"), instant.replace(tzinfo=None, microsecond=0), pa.timestamp("us"), None),
        "bytes": (pa.large_binary(), b"\x00\xff", pa.binary(), b"\x00\xff"),
        "word": (pa.dictionary(pa.int8(), pa.string()), "north", pa.string(), "north"),
        "list": (pa.large_list(pa.uint8()), [1, 2], pa.list_(pa.int16()), [1, 2]),
        "map": (pa.map_(pa.string(), pa.int64()), [("a", 1)], pa.map_(pa.string(), pa.int64()), [("a", 1)]),
        "struct": (pa.struct({"a": pa.null(), "b": pa.int8()}), {"a": None, "b": 1}, None, {"a": None, "b": 1}),
    }
    batch = pa.RecordBatch.from_pydict({name: pa.array([value[1]], value[0]) for name, value in columns.items()})
    topics.produce(broker, "types", batch)
    topics.produce(broker, "types", pa.Table.from_batches([batch]))

    table = topics.read(broker, "types")
    for name, (_, value, kind, expected) in columns.items():
        assert kind is None or table.schema.field(name).type == kind, name
        assert table[name].to_pylist() == [value if expected is None else expected] * 2, name


def test_a_column_is_the_union_of_what_calls_bring(broker: topics.DirBroker) -> None:
    calls: tuple[list[dict[str, Any]], ...] = (
        [{"amount": 5, "who": None, "tags": [], "at": {"x": 1}, "meta": {}}],
        [{"amount": 2.5, "who": "me", "tags": [1], "at": {"y": "far"}, "meta": {"a": [None]}}],
        [{"amount": 7}, {"tags": [0.5, None]}],
        [{"meta": {"a": ["b"]}}],
    )
    for call in calls:
        topics.produce(broker, "orders", call)

    none = dict.fromkeys(("amount", "who", "tags", "at", "meta"))
    assert values(topics.read(broker, "orders")) == [
        none | {"amount": 5.0, "tags": [], "at": {"x": 1, "y": None}},
        none | {"amount": 2.5, "who": "me", "tags": [1.0], "at": {"x": None, "y": "far"}, "meta": {"a": [None]}},
        none | {"amount": 7.0},
        none | {"tags": [0.5, None]},
        none | {"meta": {"a": ["b"]}},
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "There are no rows for topic 'orders'"),
        (pa.table({"a": pa.array([], pa.int64())}), "There are no rows"),
        ({"a": 1}, r"data=\{'a': 1\} \(dict\) is not a list of rows. Write produce\(broker, 'orders', \[data\]\)"),
        ("text", "is not a list of rows"),
        (5, "is not a list of rows"),
        ([{"a": 1}, 2], r"data\[1\]=2 is not a record, and data\[0\] is one"),
        ([{}, {}], "have no columns"),
        ([{"a": 1}, {"a": "x"}], r"column 'a' has one type, and data\[0\] has 1 \(int64\) where data\[1\] has 'x'"),
        ([{"a": object()}], r"data\[0\]\['a'\]=<object .*> \(object\) has no column type"),
        ([{"a": 2**70}], r"data\[0\]\['a'\]=1180591620717411303424 \(int\) has no column type"),
        ([{1: 1}], "1 is not a column's name"),
        ([{"a\nb": 1}], "is not a column's name. Use one line of text"),
        ([{"_timestamp": 1}], "the name '_timestamp' is the topic's own"),
        ([{"a": 1, "A": 1}], "columns 'a' and 'A' differ in case alone"),
        ([{"n": "text"}], "column 'n' is string here, and bigint in the topic. .* send it as bigint"),
        ([{"at": {"x": "text"}}], "column 'at.x' is string here, and bigint in the topic"),
        ([{"tags": ["text"]}], r"column 'tags\[\]' is string here, and bigint in the topic"),
        ([{"a": datetime.timedelta(1)}], r"column 'a' has the Arrow type duration\[us\]"),
    ],
)
def test_rows_that_cannot_be_of_the_topic_are_rejected_and_nothing_is_written(
    broker: topics.DirBroker, data: Any, message: str
) -> None:
    topics.produce(broker, "orders", [{"n": 1, "at": {"x": 1}, "tags": [1]}])

    with pytest.raises(InvalidArgumentError, match=message):
        topics.produce(broker, "orders", data)
    assert topics.read(broker, "orders").num_rows == 1
    assert DirTopic(broker.path, "orders").about().schema.names == ["n", "at", "tags"]


def test_values_of_two_kinds_in_one_column_are_rejected_whatever_their_order(broker: topics.DirBroker) -> None:
    naive, day = datetime.datetime(2024, 1, 1, 5), datetime.date(2024, 1, 1)
    pairs = [(day, naive), (naive, naive.replace(tzinfo=UTC)), ("a", b"b"), (1.5, True), (1, True), (1, "1"), ([1], 1)]
    for left, right in pairs:
        for first, second in ((left, right), (right, left)):
            for rows in ([{"n": first}, {"n": None}, {"n": second}], [{"n": {"x": first}}, {"n": {"x": second}}]):
                with pytest.raises(InvalidArgumentError, match=r"column '(n|n\.x)' has one type, and data\[0\] has"):
                    topics.produce(broker, "mixed", rows)
            with pytest.raises(InvalidArgumentError, match=r"data\[1\]\['n'\]=.* in 'n\[\]', which has one type"):
                topics.produce(broker, "mixed", [{"n": []}, {"n": [first, second]}])
    assert not broker.path.exists()

    price = decimal.Decimal("0.10")
    topics.produce(broker, "alike", [{"n": True}, {"n": None}])
    topics.produce(broker, "numbers", [{"n": 1, "m": price}, {"n": 2.5, "m": 3}, {"n": np.int8(4), "m": None}])
    assert values(topics.read(broker, "numbers")) == [
        {"n": 1.0, "m": price},
        {"n": 2.5, "m": decimal.Decimal(3)},
        {"n": 4.0, "m": None},
    ]


def test_values_that_are_nested_too_deep_are_rejected_and_others_are_read_back(
    broker: topics.DirBroker, spark: SparkSession
) -> None:
    def deep(levels: int, outer: Callable[[Any], Any]) -> Any:
        return functools.reduce(lambda inner, _: outer(inner), range(levels), outer(1))

    def in_arrow(levels: int) -> pa.Table:
        kind = functools.reduce(lambda inner, _: pa.list_(inner), range(levels), pa.int64())
        return pa.table({"n": pa.nulls(1, kind)})

    message = (
        "Topic 'deep': column 'n' has more than 49 lists and records in one another, and nobody could read it again"
    )
    for levels in (50, 100, 150, 1500, 100_000):
        for outer in (lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: ({"a": inner},)):
            with pytest.raises(InvalidArgumentError, match=message):
                topics.produce(broker, "deep", [{"n": deep(levels, outer)}])
    for levels in (50, 1500):
        with pytest.raises(InvalidArgumentError, match=message):
            topics.produce(broker, "deep", in_arrow(levels))
    assert not broker.path.exists()

    topics.produce(broker, "lists", [{"n": deep(48, lambda inner: [inner])}])
    topics.produce(broker, "lists", in_arrow(49))
    topics.produce(broker, "records", [{"n": deep(48, lambda inner: {"a": inner})}])
    for topic, rows in (("lists", 2), ("records", 1)):
        read = values(topics.read(broker, topic))
        assert len(read) == rows
        streamed = [row.n for batch in batches(broker.stream(spark, topic), broker.path / topic) for row in batch]
        assert str(read[0]["n"]) == str(streamed[0]).replace("Row(a=", "{'a': ").replace(")", "}")


def test_names_that_spark_takes_for_one_are_rejected_wherever_they_are(broker: topics.DirBroker) -> None:
    topics.produce(broker, "orders", [{"at": {"x": 1}, "tags": [{"y": 1}]}])
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    for rows, message in (
        ([{"at": {"x": 1, "X": 2}}], "columns 'at.x' and 'at.X' differ in case alone"),
        ([{"at": {"x": 1}}, {"at": {"X": 2}}], "columns 'at.x' and 'at.X' differ in case alone"),
        ([{"at": {"X": 1}}], "columns 'at.x' and 'at.X' differ in case alone"),
        ([{"tags": [{"Y": 1}]}], r"columns 'tags\[\].y' and 'tags\[\].Y' differ in case alone"),
        ([{"new": [{"z": {"a": 1, "A": 1}}]}], r"columns 'new\[\].z.a' and 'new\[\].z.A' differ in case alone"),
        (pa.table({"at": twice}), "the column 'at.x' is there twice"),
        ([{"at": {1: 1}}], "has no column type"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            topics.produce(broker, "orders", rows)
    assert values(topics.read(broker, "orders")) == [{"at": {"x": 1}, "tags": [{"y": 1}]}]


def test_accepted_values_can_be_read_back_as_a_table_and_as_a_stream(
    broker: topics.DirBroker, spark: SparkSession
) -> None:
    large = 2**60 + 1
    calls: list[list[dict[str, Any]]] = [
        [{"at": {"n": large, "e": {}, "a`b.c": 1}, "`": "x", "of": [large, 0.5], "d": [{}]}],
        [{"at": {"n": 0.5, "e": {"x": 1}}, "`": None, "of": [large], "d": [{"x": [{}]}]}],
        [{"at": {"e": None}, "of": [], "d": None}],
    ]
    for call in calls:
        topics.produce(broker, "orders", call)
    none = {"n": None, "e": None, "a`b.c": None}
    expected = [
        # Floats would lose digits.
        {"at": {"n": float(large), "e": None, "a`b.c": 1}, "`": "x", "of": [float(large), 0.5], "d": [None]},
        {"at": none | {"n": 0.5, "e": {"x": 1}}, "`": None, "of": [float(large)], "d": [{"x": [None]}]},
        {"at": none, "`": None, "of": [], "d": None},
    ]
    assert values(topics.read(broker, "orders")) == expected
    streamed = [row for batch in batches(broker.stream(spark, "orders"), broker.path) for row in batch]
    shown = [{name: row.asDict(recursive=True)[name] for name in ("at", "`", "of", "d")} for row in streamed]
    assert shown == expected


def test_a_time_that_no_type_holds_is_rejected(broker: topics.DirBroker) -> None:
    far = pa.table({"at": pa.array([2**62], pa.timestamp("s"))})
    with pytest.raises(InvalidArgumentError, match=r"column 'at' has the Arrow type timestamp\[s\], and a value"):
        topics.produce(broker, "orders", far)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timestamps": [1.0]}, "timestamps has 1 entries for 2 rows"),
        (
            {"timestamps": 1.0},
            r"timestamps=1.0 is not a list .* write timestamps=\[1.0\] \* len\(data\)|Write, for all",
        ),
        ({"timestamps": [1.0, "2"]}, r"timestamps\[1\]='2' \(str\) is not a time in seconds"),
        ({"timestamps": [1.0, math.nan]}, r"timestamps\[1\]=nan"),
        ({"timestamps": [datetime.datetime(2024, 1, 1, tzinfo=UTC)] * 2}, r"give .timestamp\(\)"),
        ({"keys": ["a"]}, "keys has 1 entries for 2 rows"),
        ({"keys": "ab"}, "keys='ab' is not a list"),
        ({"keys": ["a", 1]}, r"keys\[1\]=1 \(int\) is not text"),
    ],
)
def test_keys_and_times_that_are_none_are_rejected(broker: topics.DirBroker, options: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        topics.produce(broker, "orders", [1, 2], **options)
    assert not broker.path.exists()


@pytest.mark.parametrize("name", ["", "_orders", ".", "..", "a/b", "a b", "x" * 250, None])
def test_an_invalid_name_of_a_topic_is_rejected(broker: topics.DirBroker, name: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a topic's name"):
        topics.produce(broker, name, [1])
    with pytest.raises(InvalidArgumentError, match="is not a topic's name"):
        topics.read(broker, name)


@pytest.mark.parametrize("url", ["", "dir:", "/tmp/topics", "kafka", "kafka:host:9092", "kafka://", 5, None])
def test_an_invalid_broker_is_rejected_with_both_forms(url: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Write 'dir:PATH' .* or 'kafka://host:port'"):
        topics.broker(url)


def test_brokers_are_values() -> None:
    assert topics.broker("dir:/a/b") == topics.DirBroker("/a/b") == topics.broker(topics.DirBroker("/a/b"))
    assert repr(topics.broker("dir:/a/b")) == "DirBroker('/a/b')"
    assert topics.broker("dir:a").url == f"dir:{Path.cwd() / 'a'}"
    with pytest.raises(AttributeError):
        topics.DirBroker("/a").path = Path("/b")  # type: ignore[misc]


def test_producers_at_once_each_write_whole_calls_in_their_order(broker: topics.DirBroker) -> None:
    def produce(who: int) -> None:
        for call in range(20):
            # Their columns differ, so that both also write the note.
            topics.produce(
                broker, "shared", [{"who": who, "call": call, "row": row, f"own_{who}": 1} for row in (0, 1)]
            )

    script = "from tests.topics.test_topics import *; "
    script += f"[topics.produce({broker.url!r}, 'shared', [dict(who=9, call=c, row=r)"
    script += " for r in (0, 1)]) for c in range(20)]"
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    other = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path})
    threads = [threading.Thread(target=produce, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert other.wait() == 0

    rows = topics.read(broker, "shared").select(["who", "call", "row"]).to_pylist()
    assert [row["row"] for row in rows] == [0, 1] * 80, "calls are not mixed"
    for who in (0, 1, 2, 9):
        assert [row["call"] for row in rows if row["who"] == who and not row["row"]] == list(range(20))
    assert {"own_0", "own_1", "own_2"} < set(DirTopic(broker.path, "shared").about().schema.names)
    files = DirTopic(broker.path, "shared").files()
    times = [file.stat().st_mtime_ns // 1_000_000 for file in files]
    assert all(a < b for a, b in itertools.pairwise(times)), "Spark takes files by their times"


def test_a_file_that_a_killed_producer_left_is_not_seen(broker: topics.DirBroker, spark: SparkSession) -> None:
    topic = DirTopic(broker.path, "orders")
    topics.produce(broker, "orders", [{"n": 1}])
    none, at = pa.nulls(1, pa.string()), pa.array([0], pa.timestamp("us", "UTC"))
    write_rows(topic.folder / ".staged-0", pa.table({"n": [2]}), none, at, none, topic.about().schema)

    assert values(topics.read(broker, "orders")) == [{"n": 1}]
    assert [[row.n for row in batch] for batch in batches(broker.stream(spark, "orders"), broker.path)] == [[1]]


def test_readers_see_a_prefix_of_the_rows_and_an_unnamed_file_once_the_next_is_named(
    broker: topics.DirBroker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = DirTopic(broker.path, "orders")
    for n in range(3):
        topics.produce(broker, "orders", [{"n": n}])
    manifest = topic.folder / "_files"
    content = manifest.read_bytes()
    # As if a listing had begun after the first call: the other files are in the folder but not in the listing.
    manifest.write_bytes(content[: content.index(b"\n") + 10])
    assert values(topics.read(broker, "orders")) == [{"n": 0}]
    stream = broker.stream(spark, "orders")
    assert [[row.n for row in batch] for batch in batches(stream, broker.path)] == [[0]]

    manifest.write_bytes(content)
    with monkeypatch.context() as patch:
        patch.setattr(DirTopic, "_name", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            topics.produce(broker, "orders", [{"n": 3}])
    assert [row["n"] for row in values(topics.read(broker, "orders"))] == [0, 1, 2]
    with manifest.open("ab") as cut_off:
        cut_off.write(b"0000000")
    topics.produce(broker, "orders", [{"n": 4}])
    assert [row["n"] for row in values(topics.read(broker, "orders"))] == [0, 1, 2, 3, 4]
    assert [[row.n for row in batch] for batch in batches(stream, broker.path)] == [[1], [2], [3], [4]]

    # The files of an earlier version.
    manifest.unlink()
    assert len(topic.files()) == 5
    topics.produce(broker, "orders", [{"n": 5}])
    assert [row["n"] for row in values(topics.read(broker, "orders"))] == list(range(6))
    assert manifest.read_text().split() == [file.name for file in topic.files()]
    assert [[row.n for row in batch] for batch in batches(stream, broker.path)] == [[5]]


@pytest.mark.parametrize("name", ["a[b]", "{a,b}", "a*", "a?", "a%5Bb", "a b\\"])
def test_a_broker_is_the_folder_of_that_name_and_no_pattern(tmp_path: Path, spark: SparkSession, name: str) -> None:
    for other in ("ab", "a", "a[b", "b"):
        topics.produce(topics.DirBroker(tmp_path / other), "orders", [{"n": 0}])
    broker = topics.DirBroker(tmp_path / name)
    topics.produce(broker, "orders", [{"n": 1}])
    topics.produce(broker, "orders", [{"n": 2}])
    assert [[row.n for row in batch] for batch in batches(broker.stream(spark, "orders"), broker.path)] == [[1], [2]]


def test_topics_in_a_folder_have_no_headers(broker: topics.DirBroker, spark: SparkSession) -> None:
    with pytest.raises(UnsupportedError, match="rows there have no headers"):
        topics.produce(broker, "t", [{"n": 1}], headers=[{"a": b"b"}])
    topics.produce(broker, "t", [{"n": 1}])
    for refused in (
        lambda: topics.read(broker, "t", headers=True),
        lambda: broker.stream(spark, "t", headers=True),
    ):
        with pytest.raises(UnsupportedError, match="Leave out headers="):
            refused()
