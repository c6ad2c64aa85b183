"""A program: the tables, topics, agents, timers and tasks that its code names."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import tzinfo
from typing import Any, TypeVar, overload

from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.faust._program import signals
from mullion.faust._program.commands import Command, Option
from mullion.faust._settings import Settings
from mullion.faust._unsupported import absent, missing_attribute
from mullion.faust._values.crontab import Crontab
from mullion.faust._values.times import Seconds, positive_us
from mullion.faust.agents import Agent, OnError, Sink, Timer
from mullion.faust.channels import Channel, Topic, TopicPattern, Topics, compiled
from mullion.faust.schemas import Schema, schema_of
from mullion.faust.tables import sets
from mullion.faust.tables.table import Table, WindowedTable
from mullion.faust.web import AppWeb
from mullion.faust.windows import WindowT

F = TypeVar("F", bound=Callable[..., Any])

_OF_TOPIC = (
    *("retention", "compacting", "deleting", "replicas", "acks", "config", "maxsize", "allow_empty", "has_prefix"),
    *("loop", "partitions", "internal"),
)
"""What Faust's topics take that is the cluster's here, or means nothing."""
_OF_AGENT = ("supervisor_strategy", "isolated_partitions", "use_reply_headers", "concurrency", *_OF_TOPIC)
_OF_TABLE = (
    *("store", "schema", "changelog_topic", "on_recover", "on_changelog_event", "recovery_buffer_size", "options"),
    *("standby_buffer_size", "extra_topic_configs", "recover_callbacks", "use_partitioner", "is_global"),
    *("synchronize_all_active_partitions", "start_manager", "partitions", "help", "loop"),
)
_SILENT = ("partitions", "internal", "help", "concurrency", "loop", "start_manager", "acks", "allow_empty", "is_global")
"""Those of which nothing is to be said: what they ask for is so in any case."""


class Program:
    """What a program is made of, by name. Its parts run where a driver runs them."""

    on_before_configured: signals.Signal
    on_configured: signals.Signal
    on_after_configured: signals.Signal
    on_worker_init: signals.Signal
    on_partitions_assigned: signals.Signal
    on_rebalance_complete: signals.Signal
    on_before_shutdown: signals.Signal
    on_partitions_revoked: signals.Signal
    on_produce_message: signals.Signal

    rebalancing = False
    """Whether partitions are on their way to other workers: never, for Spark moves them between batches."""

    def __init__(self, name: str, conf: Settings | None = None) -> None:
        self.name = name
        self.conf = conf or Settings(name, {}, lambda setting, value: None)
        self.tables: dict[str, Table] = {}
        self.topics: dict[str, Topic] = {}
        self.agents: dict[str, Agent] = {}
        self.by_pattern: list[Agent] = []
        self.timers: list[Timer] = []
        self.tasks: list[Callable[[], Any]] = []
        self.commands: dict[str, Command] = {}
        self.log = self.logger = logging.getLogger(f"mullion.faust.{name}")
        self._channels = 0
        self._noted: dict[str, None] = {}
        for signal in (*signals.CONFIGURING, *signals.BEGINNING, *signals.ENDING, *signals.NEVER):
            setattr(self, signal, signals.Signal(signal))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_") and "conf" in self.__dict__:
            raise UnsupportedError(
                f"app.{name} is not served. The signals are {', '.join(_ALL_SIGNALS)}. To do something when the "
                "program starts, write an @app.task."
            )
        raise missing_attribute("app", self, name)

    # -- tables

    def Table(  # noqa: N802
        self,
        name: str,
        *,
        default: Callable[[], Any] | None = None,
        window: WindowT | None = None,
        key_type: Any = None,
        value_type: Any = None,
        key_index: bool = False,
        on_window_close: Callable[[Any, Any], Any] | None = None,
        **accepted: Any,
    ) -> Any:
        """A :class:`Table`; with ``window`` a :class:`WindowedTable` that keeps a key index.

        ``changelog_topic`` is sent what a table without a window is given, key by key. ``partitions``, ``help`` and
        what Faust's tables take besides is accepted: shards are the program's, not a table's.
        """
        changelog = accepted.pop("changelog_topic", None)
        about = {"default": default, "key_type": key_type, "value_type": value_type, "on_window_close": on_window_close}
        table = self._table(Table, name, about, accepted)
        table.key_index = bool(key_index)
        table.changelog = changelog
        return table if window is None else WindowedTable(table, window)

    def SetTable(  # noqa: N802
        self, name: str, *, key_type: Any = None, value_type: Any = None, window: WindowT | None = None, **accepted: Any
    ) -> sets.SetTable:
        """A :class:`SetTable`: a set for each key, which keeps what is added and discarded."""
        accepted.pop("default", None)
        if window is not None:
            raise UnsupportedError(
                f"The SetTable {name!r} with window= is not served. Keep the sets in a windowed table: "
                f"app.Table({name!r}, default=set, window=...), and assign the set back once it is changed."
            )
        table: sets.SetTable = self._table(
            sets.SetTable, name, {"key_type": key_type, "value_type": value_type}, accepted
        )
        return table

    def GlobalTable(self, name: str, **given: Any) -> Any:  # noqa: N802
        """A table that all agents see whole: its program runs in one shard. See :meth:`Table`."""
        table = self.Table(name, **given)
        (table.table if isinstance(table, WindowedTable) else table).is_global = True
        return table

    def SetGlobalTable(self, name: str, **given: Any) -> sets.SetTable:  # noqa: N802
        """A :class:`SetTable` that all agents see whole: its program runs in one shard."""
        table = self.SetTable(name, **given)
        table.is_global = True
        return table

    def _table(self, kind: type[Any], name: str, about: dict[str, Any], accepted: dict[str, Any]) -> Any:
        self._accept(f"the table {name!r}", accepted, _OF_TABLE, kind.__name__)
        if name in self.tables:
            raise InvalidArgumentError(
                f"Two tables of the program {self.name!r} are called {name!r}. What they hold is kept under the name: "
                "give each its own."
            )
        table = self.tables[name] = kind(name, **about)
        return table

    # -- topics

    @property
    def dead_letters(self) -> str:
        """The topic of messages that were put aside."""
        return f"{self.name}-dead-letters"

    def topic(
        self,
        *names: str,
        pattern: Any = None,
        schema: Schema | Any = None,
        key_type: Any = None,
        value_type: Any = None,
        key_serializer: Any = None,
        value_serializer: Any = None,
        **accepted: Any,
    ) -> Topic:
        """A topic by name. Of one name there is one topic: its types may be said once, and not in two ways.

        Of several names an agent reads all, and messages go to the first.

        With ``pattern``, a regular expression, an agent reads all topics whose names it matches from their beginning
        on: those that there are when the program first begins, but for the program's own. A query has the topics that
        it began with; topics that come later are for an App of another id, and a warning names them.

        ``value_serializer`` is ``"json"``, the setting of the App where it is left out, or ``"raw"``: text or bytes as
        they are. ``schema`` is a :class:`Schema`, or the columns that the topic has, as ``"n bigint, at string"``.
        """
        if pattern is not None:
            self._accept(f"the topics {pattern!r}", accepted, _OF_TOPIC, "topic")
            about = (schema, key_type, value_type, key_serializer, value_serializer)
            return TopicPattern(compiled(pattern, names), about, self.conf)
        if not names or not all(isinstance(one, str) and one for one in names) or len(set(names)) < len(names):
            raise InvalidArgumentError(
                f"topic({', '.join(map(repr, names))}) is not the name of a topic, or of several: topic('events')."
            )
        self._accept(f"the topic {names[0]!r}", accepted, _OF_TOPIC, "topic")
        about = (schema, key_type, value_type, key_serializer, value_serializer)
        first, *others = (self._topic(one, *about) for one in names)
        return Topics(first, others) if others else first

    def channel(
        self,
        name: str | None = None,
        *,
        schema: Any = None,
        key_type: Any = None,
        value_type: Any = None,
        **accepted: Any,
    ) -> Channel:
        """A channel within the program: a topic that only it knows. Without a name it has a number, in order."""
        self._accept("the channel", accepted, _OF_TOPIC, "channel")
        if name is not None:
            return self.topic(name, schema=schema, key_type=key_type, value_type=value_type)
        self._channels += 1
        return self._own(f"{self.name}-channel-{self._channels}", schema, key_type, value_type)

    def _own(
        self, name: str, schema: Any = None, key_type: Any = None, value_type: Any = None, *serializers: Any
    ) -> Topic:
        """A topic of the program's own."""
        topic = self._topic(name, schema, key_type, value_type, *(serializers or (None, "json")))
        topic.is_own = True
        return topic

    def _topic(
        self, name: str, schema: Any, key_type: Any, value_type: Any, key_serializer: Any, value_serializer: Any
    ) -> Topic:
        about = schema_of(schema).over(name, key_type, value_type, key_serializer, value_serializer)
        known = self.topics.get(name)
        if known is None:
            known = self.topics[name] = Topic(name, conf=self.conf)
        for what, there, given in known.schema.differences(about):
            raise InvalidArgumentError(f"The topic {known.name!r} has {what}={there!r}, and is given {given!r}.")
        known.described(about)
        return known

    # -- agents

    @overload
    def agent(self, channel: Callable[[Any], Any]) -> Agent: ...

    @overload
    def agent(
        self,
        channel: Channel | str | None = None,
        *,
        name: str | None = None,
        sink: Iterable[Sink] | None = None,
        on_error: OnError = "stop",
        schema: Any = None,
        key_type: Any = None,
        value_type: Any = None,
        key_serializer: Any = None,
        value_serializer: Any = None,
        **accepted: Any,
    ) -> Callable[[Callable[[Any], Any]], Agent]: ...

    def agent(
        self,
        channel: Any = None,
        *,
        name: str | None = None,
        sink: Iterable[Sink] | None = None,
        on_error: OnError = "stop",
        schema: Any = None,
        key_type: Any = None,
        value_type: Any = None,
        key_serializer: Any = None,
        value_serializer: Any = None,
        **accepted: Any,
    ) -> Any:
        """Makes an agent of a function that goes through a stream: ``@app.agent(topic)``, ``@app.agent()``, bare.

        - ``channel``: a topic, or the name of one. Left out: a channel of the agent's own, named after it, that
          ``send`` and ``cast`` feed; ``value_type`` and its like are of that.
        - ``sink``: what gets the values that it yields: topics, agents, functions.
        - ``on_error``: ``"stop"``, or ``"dead_letter"`` to put an event that fails aside, with the reason.
        - ``concurrency``: accepted; events of a shard are processed one after the other.
        """
        types = (schema, key_type, value_type, key_serializer, value_serializer)
        if callable(channel) and not isinstance(channel, (Channel, Agent)):
            return self._add(channel, None, name, sink, on_error, types)
        if isinstance(channel, str):
            channel = self.topic(channel)
        if channel is not None and not isinstance(channel, Channel):
            raise InvalidArgumentError(
                f"agent({channel!r}) is not given a topic. Write @app.agent(app.topic('events')), or @app.agent() for "
                "one that is sent its messages."
            )
        if isinstance(channel, Topic) and any(one is not None for one in types):
            self._topic(channel.name, *types)
        self._accept(
            f"the agent of {channel!r}" if name is None else f"the agent {name!r}", accepted, _OF_AGENT, "agent"
        )
        return lambda function: self._add(function, channel, name, sink, on_error, types)

    def _add(
        self,
        function: Callable[..., Any],
        channel: Channel | None,
        name: str | None,
        sink: Any,
        on_error: OnError,
        types: tuple[Any, ...],
    ) -> Agent:
        whole = function.func if isinstance(function, functools.partial) else function
        called = str(name or getattr(whole, "__name__", type(whole).__name__))
        if called in self.agents:
            raise InvalidArgumentError(
                f"Two agents of the program {self.name!r} are called {called!r}. Give one another name: "
                "@app.agent(topic, name='...')."
            )
        if channel is None:
            channel = self._own(f"{self.name}-{called}", *types)
        if inspect.isfunction(sink) or isinstance(sink, (Channel, Agent)):
            sink = [sink]
        agent = Agent(function, channel, name=called, sinks=sink or (), on_error=on_error)
        if isinstance(channel, TopicPattern):
            self.by_pattern.append(agent)
            return agent
        self.agents[called] = agent
        for other in channel.others if isinstance(channel, Topics) else ():
            self._also(agent, other)
        return agent

    def _also(self, agent: Agent, topic: Channel) -> None:
        """Has another topic gone through: a body begins anew with each batch, and over two topics is two agents."""
        name = f"{agent.name}@{topic.name}"
        if name not in self.agents:
            also = Agent(agent.function, topic, name=name, on_error=agent.on_error)
            # The very list, to which sinks may still be added.
            also.sinks = agent.sinks
            self.agents[name] = also

    def matching(self, topic: str) -> list[Agent]:
        """The agents whose pattern a topic matches; none where it is the program's own."""
        known = self.topics.get(topic)
        changes = {table.changelog.name for table in self.tables.values() if table.changelog is not None}
        if (known is not None and known.is_own) or topic in changes or topic == self.dead_letters:
            return []
        return [agent for agent in self.by_pattern if _pattern_of(agent).pattern.match(topic)]

    def found(self, topic: str) -> bool:
        """Gives a topic that there is to the agents whose pattern it matches; whether there are any."""
        matching = self.matching(topic)
        for agent in matching:
            self._also(agent, self._topic(topic, *_pattern_of(agent).about))
        return bool(matching)

    # -- timers, tasks, commands

    def timer(
        self, interval: Seconds, on_leader: bool = False, *, name: str | None = None, **accepted: Any
    ) -> Callable[[F], F]:
        """Calls a function every so often by the clock; the first time an interval after the start.

        It is called once for the program. One that works on tables is called once for each shard partition that has had
        events, and sees the records of that one: together, those of all. With ``on_leader`` it is called once, and may
        not work on tables, of which it would see a part. A function with a parameter is given the App.
        """
        self._accept("a timer", accepted, ("traced", "max_drift_correction"), "timer")
        return self._timed(positive_us(interval, "interval"), on_leader, name)

    def crontab(
        self,
        cron_format: str,
        *,
        timezone: tzinfo | None = None,
        tz: tzinfo | None = None,
        on_leader: bool = False,
        **accepted: Any,
    ) -> Callable[[F], F]:
        """Calls a function at the times of a crontab, as :meth:`timer` does: ``@app.crontab("30 8 * * 1-5")``.

        ``timezone``, or ``tz``, is the App's setting where it is left out, which is UTC. Times that pass while nothing
        runs are not made up for.

        Raises :class:`InvalidArgumentError` for text that is no crontab.
        """
        self._accept("a crontab", accepted, ("traced", "max_drift_correction", "name"), "crontab")
        zone = timezone or tz or self.conf.timezone
        return self._timed(Crontab.of(cron_format, zone), on_leader, accepted.get("name"))

    def _timed(self, every: int | Crontab, on_leader: bool, name: str | None) -> Callable[[F], F]:
        def add(function: F) -> F:
            called = str(name or getattr(function, "__name__", repr(function)))
            self.timers.append(Timer(self._with_app(function), every, called, bool(on_leader)))
            return function

        return add

    def _with_app(self, function: Callable[..., Any]) -> Callable[[], Any]:
        """A function that is called with nothing: one with a parameter is given the App."""
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            return function
        wants = [one for one in parameters if one.default is one.empty and one.kind in _POSITIONAL]
        return WithApp(function, self) if wants else function

    @overload
    def task(self, function: F) -> F: ...

    @overload
    def task(self, function: None = None, **accepted: Any) -> Callable[[F], F]: ...

    def task(self, function: Any = None, **accepted: Any) -> Any:
        """Calls a function once, when the program starts; one with a parameter is given the App."""
        self._accept("a task", accepted, ("on_leader", "traced"), "task")
        if function is None:
            return self.task
        self.tasks.append(self._with_app(function))
        return function

    def command(self, *options: Option, **accepted: Any) -> Callable[[F], F]:
        """Makes a command of a function: ``python site.py produce``, or ``mullion faust produce -A site:app``.

        ``options`` are of :func:`mullion.faust.cli.option` and :func:`mullion.faust.cli.argument`. A function with
        parameters is given the command first, which has ``app`` and ``say``, and then what they name.
        """
        if len(options) == 1 and not isinstance(options[0], Option):
            raise InvalidArgumentError(
                f"@app.command is given {options[0]!r}, which is not an option. Write @app.command()."
            )
        self._accept("a command", accepted, ("base",), "command")

        def add(function: F) -> F:
            command = Command(function, options)
            self.commands[command.name] = command
            return function

        return add

    def service(self, cls: Any) -> Any:
        """Raises :class:`UnsupportedError`: services are not run."""
        raise UnsupportedError(
            f"app.service({getattr(cls, '__name__', cls)!r}) is not served. What it does when it starts can be an "
            "@app.task, and what it does every so often an @app.timer."
        )

    # -- what has no meaning here

    @property
    def web(self) -> AppWeb:
        """Faust's server of pages, which are accepted and not served."""
        return AppWeb(self)

    def page(self, path: str, **accepted: Any) -> Callable[[F], F]:
        """Takes a page, which is not served: :meth:`explain` says so."""
        self.note(f"app.page({path!r}): no pages are served; read what a table holds with app.table(name).read()")
        return lambda function: function

    def table_route(self, table: Any = None, *given: Any, **accepted: Any) -> Callable[[F], F]:
        """Takes the route of a page, which is not served."""
        return lambda function: function

    topic_route = table_route

    def note(self, what: str) -> None:
        """Notes something that was taken and decides nothing here; once."""
        self._noted[what] = None

    def notes(self) -> list[str]:
        """What was taken and decides nothing here."""
        settings = self.conf.without_meaning
        found = [f"settings that decide nothing here: {', '.join(settings)}"] if settings else []
        never = [one for one in signals.NEVER if getattr(self, one)]
        found += [f"app.{one}: it never is, so nothing that is connected is called" for one in never]
        return found + list(self._noted)

    def is_leader(self) -> bool:
        """Whether this is the worker that leads: it is, for there is one."""
        return True

    def finalize(self) -> None:
        """Faust's; there is nothing to do."""

    def send(self, channel: Channel | Agent | str, key: Any = None, value: Any = None, **given: Any) -> Any:
        """Sends a message to a topic or an agent, or to the topic of a name; to be awaited."""
        to = self.topic(channel) if isinstance(channel, str) else channel
        return to.send(key=key, value=value, **given)

    LiveCheck = absent("app.LiveCheck", "Test a program over a folder of topics: App(broker='dir:...').")

    def _accept(self, of: str, given: dict[str, Any], known: Sequence[str], method: str) -> None:
        for name, value in given.items():
            if name not in known:
                raise TypeError(f"{method}() got an unexpected keyword argument {name!r}")
            if name not in _SILENT and value is not None:
                self.note(f"{name}= of {of}")


def _pattern_of(agent: Agent) -> TopicPattern:
    assert isinstance(agent.channel, TopicPattern)
    return agent.channel


class WithApp:
    """A function that is given the App when it is called."""

    def __init__(self, function: Callable[..., Any], app: Program) -> None:
        self.function = function
        self.app = app
        self.__name__ = getattr(function, "__name__", repr(function))

    def __call__(self) -> Any:
        return self.function(self.app)


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_ALL_SIGNALS = (*signals.CONFIGURING, *signals.BEGINNING, *signals.ENDING, *signals.NEVER)
