# mypy: disable-error-code="untyped-decorator, import-untyped, attr-defined, arg-type"
"""What a Faust program says beside its agents: settings, brokers, crontabs, signals, and names that are not here."""

from __future__ import annotations

import random
import zoneinfo
from datetime import UTC, datetime
from typing import Any

import pytest
import pytz
from croniter import croniter

import faust_people as people
import mullion.faust as faust
from faust_people_runs import items, run_of
from mullion import InvalidArgumentError, UnsupportedError
from mullion.faust._program.discovery import packages_of
from mullion.faust._run.columns import columns_of
from mullion.faust._settings import DEFAULTS
from mullion.faust._values.crontab import Crontab
from mullion.topics import KafkaBroker

pytestmark = pytest.mark.filterwarnings("error")


def test_settings_pages_and_options_are_taken_and_noted_once(capsys: pytest.CaptureFixture[str]) -> None:
    app, run = run_of(
        people.settings, origin="site", broker_max_poll_records=1, stream_buffer_maxsize=16_368, version=2
    )
    run.produce("n", [("a", 2, 0.0), ("b", 3, 0.0), ("a", 4, 1.0)])
    assert items(app, run, "tally") == {"a": 6, "b": 3}
    run.clock.us = 10_000_000
    run.tick()
    assert "| a   | 6     |\n| b   | 3     |" in capsys.readouterr().out
    notes = "\n".join(app.notes())
    assert "broker_max_poll_records, stream_buffer_maxsize, table_cleanup_interval" in notes
    assert "retention= of the topic 'n'" in notes
    assert "recovery_buffer_size= of the table 'tally'" in notes
    assert notes.count("app.page('/count/{key}/')") == 1
    assert "origin" not in notes
    assert "version" not in notes


def test_every_setting_of_faust_streaming_is_taken() -> None:
    from faust.types.settings import Settings as Theirs

    theirs = {name for name in Theirs.SETTINGS if name != "id"}
    assert theirs - set(DEFAULTS) == set()
    given = {name: DEFAULTS[name] for name in theirs - {"broker"}}
    app = faust.App("all", broker="dir:/nowhere", **given, monitor=None, loop=None)
    assert (app.conf.topic_partitions, app.conf.id, app.conf.web_port) == (8, "all", 6066)
    with pytest.raises(
        InvalidArgumentError, match=r"'topic_partition' is not a setting .*Did you mean 'topic_partitions'"
    ):
        faust.App("wrong", topic_partition=3)
    with pytest.raises(AttributeError, match="'topic_partition' is not a setting"):
        _ = app.conf.topic_partition
    with pytest.raises(InvalidArgumentError, match=r"timezone='UTC' \(str\) is not a timezone"):
        app.conf.timezone = "UTC"
    app.conf.broker = "kafka://here"
    assert app.broker == KafkaBroker("here:9092")
    with pytest.raises(UnsupportedError, match=r"broker_credentials= .* are not served"):
        app.conf.broker_credentials = "x"


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("localhost:9092", "localhost:9092"),
        ("kafka://localhost", "localhost:9092"),
        ("aiokafka://", "localhost:9092"),
        ("kafka://a:1;kafka://b:2", "a:1,b:2"),
        (["kafka://a", "b:2"], "a:9092,b:2"),
    ],
)
def test_brokers_are_named_as_faust_names_them(url: Any, servers: str) -> None:
    assert faust.App("site", broker=url).broker == KafkaBroker(servers)


def test_random_crontabs_are_due_when_croniter_says() -> None:
    rng = random.Random(7)

    def field(low: int, high: int) -> str:
        kind = rng.random()
        if kind < 0.35:
            return "*"
        if kind < 0.45:
            return f"*/{rng.randint(2, (high - low) // 2)}"
        if kind < 0.6:
            first = rng.randint(low, high - 1)
            return f"{first}-{rng.randint(first + 1, high)}" + rng.choice(["", f"/{rng.randint(1, 5)}"])
        return ",".join(str(rng.randint(low, high)) for _ in range(rng.randint(1, 3)))

    for _ in range(500):
        text = " ".join(field(*limits) for limits in ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6)))
        after = rng.randint(0, 2_000_000_000)
        theirs = croniter(text, datetime.fromtimestamp(after, UTC)).get_next(float)
        assert Crontab.of(text).next_us(after * 1_000_000) == round(theirs * 1_000_000), (text, after)


