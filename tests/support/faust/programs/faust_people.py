# mypy: disable-error-code="type-arg, untyped-decorator, misc"
"""Programs as people write them for Faust: the parts that public ones use, each in a program of our own.

What they were tried on is listed in ``docs/adapters/faust-programs.md``, with where it is from.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import mullion.faust as faust
from mullion.faust import ChannelT, StreamT
from mullion.faust.cli import argument, option
from mullion.faust.types import TableT

logger = logging.getLogger(__name__)


@dataclass
class Click(faust.Record, serializer="json"):
    page: str
    at: int
    score: int = 0


class Place(faust.Record):
    time: float
    who: int


class Login(faust.Record, isodates=True):
    id: str
    data: Place


class Reading(faust.Record):
    date: datetime
    value: float


class Mean(faust.Record):
    count: int
    mean: float
    since: float


class Adding(faust.Record):
    x: int
    y: int


class Failed(faust.Record):
    stage: str
    record: Adding


def settings(app: Any) -> None:
    """Settings that mean nothing here, and some that do; signals, pages, a service of none."""
    app.conf.table_cleanup_interval = 1.0
    table = app.Table("tally", default=int, partitions=4, help="how many", recovery_buffer_size=1)

    @app.agent(app.topic("n", key_type=str, value_type=int, partitions=4, retention=60), concurrency=3)
    async def count(stream: faust.Stream[int]) -> None:
        async for event in stream.events():
            assert event.message.tp in stream.active_partitions
            table[event.key] += event.value

    @app.page("/count/{key}/")
    @app.table_route(table=table, match_info="key")
    async def get(web: Any, request: Any, key: str) -> Any: ...

    @app.timer(10.0, on_leader=False, name="dump")
    async def dump(app: Any) -> None:
        if not app.rebalancing:
            print(table.as_ansitable(key="key", value="count", title="$$ TALLY $$", sort=True))


def words(app: Any) -> None:
    """An agent that sends to another, which has a type of its own."""
    posts = app.topic("posts", value_type=str)
    counts = app.Table("counts", default=int)

    @app.agent(posts)
    async def split(stream: StreamT[str]) -> None:
        async for post in stream:
            for word in post.split():
                await count.send(key=word, value=word)

    @app.agent(value_type=str)
    async def count(stream: StreamT[str]) -> None:
        async for word in stream:
            counts[word] += 1


def people(app: Any) -> None:
    """A table of sets, of which two agents add and discard."""
    table = app.SetTable("people", value_type=str)

    @app.agent(app.topic("joining", key_type=str, value_type=str))
    async def join(stream: Any) -> None:
        async for key, name in stream.items():
            table[key].add(name)

    @app.agent(app.topic("leaving", key_type=str, value_type=str))
    async def leave(stream: Any) -> None:
        async for key, name in stream.items():
            table[key].discard(name)


def questions(app: Any) -> None:
    """Agents that ask one another, and a timer that asks for several answers."""

    @app.agent(app.topic("squares"))
    async def square(stream: StreamT[float]) -> AsyncIterable[float]:
        async for value in stream:
            yield await hundredfold.ask(value=value**2)

    @app.agent(app.topic("hundreds"))
    async def hundredfold(stream: StreamT[float]) -> AsyncIterable[float]:
        async for value in stream:
            yield value * 100.0

    @app.timer(interval=10.0)
    async def ask() -> None:
        print(await square.join([2.0, 3.0]), [one async for one in square.map([4.0])])
        print(await square.kvjoin([("a", 5.0)]), await (await square.ask_nowait(6.0)))


def stages(app: Any) -> None:
    """Channels without names, and agents that are bound to what they need."""

    async def first(failed: ChannelT, stream: StreamT[Adding]) -> AsyncIterator[Adding]:
        async for one in stream:
            try:
                yield one.derive(x=10 // one.x)
            except ZeroDivisionError:
                await failed.send(value=Failed(stage="first", record=one))

    async def second(stream: StreamT[Failed]) -> AsyncIterator[str]:
        async for one in stream:
            yield f"{one.stage}: {one.record.y}"

    failed, passed = app.channel(value_type=Failed), app.channel(value_type=Adding)
    app.agent(app.topic("adding", value_type=Adding), name="first", sink=[passed])(functools.partial(first, failed))
    app.agent(failed, name="second", sink=[app.topic("told")])(second)


def untyped(app: Any) -> None:
    """A bare agent that is sent records."""

    @app.agent()
    async def add(stream: Any) -> AsyncIterator[int]:
        async for one in stream:
            print(one.x + one.y)
            yield one.x + one.y

    @app.timer(1.0, on_leader=True)
    async def produce() -> None:
        await add.send(value=Adding(2, 3))


def scores(app: Any) -> None:
    """A function over each event, a dataclass, and events that go through another topic."""
    scored = app.topic("scored", key_type=str, value_type=Click)

    def add_score(click: Click) -> Click:
        click.score = click.at * 2
        return click

    @app.agent(app.topic("clicks", value_type=Click))
    async def score(stream: Any) -> None:
        stream.add_processor(add_score)
        async for click in stream.through(app.topic("seen", value_type=Click)):
            assert asdict(click)["score"] == click.score
            await scored.send(key=click.page, value=click)


def raw(app: Any) -> None:
    """Values that are bytes, and one that is text, as they are."""
    out = app.topic("made", value_serializer="raw")

    @app.agent(app.topic("bytes", value_type=bytes, value_serializer="raw"))
    async def read(stream: Any) -> None:
        async for value in stream:
            assert isinstance(value, bytes)
            await out.send(key=b"k", value=json.dumps({"got": json.loads(value)}).encode())

    @app.agent(app.topic("text", value_type=str, value_serializer="raw", key_serializer="json"))
    async def text(stream: Any) -> None:
        async for key, value in stream.items():
            await out.send(value=f"{key}: {value}")


def means(app: Any) -> None:
    """Lists of records by window, of a field, which are made one when it closes: in a plain function."""
    sink = app.topic("means", value_type=Mean)

    def close(key: Any, events: list[Reading]) -> None:
        sink.send_soon(value=Mean(len(events), sum(one.value for one in events) / len(events), key[1][0]))

    table = (
        app.Table("readings", default=list, partitions=1, on_window_close=close)
        .tumbling(10, expires=timedelta(seconds=1))
        .relative_to_field(Reading.date)
    )

    @app.agent(app.topic("readings", value_type=Reading))
    async def keep(stream: Any) -> None:
        async for event in stream:
            values = table["events"].value()
            values.append(event)
            table["events"] = values


def logins(app: Any) -> None:
    """A window of the time in a record in a record; a key that is made."""
    table = app.Table("logins", default=int).tumbling(30, expires=60).relative_to_field(Login.data.time)

    @app.agent(app.topic("logins", value_type=Login))
    async def count(stream: Any) -> None:
        async for login in stream:
            key = f"user:{login.data.who}"
            table[key] += 1
            print(key, table[key].value())


def sales(app: Any) -> None:
    """Two tables, each with one key that is written down: all events are in one shard."""
    amount = app.Table("amount", default=float).hopping(60, 30, expires=timedelta(minutes=10), key_index=True)
    number = app.Table("number", default=int).tumbling(timedelta(minutes=2), expires=timedelta(hours=1))

    @app.agent(app.topic("sales", value_type=Adding))
    async def sell(stream: Any) -> None:
        async for sale in stream:
            amount["amount_1min"] += sale.x * sale.y
            number["number_2min"] += sale.x


def rides(app: Any) -> None:
    """Events of two topics, grouped by a field."""
    counts: TableT[Any] = app.Table("rides", default=int)

    @app.agent(app.topic("yellow", "green", value_type=Click))
    async def count(stream: Any) -> None:
        async for ride in stream.group_by(Click.page):
            counts[ride.page] += 1


def everywhere(app: Any) -> None:
    """A table that all see whole."""
    names = app.GlobalTable("names", default=str)

    @app.agent(app.topic("naming", value_type=Adding))
    async def name(stream: Any) -> None:
        async for one in stream:
            names[one.x] = f"n{one.y}"

    @app.agent(app.topic("asking", value_type=int))
    async def ask(stream: Any) -> None:
        async for one in stream:
            print(one, names[one])


def stations(app: Any) -> None:
    """A table whose changes another program reads."""
    table = app.Table("stations", default=Click, partitions=1, changelog_topic=app.topic("changes", partitions=1))

    @app.agent(app.topic("raw-stations", value_type=Adding))
    async def transform(stream: Any) -> None:
        async for one in stream:
            table[one.x] = Click(page="red" if one.y else "blue", at=one.y)


def morning(app: Any) -> None:
    """A crontab, and commands."""
    greetings = app.topic("greetings", value_type=str)

    @app.crontab("30 8 * * *", on_leader=True)
    async def greet() -> None:
        await greetings.send(value="good morning")

    @app.command(option("--n", type=int, default=2, help="How many."), argument("name"))
    async def produce(self: Any, n: int, name: str) -> None:
        for i in range(n):
            meta = await greetings.send(key=name, value=f"{name} {i}", partition=0)
            assert (await meta).topic == "greetings"
        self.say(f"sent {n}")

    @app.agent(greetings)
    async def show(stream: Any) -> None:
        async for number, greeting in stream.enumerate():
            logger.info("%s %s", number, greeting)
            print(greeting)
