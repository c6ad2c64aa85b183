"""``faust.App``: a program over topics, run by Spark."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, get_origin

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StructField, StructType

from mullion._app.app import DEFAULT_BROKER
from mullion._app.app import App as SharedApp
from mullion._app.clock import Clock
from mullion._app.jobs import Job
from mullion._app.names import Named
from mullion._app.report import Part, where_of
from mullion.errors import InvalidArgumentError
from mullion.faust import _sharding, _syntax
from mullion.faust._context import Context, Shard, enter
from mullion.faust._program import Program
from mullion.faust._reader import TableReader
from mullion.faust._running import grouped_by, steps_of
from mullion.faust._store import MemoryStore
from mullion.faust._worker import Reads, Worker, in_order
from mullion.faust.agents import Agent
from mullion.faust.models import FieldDescriptor, Record
from mullion.topics import OUTPUTS, Broker

_JOB = "agents"


class App(Program, SharedApp):
    """A program: tables, topics, agents, timers and tasks, over a broker.

    - ``id``: of the program; letters, digits, '.', '_' and '-'.
    - ``broker``: where its topics are: ``"dir:PATH"``, a folder, or ``"kafka://host:port"``.
    - ``checkpoint``, ``clock``, ``spark``: see :class:`mullion.turbine.App`; what is left out is found.
    - ``processing_guarantee``, ``store``, ``topic_partitions``, ``version``: Faust's, accepted; what is kept is kept
      exactly once, in Spark's state.

    All agents run in one query, in Python workers, with all tables in its state. What an agent sends is published when
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
        processing_guarantee: str | None = None,
        store: str | None = None,
        topic_partitions: int | None = None,
        version: int | None = None,
    ) -> None:
        Program.__init__(self, id)
        SharedApp.__init__(self, id, broker=broker, checkpoint=checkpoint, clock=clock, spark=spark)

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

    def run(self, until: Literal["drained"] | None = None) -> None:
        """Runs the tasks, then the agents: see :meth:`mullion._app.app.App.run`."""
        self._run_tasks()
        SharedApp.run(self, until)

    def main(self) -> None:
        """Runs until it is stopped."""
        self.run()

    def _jobs(self) -> Sequence[Job]:
        if not self.agents:
            return []
        read = tuple(dict.fromkeys(agent.channel.name for agent in self.agents.values()))
        return [Job(_JOB, read, (), self._build)]

    def _parts(self) -> Sequence[Part]:
        return [
            Part(
                f"agent {agent.name}",
                "Python",
                f"its events are in {self._shards_of(agent)[1]}; {_syntax.read(agent).why}",
                where_of(agent.function),
            )
            for agent in self.agents.values()
        ]

    # -- the query

    def _build(self, spark: SparkSession) -> DataFrame:
        from mullion._stateful import stateful_map

        agents = list(self.agents.values())
        one_shard = any(self._shards_of(agent)[0] is None for agent in agents)
        if not one_shard:
            for agent in agents:
                _sharding.check(agent, _group_of(agent))
        topics = list(dict.fromkeys(agent.channel.name for agent in agents))
        reads: list[Reads] = []
        rows: DataFrame | None = None
        for name in topics:
            channel = self.topics[name]
            stream = self.stream(_JOB, name, _schema_of(channel.value_type))
            values = [field for field in stream.schema.fieldNames() if not field.startswith("_")]
            scalar = values == ["value"] and not _is_record(channel.value_type)
            column = f"v{topics.index(name)}"
            of_topic = stream.select(
                F.struct(*(F.col(f"`{value}`") for value in values)).alias(column),
                "_key",
                "_timestamp",
                "_columns",
            )
            for agent in agents:
                if agent.channel.name == name:
                    shard = F.lit("") if one_shard else self._shard_column(agent, column, scalar)
                    number = F.lit(len(reads)).cast("int").alias("_agent")
                    mine = of_topic.select("*", number, shard.alias("_shard"))
                    rows = mine if rows is None else rows.unionByName(mine, allowMissingColumns=True)
                    reads.append(Reads(agent, column, scalar))
        assert rows is not None
        schema = StructType([*rows.schema, StructField("_position", LongType())])
        numbered = rows.mapInArrow(in_order, schema)
        # There is no watermark: a table goes by the largest time of its own shard, wherever other topics are. A task
        # takes times as microseconds, whole.
        timed = numbered.withColumn("_timestamp", F.unix_micros("_timestamp"))
        worker = Worker(reads, self.tables.values(), self.timers, self.dead_letters)
        made: DataFrame = stateful_map(timed, worker, OUTPUTS, shard_by="_shard", wall_timers=bool(self.timers))
        return made

    def _shards_of(self, agent: Agent) -> tuple[str | None, str]:
        """The field by which an agent's events are in shards, ``""`` for their keys, ``None`` for one; in words."""
        group = _group_of(agent)
        if group is not None:
            field = group.key.field if isinstance(group.key, FieldDescriptor) else group.key
            return (field, f"shards by {field}") if isinstance(field, str) else (None, f"one shard, grouped by {group}")
        keys = {one.key for one in _sharding.keys_of(agent)}
        if not keys:
            return "", "shards by their keys"
        field = _field_of(next(iter(keys))) if len(keys) == 1 else None
        if field is None and len(keys) == 1:
            return None, f"one shard, for its tables are of {next(iter(keys))}"
        if field is None:
            _sharding.check(agent, None)
        return field, f"shards by {field}"

    def _shard_column(self, agent: Agent, column: str, scalar: bool) -> Column:
        field, _ = self._shards_of(agent)
        if field == "":
            return F.coalesce(F.col("_key"), F.lit(""))
        value = F.col(column)["value"] if scalar else F.col(column)[field]
        return F.coalesce(value.cast("string"), F.lit(""))

    def _run_tasks(self) -> None:
        if not self.tasks:
            return
        shard = Shard(MemoryStore(), self.clock)

        async def run() -> None:
            enter(Context(shard, None))
            for task in self.tasks:
                result = task()
                if inspect.isawaitable(result):
                    await result

        with asyncio.Runner() as runner:
            runner.run(run())
        for sent in shard.sent:
            key = None if sent.key is None else str(sent.key)
            self.broker.produce(sent.to, [sent.value], [sent.timestamp], [key], clock=self.clock)

    def __getstate__(self) -> dict[str, Any]:
        # An agent that names the App takes it along to the workers, where there is no session.
        return {**self.__dict__, "_spark": None}


def _group_of(agent: Agent) -> Any:
    found = _syntax.read(agent).group
    return found if found is not None else grouped_by(steps_of(agent))


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


def _schema_of(kind: Any) -> StructType | str | None:
    """The columns of a topic whose values are plain; else those that it has."""
    named = {str: "string", int: "bigint", float: "double", bool: "boolean"}.get(kind)
    return None if named is None else f"value {named}"


def _called_at() -> str:
    """The line of the user's code that names a table."""
    frame = inspect.currentframe()
    while frame is not None and os.path.dirname(frame.f_code.co_filename) == os.path.dirname(__file__):  # noqa: PTH120
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


__all__ = ["App"]
