"""All programs of Faust's documents, over topics in a folder and over Kafka: the same tables, messages and prints."""

from __future__ import annotations

import json
import re
import sys
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import mullion.faust as faust
from mullion import InvalidArgumentError, topics
from mullion._keyed.api import read_state
from mullion._program.cli import main as _cli
from mullion._util.clock import ManualClock
from mullion.faust.tables.reader import _Decode
from mullion.topics import KafkaBroker
from mullion.topics._kafka import client as _kafka_client
from tests.support.faust.programs import faust_programs as programs

# Workers do not have the folder of the tests on their path.
for module in (sys.modules[__name__], programs):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

SITE = (
    programs.tumbling_counts,
    programs.hopping_averages,
    programs.sessions,
    programs.multi_window,
    programs.rightly_sharded,
    programs.written_back,
    programs.page_views,
)
# The last two use tables in ways that hide their keys: all events of their program are in one shard.
REST = (
    programs.expiring,
    programs.business_hours,
    programs.by_country,
    programs.not_written_back,
    programs.relative_times,
    programs.iterated,
)
NOON = 1_704_906_000.0


def popular(app: Any) -> None:
    """In addition to the documents: the values that an agent in the JVM yields are sent to a topic."""
    visits = app.Table("known", default=int).tumbling(60)

    @app.agent(app.topic("page_views", value_type=str), sink=[app.topic(f"{app.name}-popular")])
    async def tell(pages):  # type: ignore[no-untyped-def]
        async for page in pages:
            visits[page] += 1
            if 2 <= visits[page].current() < 4:
                yield {"page": page, "since": faust.current_window().start}


@pytest.fixture(params=["dir", pytest.param("kafka", marks=pytest.mark.xdist_group("kafka"))])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> topics.Broker:
    """Each kind of broker."""
    server = request.getfixturevalue("kafka") if request.param == "kafka" else None
    return topics.broker(f"dir:{tmp_path / 'topics'}" if server is None else server.url)


def put(broker: topics.Broker, topic: str, *events: tuple[Any, float], key: str | None = None) -> None:
    # Of one key, for Kafka keeps the order of these.
    keys = ["all" if key is None else value[key] for value, _ in events]
    topics.produce(broker, topic, [value for value, _ in events], [at for _, at in events], keys)


def tables_of(app: faust.App) -> dict[str, Any]:
    """The contents of each table: by key, or by key and the start of the range."""
    records = [(bytes(row.key), bytes(row.value)) for row in read_state(app.folder_of("agents") / "query").collect()]
    tables: dict[str, Any] = {}
    for name, table in app.tables.items():
        decode = _Decode(name, table.window is not None)
        rows: list[dict[str, Any]] = [row for record, value in records for row in decode._row(record, value)]
        at = [row["window"]["start"].timestamp() if "window" in row else None for row in rows]
        keys = [json.loads(row["key"]) for row in rows]
        by = keys if table.window is None else list(zip(keys, at, strict=True))
        tables[name] = {key: json.loads(row["value"]) for key, row in zip(by, rows, strict=True)}
    return tables


