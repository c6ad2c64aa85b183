"""``faust.App``: a program over topics, run by Spark."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, TypeAlias, get_origin

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from mullion import _jvm
from mullion._clock import Clock, system
from mullion._files import replace_text
from mullion._programs.app import DEFAULT_BROKER, beside
from mullion._programs.app import App as SharedApp
from mullion._programs.jobs import Job
from mullion._programs.names import Named, folder_name
from mullion._programs.report import Part, Report, shown, where_of
from mullion._programs.runner import Running, Signals
from mullion.errors import IncompatibleStateError, InvalidArgumentError, UnsupportedError, WrongShardError
from mullion.faust import _folds, _parser, _signals
from mullion.faust._agent_loop import grouped_by, steps_of, type_by_groups
from mullion.faust._background import Background, published, recorded
from mullion.faust._broker_url import broker_named
from mullion.faust._columns import columns_of
from mullion.faust._command_line import run_command
from mullion.faust._context import Sent
from mullion.faust._discovery import import_all, packages_of
from mullion.faust._folds import Decided
from mullion.faust._program import Program
from mullion.faust._seconds import Seconds, length_us
from mullion.faust._settings import Settings
from mullion.faust._sharding import Sharding, reached, sharding_of
from mullion.faust._shards import shard_column
from mullion.faust._signals import Signal
from mullion.faust._timer_places import placed
from mullion.faust._worker import Reads, Worker
from mullion.faust.agents import Agent, Channel, Topic
from mullion.faust.models import Record
from mullion.faust.tables.reader import TableReader
from mullion.topics import OUTPUTS, Broker, DirBroker, KafkaBroker
from mullion.topics._broker import NO_COLUMNS, UNFIT
from mullion.topics._folder.rows import PLACE, DirRows
from mullion.topics._folder.topic import DirTopic
from mullion.topics._records import RESERVED, TEXT
from mullion.topics._schemas import remembered_schema, spark_schema

log = logging.getLogger("mullion")

_JOB = "agents"
_Reached: TypeAlias = Callable[[Agent], "set[str] | None"]


class App(Program, SharedApp):
    """A program: tables, topics, agents, timers and tasks, over a broker.

    - ``id``: of the program; letters, digits, '.', '_' and '-'.
    - ``broker``: where its topics are: ``"dir:PATH"``, a folder, or ``"kafka://host:port"``.
    - ``checkpoint``, ``clock``, ``spark``: see :class:`mullion.turbine.App`; what is left out is found.
    - ``compiled``: whether agents that are folds over tables run in the JVM. With ``False`` all run in Python, with the
      same answers; a program may go on with the one where it was with the other.
    - ``settings``: all of Faust's, by their names, as :attr:`conf` has them. ``value_serializer``, ``key_serializer``,
      ``autodiscover``, ``origin`` and ``timezone`` decide what they decide there; what is kept is kept exactly once, in
      Spark's state, whatever ``processing_guarantee`` and ``store`` say. :meth:`explain` names what decides nothing.

    All agents run in one query, with all tables in its state: in the JVM where :meth:`explain` says so, or else in
    Python workers. What an agent sends is published when
    the batch is done. Events that do not fit their topic's type, and those that an agent puts aside, are published to
    ``{id}-dead-letters``.
    """

    api: ClassVar[str] = "faust"

    def __init__(
        self,
        id: str,  # noqa: A002
        *,
        broker: str | Broker | Sequence[str] = DEFAULT_BROKER,
        checkpoint: str | os.PathLike[str] | None = None,
        clock: Clock | None = None,
        spark: SparkSession | None = None,
        compiled: bool = True,
        **settings: Any,
    ) -> None:
        self._own_checkpoint = checkpoint is not None
        SharedApp.__init__(self, id, broker=broker_named(broker), checkpoint=checkpoint, clock=clock, spark=spark)
        self.compiled = compiled
        self._begun_with: dict[str, StructType | None] = {}
        self._beside: Background | None = None
        self._is_configured = False
        Program.__init__(self, id, Settings(id, {**settings, "broker": self.broker.url}, self._set))
        self._require_no_credentials()

    def _set(self, setting: str, value: Any) -> None:
        """A setting was changed after the App was made."""
        if setting == "broker":
            self.broker = broker_named(value)
            if not self._own_checkpoint:
                self.checkpoint = beside(self.broker, self.name)
        self._require_no_credentials()

    def _require_no_credentials(self) -> None:
        if isinstance(self.broker, KafkaBroker) and (self.conf.broker_credentials or self.conf.ssl_context):
            raise UnsupportedError(
                f"broker_credentials= and ssl_context= of {self.name!r} are not served: the connection to Kafka is "
                "Spark's, without credentials. Leave them out where the program reaches the brokers without."
            )

    def topic(self, *names: str, **options: Any) -> Topic:
        """A topic by name. See :meth:`Program.topic`."""
        return Program.topic(self, *names, **options)

    def _topic(self, name: str, *about: Any) -> Topic:
        self.broker.require_topic(name)
        return Program._topic(self, name, *about)

    @property
    def dead_letters(self) -> str:
        """The topic of messages that were put aside."""
        return f"{self.name}-dead-letters"

    def _table(self, kind: type[Any], name: str, about: dict[str, Any], accepted: dict[str, Any]) -> Any:
        made = Program._table(self, kind, name, about, accepted)
        self.names.register(Named("table", name, _called_at()))
        return made

    def table(self, name: str) -> TableReader:
        """A table by name, to be read as a DataFrame: ``app.table("views").read()``."""
        if name not in self.tables:
            known = ", ".join(sorted(self.tables)) or "none"
            raise InvalidArgumentError(f"{self.name!r} has no table {name!r}. Its tables are: {known}.")
        return TableReader(self.tables[name], self.folder_of(_JOB).absolute() / "query", lambda: self.spark)

    def drop(self, name: str) -> None:
        """Raises :class:`UnsupportedError`: records of all tables are in the state of one query."""
        if name in self.tables or name not in {part.name for part in self.kept()}:
            SharedApp.drop(self, name)
        raise UnsupportedError(f"The records of the table {name!r} cannot be deleted. {self._rid_of(name)}")

    def _rid_of(self, name: str) -> str:
        return (
            "It is in one state with the other tables, which goes with that folder; a table of another name begins "
            "with nothing."
        )

    def run(self, until: Literal["drained"] | None = None) -> None:
        """Runs the agents, and the tasks beside them: see :meth:`mullion._programs.app.App.run`.

        With ``until="drained"`` it ends once tasks have ended or wait for time, and their messages are processed.
        """
        self._configured()
        with Background(self, self._beginning()) as beside:
            self._beside = beside
            beside.settle()
            if until is None:
                self._serve(beside)
            else:
                self._drain(beside, until)
        if beside.error is not None:
            raise beside.error
        for call in self.on_before_shutdown.calls(self):
            self.call(call)

    def _drain(self, beside: Background, until: Literal["drained"]) -> None:
        while True:
            before = beside.published
            if self._jobs() or not self.tasks:
                SharedApp.run(self, until)
            beside.settle()
            if beside.published == before:
                return

    def _serve(self, beside: Background) -> None:
        if not self._jobs() and self.tasks:
            with Signals() as asked:
                beside.wait(asked.to_stop)
            return
        jobs = self._checked_jobs()
        # Before signals are handled, for a session that starts handles SIGINT itself.
        _ = self.spark
        with Signals() as asked, Running(self, jobs) as running:
            running.wait(lambda: asked.to_stop() or beside.error is not None)

    def discover(self, *packages: str) -> None:
        """Imports the modules of packages, which name agents: of those that ``autodiscover`` and ``origin`` say.

        Raises :class:`InvalidArgumentError` for ``autodiscover=True`` without ``origin``.
        """
        import_all(packages or packages_of(self.conf))

    def explain(self) -> Report:
        """Which parts run in the JVM and which in Python, why, and what was taken and decides nothing here."""
        self._configured()
        return replace(SharedApp.explain(self), notes=tuple(self.notes()))

    def stream(self, job: Any, topic: Any = None, *given: Any, **more: Any) -> Any:
        """A topic's events: for an agent to go through, and nobody else; with a job, what an App of any API has."""
        if topic is not None:
            return SharedApp.stream(self, job, topic, *given, **more)
        channel = self.topic(job) if isinstance(job, str) else job
        if not isinstance(channel, Topic):
            raise UnsupportedError(f"app.stream({channel!r}) is not served. Write an agent: @app.agent(topic).")
        return channel.stream()

    def start(self) -> Running:
        """Starts the query and returns: see :meth:`mullion._programs.app.App.start`."""
        self._configured()
        return SharedApp.start(self)

    def main(self) -> None:
        """Runs what the command line says: for a module that is run itself, as in ``python site.py worker``.

        That is ``worker``, until it is stopped, also where it says nothing, or a command of the program's own.
        """
        code = self.command_line(sys.argv[1:])
        if code:
            sys.exit(code)

    def command_line(self, arguments: Sequence[str]) -> int:
        """Runs a command of the program's, or ``worker``, by its arguments; gives the exit code."""
        return run_command(self, arguments)

    def _jobs(self) -> Sequence[Job]:
        if not self.agents and not self.timers:
            return []
        type_by_groups(self.agents.values())
        read = tuple(dict.fromkeys(agent.channel.name for agent in self.agents.values()))
        return [Job(_JOB, read, (), self._build, mend=self._mend)]

    def _parts(self) -> Sequence[Part]:
        type_by_groups(self.agents.values())
        parts = []
        # What an agent may use is asked for each of the others.
        tables = functools.cache(reached)
        columns = {agent.name: self._known_columns(agent.channel.name) for agent in self.agents.values()}
        shards = {agent.name: _sharding_of(agent, columns[agent.name]) for agent in self.agents.values()}
        alone = next((name for name, one in shards.items() if one.field is None), None)
        for agent in self.agents.values():
            decided = self._decided(agent, columns[agent.name], tables)
            file, _, line = decided.where.rpartition(":")
            where = f"{shown(file)}:{line}" if file else where_of(agent.function)
            field, words = shards[agent.name].field, shards[agent.name].words
            if field is not None and alone is not None:
                words = f"one shard, as those of {alone!r} are"
            why = f"its events are in {words}; {decided.why}"
            parts.append(Part(f"agent {agent.name}", "JVM" if decided.jvm else "Python", why, where))
        return parts

    def _decided(self, agent: Agent, columns: StructType | None, tables: _Reached) -> Decided:
        if not self.compiled:
            return Decided(False, "compiled=False", where_of(agent.function))
        return _folds.decide(agent, list(self.agents.values()), self.tables, columns, tables)

    def _known_columns(self, topic: str) -> StructType | None:
        """The columns of a topic's values, where they are known without Spark."""
        if not isinstance(self.broker, DirBroker):
            return remembered_schema(self.folder_of(_JOB) / f"{folder_name(topic)}.schema.json")
        about = DirTopic(self.broker.path, topic).about()
        return StructType([field for field in about.schema if field.name != TEXT]) or None

    # -- the query

    def _build(self, spark: SparkSession) -> DataFrame:
        from mullion._stateful.api import stateful_map

        agents = list(self.agents.values())
        # Spark knows sources by their number: there is one for each topic, whichever agents there are.
        topics = sorted({agent.channel.name for agent in agents})
        if isinstance(self.broker, KafkaBroker):
            # A cluster need not make topics by itself when the first message comes.
            for name in (*self._sinks(), self.dead_letters):
                self.broker.make(name)
        reads: dict[int, Reads] = {}
        folds: dict[int, tuple[str, bool, Decided]] = {}
        rows: DataFrame | None = None
        tables = functools.cache(reached)
        streams = {name: self._stream_of(self.topics[name]) for name in topics}
        self._begun_with = {name: self._known_columns(name) for name in topics}
        shardings = {agent.name: _sharding_of(agent, streams[agent.channel.name].schema) for agent in agents}
        sharded = all(one.field is not None for one in shardings.values())
        self._require_begun_so(topics, {name: one.field if sharded else None for name, one in shardings.items()})
        for column, name in ((f"v{number}", name) for number, name in enumerate(topics)):
            channel, stream = self.topics[name], streams[name]
            values = [field for field in stream.schema.fieldNames() if field not in (*RESERVED, UNFIT)]
            scalar = values == ["value"] and not _is_record(channel.value_type)
            of_topic = stream.select(
                F.struct(*(F.col(_quoted(value)) for value in values)).alias(column),
                "_key",
                "_timestamp",
                "_columns",
                *(field for field in stream.schema.fieldNames() if field == UNFIT),
            )
            places = []
            value, unfit = F.col(column), UNFIT in of_topic.columns
            columns = of_topic.select(f"{column}.*").schema
            for number, agent in enumerate(agents):
                if agent.channel.name == name:
                    sharding = shardings[agent.name] if sharded else None
                    shard = (
                        F.lit("") if sharding is None else _shard_column(spark, agent, sharding, value, columns, unfit)
                    )
                    places.append(F.struct(F.lit(number).cast("int").alias("_agent"), shard.alias("_shard")))
                    decided = self._decided(agent, columns, tables)
                    if decided.jvm:
                        folds[number] = (column, scalar, decided)
                    files = DirRows(self.broker.path, name) if isinstance(self.broker, DirBroker) else None
                    reads[number] = Reads(agent, column, scalar, decided.group, decided.effects, sharding, files)
            place = places[0] if len(places) == 1 else F.explode(F.array(*places))
            mine = of_topic.withColumn("_place", place).select("*", "_place.*").drop("_place")
            rows = mine if rows is None else rows.unionByName(mine, allowMissingColumns=True)
        if rows is None:
            rows = self._nothing(spark)
        # In order of arrival, before a shuffle mixes them.
        numbered = rows.withColumn("_position", _jvm.row_in_batch(spark))
        if folds:
            nothing = {"_statement": F.lit(None).cast("int"), "_values": F.lit(None).cast("string")}
            numbered = numbered.withColumns(nothing)
        # There is no watermark: a table goes by the largest time of its own shard, wherever other topics are. A task
        # takes times as microseconds, whole.
        timed = numbered.withColumn("_timestamp", F.unix_micros("_timestamp"))
        worker = Worker(
            [reads[number] for number in sorted(reads)],
            self.tables.values(),
            placed(self.timers),
            self.dead_letters,
            as_text=isinstance(self.broker, KafkaBroker),
        )
        told = _folds.program(folds, self.tables, worker.begins(), sharded) if folds else None
        made: DataFrame = stateful_map(
            timed,
            worker,
            OUTPUTS,
            shard_by="_shard",
            wall_timers=bool(self.timers),
            begins=bool(self.timers),
            folds=told,
        )
        return made

    def _nothing(self, spark: SparkSession) -> DataFrame:
        """A source that never has rows, for timers alone: the clock has batches run, and a query reads something."""
        stream = DirBroker(self.folder_of(_JOB) / "nothing").stream(spark, "nothing", "value string")
        place = {"_agent": F.lit(None).cast("int"), "_shard": F.lit("")}
        return stream.drop("value").withColumns(place)

    def _sinks(self) -> set[str]:
        """The topics that agents are known to publish to."""
        sinks = [sink for agent in self.agents.values() for sink in agent.sinks]
        channels = [sink.channel if isinstance(sink, Agent) else sink for sink in sinks]
        changes = [table.changelog for table in self.tables.values()]
        return {channel.name for channel in (*channels, *changes) if isinstance(channel, Channel)}

    def _require_begun_so(self, topics: list[str], shards: dict[str, str | None]) -> None:
        """Refuses what the query did not begin with: other topics, and other shards than those of tables' records."""
        file = self.folder_of(_JOB) / "began.json"
        began = any((self.folder_of(_JOB) / "query" / "offsets").glob("[0-9]*")) and file.exists()
        known: dict[str, Any] = json.loads(file.read_text("utf-8")) if began else {"topics": topics, "shards": {}}
        anew = f"begin anew with another checkpoint than {self.checkpoint}"
        if known["topics"] != topics:
            raise IncompatibleStateError(
                f"The agents of {self.name!r} read the topics {', '.join(topics) or 'of nobody'}, and when it began "
                f"they were {', '.join(known['topics']) or 'none'}. Its query cannot go on with others. Make another "
                f"App, with an id of its own, for what is new, or {anew}."
            )
        for agent, field in shards.items():
            before = known["shards"].get(agent, field)
            if before != field:
                raise IncompatibleStateError(
                    f"The events of the agent {agent!r} are in {_in_words(field)}, and were in {_in_words(before)} "
                    f"when {self.name!r} began: the records of its tables are in those. explain() says why. Leave "
                    f"them as they were, or {anew}."
                )
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, json.dumps({"topics": topics, "shards": {**known["shards"], **shards}}))

    def _stream_of(self, topic: Channel) -> DataFrame:
        """A topic as a stream, by the columns that it has; one that nobody has written to by those of its type."""
        records = _is_record(topic.value_type)
        # Asked here in any case: what a record's types are, a worker need not know by their names.
        otherwise = columns_of(topic.value_type)
        columns, fresh = topic.schema.columns, NO_COLUMNS
        if columns is None and otherwise is not None and not topic.is_raw:
            if isinstance(self.broker, DirBroker):
                # Said to the topic's producers too, so that their files have them.
                columns = otherwise if self._is_fresh(topic.name) else None
            else:
                fresh = spark_schema(otherwise)
        about: dict[str, Any] = {"unfit": True, "records": records, "raw": topic.is_raw, "fresh": fresh}
        return SharedApp.stream(self, _JOB, topic.name, columns, **about)

    def _is_fresh(self, topic: str) -> bool:
        """Whether nobody has written to a topic of a folder, or said its columns."""
        assert isinstance(self.broker, DirBroker)
        folder = DirTopic(self.broker.path, topic)
        return not folder.about().schema.fields and not folder.files()

    def _mend(self, failure: BaseException) -> bool:
        """Whether the query may go on with columns of topics that came since it was built."""
        known = {name: self._known_columns(name) for name in self._begun_with}
        grown = known != self._begun_with
        return grown and isinstance(failure, WrongShardError) and isinstance(self.broker, DirBroker)

    # -- beside the query

    @property
    def should_stop(self) -> bool:
        """Whether the program ends: for tasks that go on as long as it does."""
        return self._beside is not None and self._beside.should_stop

    async def sleep(self, length: Seconds) -> None:
        """Waits for a length of time; ends at once where the program does."""
        until = asyncio.get_running_loop().time() + length_us(length, "sleep") / 1_000_000
        while not self.should_stop and (left := until - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(left, 1.0))

    def call(self, function: Callable[[], Any]) -> None:
        """Calls a function of the program here, beside its query, and publishes what it sends."""
        Background(self, [function]).run()

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """The records of all tables, as the last batch has left them."""
        return recorded(self, self.folder_of(_JOB).absolute() / "query")

    def publish(self, sent: Sequence[Sent]) -> None:
        """Publishes messages, in order."""
        published(self, sent)

    def _beginning(self) -> list[Callable[[], Any]]:
        """What is called when the program begins."""
        told: dict[str, tuple[Any, ...]] = {"on_partitions_assigned": (set(),)}
        calls = [call for name in _signals.BEGINNING for call in getattr(self, name).calls(self, *told.get(name, ()))]
        return [*calls, *(call for table in self.tables.values() for call in table.on_recovered), *self.tasks]

    def _configured(self) -> None:
        """Finds what is in other modules, and tells of the settings; once."""
        self.discover()
        if not self._is_configured:
            self._is_configured = True
            for name in _signals.CONFIGURING:
                for call in getattr(self, name).calls(self, *((self.conf,) if name == "on_configured" else ())):
                    self.call(call)
            for note in self.notes():
                log.info("%s: taken, and not used: %s.", self.name, note)

    def __getstate__(self) -> dict[str, Any]:
        # An agent that names the App takes it along to the workers, which have no session, and the clock of the batch.
        here = {name: value for name, value in self.__dict__.items() if not isinstance(value, Signal)}
        return {**here, "_spark": None, "clock": system(), "commands": {}, "_beside": None, "queries": {}}


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _group_of(agent: Agent) -> Any:
    found = _parser.read(agent).group
    return found if found is not None else grouped_by(steps_of(agent))


