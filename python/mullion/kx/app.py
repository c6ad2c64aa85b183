"""Pipelines as a program: where its state is, its clock, how it is run, and what it says of itself."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeAlias, final

import pyarrow as pa
from pyspark.sql import SparkSession

from mullion import _jvm
from mullion._checks import did_you_mean
from mullion._clock import Clock
from mullion._programs import app as programs
from mullion._programs.host import DEFAULT_BROKER
from mullion._programs.jobs import Job
from mullion._programs.names import Named, folder_name
from mullion._programs.report import Part, Place
from mullion._programs.runner import Running
from mullion._programs.session import session_for
from mullion.errors import InvalidArgumentError
from mullion.kx._graph import Graph
from mullion.kx._host import PipelinesHost
from mullion.kx._operators import Function, Node, Operator, Pipeline, Reader, Split, Union, Writer
from mullion.kx._plan import Plan, brought
from mullion.kx._sinks import ToCallback, ToConsole, ToFile, ToTopic, ToVariable
from mullion.kx._sources import FromCallback, FromExpr, FromTopic, Spool
from mullion.kx._window_spec import Window
from mullion.kx._worker import as_data
from mullion.topics import Broker, KafkaBroker
from mullion.topics._folder.topic import DirTopic

Until: TypeAlias = Literal["drained", "end"] | None

_UNTIL: Final = (None, "drained", "end")


@final
class App(programs.App, PipelinesHost):
    """Pipelines that run together, each end a query with a checkpoint under its writer's name.

    - ``name``: of the program; letters, digits, '.', '_' and '-'.
    - ``pipelines``: with a reader at the beginning and a writer at each end.
    - ``broker``: where the topics are that ``from_topic`` and ``to_topic`` name: ``"dir:PATH"`` or
      ``"kafka://host:port"``.
    - ``checkpoint``: where its state is; beside the topics if left out.
    - ``clock``: what tells the time; the machine's if left out, and a ``ManualClock`` in tests.
    - ``spark``: the session; the active one if left out, or else one that is made when it is needed.

    Raises :class:`mullion.errors.InvalidArgumentError` for pipelines that cannot be run: without a reader or a writer,
    or with two operators of one name.
    """

    api: ClassVar[str] = "kx"
    in_order: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        *pipelines: Pipeline | Operator,
        broker: str | Broker = DEFAULT_BROKER,
        checkpoint: str | os.PathLike[str] | None = None,
        clock: Clock | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        super().__init__(name, broker=broker, checkpoint=checkpoint, clock=clock, spark=spark)
        self.variables = {}
        self._graph = Graph(pipelines)
        self._plans: list[Plan] = []
        self._ends = False
        for node in self._graph.nodes:
            operator, called = node.operator, self._graph.name(node)
            if isinstance(operator, (Window, Writer)):
                kind = "writer" if isinstance(operator, Writer) else "window"
                own = folder_name(called) if kind == "writer" else None
                folder = folder_name(brought(called)) if node in self._graph.cuts else own
                self.names.register(Named(kind, called, operator.where, folder))

    @property
    def spark(self) -> SparkSession:
        """The session it runs in; made when it is first asked for, if there is no active one, with what Kafka needs."""
        if self._spark is None:
            brokers = [getattr(node.operator, "broker", None) for node in self._graph.nodes]
            kafka = next((broker for broker in brokers if isinstance(broker, KafkaBroker)), self.broker)
            self._spark = session_for(self.name, kafka)
        return self._spark

    @property
    def closes(self) -> bool:
        """Whether windows close where the input ends."""
        return self._ends

    @property
    def finite(self) -> bool:
        """Whether all readers come to an end by themselves."""
        return all(reader.operator.finite for reader in self._graph.readers() if isinstance(reader.operator, Reader))

    def run(self, until: Until = None) -> None:
        """Runs all pipelines.

        - ``until=None``: until they are stopped, by SIGINT or SIGTERM: batches that run end first, and what is buffered
          waits for the next start. Where all readers come to an end by themselves it is ``"end"``.
        - ``"drained"``: until all records that are there have been processed. Windows close that the clock closes, and
          the others stay open for the next run.
        - ``"end"``: the same, and what is there is taken for all there will be: every window comes out with what is in
          it, and what was buffered.

        Raises the error of the first query that fails, when all others have stopped;
        :class:`mullion.errors.InvalidArgumentError` for another ``until``.
        """
        if until not in _UNTIL:
            raise InvalidArgumentError(
                f"until={until!r} is not an end.{did_you_mean(until, ['drained', 'end'])} Write run(until='drained') "
                "for what is there, run(until='end') to close all windows after it, or run() for none."
            )
        self._ends = until == "end" or (until is None and self.finite)
        super().run("drained" if self._ends or until is not None else None)

    def start(self) -> Running:
        """Starts all queries and returns: for tests and notebooks, which say when to go on and when to stop."""
        self._ends = False
        return super().start()

    def publish(self, callback: str, data: Any) -> None:
        """Gives a batch to ``sp.read.from_callback(callback)``, before the program runs or while it does.

        ``data``: an Arrow table, a ``pandas.DataFrame``, a dict or a list of dicts. It is kept in the checkpoint before
        this returns, and is one batch of the pipeline.

        Raises :class:`mullion.errors.InvalidArgumentError` where nothing reads from that callback, and for a batch with
        other columns than those before it, unless a window with ``mixed_schemas=True`` takes them.
        """
        found = [node for node in self._graph.readers() if _callback(node) == callback]
        if not found:
            known = sorted(filter(None, map(_callback, self._graph.readers())))
            raise InvalidArgumentError(
                f"Nothing reads from the callback {callback!r}.{did_you_mean(callback, known)} The callbacks of "
                f"{self.name} are: {', '.join(map(repr, known)) or 'none'}. Read from one with "
                f"sp.read.from_callback({callback!r})."
            )
        made = as_data(data, f"publish({callback!r})")
        for table in made if isinstance(made, list) else [made]:
            if table is None or not table.num_rows:
                continue
            for node in found:
                self._spool(node).append(table, f"publish({callback!r})")

    def forget(self) -> None:
        """Deletes files that every query has processed: of batches for callbacks, and of records between queries."""
        for node in self._graph.readers():
            if isinstance(node.operator, FromCallback):
                self._forget(node, self._spool(node).topic)
        for node in self._graph.cuts:
            topic = brought(self._graph.name(node))
            # One that has been killed may have to look for what it had begun to publish, with its first batch.
            if topic in self.queries and self.queries[topic].progress:
                self._forget(node, DirTopic(self.between.path, topic))

    def _forget(self, node: Node, topic: DirTopic) -> None:
        readers = [plan.name for plan in self._plans if node in plan.inputs]
        source = f"{_jvm.topic_path(self.spark, str(topic.folder)).partition('://')[2]}]"
        done = [self._processed(name, source) for name in readers]
        if done:
            # Each batch is a file, and both are counted from 0. Where a number was left out a file goes later.
            topic.forget(min(done))

    def _processed(self, query: str, source: str) -> int:
        """How many batches of a spool a query has processed, in batches that are committed."""
        running = self.queries.get(query)
        reports = [] if running is None else running.progress
        found = [each for each in (reports[-1]["sources"] if reports else []) if each["description"].endswith(source)]
        ends = [each["endOffset"]["logOffset"] + 1 for each in found if each["endOffset"]]
        return min(ends) if found and len(ends) == len(found) else 0

    def topic_read_by(self, node: Node) -> str | None:
        """The topic of this program that a reader reads, or a window whose records another query brings."""
        operator = node.operator
        if isinstance(operator, Window):
            return brought(self._graph.name(node))
        if isinstance(operator, FromTopic) and operator.broker in (None, self.broker):
            return operator.topic
        return None

    def _spool(self, node: Node) -> Spool:
        return Spool(self, self._graph.name(node), whole=self._graph.is_mixed(node))

    def _checked_jobs(self) -> Sequence[Job]:
        for node in self._graph.readers():
            if isinstance(node.operator, FromExpr):
                name = self._graph.name(node)
                self._spool(node).fill(node.operator.batches(name), f"{name} ({node.operator.where})")
        return super()._checked_jobs()

    def _jobs(self) -> Sequence[Job]:
        self._plans = [Plan(self, self._graph, node) for node in (*self._graph.cuts, *self._graph.writers)]
        return [
            Job(plan.name, plan.reads, plan.publishes, plan.build, plan.publish, publisher=plan.publisher)
            for plan in self._plans
        ]

    def _parts(self) -> Sequence[Part]:
        return [
            Part(self._graph.name(node), *self._runs(node), node.operator.where)
            for node in self._graph.nodes
            if not isinstance(node.operator, Split)
        ]

    def _runs(self, node: Node) -> tuple[Place, str]:
        place, why = _runs(node.operator)
        if node in self._graph.cuts:
            why = f"{why}; a query of its own brings its records, through a topic in the checkpoint"
        return place, why


def _callback(node: Node) -> str | None:
    return node.operator.callback if isinstance(node.operator, FromCallback) else None


def _runs(operator: Operator) -> tuple[Place, str]:
    """Where an operator runs, and why there."""
    match operator:
        case Window(trigger=trigger) if trigger is not None:
            mixed = "; its records are of mixed schemas" if operator.mixed_schemas else ""
            return "Python", f"its trigger is a function; the buffer is in the JVM, in RocksDB{mixed}"
        case Window(time_assigner=assigner) if assigner is not None:
            return "Python", "its time_assigner is a function; windows and clock are in the JVM, in RocksDB"
        case Window():
            clock = "event time" if operator.on_event_time else "processing time" if operator.clocked else "records"
            return "JVM", f"windows by {clock}, in RocksDB"
        case Function(stateful=True):
            return "Python", "a function over Arrow tables, with what it keeps in RocksDB"
        case Function():
            return "Python", "a function over Arrow tables"
        case Union():
            return "JVM", "records of the same columns as they are; batches of functions as they came"
        case FromExpr() | FromCallback():
            return "JVM", "batches of Python are kept as files in the checkpoint, and read from there"
        case ToConsole() | ToVariable() | ToCallback():
            return "Python", "in the process that runs the pipeline, once for each batch"
        case ToTopic():
            return "Python", "workers publish their records, exactly once"
        case ToFile():
            return "JVM", "Spark writes files"
        case _:
            return "JVM", "Spark reads it"


def run(
    *pipelines: Pipeline | Operator,
    until: Until = None,
    name: str = "pipeline",
    broker: str | Broker | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    clock: Clock | None = None,
    spark: SparkSession | None = None,
) -> dict[str, pa.Table]:
    """Runs pipelines, and gives what ``to_variable`` kept by the names of its variables.

    - ``until``, and how it ends: see :meth:`App.run`.
    - ``checkpoint``: where its state is, from which a later run goes on. Left out, a pipeline keeps nothing: its state
      is in a folder that is deleted when it ends.
    - ``name``, ``broker``, ``clock``, ``spark``: see :class:`App`.

    Raises the error of the first query that fails; :class:`mullion.errors.InvalidArgumentError` for pipelines that
    cannot be run.
    """
    home = None if checkpoint is not None else Path(tempfile.mkdtemp(prefix="mullion-kx-"))
    try:
        app = App(
            name,
            *pipelines,
            broker=broker if broker is not None else DEFAULT_BROKER,
            checkpoint=checkpoint if home is None else home,
            clock=clock,
            spark=spark,
        )
        app.run(until)
        return app.variables
    finally:
        if home is not None:
            shutil.rmtree(home, ignore_errors=True)


def explain(*pipelines: Pipeline | Operator, name: str = "pipeline") -> Any:
    """Which operators of pipelines run in the JVM and which in Python, why, and where they are written."""
    return App(name, *pipelines).explain()