def ran(app: faust.App, capsys: pytest.CaptureFixture[str], *later: str) -> list[str]:
    """Runs a program, and again at later times. Returns the printed text."""
    capsys.readouterr()
    with app.start() as running:
        running.settle()
        for by in later:
            running.advance(by)
            running.settle()
    # A timer of the documents tells the time of the machine.
    return [re.sub(r"window \d+\.0$", "window -", line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.sampled(1)
def test_the_programs_of_the_documents_run_on_every_broker_and_continue(
    broker: topics.Broker,
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def new_app(name: str, makes: tuple[Callable[[Any], None], ...], seconds: int) -> faust.App:
        clock = ManualClock(start_ms=seconds * 1000)
        app = faust.App(name, broker=broker, checkpoint=tmp_path / name, clock=clock, spark=spark)
        for make in makes:
            make(app)
        return app

    def spent(user: str, country: str, amount: float, account: str, at: float) -> tuple[Any, float]:
        return {"user": user, "country": country, "amount": amount, "account": account}, at

    put(broker, "events", ({"category": "a"}, 10.0), ({"category": "b"}, 299.0), ({"category": "a"}, 300.0))
    put(broker, "metrics", ({"name": "cpu", "value": 10}, 100.0), ({"name": "cpu", "value": 20}, 400.0))
    put(broker, "user-activity", *(({"user_id": "u", "timestamp": at}, at) for at in (1000.0, 2000.0, 2700.0)))
    put(broker, "site-multi_window_analysis", *(({"type": "x"}, at) for at in (10.0, 70.0, 75.0)))
    money = [spent("u", "AT", 5.0, "a", 1.0), spent("v", "AT", 7.0, "b", 2.0), spent("u", "DE", 1.0, "a", 3.0)]
    # Without a country, which a withdrawal must have.
    put(broker, "withdrawals", *money, key="user")
    put(broker, "withdrawals", ({"user": "u", "amount": 1.0, "account": "a"}, 4.0), key="user")
    put(broker, "page_views", *[("/", 5.0)] * 10_000, ("/x", 7.0))
    site = new_app("site", (*SITE, popular), 5)
    parts = {part.name.removeprefix("agent "): part.runs for part in site.explain().parts}
    assert {name for name, runs in parts.items() if runs == "JVM"} == {
        "aggregate_page_views",
        "count_events",
        "find_large_country_withdrawals",
        "multi_window_analysis",
        "tell",
    }
    assert set(parts.values()) == {"JVM", "Python"}
    printed = ran(site, capsys, "300 seconds")
    assert Counter(printed) == Counter(
        [
            *["Trending now", "Trending when event happened", "Trending when event happened"],
            *["Category a: 1 events in window -", "Category b: 1 events in window -"],
            *["=== Multi-Window Analysis ==="] * 2,
            *["x:", "  Last minute: 2", "  Last hour: 3", "  Sliding 10min: 2"],
            "Sliding average for cpu: 20.0",
        ]
    )

    # It resumes where it was, and sets invalid messages aside.
    put(broker, "events", ({"category": "a"}, 301.0))
    put(broker, "withdrawals", spent("w", "AT", 1.5, "a", 4.0), key="user")
    put(broker, "page_views", ("/x", 8.0), ("/", 1805.0))
    if isinstance(broker, KafkaBroker):
        _kafka_client.produce(broker.servers, "withdrawals", [("u", b"no JSON", 5_000_000), ("u", b"[1]", 5_000_000)])
        # No number of the kind that the topic's had when the program began.
        _kafka_client.produce(broker.servers, "metrics", [("all", b'{"name": "mem", "value": 0.5}', 400_000_000)])
    site = new_app("site", (*SITE, popular), 305)
    module = types.ModuleType("site_of_the_documents")
    module.app = site  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert _cli.main(["faust", "worker", "-A", f"{module.__name__}:app", "--until", "drained"]) == 0
    assert capsys.readouterr().out == "Less popular compared to 30 minutes back\n"
    tables = tables_of(site)
    assert tables["event-counts"] == {("a", 0.0): 1, ("b", 0.0): 1, ("a", 300.0): 2}
    averages: dict[Any, Any] = {
        ("cpu", -300.0): {"sum": 10, "count": 1},
        ("cpu", 0.0): {"sum": 30, "count": 2},
        ("cpu", 300.0): {"sum": 20, "count": 1},
    }
    missing = "value of withdrawals.country: it is missing, and has no default."
    wrong = {missing: 3}
    if isinstance(broker, KafkaBroker):
        averages |= {("mem", start): {"sum": 0.5, "count": 1} for start in (0.0, 300.0)}
        wrong[
            "value of withdrawals: 'no JSON' is not JSON: JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
        ] = 3
        wrong["value of withdrawals: [1] (list) is not an object with fields."] = 3
    assert tables["sliding-averages"] == averages
    sessions = {at: done[-1][1] for (_, at), done in tables["user-sessions"].items()}
    assert {at: one["start_time"] for at, one in sessions.items()} == dict.fromkeys((1000.0, 2000.0, 2700.0), 1000.0)
    assert [event["timestamp"] for event in sessions[2700.0]["events"]] == [1000.0, 2000.0, 2700.0]
    assert tables["minute-counts"] == {("x", 0.0): 1, ("x", 60.0): 2}
    assert tables["hour-counts"] == {("x", 0.0): 3}
    assert len(tables["sliding-counts"]) == 11
    assert tables["country_to_total"] == {("AT", 0.0): 13.5, ("DE", 0.0): 1.0}
    assert tables["user_to_total"] == {"u": 6.0, "v": 7.0, "w": 1.5}
    assert tables["user_withdrawals"] == {"a": [5.0, 1.0, 1.5], "b": [7.0]}
    assert tables["views"] == {("/", 0.0): 10_000, ("/x", 0.0): 2, ("/", 1800.0): 1}
    messages = topics.read(broker, "site-popular").select(["page", "since"]).to_pylist()
    assert messages == [{"page": page, "since": 0.0} for page in ("/", "/", "/x")]
    letters = topics.read(broker, "site-dead-letters")["reason"].to_pylist()
    assert Counter(letters) == wrong

    put(broker, "events", ({"category": "c"}, 86_400.0))
    put(broker, "metrics", *(({"name": "m", "value": 2}, at) for at in (NOON, NOON + 60, NOON + 8 * 3600)))
    put(broker, "rest-process_withdrawal", *money)
    accounts = (("1970-01-01T00:01:10Z", 500.0), ("1970-01-01T00:01:50Z", 600.0), ("1970-01-01T00:00:10Z", 1.0))
    put(broker, "accounts", *(({"name": "a", "date_created": created}, at) for created, at in accounts))
    put(broker, "pages", ("/a", 40.0), ("/b", 42.0))
    rest = new_app("rest", REST, 70)
    assert ran(rest, capsys, "300 seconds") == [
        *["1", "0", "1", "0", "2", "0", "2", "0", "1", "1", "2", "0"],
        *["['/a']", "[('/a', 1)]", "[1]", "[]", "[('/a', 1)]"],
        *["['/a', '/b']", "[('/a', 1), ('/b', 1)]", "[1, 1]", "[]", "[('/a', 1), ('/b', 1)]"],
        "Expired 1 old windows",
    ]
    why = {part.name: part.why for part in rest.explain().parts}
    assert why["agent process"].startswith("its events are in one shard, because it may use tables through")
    assert why["agent count_events"].startswith("its events are in one shard, as those of 'process' are; ")
    tables = tables_of(rest)
    assert tables["hourly-stats"] == {}
    assert tables["business-metrics"] == {("m", NOON - 3 * 3600): 4}
    assert tables["country_to_total"] == {("AT", 0.0): 12.0, ("DE", 0.0): 1.0}
    # A change that was not written back.
    assert tables["user_withdrawals"] == {}
    assert tables["by_field"] == {("a", 0.0): 1, ("a", 60.0): 2}
    assert tables["name"] == {(page, start): 1 for page in ("/a", "/b") for start in (35.0, 40.0)}


@pytest.mark.usefixtures("spark")
def test_the_program_that_the_documents_warn_of_is_rejected(broker: topics.Broker, tmp_path: Path) -> None:
    app = faust.App("wrong", broker=broker, checkpoint=tmp_path / "wrong")
    programs.wrongly_sharded(app)
    with pytest.raises(InvalidArgumentError, match=r"'process_withdrawal' uses tables by different keys: .*group_by"):
        app.run(until="drained")
