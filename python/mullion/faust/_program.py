"""A program: the tables, topics, agents, timers and tasks that its code names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from mullion.errors import InvalidArgumentError
from mullion.faust._seconds import Seconds, positive_us
from mullion.faust._unsupported import absent
from mullion.faust.agents import Agent, Channel, OnError, Sink, Timer, Topic
from mullion.faust.tables.table import Table
from mullion.faust.tables.windowed import WindowedTable
from mullion.faust.windows import WindowT

F = TypeVar("F", bound=Callable[..., Any])


class Program:
    """What a program is made of, by name. Its parts run where a driver runs them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tables: dict[str, Table] = {}
        self.topics: dict[str, Topic] = {}
        self.agents: dict[str, Agent] = {}
        self.timers: list[Timer] = []
        self.tasks: list[Callable[[], Any]] = []

    def Table(  # noqa: N802
        self,
        name: str,
        *,
        default: Callable[[], Any] | None = None,
        window: WindowT | None = None,
        key_type: Any = None,
        value_type: Any = None,
        on_window_close: Callable[[Any, Any], Any] | None = None,
        partitions: int | None = None,
        help: str | None = None,  # noqa: A002
    ) -> Any:
        """A :class:`Table`; with ``window`` a :class:`WindowedTable` that keeps a key index.

        ``partitions`` and ``help`` are accepted: shards are the program's, and not a table's.
        """
        if name in self.tables:
            raise InvalidArgumentError(
                f"Two tables of the program {self.name!r} are called {name!r}. What they hold is kept under the name: "
                "give each its own."
            )
        table = Table(name, default=default, key_type=key_type, value_type=value_type, on_window_close=on_window_close)
        self.tables[name] = table
        return table if window is None else WindowedTable(table, window)

    def topic(
        self,
        *names: str,
        key_type: Any = None,
        value_type: Any = None,
        partitions: int | None = None,
        internal: bool = False,
        value_serializer: str | None = None,
        key_serializer: str | None = None,
    ) -> Topic:
        """A topic by name. Of one name there is one topic: its types may be said once, and not in two ways."""
        if len(names) != 1 or not isinstance(names[0], str) or not names[0]:
            raise InvalidArgumentError(f"topic({', '.join(map(repr, names))}) is not one name. Write topic('events').")
        for serializer in (key_serializer, value_serializer):
            if serializer not in (None, "json"):
                raise InvalidArgumentError(
                    f"serializer={serializer!r} of the topic {names[0]!r} is not served: write 'json'."
                )
        known = self.topics.get(names[0])
        if known is None:
            known = self.topics[names[0]] = Topic(names[0], key_type=key_type, value_type=value_type)
            return known
        kinds = (("key_type", known.key_type, key_type), ("value_type", known.value_type, value_type))
        for what, there, given in kinds:
            if given is not None and there is not None and there != given:
                raise InvalidArgumentError(f"The topic {known.name!r} has {what}={there!r}, and is given {given!r}.")
        if (key_type, value_type) != (None, None):
            known.typed(key_type or known.key_type, value_type or known.value_type)
        return known

    def channel(self, name: str, *, key_type: Any = None, value_type: Any = None) -> Channel:
        """A channel within the program: a topic that only it knows."""
        return self.topic(name, key_type=key_type, value_type=value_type)

    @overload
    def agent(self, channel: Callable[[Any], Any]) -> Agent: ...

    @overload
    def agent(
        self,
        channel: Channel | None = None,
        *,
        name: str | None = None,
        sink: Iterable[Sink] = (),
        concurrency: int = 1,
        on_error: OnError = "stop",
    ) -> Callable[[Callable[[Any], Any]], Agent]: ...

    def agent(
        self,
        channel: Any = None,
        *,
        name: str | None = None,
        sink: Iterable[Sink] = (),
        concurrency: int = 1,
        on_error: OnError = "stop",
    ) -> Any:
        """Makes an agent of a function that goes through a stream: ``@app.agent(topic)``, ``@app.agent()``, bare.

        - ``channel``: a topic. Left out: a channel of the agent's own, named after it, that ``send`` and ``cast`` feed.
        - ``sink``: what gets the values that it yields: topics, agents, functions.
        - ``on_error``: ``"stop"``, or ``"dead_letter"`` to put an event that fails aside, with the reason.
        - ``concurrency``: accepted; events of a shard are processed one after the other.
        """
        if callable(channel) and not isinstance(channel, (Channel, Agent)):
            return self._add(channel, None, name, sink, on_error)
        if channel is not None and not isinstance(channel, Channel):
            raise InvalidArgumentError(
                f"agent({channel!r}) is not given a topic. Write @app.agent(app.topic('events')), or @app.agent() for "
                "one that is sent its messages."
            )
        return lambda function: self._add(function, channel, name, sink, on_error)

    page = absent("app.page", "Serve what a table holds from another process: app.table('views').read() reads it.")
    crontab = absent("app.crontab", "Write @app.timer(interval), and ask in it what time it is.")
    SetTable = absent("app.SetTable", "Keep sets in a table: app.Table(name, default=set).")
    SetGlobalTable = absent("app.SetGlobalTable", "Keep sets in a table: app.Table(name, default=set).")
    GlobalTable = absent(
        "app.GlobalTable",
        "A table's records are in shards, each of its own keys. Read all of them from outside with "
        "app.table(name).read(), or join them to the events before they reach the topic.",
    )

    def timer(self, interval: Seconds, on_leader: bool = False) -> Callable[[F], F]:
        """Calls a function every so often by the clock; the first time an interval after the start.

        It is called once for the program. One that works on tables is called once for each shard partition that has had
        events, and sees the records of that one: together, those of all. With ``on_leader`` it is called once, and may
        not work on tables, of which it would see a part.
        """
        us = positive_us(interval, "interval")

        def add(function: F) -> F:
            name = getattr(function, "__name__", repr(function))
            self.timers.append(Timer(function, us, name, bool(on_leader)))
            return function

        return add

    @overload
    def task(self, function: F) -> F: ...

    @overload
    def task(self) -> Callable[[F], F]: ...

    def task(self, function: F | None = None) -> Any:
        """Calls a function once, when the program starts."""
        if function is None:
            return self.task
        self.tasks.append(function)
        return function

    def _add(
        self, function: Callable[..., Any], channel: Channel | None, name: str | None, sink: Any, on_error: OnError
    ) -> Agent:
        called = str(name or getattr(function, "__name__", type(function).__name__))
        if called in self.agents:
            raise InvalidArgumentError(
                f"Two agents of the program {self.name!r} are called {called!r}. Give one another name: "
                "@app.agent(topic, name='...')."
            )
        if channel is None:
            channel = self.topic(f"{self.name}-{called}")
        if inspect.isfunction(sink) or isinstance(sink, (Channel, Agent)):
            sink = [sink]
        agent = Agent(function, channel, name=called, sinks=sink, on_error=on_error)
        self.agents[called] = agent
        return agent