@pytest.mark.parametrize("zone", [zoneinfo.ZoneInfo("America/Los_Angeles"), pytz.timezone("US/Pacific")])
def test_a_crontab_goes_by_the_clocks_of_its_zone(zone: Any) -> None:
    def next_at(text: str, month: int, day: int, hour: int) -> datetime:
        us = Crontab.of(text, zone).next_us(int(datetime(2026, month, day, hour, tzinfo=UTC).timestamp()) * 1_000_000)
        return datetime.fromtimestamp(us / 1e6, zoneinfo.ZoneInfo("America/Los_Angeles")).replace(tzinfo=None)

    assert next_at("16 20 * * *", 3, 7, 12) == datetime(2026, 3, 7, 20, 16)
    # Of 8 March there is no half past two.
    assert next_at("30 2 * * *", 3, 8, 9) == datetime(2026, 3, 9, 2, 30)
    assert next_at("@daily", 3, 8, 12) == datetime(2026, 3, 9)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("* * * *", "has 4 fields of 5"),
        ("60 * * * *", "has '60' for its minute, which is from 0 to 59"),
        ("* * 31 feb *", "names a day that does not exist"),
        ("*/0 * * * *", "has the step '0'"),
        ("5-2 * * * *", "has the range '5-2' in its minute, which ends before it begins"),
    ],
)
def test_text_that_is_no_crontab_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Write minute, hour"):
        faust.App("cron", broker="dir:/nowhere").crontab(text)
    with pytest.raises(InvalidArgumentError) as refused:
        Crontab.of(text)
    assert why in str(refused.value)


def test_columns_of_a_topic_that_nobody_has_written_to_follow_from_its_type() -> None:
    assert columns_of(people.Adding) == "`x` bigint, `y` bigint"
    assert columns_of(people.Login) == "`id` string"
    assert columns_of(people.Reading) == "`value` double"
    assert columns_of(dict) is None
    assert columns_of(bool) == "value boolean"


@pytest.mark.parametrize("name", ["Service", "LiveCheck", "Codec", "web", "SASLCredentials"])
def test_names_of_faust_that_are_not_here_are_refused_with_what_to_write(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"faust.{name} is not served. .*"):
        getattr(faust, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = faust.nonsense


def test_a_program_is_found_in_its_modules() -> None:
    app = faust.App("found", broker="dir:/nowhere", autodiscover=True)
    with pytest.raises(InvalidArgumentError, match="Write origin='package'"):
        packages_of(app.conf)
    app.conf.origin = "faust_people"
    assert packages_of(app.conf) == ["faust_people"]
    app.discover()


def test_signals_are_told_the_app_and_what_they_tell() -> None:
    app = faust.App("told", broker="dir:/nowhere")
    found: list[Any] = []

    @app.on_configured.connect
    def configure(app: Any, conf: Any, **kwargs: Any) -> None:
        conf.topic_partitions = 3
        found.append((app.name, sorted(kwargs)))

    @app.on_partitions_assigned.connect()
    async def assigned(app: Any, assigned: Any) -> None: ...

    app.on_produce_message.connect(lambda: None)
    with pytest.raises(UnsupportedError, match=r"app\.on_first_start is not served"):
        _ = app.on_first_start

    @app.timer(1)
    def tick() -> None: ...

    app.explain()
    app.explain()
    assert found == [("told", ["signal"])]
    assert app.conf.topic_partitions == 3
    assert any("app.on_produce_message: it never is" in note for note in app.notes())
