"""A program: the tables, topics and agents that its code defines, and its other functions."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.faust._program import signals
from mullion.faust._program.functions import Functions
from mullion.faust._public_names.unsupported import absent, missing_attribute
from mullion.faust._settings import Settings
from mullion.faust.agents import Agent, OnError, Sink
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
"""Options of Faust's topics that the cluster sets, or that have no meaning here."""
_OF_AGENT = ("supervisor_strategy", "isolated_partitions", "use_reply_headers", "concurrency", *_OF_TOPIC)
_OF_TABLE = (
    *("store", "schema", "changelog_topic", "on_recover", "on_changelog_event", "recovery_buffer_size", "options"),
    *("standby_buffer_size", "extra_topic_configs", "recover_callbacks", "use_partitioner", "is_global"),
    *("synchronize_all_active_partitions", "start_manager", "partitions", "help", "loop"),
)


class Program(Functions):
    """The parts of a program, by name. A driver runs them."""

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
    """Always False: Spark moves partitions only between batches."""

    def __init__(self, name: str, conf: Settings | None = None) -> None:
        super().__init__(conf or Settings(name, {}, lambda setting, value: None))
        self.name = name
        self.tables: dict[str, Table] = {}
        self.topics: dict[str, Topic] = {}
        self.agents: dict[str, Agent] = {}
        self.by_pattern: list[Agent] = []
        self.log = self.logger = logging.getLogger(f"mullion.faust.{name}")
        self._channels = 0
        for signal in (*signals.CONFIGURING, *signals.BEGINNING, *signals.ENDING, *signals.NEVER):
            setattr(self, signal, signals.Signal(signal))
        self.own_names = frozenset(("own_names", *self.__dict__))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_") and "conf" in self.__dict__:
            raise UnsupportedError(
                f"app.{name} is not supported. The signals are {', '.join(_ALL_SIGNALS)}. To do something when the "
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
        """Creates a :class:`Table`, or with ``window`` a :class:`WindowedTable` that keeps a key index.

        ``changelog_topic`` receives the changes of a table without a window, key by key. ``partitions``, ``help`` and
        the other options of Faust's tables are accepted and ignored: shards belong to the program, not to a table.
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
        """Creates a :class:`SetTable`: a set for each key that saves added and discarded elements."""
        accepted.pop("default", None)
        if window is not None:
            raise UnsupportedError(
                f"The SetTable {name!r} with window= is not supported. Keep the sets in a windowed table: "
                f"app.Table({name!r}, default=set, window=...), and assign the set back once it is changed."
            )
        table: sets.SetTable = self._table(
            sets.SetTable, name, {"key_type": key_type, "value_type": value_type}, accepted
        )
        return table

    def GlobalTable(self, name: str, **options: Any) -> Any:  # noqa: N802
        """Creates a table whose records are visible to all agents: its program runs in one shard. See :meth:`Table`."""
        table = self.Table(name, **options)
        (table.table if isinstance(table, WindowedTable) else table).is_global = True
        return table

    def SetGlobalTable(self, name: str, **options: Any) -> sets.SetTable:  # noqa: N802
        """Creates a :class:`SetTable` whose records are visible to all agents: its program runs in one shard."""
        table = self.SetTable(name, **options)
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
        """The topic of messages that failed."""
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
        """Returns a topic by name. Each name has one topic, so its types may be given once and not contradicted.

        With several names, an agent reads all of them, and messages go to the first.

        With ``pattern``, a regular expression, an agent reads all matching topics from their beginning. These are the
        topics that exist at the program's first start, except for its own. A query keeps the topics of its first start.
        Topics that are created later need an App with another id; a warning names them.

        ``value_serializer`` is ``"json"`` or ``"raw"`` (unchanged text or bytes); the default is the App's setting.
        ``schema`` is a :class:`Schema`, or the topic's columns, as ``"n bigint, at string"``.
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
        """Creates a channel within the program: a private topic. A channel without a name is numbered, in order."""
        self._accept("the channel", accepted, _OF_TOPIC, "channel")
        if name is not None:
            return self.topic(name, schema=schema, key_type=key_type, value_type=value_type)
        self._channels += 1
        return self._private_topic(f"{self.name}-channel-{self._channels}", schema, key_type, value_type)

    def _private_topic(
        self, name: str, schema: Any = None, key_type: Any = None, value_type: Any = None, *serializers: Any
    ) -> Topic:
        """Creates a private topic of the program."""
        topic = self._topic(name, schema, key_type, value_type, *(serializers or (None, "json")))
        topic.is_own = True
        return topic

    def _topic(
        self, name: str, schema: Any, key_type: Any, value_type: Any, key_serializer: Any, value_serializer: Any
    ) -> Topic:
        about = schema_of(schema).over(name, key_type, value_type, key_serializer, value_serializer)
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(name, conf=self.conf)
        for what, there, other in topic.schema.differences(about):
            raise InvalidArgumentError(
                f"The topic {topic.name!r} has {what}={there!r}, and another call sets {other!r}. Use one value."
            )
        topic.described(about)
        return topic

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
        """Creates an agent from a function over a stream: ``@app.agent(topic)``, ``@app.agent()`` or ``@app.agent``.

        - ``channel``: a topic, or its name. Default: a private channel named after the agent, fed by ``send`` and
          ``cast``; ``value_type`` and the other types apply to that channel.
        - ``sink``: the receivers of the values that it yields: topics, agents, functions.
        - ``on_error``: ``"stop"``, or ``"dead_letter"`` to set a failing event aside with the reason.
        - ``concurrency``: accepted; events of a shard are processed one after the other.
        """
        types = (schema, key_type, value_type, key_serializer, value_serializer)
        if callable(channel) and not isinstance(channel, (Channel, Agent)):
            return self._add(channel, None, name, sink, on_error, types)
        if isinstance(channel, str):
            channel = self.topic(channel)
        if channel is not None and not isinstance(channel, Channel):
            raise InvalidArgumentError(
                f"agent({channel!r}): the argument is not a topic. Write @app.agent(app.topic('events')), or "
                "@app.agent() for an agent that receives its messages by send() and cast()."
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
        unwrapped = function.func if isinstance(function, functools.partial) else function
        called = str(name or getattr(unwrapped, "__name__", type(unwrapped).__name__))
        if called in self.agents:
            raise InvalidArgumentError(
                f"Two agents of the program {self.name!r} are called {called!r}. Give one another name: "
                "@app.agent(topic, name='...')."
            )
        if channel is None:
            channel = self._private_topic(f"{self.name}-{called}", *types)
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
        """Adds an agent for another topic: a body restarts with each batch, so two topics need two agents."""
        name = f"{agent.name}@{topic.name}"
        if name not in self.agents:
            also = Agent(agent.function, topic, name=name, on_error=agent.on_error)
            # The same list object, because sinks may still be added.
            also.sinks = agent.sinks
            self.agents[name] = also

    def matching(self, topic: str) -> list[Agent]:
        """Returns the agents whose pattern matches a topic; none if it is the program's own."""
        existing = self.topics.get(topic)
        changes = {table.changelog.name for table in self.tables.values() if table.changelog is not None}
        if (existing is not None and existing.is_own) or topic in changes or topic == self.dead_letters:
            return []
        return [agent for agent in self.by_pattern if _pattern_of(agent).pattern.match(topic)]

    def add_topic(self, topic: str) -> bool:
        """Adds an existing topic to the agents whose pattern matches it. Returns True if there are any."""
        matching = self.matching(topic)
        for agent in matching:
            self._also(agent, self._topic(topic, *_pattern_of(agent).about))
        return bool(matching)

    # -- accepted without effect

    def service(self, cls: Any) -> Any:
        """Raises :class:`UnsupportedError`: services are not supported."""
        raise UnsupportedError(
            f"app.service({getattr(cls, '__name__', cls)!r}) is not supported. What it does when it starts can be an "
            "@app.task, and what it does every so often an @app.timer."
        )

    @property
    def web(self) -> AppWeb:
        """Faust's web server: its pages are accepted and not served."""
        return AppWeb(self)

    def page(self, path: str, **accepted: Any) -> Callable[[F], F]:
        """Accepts a page, which is not served; :meth:`explain` lists it."""
        self.note(f"app.page({path!r}): no pages are served; read what a table holds with app.table(name).read()")
        return lambda function: function

    def table_route(self, table: Any = None, *arguments: Any, **accepted: Any) -> Callable[[F], F]:
        """Accepts the route of a page, which is not served."""
        return lambda function: function

    topic_route = table_route

    def notes(self) -> list[str]:
        """Returns the arguments that were accepted without effect."""
        settings = self.conf.without_meaning
        notes = [f"settings that decide nothing here: {', '.join(settings)}"] if settings else []
        never = [one for one in signals.NEVER if getattr(self, one)]
        notes += [f"app.{one}: the signal is never sent, so its handlers are not called" for one in never]
        return notes + list(self._noted)

    def is_leader(self) -> bool:
        """Always True: there is one worker."""
        return True

    def finalize(self) -> None:
        """Faust's method, without effect."""

    def send(self, channel: Channel | Agent | str, key: Any = None, value: Any = None, **options: Any) -> Any:
        """Sends a message to a topic, an agent, or the topic of a name. Await the result."""
        to = self.topic(channel) if isinstance(channel, str) else channel
        return to.send(key=key, value=value, **options)

    LiveCheck = absent("app.LiveCheck", "Test a program over a folder of topics: App(broker='dir:...').")


def _pattern_of(agent: Agent) -> TopicPattern:
    assert isinstance(agent.channel, TopicPattern)
    return agent.channel


_ALL_SIGNALS = (*signals.CONFIGURING, *signals.BEGINNING, *signals.ENDING, *signals.NEVER)
