"""Messages that a program of Faust's cannot use: they are put aside, each with its reason, and stop nothing."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

import mullion.faust as faust
from mullion import topics
from mullion.faust._agent_run.row_order import InOrder
from mullion.faust._agent_run.worker import outputs
from mullion.faust._context import Sent
from mullion.faust._program.program import Program
from mullion.faust.agents import DeadLetter
from mullion.topics._json_rows import values_in
from mullion.topics._kafka import broker as _kafka_broker
from mullion.topics._kafka import client as _kafka_client
from mullion.topics._kafka.inferred import schema_of_most
from tests.support.faust.local_run import LocalRun
from tests.support.kafka.kafka_server import KafkaServer

# Workers do not have the folder of the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Click(faust.Record, validation=True):
    user: str
    n: int = 1
    x: float | None = None


class Cyclic(dict[str, Any]):
    def __repr__(self) -> str:
        raise ValueError("not shown")


def deep(levels: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(levels):
        nested = [nested]
    return nested


def test_a_dead_letter_is_written_whatever_the_message_holds() -> None:
    odd: list[Any] = [
        float("nan"),
        {"x": [float("inf"), {"y": -float("inf")}]},
        "half a pair \ud800",
        {"\udfff": "\udfff"},
        deep(100_000),
        b"\xff\x00",
        {1: {2: {3}}},
        Cyclic(a=object()),
        object(),
        10**5000,
        "\0" * 500_000,
        "a" * 5_000_000,
    ]
    letters = [DeadLetter("in\ud800", "agent", "why \udcff" * 9_999, value, value, 1.0) for value in odd]
    (batch,) = outputs([], letters, "dead")
    records = [record for row in batch.to_pylist() for record in topics.decoded(row["batch"]).to_pylist()]
    assert len(records) == len(odd)
    assert records[0]["value"] == "NaN"
    assert "Infinity" in records[1]["value"]
    assert records[5]["value"] == '"/wA="'
    assert records[7]["value"].startswith(("<Cyclic", '{"a": "<object'))
    assert {record["topic"] for record in records} == {"in\\ud800"}
    # What Kafka takes by default.
    assert max(len(json.dumps(record)) for record in records) < 1 << 20
    assert batch["key"].to_pylist()[2] == "half a pair \\ud800"


def test_messages_of_other_types_and_without_fields_are_sent_as_they_are() -> None:
    values: list[Any] = [{}, {}, {"a": 1}, {"a": "x"}, {"a": [1]}, {}]
    (batch,) = outputs([Sent("t", "k", value) for value in values], [], "dead")
    assert [value for one in batch.to_pylist() for value in values_in(topics.decoded(one["batch"]))] == values


def test_what_a_topic_cannot_take_is_the_fault_of_the_event_that_it_is_sent_for() -> None:
    program = Program("app")
    out = program.topic("out")

    @program.agent(program.topic("in"), sink=[out], on_error="dead_letter")
    async def forward(stream: Any) -> Any:
        async for event in stream:
            yield event

    run = LocalRun(program, ManualLikeClock())
    good = [{"a": 1}, {}, {"a": "x"}, None, [1, 2], {"b": {"c": []}}]
    good += [2**63 - 1, {"n": -(2**63)}, "é", {"é": "ü", "on": True}]
    good += [{"": 1}, {"a\nb": 1}, {"_key": 1}, {"a": [1, "x"]}, {"a": 10**30}, {"a": "\ud800"}, 10**30]
    good += [{"a": deep(60)}, "\ud800", {"\ud800": 1}, {"a": -(2**63) - 1}]
    bad = [float("nan"), {"a": deep(100)}, deep(300), {"a": 10**5000}]
    run.produce("in", [("k", value, 0.0) for pair in zip(good, bad, strict=False) for value in pair])
    run.produce("in", [("k", value, 0.0) for value in good[len(bad) :]])
    assert [message.value for message in run.published["out"]] == good
    assert len(run.dead_letters) == len(bad)
    assert {letter.reason.split(":")[0] for letter in run.dead_letters} == {"InvalidArgumentError"}


class ManualLikeClock:
    def time_us(self) -> int:
        return 0


def test_unusual_records_do_not_change_the_common_columns() -> None:
    usual: list[dict[str, Any]] = [{"user": "a", "n": 1, "x": {"y": 1.5}}] * 9 + [{"user": "b", "n": 2.5}]
    odd: list[dict[str, Any]] = [
        {"USER": 1, "n": "text"},
        {"user": {"first": "a"}, "": 1, "a\nb": 2, "_key": 3, "_unfit": 4, "_columns": 5},
        {"n": 10**30, "x": {"y": 1, "Y": 2, "": 3}},
        {"x": [1, "a"], "`": 1},
        {"n": deep(100_000)},
    ]
    schema = schema_of_most([*odd, *usual])
    assert schema.simpleString() == "struct<user:string,n:double,x:struct<y:double>,`:bigint>"
    assert len(schema_of_most([{"": 1}])) == 0


def program_at(broker: str, folder: Path) -> faust.App:
    """Counts clicks, by a table and, in the JVM where all of a batch fit, by a table of windows."""
    app = faust.App("hostile", broker=broker, checkpoint=folder / "app")
    counts, views = app.Table("counts", default=int), app.Table("views", default=int).tumbling(1e6)
    clicks, tombstones = app.topic("clicks", value_type=Click), app.topic("tombstones")

    @app.agent(clicks, on_error="dead_letter")
    async def count(stream: Any) -> None:
        async for click in stream:
            if click is None:
                await tombstones.send(value="none")
                continue
            if click.n == 0:
                raise ValueError("none")
            counts[click.user] += 1

    @app.agent(clicks, on_error="dead_letter")
    async def view(stream: Any) -> None:
        async for click in stream:
            views[click.user] += 1

    return app


def table_items(app: faust.App, table: str) -> dict[Any, Any]:
    return {json.loads(row.key): json.loads(row.value) for row in app.table(table).read().collect()}


@pytest.mark.xdist_group("kafka")
@pytest.mark.usefixtures("spark")
def test_no_message_of_kafka_stops_a_program_and_every_good_one_is_counted(kafka: KafkaServer, tmp_path: Path) -> None:
    random_bytes = random.Random(7)
    good: list[tuple[bytes | None, bytes]] = [
        (b"k", b'{"user": "%s", "n": 1, "x": %d.5}' % (user, n)) for n in range(40) for user in (b"a", b"b")
    ]
    # Names of all kinds, a number that no column holds: the record is good all the same.
    good += [
        (b"k", b'{"user": "c", %s: 1}' % name)
        for name in (b'""', b'"USER"', b'"a`b"', b'"a\\nb"', b'"_key"', b'"_unfit"', b'"_columns"', b'"a\\u0000b"')
    ]
    good += [(b"k", b'{"user": "d", "n": 123456789012345678901234567890}'), (None, b'{"user": "d", "x": null}')]
    tombstones = [(b"k", None), (None, None)]
    bad: list[tuple[bytes | None, bytes | None]] = [
        (b"\xff\xfe", b'{"user": "a"}'),
        (b"\xff", b"\xff"),
        (b"\xc3\x28", None),
        (b"k", b'{"user": "\xff", "n": 1}'),
        (b"k", '{"user": "a"}'.encode("utf-16")),
        (b"k", b"["),
        (b"k", b"{"),
        (b"k", b" "),
        (b"k", b"null"),
        (b"k", b"5"),
        (b"k", b'"text"'),
        (b"k", b"[1, 2]"),
        (b"k", b"\0"),
        (b"k", b"\0bytes:zz"),
        (b"k", b"\0bytes:ff"),
        (b"k", b"[" * 5000 + b"]" * 5000),
        (b"k", b'{"user": "a", "y": ' + b"[" * 5000 + b"]" * 5000 + b"}"),
        (b"k", b'{"a": ' * 5000 + b"1" + b"}" * 5000),
        (b"k", b'{"user": "a", "n": ' + b"9" * 5000 + b"}"),
        (b"k", b'{"user": "a", "n": "x"}'),
        (b"k", b'{"user": "a", "n": 1e999}'),
        (b"k", b'{"user": "a", "n": NaN}'),
        (b"k", b'{"user": {"a": 1}, "n": "x"}'),
        (b"k", b'{"n": 1}'),
        (b"k", b"{}"),
        (b"k", b"a" * 900_000),
        (b"k", b'"' + b"\\u0000" * 100_000),
        *((b"k", random_bytes.randbytes(random_bytes.randrange(2, 30)) + b"\xff") for _ in range(200)),
        *((random_bytes.randbytes(5) + b"\xff", b'{"user": "a", "n": 1}') for _ in range(20)),
    ]
    # These fit the topic's type, and fail in the one agent's body.
    failing = [(b"k", b'{"user": "e", "n": 0, "x": %s}' % x) for x in (b"NaN", b"1e999", b"1.5", b"-Infinity")]
    for part in range(2):
        sent = [*good[part::2], *bad[part::2], *failing[part::2], *tombstones[part::2]]
        random_bytes.shuffle(sent)
        _kafka_client.produce(kafka.servers, "clicks", [(key, value, 1_000_000) for key, value in sent])  # type: ignore[misc]
        app = program_at(kafka.url, tmp_path)
        app.run(until="drained")

    users = Counter(json.loads(value)["user"] for _, value in good)
    assert table_items(app, "counts") == users
    assert len(topics.read(kafka.url, "tombstones")) == len(tombstones)
    assert table_items(app, "views") == {**users, "e": len(failing)}
    letters = topics.read(kafka.url, "hostile-dead-letters").to_pylist()
    assert all(letter["reason"] for letter in letters)
    by_agent = Counter(letter["agent"] for letter in letters)
    assert by_agent == {"count": len(bad) + len(failing), "view": len(bad) + len(tombstones)}
    reasons = Counter(letter["reason"].split(" (")[0] for letter in letters if letter["agent"] == "count")
    assert reasons["ValueError: none"] == len(failing)
    assert sum(n for reason, n in reasons.items() if "are not UTF-8" in reason) >= 220


@pytest.mark.xdist_group("kafka")
@pytest.mark.usefixtures("spark")
def test_a_backlog_of_kafka_is_read_in_batches(
    kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kafka_broker, "MOST_ROWS", 10)
    topics.produce(kafka.url, "backlog", range(30), keys=[str(n) for n in range(30)], timestamps=[1.0] * 30)
    app = faust.App("backlog", broker=kafka.url, checkpoint=tmp_path / "app")
    counts = app.Table("counts", default=int)

    @app.agent(app.topic("backlog", value_type=int))
    async def count(stream: Any) -> None:
        async for value in stream:
            counts[value] += 1

    app.run(until="drained")
    rows = [report["numInputRows"] for report in app.queries["agents"].progress]
    assert sum(rows) == 30
    assert max(rows) <= 10
    assert table_items(app, "counts") == dict.fromkeys(range(30), 1)


def test_rows_come_in_order_some_at_a_time() -> None:
    rng = random.Random(3)
    rows = [
        {"_position": n, "_agent": n % 2, "v": {"n": n}, "_statement": 1 if n % 5 == 0 else None} for n in range(5000)
    ]
    rng.shuffle(rows)
    schema = pa.schema(
        [
            ("_position", pa.int64()),
            ("_agent", pa.int32()),
            ("v", pa.struct([("n", pa.int64())])),
            ("_statement", pa.int32()),
        ]
    )
    batches = [pa.RecordBatch.from_pylist(rows[start : start + 700], schema) for start in range(0, 5000, 700)]
    there = InOrder([*batches, batches[0].slice(0, 0)])
    for agent in (0, 1, 2):
        for is_effect in (False, True):
            numbers = [row["v"]["n"] for row in there.of(agent, effects=is_effect)]
            assert numbers == [n for n in range(5000) if n % 2 == agent and (n % 5 == 0) == is_effect]
    assert list(InOrder([]).of(0)) == []


@pytest.mark.usefixtures("spark")
def test_no_message_of_a_folder_stops_a_program_and_every_good_one_is_counted(tmp_path: Path) -> None:
    broker = f"dir:{tmp_path}/topics"
    odd = ["", "\0", "a" * 20_000, "\u202e", "e\u0301", "\U0001f600" * 100, "\n", "`", "null", "NaN"]
    floats = [float("nan"), float("inf"), -float("inf"), 1e308, -0.0, None]
    good, bad = Counter[str](), 0
    for part in range(2):
        rows: list[dict[str, Any]] = [{"user": user, "n": 1, "x": x} for user in odd[part::2] for x in floats]
        good.update(row["user"] for row in rows)
        fails: list[dict[str, Any]] = [{"user": user, "n": 0, "x": x} for user in odd[part::2] for x in floats]
        fails += [{"user": None, "n": 1, "x": x} for x in floats]
        bad += len(fails)
        keys = [*odd, None] * 99
        topics.produce(
            broker, "clicks", rows + fails, keys=keys[: len(rows + fails)], timestamps=[1.0] * len(rows + fails)
        )
        app = program_at(broker, tmp_path)
        app.run(until="drained")
    assert table_items(app, "counts") == good
    letters = topics.read(broker, "hostile-dead-letters").to_pylist()
    assert Counter(letter["agent"] for letter in letters)["count"] == bad
    assert all(letter["reason"] for letter in letters)
