"""Builds one query of Spark from a writer back to its readers, with a checkpoint under the writer's name.

::

    reader -> window -> map -> filter -> window -> writer
    rows      panes     [one stage]      panes

Some windows cannot be in one query with an earlier window. They are cut: a separate query passes them their records,
through a topic in the checkpoint::

    reader -> window -> map -> [topic] -> window -> writer
    one query, named after the second window     another

The operators between two windows are one stage in a worker, with a shuffle before it only if the stage has state. A
window after a Python function needs its columns before the query starts; see :mod:`mullion.kx._query.schemas`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, TimestampType

from mullion._bridge import jvm
from mullion._keyed.api import stateful_map
from mullion._native.pane_functions.reading import in_pieces
from mullion._program.host import Host
from mullion._util.spark_versions import IN_UTC
from mullion.kx._graph import Graph
from mullion.kx._operators import Function, Merge, Node, Reader, Split, Union, Writer
from mullion.kx._query.batches import AT, MIXED, TABLES, Form
from mullion.kx._query.host import PipelinesHost
from mullion.kx._query.schemas import Schemas
from mullion.kx._query.sinks import Arrived, ToTopic
from mullion.kx._query.sources import FromCallback, FromExpr, Spool
from mullion.kx._query.window_requests import panes_of
from mullion.kx._query.worker import TIME, Stage, Step
from mullion.kx._window_spec import Window
from mullion.topics import Publisher
from mullion.topics._records import COLUMNS, KEY, TIMESTAMP

_SETTINGS: Final = {
    # All records are one buffer.
    "spark.sql.shuffle.partitions": "1",
    # Times without a zone are in UTC.
    "spark.sql.session.timeZone": "UTC",
}


_FORGOTTEN_EACH: Final = 20
"""The number of batches after which processed files are deleted."""


def brought(window: str) -> str:
    """The name of the query that passes a window its records, and of the topic between them."""
    name = f"{window}.records"
    return name if re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._-]*", name) else f"x{name.encode().hex()}"


@final
@dataclass(frozen=True)
class Stream:
    """A stream on its way to its writer, and the steps that are not in a stage yet.

    - ``ends_with``: the node whose batches these are.
    """

    df: DataFrame
    form: Form
    ends_with: Node
    steps: tuple[Step, ...] = ()
    mixed: bool = False

    @property
    def stateful(self) -> bool:
        """True if any step keeps state between batches."""
        return any(isinstance(step.operator, Function) and step.operator.stateful for step in self.steps)


@final
class Plan:
    """The query of one writer, or the query that passes a cut window its records."""

    def __init__(self, app: PipelinesHost, graph: Graph, node: Node) -> None:
        self.node = node
        self.inputs = graph.inputs(node)
        if isinstance(node.operator, Writer):
            self.name, self.writer = graph.name(node), node.operator
        else:
            self.name = brought(graph.name(node))
            self.writer = ToTopic(topic=self.name, broker=app.between, where=node.operator.where)
        self._app = app
        self._graph = graph
        self._form: Form = "rows"
        self._mixed = False

    @property
    def reads(self) -> tuple[str, ...]:
        """The topics of this program that the query reads."""
        topics = (self._app.topic_read_by(node) for node in self.inputs)
        return tuple(topic for topic in topics if topic is not None)

    @property
    def publishes(self) -> tuple[str, ...]:
        """The topics of this program that the query writes to."""
        if not isinstance(self.node.operator, Writer):
            return (self.name,)
        own = isinstance(self.writer, ToTopic) and self.writer.broker in (None, self._app.broker)
        return (self.writer.topic,) if own and isinstance(self.writer, ToTopic) else ()

    def build(self, spark: SparkSession) -> DataFrame:
        """The streaming DataFrame of the query."""
        session = jvm.session_with(spark, _SETTINGS)
        assert self.node.before is not None
        with jvm.active(session):
            stream = self._of(self.node.before, session)
            if isinstance(self.node.operator, Window):
                return self._records_for(stream, self.node.operator)
            stream = self._stage(stream) if stream.steps else stream
        self._form, self._mixed = stream.form, stream.mixed
        return stream.df

    def publish(self, publisher: Publisher, df: DataFrame, number: int) -> None:
        """Writes a batch of the DataFrame from :meth:`build`."""
        arrived = Arrived(df, self._form, self._mixed, number)
        self.writer.write(self._app, publisher, arrived, self.name)  # type: ignore[attr-defined]
        if number % _FORGOTTEN_EACH == 0:
            self._app.forget()

    def publisher(self, app: Host) -> Publisher:
        """The publisher of the query, for the broker of the writer or of the App."""
        broker = self.writer.broker if isinstance(self.writer, ToTopic) else None
        return (broker or app.broker).publisher(app.clock)

    @property
    def _folder(self) -> Path:
        return self._app.folder_of(self.name)

    def _of(self, node: Node, spark: SparkSession) -> Stream:
        operator, name = node.operator, self._graph.name(node)
        if isinstance(operator, Reader):
            return self._read(node, operator, name, spark)
        assert node.before is not None
        if self._graph.place(node) in self._graph.cuts:
            assert isinstance(operator, Window)
            return self._brought(node, operator, name, spark)
        before = self._of(node.before, spark)
        if isinstance(operator, Window):
            return self._add_window(before, node, operator, name)
        if isinstance(operator, Split):
            return before
        if isinstance(operator, Union):
            return self._union(before, self._of(operator.other.ends[0], spark), node)
        assert isinstance(operator, Function)
        step = Step(operator, name)
        if isinstance(operator, Merge):
            left = self._stage(before)
            right = self._stage(self._of(operator.other.ends[0], spark), right=True)
            return Stream(left.df.unionByName(right.df), "tables", node, (step,))
        return replace(before, steps=(*before.steps, step), ends_with=node)

    def _read(self, node: Node, reader: Reader, name: str, spark: SparkSession) -> Stream:
        if isinstance(reader, (FromExpr, FromCallback)):
            is_mixed = self._graph.is_mixed(node)
            schema = reader.schema if isinstance(reader, FromCallback) else None
            what = f"{name} ({reader.where})"
            remembered = self._folder / f"{name}.schema.json"
            rows = Spool(self._app, name, is_mixed=is_mixed).stream(spark, schema, remembered, what)
            return Stream(rows, "tables" if is_mixed else "rows", node)
        rows = reader.stream(self._app, spark, self._folder, name)  # type: ignore[attr-defined]
        return Stream(rows, "rows", node)

    def _add_window(self, before: Stream, node: Node, window: Window, name: str) -> Stream:
        if window.mixed_schemas:
            return self._panes(self._stage_mixed(before), node, window, name)
        if window.time_assigner is not None:
            before = replace(before, steps=(*before.steps, Step(window, name)))
        return self._panes(self._records(before, lambda: self._schemas.of(node)), node, window, name)

    def _panes(self, records: DataFrame, node: Node, window: Window, name: str) -> Stream:
        panes = panes_of(records, window, name, closes=self._app.closes)
        return Stream(panes, "panes", node, mixed=window.mixed_schemas)

    def _records_for(self, stream: Stream, window: Window) -> DataFrame:
        """The records that this query passes to a window."""
        if window.mixed_schemas:
            return self._stage_mixed(stream)
        return self._records(stream, lambda: self._schemas.of(self.node, timed=False))

    def _brought(self, node: Node, window: Window, name: str, spark: SparkSession) -> Stream:
        """A window over the records from another query."""
        columns = Plan(self._app, self._graph, self._graph.place(node)).build(self._app.spark).schema
        topic = brought(name)
        rows = self._app.between.stream(spark, topic, columns, self._folder / f"{topic}.schema.json")
        rows = rows.drop(COLUMNS, KEY, TIMESTAMP)
        if window.time_assigner is not None:
            timed = columns.add(TIME, TimestampType())
            rows = self._records(Stream(rows, "rows", node, (Step(window, name),)), lambda: timed)
        return self._panes(rows, node, window, name)

    def _union(self, left: Stream, right: Stream, node: Node) -> Stream:
        plain = not left.steps and not right.steps and left.form == right.form == "rows"
        if plain and sorted(left.df.dtypes) == sorted(right.df.dtypes):
            return Stream(left.df.unionByName(right.df), "rows", node)
        # Tables keep the batches of each side as they are.
        return Stream(self._stage(left).df.unionByName(self._stage(right).df), "tables", node)

    def _records(self, stream: Stream, columns: Callable[[], StructType]) -> DataFrame:
        """The records of a stream in columns. ``columns`` is called only if functions make the records."""
        if not stream.steps and stream.form == "rows":
            return stream.df
        if not stream.steps and stream.form == "panes" and not stream.mixed:
            return stream.df.select(sf.inline("rows"))
        schema = columns()
        stage = Stage(stream.form, stream.steps, "rows", stream.mixed, to_arrow_schema(schema, **IN_UTC))
        return self._run(stream, stage, schema)

    def _stage_mixed(self, stream: Stream) -> DataFrame:
        stage = Stage(stream.form, stream.steps, "mixed", stream.mixed)
        return self._run(stream, stage, MIXED)

    def _stage(self, stream: Stream, *, right: bool = False) -> Stream:
        if not stream.steps and stream.form == "tables" and not right:
            return stream
        stage = Stage(stream.form, stream.steps, "tables", stream.mixed, right=right)
        return Stream(self._run(stream, stage, TABLES), "tables", stream.ends_with)

    def _run(self, stream: Stream, stage: Stage, schema: StructType | str) -> DataFrame:
        if not stream.stateful:
            rows = in_pieces(stream.df, "rows") if stream.form == "panes" else stream.df
            return rows.mapInArrow(stage, schema)
        df = stream.df
        if stream.form == "rows":
            df = df.withColumn(AT, jvm.row_in_batch(df.sparkSession))
        return stateful_map(df, stage, schema)

    @property
    def _schemas(self) -> Schemas:
        return Schemas(self._app, self._graph, self._folder)
