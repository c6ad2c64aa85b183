"""``faust.App``: a program over topics, run by Spark."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, get_origin

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from mullion import _jvm
from mullion._app.app import DEFAULT_BROKER
from mullion._app.app import App as SharedApp
from mullion._app.clock import Clock, system
from mullion._app.jobs import Job
from mullion._app.names import Named, folder_name
from mullion._app.report import Part, shown, where_of
from mullion.errors import IncompatibleStateError, InvalidArgumentError, UnsupportedError
from mullion.faust import _compiled, _parser, _sharding
from mullion.faust._begun import to_its_end
from mullion.faust._compiled import Decided
from mullion.faust._context import Context, Shard, enter
from mullion.faust._program import Program
from mullion.faust._reader import TableReader
from mullion.faust._running import grouped_by, steps_of, type_by_groups
from mullion.faust._store import MemoryStore
from mullion.faust._timers import placed
from mullion.faust._worker import Reads, Worker
from mullion.faust.agents import Agent, Channel
from mullion.faust.models import FieldDescriptor, Record
from mullion.topics import OUTPUTS, Broker, DirBroker, KafkaBroker
from mullion.topics._brokers import UNFIT
from mullion.topics._dir_topic import DirTopic, replace_text
from mullion.topics._records import RESERVED
from mullion.topics._schemas import remembered_schema

_JOB = "agents"


class App(Program, SharedApp):
    """A program: tables, topics, agents, timers and tasks, over a broker.

    - ``id``: of the program; letters, digits, '.', '_' and '-'.
    - ``broker``: where its topics are: ``"dir:PATH"``, a folder, or ``"kafka://host:port"``.
    - ``checkpoint``, ``clock``, ``spark``: see :class:`mullion.turbine.App`; what is left out is found.
    - ``compiled``: whether agents that are folds over tables run in the JVM. With ``False`` all run in Python, with the
      same answers; a program may go on with the one where it was with the other.
    - ``processing_guarantee``, ``store``, ``topic_partitions``, ``version``: Faust's, accepted; what is kept is kept
      exactly once, in Spark's state.

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
        broker: str | Broker = DEFAULT_BROKER,
        checkpoint: str | os.PathLike[str] | None = None,
        clock: Clock | None = None,
        spark: SparkSession | None = None,
        compiled: bool = True,
        processing_guarantee: str | None = None,
        store: str | None = None,
        topic_partitions: int | None = None,
        version: int | None = None,
    ) -> None:
        Program.__init__(self, id)
        if processing_guarantee not in (None, "at_least_once", "exactly_once"):
            raise InvalidArgumentError(
                f"processing_guarantee={processing_guarantee!r} is neither 'at_least_once' nor 'exactly_once'. Leave "
                "it out: tables are kept exactly once either way."
            )
        SharedApp.__init__(self, id, broker=broker, checkpoint=checkpoint, clock=clock, spark=spark)
        self.compiled = compiled

    @property
    def dead_letters(self) -> str:
        """The topic of messages that were put aside."""
        return f"{self.name}-dead-letters"

    def Table(self, name: str, **options: Any) -> Any:  # noqa: N802
        """A :class:`Table`; with ``window=`` a :class:`WindowedTable`. See :meth:`Program.Table`."""
        made = Program.Table(self, name, **options)
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
        """Runs the tasks, then the agents: see :meth:`mullion._app.app.App.run`."""
        self._run_tasks()
        SharedApp.run(self, until)

    def main(self) -> None:
        """Runs until it is stopped: for a module that is run itself, as in ``python site.py worker``."""
        self.run()

    def _jobs(self) -> Sequence[Job]:
        if not self.agents:
            return []
        type_by_groups(self.agents.values())
        read = tuple(dict.fromkeys(agent.channel.name for agent in self.agents.values()))
        return [Job(_JOB, read, (), self._build)]

    def _parts(self) -> Sequence[Part]:
        type_by_groups(self.agents.values())
        parts = []
        shards = {agent.name: self._shards_of(agent) for agent in self.agents.values()}
        alone = next((name for name, (field, _) in shards.items() if field is None), None)
        for agent in self.agents.values():
            decided = self._decided(agent, self._known_columns(agent.channel.name))
            file, _, line = decided.where.rpartition(":")
            where = f"{shown(file)}:{line}" if file else where_of(agent.function)
            field, words = shards[agent.name]
            if field is not None and alone is not None:
                words = f"one shard, as those of {alone!r} are"
            why = f"its events are in {words}; {decided.why}"
            parts.append(Part(f"agent {agent.name}", "JVM" if decided.jvm else "Python", why, where))
        return parts

    def _decided(self, agent: Agent, columns: StructType | None) -> Decided:
        if not self.compiled:
            return Decided(False, "compiled=False", where_of(agent.function))
        return _compiled.decide(agent, list(self.agents.values()), self.tables, columns)

    def _known_columns(self, topic: str) -> StructType | None:
        """The columns of a topic's values, where they are known without Spark."""
        remembered = remembered_schema(self.folder_of(_JOB) / f"{folder_name(topic)}.schema.json")
        if remembered is not None or not isinstance(self.broker, DirBroker):
            return remembered
        return DirTopic(self.broker.path, topic).about().schema or None

    # -- the query

    def _build(self, spark: SparkSession) -> DataFrame:
        from mullion._stateful import stateful_map

        agents = list(self.agents.values())
        one_shard = any(self._shards_of(agent)[0] is None for agent in agents)
        if not one_shard:
            for agent in agents:
                _sharding.check(agent, _group_of(agent))
        # Spark knows sources by their number: there is one for each topic, whichever agents there are.
        topics = sorted({agent.channel.name for agent in agents})
        shards = {agent.name: None if one_shard else self._shards_of(agent)[0] for agent in agents}
        self._require_begun_so(topics, shards)
        if isinstance(self.broker, KafkaBroker):
            # A cluster need not make topics by itself when the first message comes.
            for name in (*self._sinks(), self.dead_letters):
                self.broker.make(name)
        reads: dict[int, Reads] = {}
        folds: dict[int, tuple[str, bool, Decided]] = {}
        rows: DataFrame | None = None
        for column, name in ((f"v{number}", name) for number, name in enumerate(topics)):
            channel = self.topics[name]
            stream = self._stream_of(name, _schema_of(channel.value_type))
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
            for number, agent in enumerate(agents):
                if agent.channel.name == name:
                    shard = F.lit("") if one_shard else self._shard_column(agent, column, values)
                    places.append(F.struct(F.lit(number).cast("int").alias("_agent"), shard.alias("_shard")))
                    decided = self._decided(agent, of_topic.select(f"{column}.*").schema)
                    if decided.jvm:
                        folds[number] = (column, scalar, decided)
                    reads[number] = Reads(agent, column, scalar, decided.group, decided.tells)
            place = places[0] if len(places) == 1 else F.explode(F.array(*places))
            mine = of_topic.withColumn("_place", place).select("*", "_place.*").drop("_place")
            rows = mine if rows is None else rows.unionByName(mine, allowMissingColumns=True)
        assert rows is not None
        # In order of arrival, before a shuffle mixes them.
        numbered = rows.withColumn("_position", _jvm.row_in_batch(spark))
        if folds:
            nothing = {"_statement": F.lit(None).cast("int"), "_values": F.lit(None).cast("string")}
            numbered = numbered.withColumns(nothing)
        # There is no watermark: a table goes by the largest time of its own shard, wherever other topics are. A task
        # takes times as microseconds, whole.
        timed = numbered.withColumn("_timestamp", F.unix_micros("_timestamp"))
        worker = Worker(
            [reads[number] for number in sorted(reads)], self.tables.values(), placed(self.timers), self.dead_letters
        )
        told = _compiled.program(folds, self.tables, worker.begins()) if folds else None
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

    def _sinks(self) -> set[str]:
        """The topics that agents are known to publish to."""
        sinks = [sink for agent in self.agents.values() for sink in agent.sinks]
        channels = [sink.channel if isinstance(sink, Agent) else sink for sink in sinks]
        return {channel.name for channel in channels if isinstance(channel, Channel)}

    def _require_begun_so(self, topics: list[str], shards: dict[str, str | None]) -> None:
        """Refuses what the query did not begin with: other topics, and other shards than those of tables' records."""
        file = self.folder_of(_JOB) / "began.json"
        began = any((self.folder_of(_JOB) / "query" / "offsets").glob("[0-9]*")) and file.exists()
        known: dict[str, Any] = json.loads(file.read_text("utf-8")) if began else {"topics": topics, "shards": {}}
        anew = f"begin anew with another checkpoint than {self.checkpoint}"
        if known["topics"] != topics:
            raise IncompatibleStateError(
                f"The agents of {self.name!r} read the topics {', '.join(topics)}, and when it began they were "
                f"{', '.join(known['topics'])}. Its query cannot go on with others. Make another App, with an "
                f"id of its own, for what is new, or {anew}."
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

    def _stream_of(self, topic: str, otherwise: str | None) -> DataFrame:
        """A topic as a stream, by the columns that it has; one that nobody has written to by those of its type."""
        try:
            return self.stream(_JOB, topic, unfit=True)
        except InvalidArgumentError:
            if otherwise is None:
                raise
            return self.stream(_JOB, topic, otherwise, unfit=True)

    def _shards_of(self, agent: Agent) -> tuple[str | None, str]:
        """The field by which an agent's events are in shards, ``""`` for their keys, ``None`` for one; in words."""
        group = _group_of(agent)
        if group is not None:
            field = group.key.field if isinstance(group.key, FieldDescriptor) else group.key
            return (field, f"shards by {field}") if isinstance(field, str) else (None, f"one shard, grouped by {group}")
        hidden = _sharding.hidden(agent)
        if hidden is not None:
            return None, f"one shard, for it may use tables through {hidden}"
        keys = {one.key for one in _sharding.keys_of(agent)}
        if not keys:
            return "", _in_words("")
        field = _field_of(next(iter(keys))) if len(keys) == 1 else None
        if field is None and len(keys) == 1:
            return None, f"one shard, for its tables are of {next(iter(keys))}"
        if field is None:
            _sharding.check(agent, None)
        return field, f"shards by {field}"

    def _shard_column(self, agent: Agent, column: str, values: list[str]) -> Column:
        field, words = self._shards_of(agent)
        if field == "":
            return F.coalesce(F.col("_key"), F.lit(""))
        if field not in values:
            raise InvalidArgumentError(
                f"The events of the agent {agent.name!r} are in {words}, which its topic {agent.channel.name!r} does "
                f"not have. It has: {', '.join(values)}."
            )
        return F.coalesce(F.col(column)[field].cast("string"), F.lit(""))

    def _run_tasks(self) -> None:
        if not self.tasks:
            return
        shard = Shard(MemoryStore(), self.clock)

        async def run() -> None:
            enter(Context(shard, None))
            for task in self.tasks:
                await to_its_end(task)

        with asyncio.Runner() as runner:
            runner.run(run())
        for sent in shard.sent:
            key = None if sent.key is None else str(sent.key)
            self.broker.produce(sent.to, [sent.value], [sent.timestamp], [key], clock=self.clock)

    def __getstate__(self) -> dict[str, Any]:
        # An agent that names the App takes it along to the workers, which have no session, and the clock of the batch.
        return {**self.__dict__, "_spark": None, "clock": system()}


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _group_of(agent: Agent) -> Any:
    found = _parser.read(agent).group
    return found if found is not None else grouped_by(steps_of(agent))


def _in_words(field: str | None) -> str:
    """The shards that :meth:`App._shards_of` gives."""
    if field is None:
        return "one shard"
    return f"shards by {field}" if field else "shards by their keys"


def _field_of(key: str) -> str | None:
    """The field that a table's key is: ``_['name']``, ``_.name``, or the value itself."""
    node = ast.parse(key, mode="eval").body
    if isinstance(node, ast.Name) and node.id == "_":
        return "value"
    of = getattr(node, "value", None)
    if isinstance(of, ast.Name) and of.id == "_":
        if isinstance(node, ast.Attribute):
            return node.attr
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return node.slice.value if isinstance(node.slice.value, str) else None
    return None


def _is_record(kind: Any) -> bool:
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, (Record, dict))


_COLUMNS = {str: "string", int: "bigint", float: "double", bool: "boolean"}


def _schema_of(kind: Any) -> str | None:
    """The columns of a topic that nobody has written to, as far as its type says them."""
    if kind in _COLUMNS:
        return f"value {_COLUMNS[kind]}"
    if isinstance(kind, type) and issubclass(kind, Record):
        fields = kind._types()
        if fields and all(one in _COLUMNS for one in fields.values()):
            return ", ".join(f"`{name}` {_COLUMNS[one]}" for name, one in fields.items())
    return None


def _called_at() -> str:
    """The line of the user's code that names a table."""
    frame = inspect.currentframe()
    while frame is not None and os.path.dirname(frame.f_code.co_filename) == os.path.dirname(__file__):  # noqa: PTH120
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


__all__ = ["App"]