def _in_words(field: str | None) -> str:
    """The shards of a :class:`Sharding`."""
    if field is None:
        return "one shard"
    return f"shards by {field}" if field else "shards by their keys"


def _sharding_of(agent: Agent, columns: StructType | None) -> Sharding:
    return sharding_of(agent, steps_of(agent), _group_of(agent), columns)


def _shard_column(
    spark: SparkSession, agent: Agent, sharding: Sharding, value: Column, columns: StructType, unfit: bool
) -> Column:
    """The shard of each row of a topic, by the rule of the keys of tables.

    ``columns`` are those of its ``value``; ``unfit`` says whether there are rows that do not fit them.
    """
    if not sharding.field:
        return F.coalesce(F.col("_key"), F.lit(""))
    kinds = {field.name: field.dataType for field in columns}
    known = sharding.field in kinds
    # Of a topic that nobody has written to nothing is known: see the rows that come, in a worker.
    if not known and not sharding.default and columns != NO_COLUMNS:
        raise InvalidArgumentError(
            f"The events of the agent {agent.name!r} are in {sharding.words}, which its topic "
            f"{agent.channel.name!r} does not have. It has: {', '.join(kinds)}."
        )
    shard = shard_column(value[sharding.field], kinds[sharding.field]) if known else F.lit(None).cast("string")
    if unfit:
        is_text = F.col(UNFIT).isNotNull() & ~F.col(UNFIT).startswith(PLACE)
        shard = F.when(is_text, _jvm.json_shard(spark, F.col(UNFIT), sharding.field)).otherwise(shard)
    return F.coalesce(shard, F.lit(sharding.default))


def _is_record(kind: Any) -> bool:
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, (Record, dict))


def _called_at() -> str:
    """The line of the user's code that names a table."""
    frame = inspect.currentframe()
    while frame is not None and os.path.dirname(frame.f_code.co_filename) == os.path.dirname(__file__):  # noqa: PTH120
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


__all__ = ["App"]
