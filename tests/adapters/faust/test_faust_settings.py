# mypy: disable-error-code="untyped-decorator, import-untyped, attr-defined, arg-type, import-not-found"
"""Faust programs apart from their agents: settings, brokers, crontabs, signals, and names without an implementation."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import random
import re
import types
import zoneinfo
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytz
from croniter import croniter

import mullion.faust as faust
from mullion import InvalidArgumentError, UnsupportedError
from mullion.faust._agent_run.columns import columns_of
from mullion.faust._program.discovery import packages_of
from mullion.faust._public_names.modules import MODULES
from mullion.faust._settings import DEFAULTS
from mullion.faust._values.crontab import Crontab
from mullion.faust.exceptions import Skip
from mullion.topics import KafkaBroker
from tests.support.faust.programs import faust_people as people
from tests.support.faust.programs.faust_people_runs import items, run_of

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

    names = {name for name in Theirs.SETTINGS if name != "id"}
    assert names - set(DEFAULTS) == set()
    settings = {name: DEFAULTS[name] for name in names - {"broker"}}
    app = faust.App("all", broker="dir:/nowhere", **settings, monitor=None, loop=None)
    assert (app.conf.topic_partitions, app.conf.id, app.conf.web_port) == (8, "all", 6066)
    with pytest.raises(AttributeError, match="'topic_partition' is not a setting"):
        _ = app.conf.topic_partition
    with pytest.raises(InvalidArgumentError, match=r"timezone='UTC' \(str\) is not a timezone"):
        app.conf.timezone = "UTC"
    app.conf.broker = "kafka://here"
    assert app.broker == KafkaBroker("here:9092")
    with pytest.raises(UnsupportedError, match=r"broker_credentials= .* are not supported"):
        app.conf.broker_credentials = "x"


def test_a_name_that_is_no_setting_is_accepted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    app = faust.App("other", broker="dir:/nowhere", topic_partition=3, web_cors_origins="*")
    assert "other: 'topic_partition' is not a setting of faust-streaming" in caplog.text
    assert "Did you mean 'topic_partitions'" in caplog.text
    assert app.conf.topic_partition == 3
    assert "settings that decide nothing here: topic_partition, web_cors_origins" in app.notes()
    assert not hasattr(pickle.loads(pickle.dumps(app.conf)), "topic_partition")


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


def test_random_crontabs_are_due_at_the_times_of_croniter() -> None:
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
        expected = croniter(text, datetime.fromtimestamp(after, UTC)).get_next(float)
        assert Crontab.of(text).next_us(after * 1_000_000) == round(expected * 1_000_000), (text, after)


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
def test_text_that_is_no_crontab_is_rejected(text: str, why: str) -> None:
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


@pytest.mark.parametrize("name", ["Service", "LiveCheck", "Codec", "SASLCredentials"])
def test_names_of_faust_without_a_counterpart_raise_an_error_once_they_are_called(name: str) -> None:
    class Own(getattr(faust, name)):  # type: ignore[misc]
        pass

    for kind in (getattr(faust, name), Own):
        with pytest.raises(UnsupportedError, match=f"faust.{name} is not supported. .*"):
            kind("x")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = faust.nonsense


def public_modules() -> set[str]:
    """The modules of faust-streaming with at most two names."""
    import faust as theirs

    modules = pkgutil.walk_packages(theirs.__path__, "faust.")
    names = [module.name.removeprefix("faust.") for module in modules]
    private = re.compile(r"(^|\.)(_|assets)|models\.typing")
    return {name for name in names if name.count(".") < 2 and not private.search(name)}


def test_every_module_of_faust_streaming_can_be_imported() -> None:
    for name in public_modules():
        assert importlib.import_module(f"mullion.faust.{name}").__name__ == f"mullion.faust.{name}"
    for parent in ("agents", "app", "cli", "models", "web"):
        names = {name.partition(".")[2] for name in MODULES if name.startswith(f"{parent}.")}
        module = importlib.import_module(f"mullion.faust.{parent}")
        assert [name for name in names if not isinstance(getattr(module, name), types.ModuleType)] == []
        assert module.__spec__ is not None
        assert module.__spec__.origin is not None
        assert names.isdisjoint(compile(Path(module.__spec__.origin).read_text("utf-8"), "", "exec").co_names)
    for name in ("nonsense", "types.nonsense"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"mullion.faust.{name}")


def test_names_of_faust_are_found_in_their_modules() -> None:
    from mullion.faust.app.base import App
    from mullion.faust.events import Event
    from mullion.faust.models.fields import StringField
    from mullion.faust.sensors.monitor import Monitor
    from mullion.faust.serializers.codecs import Codec
    from mullion.faust.topics import Topic
    from mullion.faust.types.tables import TableT
    from mullion.faust.types.windows import WindowRange

    from mullion.faust import livecheck, sensors, serializers, web
    from mullion.faust.cli import AppCommand, option
    from mullion.faust.exceptions import DecodeError, ImproperlyConfigured
    from mullion.faust.streams import current_event
    from mullion.faust.types import CodecT, ProcessingGuarantee, ServiceT

    assert (App, Event, Topic, TableT) == (faust.App, faust.Event, faust.Topic, faust.Table)
    assert (current_event, WindowRange) == (faust.current_event, faust.WindowRange)
    assert (ImproperlyConfigured, DecodeError) == (InvalidArgumentError, faust.ValidationError)
    app = faust.App("named", broker="dir:/nowhere", processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE)
    assert ServiceT[int].__args__ == (int,)
    for call in (AppCommand, Codec, CodecT, StringField, Monitor, sensors.Anything, livecheck.Case):
        with pytest.raises(UnsupportedError, match=r"faust\.[a-z.]*\w+ is not supported. "):
            call()
    with pytest.raises(UnsupportedError, match=r"codecs\.register is not supported\. .*value_serializer='raw'"):
        serializers.codecs.register("own", None)
    assert option("--n") is not None
    blueprint = web.Blueprint("users")
    assert blueprint.route("/")(print) is print
    blueprint.register(app)
    app.web.blueprints.add("/users/", "users")
    assert "the pages under '/users/': no pages are served" in app.notes()


def test_attributes_of_faust_without_a_counterpart_raise_an_error_with_the_alternative() -> None:
    app = faust.App("missing", broker="dir:/nowhere")
    topic, table = app.topic("in"), app.Table("table")

    @app.agent(topic)
    async def agent(stream: Any) -> None: ...

    for owner, name, why in (
        (topic, "put", r"channel.put is not supported. Write await topic.send\(value=...\)"),
        (topic, "as_future_message", "send_soon"),
        (app, "consumer", "app.consumer is not supported. Spark does this"),
        (app, "in_transaction", "Spark does this"),
        (app, "start_client", "Spark does this"),
        (app, "monitor", r"app.queries\['agents'\].progress"),
        (app.web, "site", "app.web.site is not supported. Pages are not served"),
        (agent, "test_context", "Test a program over a folder of topics"),
        (topic.stream(), "events_total", "stream.events_total is not supported"),
        (table, "popitem", "Write key, value = next"),
    ):
        assert not hasattr(owner, name)
        with pytest.raises(UnsupportedError, match=why):
            getattr(owner, name)
    for owner in (app, topic, agent, table, topic.stream()):
        with pytest.raises(AttributeError, match="object has no attribute 'nonsense'"):
            _ = owner.nonsense


def test_a_processor_may_skip_an_event() -> None:
    def only_even(n: int) -> int:
        if n % 2:
            raise Skip
        return n * 10

    def program(app: Any) -> None:
        out = app.topic("out")

        @app.agent(app.topic("in"))
        async def copy(stream: Any) -> None:
            stream.add_processor(only_even)
            async for n in stream:
                await out.send(value=n)

    _, run = run_of(program)
    run.produce("in", [(None, n, 0.0) for n in range(5)])
    assert [message.value for message in run.published["out"]] == [0, 20, 40]


def test_a_program_is_found_in_its_modules() -> None:
    app = faust.App("found", broker="dir:/nowhere", autodiscover=True)
    with pytest.raises(InvalidArgumentError, match="Write origin='package'"):
        packages_of(app.conf)
    app.conf.origin = "tests.support.faust.programs.faust_people"
    assert packages_of(app.conf) == ["tests.support.faust.programs.faust_people"]
    app.discover()


def test_signals_receive_the_app_and_their_arguments() -> None:
    app = faust.App("told", broker="dir:/nowhere")
    calls: list[Any] = []

    @app.on_configured.connect
    def configure(app: Any, conf: Any, **kwargs: Any) -> None:
        conf.topic_partitions = 3
        calls.append((app.name, sorted(kwargs)))

    @app.on_partitions_assigned.connect()
    async def assigned(app: Any, assigned: Any) -> None: ...

    app.on_produce_message.connect(lambda: None)
    with pytest.raises(UnsupportedError, match=r"app\.on_first_start is not supported"):
        _ = app.on_first_start

    @app.timer(1)
    def tick() -> None: ...

    app.explain()
    app.explain()
    assert calls == [("told", ["signal"])]
    assert app.conf.topic_partitions == 3
    assert any("app.on_produce_message: the signal is never sent" in note for note in app.notes())
