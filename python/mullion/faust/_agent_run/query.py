"""The query of an App: all agents and timers, with all tables in its state."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, final, get_origin

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from mullion._bridge import jvm
from mullion._program.compare import Change
from mullion._program.host import Host
from mullion._program.jobs import Job
from mullion._program.manifest import Manifest
from mullion._program.part_names import folder_name
from mullion._program.report import Part, shown, where_of
from mullion.errors import IncompatibleStateError, InvalidArgumentError, WrongShardError
from mullion.faust._agent_code import folds, parser
from mullion.faust._agent_code.folds import Decided
from mullion.faust._agent_run import table_meaning
from mullion.faust._agent_run.agent_loop import grouped_by, steps_of, type_by_groups
from mullion.faust._agent_run.columns import columns_of
from mullion.faust._agent_run.outside_state import OutsideState, require_no_outside_state
from mullion.faust._agent_run.runtime_app import JOB, HostedProgram
from mullion.faust._agent_run.timer_places import placed
from mullion.faust._agent_run.worker import Reads, Worker
from mullion.faust._sharding import Sharding, reached, sharding_of
from mullion.faust._values.shards import shard_column
from mullion.faust.agents import Agent
from mullion.faust.channels import Channel
from mullion.faust.models import Record
from mullion.faust.streams import SendOn
from mullion.topics import OUTPUTS_WITH_TIMES, DirBroker, KafkaBroker
from mullion.topics._broker import NO_COLUMNS, UNFIT
from mullion.topics._folder.rows import PLACE, DirRows
from mullion.topics._folder.topic import DirTopic
from mullion.topics._records import RESERVED, TEXT
from mullion.topics._schemas import remembered_schema, spark_schema

log = logging.getLogger("mullion")

_Reached: TypeAlias = Callable[[Agent], "set[str] | None"]


@final
class AgentsQuery:
    """The query that the run loop runs for an App. Each topic is one source, shared by all its agents.

    ::

        topics -> the agents of each event -> [by shard] -> JVM: folds; Python: other bodies -> sent messages
    """

    def __init__(self, app: HostedProgram) -> None:
        self._app = app
        self._begun_with: dict[str, StructType | None] = {}

    @property
    def began_with(self) -> list[str] | None:
        """The topics of the query's first start, if it has started."""
        manifest = self._manifest
        return None if manifest is None else list(manifest["topics"])

    @property
    def _manifest(self) -> dict[str, Any] | None:
        """The manifest of a query that has started."""
        began = any((self._app.folder_of(JOB) / "query" / "offsets").glob("[0-9]*"))
        manifest: dict[str, Any] | None = Manifest(self._app.folder_of(JOB)).read("agents", dict) if began else None
        return manifest

    def jobs(self) -> Sequence[Job]:
        """The one query of all agents and timers, if there are any."""
        if not self._app.agents and not self._app.timers:
            return []
        require_no_outside_state(self._app)
        type_by_groups(self._app.agents.values())
        read = tuple(dict.fromkeys(agent.channel.name for agent in self._app.agents.values()))
        return [Job(JOB, read, (), self._build, mend=self._mend)]

    def parts(self) -> Sequence[Part]:
        """The place where each agent runs, JVM or Python, and its shards."""
        type_by_groups(self._app.agents.values())
        parts = []
        # Cached: each agent is compared with all others.
        tables = functools.cache(reached)
        columns = {agent.name: self._columns_without_spark(agent.channel.name) for agent in self._app.agents.values()}
        shards = {agent.name: _sharding_of(agent, columns[agent.name]) for agent in self._app.agents.values()}
        alone = next((name for name, one in shards.items() if one.field is None), None)
        for agent in self._app.agents.values():
            decided = self._decide(agent, columns[agent.name], tables)
            file, _, line = decided.where.rpartition(":")
            where = f"{shown(file)}:{line}" if file else where_of(agent.function)
            field, words = shards[agent.name].field, shards[agent.name].words
            if field is not None and alone is not None:
                words = f"one shard, as those of {alone!r} are"
            why = f"its events are in {words}; {decided.why}"
            parts.append(Part(f"agent {agent.name}", "JVM" if decided.jvm else "Python", why, where))
        return parts

    def _decide(self, agent: Agent, columns: StructType | None, tables: _Reached) -> Decided:
        if not self._app.compiled:
            return Decided(False, "compiled=False", where_of(agent.function))
        return folds.decide(agent, list(self._app.agents.values()), self._app.tables, columns, tables)

    def _columns_without_spark(self, topic: str) -> StructType | None:
        """The columns of a topic's values, if they are known without Spark."""
        if not isinstance(self._app.broker, DirBroker):
            return remembered_schema(self._app.folder_of(JOB) / f"{folder_name(topic)}.schema.json")
        about = DirTopic(self._app.broker.path, topic).about()
        return StructType([field for field in about.schema if field.name != TEXT]) or None

    def _build(self, spark: SparkSession) -> DataFrame:
        from mullion._keyed.api import stateful_map

        agents = list(self._app.agents.values())
        # Spark identifies sources by number: one per topic makes them independent of the agents.
        topics = sorted({agent.channel.name for agent in agents})
        if isinstance(self._app.broker, KafkaBroker):
            # A cluster may not create topics automatically at the first message.
            for name in (*self._sinks(), self._app.dead_letters):
                self._app.broker.make(name)
        reads: dict[int, Reads] = {}
        in_jvm: dict[int, tuple[str, bool, Decided]] = {}
        rows: DataFrame | None = None
        tables = functools.cache(reached)
        streams = {name: self._stream_of(self._app.topics[name]) for name in topics}
        self._begun_with = {name: self._columns_without_spark(name) for name in topics}
        shardings = {agent.name: _sharding_of(agent, streams[agent.channel.name].schema) for agent in agents}
        shards = _fields_of(shardings)
        sharded = None not in shards.values()
        self._require_begun_so(topics, shards)
        for column, name in ((f"v{number}", name) for number, name in enumerate(topics)):
            channel, stream = self._app.topics[name], streams[name]
            values = [field for field in stream.schema.fieldNames() if field not in (*RESERVED, UNFIT)]
            scalar = values == ["value"] and not _is_record(channel.value_type)
            of_topic = stream.select(
                F.struct(*(F.col(_quote(value)) for value in values)).alias(column),
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
                    decided = self._decide(agent, columns, tables)
                    if decided.jvm:
                        in_jvm[number] = (column, scalar, decided)
                    files = DirRows(self._app.broker.path, name) if isinstance(self._app.broker, DirBroker) else None
                    reads[number] = Reads(agent, column, scalar, decided.group, decided.effects, sharding, files)
            place = places[0] if len(places) == 1 else F.explode(F.array(*places))
            mine = of_topic.withColumn("_place", place).select("*", "_place.*").drop("_place")
            rows = mine if rows is None else rows.unionByName(mine, allowMissingColumns=True)
        if rows is None:
            rows = self._nothing(spark)
        # The order of arrival, recorded before a shuffle changes it.
        numbered = rows.withColumn("_position", jvm.row_in_batch(spark))
        if in_jvm:
            nothing = {"_statement": F.lit(None).cast("int"), "_values": F.lit(None).cast("string")}
            numbered = numbered.withColumns(nothing)
        # There is no watermark: a table's clock is the largest time of its own shard, independent of other topics.
        # Tasks receive times in whole microseconds.
        timed = numbered.withColumn("_timestamp", F.unix_micros("_timestamp"))
        worker = Worker(
            [reads[number] for number in sorted(reads)],
            self._app.tables.values(),
            placed(self._app.timers),
            self._app.dead_letters,
            OutsideState.of(self._app),
            as_text=isinstance(self._app.broker, KafkaBroker),
        )
        program = folds.program(in_jvm, self._app.tables, worker.begins(), sharded) if in_jvm else None
        output: DataFrame = stateful_map(
            timed,
            worker,
            OUTPUTS_WITH_TIMES,
            shard_by="_shard",
            wall_timers=bool(self._app.timers),
            begins=bool(self._app.timers),
            folds=program,
            keys={
                "of": "tables",
                "tables": sorted(self._app.tables),
                "timers": worker.timers_of_shards,
                "isOneShard": not sharded,
            },
        )
        return output

    def _nothing(self, spark: SparkSession) -> DataFrame:
        """A source without rows, for a program that has only timers: a query needs a source."""
        stream = DirBroker(self._app.folder_of(JOB) / "nothing").stream(spark, "nothing", "value string")
        place = {"_agent": F.lit(None).cast("int"), "_shard": F.lit("")}
        return stream.drop("value").withColumns(place)

    def _sinks(self) -> set[str]:
        """The topics to which agents are known to publish."""
        agents = self._app.agents.values()
        sinks = [sink for agent in agents for sink in agent.sinks]
        sinks += [
            one for agent in agents for step in steps_of(agent) if isinstance(step, SendOn) for one in step.channels
        ]
        channels = [sink.channel if isinstance(sink, Agent) else sink for sink in sinks]
        changes = [table.changelog for table in self._app.tables.values()]
        return {channel.name for channel in (*channels, *changes) if isinstance(channel, Channel)}

    def _require_begun_so(self, topics: list[str], shards: dict[str, str | None]) -> None:
        """Rejects changes since the first start that would lose records: topics, shards, or meanings of tables."""
        previous = self._manifest or {}
        for why in self._refusals(previous, topics, shards):
            raise IncompatibleStateError(why)
        for name, what in table_meaning.changes(self._app.tables.values(), previous.get("tables", {})).items():
            log.warning("The table %r of %s keeps its records: %s.", name, self._app.name, what)
        now = {name: table_meaning.kept_as(table) for name, table in self._app.tables.items()}
        manifest = {
            "topics": topics,
            "shards": {**previous.get("shards", {}), **shards},
            "tables": {**previous.get("tables", {}), **now},
        }
        Manifest(self._app.folder_of(JOB)).write("agents", manifest)

    def _refusals(self, manifest: dict[str, Any], topics: list[str], shards: dict[str, str | None]) -> Iterator[str]:
        """The reasons why the query cannot continue from its manifest; none before its first start."""
        anew = f"start with another checkpoint than {self._app.checkpoint}"
        if manifest.get("topics", topics) != topics:
            yield (
                f"The agents of {self._app.name!r} read the topics {', '.join(topics) or 'none'}, and its "
                f"query began with {', '.join(manifest['topics']) or 'none'}. It cannot continue with other topics. "
                f"Make another App, with an id of its own, for new topics, or {anew}."
            )
        were = manifest.get("shards", {})
        in_one = {field is None for field in were.values()}
        for agent, field in shards.items():
            before = were.get(agent, field)
            if before != field:
                yield (
                    f"The events of the agent {agent!r} are in {_in_words(field)}, and were in {_in_words(before)} "
                    f"when {self._app.name!r} began: the records of its tables are in those. explain() gives the "
                    f"reason. Undo the change, or {anew}."
                )
            elif in_one == {field is not None}:
                # A new or renamed agent.
                yield (
                    f"The events of the agent {agent!r} are in {_in_words(field)}, and all of {self._app.name!r} were "
                    f"in {'shards' if field is None else 'one shard'} when it began: the records of its tables are "
                    f"there. explain() gives the reason. Write the agent as the others were, or {anew}."
                )
        for name, table in self._app.tables.items():
            differ = table_meaning.differences(manifest.get("tables", {}).get(name, {}), table_meaning.kept_as(table))
            if differ:
                yield (
                    f"The table {name!r} of {self._app.name!r} is another one than when it began: {'; '.join(differ)}. "
                    "Nothing was overwritten. Undo the change, give it another name, under which it starts with "
                    f"nothing, or {anew}."
                )

    def changes(self) -> list[Change]:
        """The effects on tables' records if the query were started."""
        manifest = self._manifest
        if manifest is None:
            return [Change(JOB, "goes on", "it is new, and begins with nothing")]
        type_by_groups(self._app.agents.values())
        agents = self._app.agents.values()
        shardings = {
            agent.name: _sharding_of(agent, self._columns_without_spark(agent.channel.name)) for agent in agents
        }
        topics = sorted({agent.channel.name for agent in agents})
        refused = [Change(JOB, "refused", why) for why in self._refusals(manifest, topics, _fields_of(shardings))]
        tables = manifest.get("tables", {})
        meanings = table_meaning.changes(self._app.tables.values(), tables)
        for name in self._app.tables:
            meanings.setdefault(
                name, "its records mean what they meant" if name in tables else "it begins with nothing"
            )
        meanings |= dict.fromkeys(
            tables.keys() - meanings.keys(), "it is no longer in the program, and its records are kept"
        )
        return refused + [Change(f"table {name}", "goes on", what) for name, what in meanings.items()]

    def _stream_of(self, topic: Channel) -> DataFrame:
        """A topic as a stream with its columns; a topic without messages has the columns of its type."""
        records = _is_record(topic.value_type)
        # Always called on the driver: a worker may be unable to resolve the names in a record's type hints.
        otherwise = columns_of(topic.value_type)
        columns, fresh = topic.schema.columns, NO_COLUMNS
        if columns is None and otherwise is not None and not topic.is_raw:
            if isinstance(self._app.broker, DirBroker):
                # Stored with the topic, so that its producers write these columns.
                columns = otherwise if self._is_fresh(topic.name) else None
            else:
                fresh = spark_schema(otherwise)
        about: dict[str, Any] = {"unfit": True, "records": records, "raw": topic.is_raw, "fresh": fresh}
        return Host.stream(self._app, JOB, topic.name, columns, **about)

    def _is_fresh(self, topic: str) -> bool:
        """True if a topic of a folder has no messages and no declared columns."""
        assert isinstance(self._app.broker, DirBroker)
        folder = DirTopic(self._app.broker.path, topic)
        return not folder.about().schema.fields and not folder.files()

    def _mend(self, failure: BaseException) -> bool:
        """True if the query may continue with columns that its topics gained after it was built."""
        columns = {name: self._columns_without_spark(name) for name in self._begun_with}
        grown = columns != self._begun_with
        return grown and isinstance(failure, WrongShardError) and isinstance(self._app.broker, DirBroker)


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _group_of(agent: Agent) -> Any:
    group = parser.read(agent).group
    return group if group is not None else grouped_by(steps_of(agent))


def _in_words(field: str | None) -> str:
    """The shards of a :class:`Sharding`."""
    if field is None:
        return "one shard"
    return f"shards by {field}" if field else "shards by their keys"


def _sharding_of(agent: Agent, columns: StructType | None) -> Sharding:
    return sharding_of(agent, steps_of(agent), _group_of(agent), columns)


def _fields_of(shardings: Mapping[str, Sharding]) -> dict[str, str | None]:
    """The field that determines the shard of each agent's events; ``None`` for all if one agent needs one shard."""
    sharded = all(one.field is not None for one in shardings.values())
    return {name: one.field if sharded else None for name, one in shardings.items()}


def _shard_column(
    spark: SparkSession, agent: Agent, sharding: Sharding, value: Column, columns: StructType, unfit: bool
) -> Column:
    """The shard of each row of a topic, by the rule of tables' keys.

    ``columns`` are the columns of its ``value``; ``unfit`` is True if some rows may not fit them.
    """
    if not sharding.field:
        return F.coalesce(F.col("_key"), F.lit(""))
    kinds = {field.name: field.dataType for field in columns}
    has_column = sharding.field in kinds
    # The columns of a topic without messages are unknown: the worker checks each row.
    if not has_column and not sharding.default and columns != NO_COLUMNS:
        raise InvalidArgumentError(
            f"The events of the agent {agent.name!r} are in {sharding.words}, which its topic "
            f"{agent.channel.name!r} does not have. It has: {', '.join(kinds)}."
        )
    shard = shard_column(value[sharding.field], kinds[sharding.field]) if has_column else F.lit(None).cast("string")
    if unfit:
        is_text = F.col(UNFIT).isNotNull() & ~F.col(UNFIT).startswith(PLACE)
        shard = F.when(is_text, jvm.json_shard(spark, F.col(UNFIT), sharding.field)).otherwise(shard)
    return F.coalesce(shard, F.lit(sharding.default))


def _is_record(kind: Any) -> bool:
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, (Record, dict))
