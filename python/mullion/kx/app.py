"""Pipelines as a program: its state, its clock, its run and its explanation."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeAlias, final

import pyarrow as pa
from pyspark.sql import SparkSession

from mullion._bridge import jvm
from mullion._program import app as programs
from mullion._program.host import DEFAULT_BROKER
from mullion._program.jobs import Job
from mullion._program.outside_state import lost_changes
from mullion._program.part_names import Named, folder_name
from mullion._program.report import Part, Place
from mullion._program.runner import Running
from mullion._program.session import session_for
from mullion._util.checks import did_you_mean
from mullion._util.clock import Clock
from mullion.errors import InvalidArgumentError
from mullion.kx._graph import Graph
from mullion.kx._operators import Function, Node, Operator, Pipeline, Reader, Split, Union, Writer
from mullion.kx._query.host import PipelinesHost
from mullion.kx._query.pipeline_plan import Plan, brought
from mullion.kx._query.sinks import ToCallback, ToConsole, ToFile, ToTopic, ToVariable
from mullion.kx._query.sources import FromCallback, FromExpr, FromTopic, Spool
from mullion.kx._query.worker import as_data
from mullion.kx._window_spec import Window
from mullion.topics import Broker, KafkaBroker
from mullion.topics._folder.topic import DirTopic

Until: TypeAlias = Literal["drained", "end"] | None

_UNTIL: Final = (None, "drained", "end")


@final
class App(programs.App, PipelinesHost):
    """Pipelines that run together. Each end is a query with a checkpoint under its writer's name.

    - ``name``: the program's name; letters, digits, '.', '_' and '-'.
    - ``pipelines``: with a reader at the beginning and a writer at each end.
    - ``broker``: the location of the topics that ``from_topic`` and ``to_topic`` name: ``"dir:PATH"`` or
      ``"kafka://host:port"``.
    - ``checkpoint``: the folder of its state; by default next to the topics.
    - ``clock``: the source of the time; by default the machine's clock, and a ``ManualClock`` in tests.
    - ``spark``: the session; by default the active one, or a new one when it is needed.

    Raises :class:`mullion.errors.InvalidArgumentError` for pipelines that cannot run: without a reader or a writer, or
    with two operators of one name.
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
        """The session of the program; the first access makes one if none is active, with Kafka's packages if needed."""
        if self._spark is None:
            brokers = [getattr(node.operator, "broker", None) for node in self._graph.nodes]
            kafka = next((broker for broker in brokers if isinstance(broker, KafkaBroker)), self.broker)
            self._spark = session_for(self.name, kafka)
        return self._spark

    @property
    def closes(self) -> bool:
        """True if windows close at the end of the input."""
        return self._ends

    @property
    def finite(self) -> bool:
        """True if the input of all readers ends."""
        return all(reader.operator.finite for reader in self._graph.readers() if isinstance(reader.operator, Reader))

    def run(self, until: Until = None) -> None:
        """Runs all pipelines.

        - ``until=None``: until they are stopped, by SIGINT or SIGTERM. Running batches end first, and buffered records
          wait for the next start. If the input of all readers ends, the default is ``"end"``.
        - ``"drained"``: until all records so far have been processed. Windows whose end the clock has passed close; the
          others stay open for the next run.
        - ``"end"``: the same, but there will be no more records: every window is emitted with the records that it has,
          and so are all buffered records.

        Raises the error of the first query that fails, when all others have stopped;
        :class:`mullion.errors.InvalidArgumentError` for another ``until``.
        """
        if until not in _UNTIL:
            raise InvalidArgumentError(
                f"until={until!r} is not an end.{did_you_mean(until, ['drained', 'end'])} Write run(until='drained') "
                "for the existing records, run(until='end') to close all windows after them, or run() for none."
            )
        self._ends = until == "end" or (until is None and self.finite)
        super().run("drained" if self._ends or until is not None else None)

    def start(self) -> Running:
        """Starts all queries and returns: for tests and notebooks, which control the clock and the end of the run."""
        self._ends = False
        return super().start()

    def publish(self, callback: str, data: Any) -> None:
        """Passes a batch to ``sp.read.from_callback(callback)``, before the program runs or while it does.

        ``data``: an Arrow table, a ``pandas.DataFrame``, a dict or a list of dicts. It becomes one batch of the
        pipeline, and is stored in the checkpoint before this method returns.

        Raises :class:`mullion.errors.InvalidArgumentError` if no reader has that callback, and for a batch with other
        columns than earlier ones, unless a window with ``mixed_schemas=True`` receives it.
        """
        readers = [node for node in self._graph.readers() if _callback(node) == callback]
        if not readers:
            names = sorted(filter(None, map(_callback, self._graph.readers())))
            raise InvalidArgumentError(
                f"Nothing reads from the callback {callback!r}.{did_you_mean(callback, names)} The callbacks of "
                f"{self.name} are: {', '.join(map(repr, names)) or 'none'}. Read from one with "
                f"sp.read.from_callback({callback!r})."
            )
        batch = as_data(data, f"publish({callback!r})")
        for table in batch if isinstance(batch, list) else [batch]:
            if table is None or not table.num_rows:
                continue
            for node in readers:
                self._spool(node).append(table, f"publish({callback!r})")

    def forget(self) -> None:
        """Deletes files that every query has processed: of batches for callbacks, and of records between queries."""
        for node in self._graph.readers():
            if isinstance(node.operator, FromCallback):
                self._forget(node, self._spool(node).topic)
        for node in self._graph.cuts:
            topic = brought(self._graph.name(node))
            # After a crash, the first batch of the query may need the files that it had begun to publish.
            if topic in self.queries and self.queries[topic].progress:
                self._forget(node, DirTopic(self.between.path, topic))

    def _forget(self, node: Node, topic: DirTopic) -> None:
        readers = [plan.name for plan in self._plans if node in plan.inputs]
        source = f"{jvm.topic_path(self.spark, str(topic.folder)).partition('://')[2]}]"
        done = [self._batches_processed(name, source) for name in readers]
        if done:
            # Each batch is a file, and both are counted from 0. If a batch number was skipped, files are deleted later.
            topic.forget(min(done))

    def _batches_processed(self, query: str, source: str) -> int:
        """The number of batches of a spool that a query has processed in committed batches."""
        running = self.queries.get(query)
        reports = [] if running is None else running.progress
        sources = [each for each in (reports[-1]["sources"] if reports else []) if each["description"].endswith(source)]
        ends = [each["endOffset"]["logOffset"] + 1 for each in sources if each["endOffset"]]
        return min(ends) if sources and len(ends) == len(sources) else 0

    def topic_read_by(self, node: Node) -> str | None:
        """The topic of this program that a reader reads, or that has the records of a cut window."""
        operator = node.operator
        if isinstance(operator, Window):
            return brought(self._graph.name(node))
        if isinstance(operator, FromTopic) and operator.broker in (None, self.broker):
            return operator.topic
        return None

    def _spool(self, node: Node) -> Spool:
        return Spool(self, self._graph.name(node), is_mixed=self._graph.is_mixed(node))

    def _checked_jobs(self) -> Sequence[Job]:
        for node in self._graph.readers():
            if isinstance(node.operator, FromExpr):
                name = self._graph.name(node)
                self._spool(node).fill(node.operator.batches(name), f"{name} ({node.operator.where})")
        return super()._checked_jobs()

    def _warnings(self) -> Iterator[str]:
        fix = "Keep such values in an accumulator: sp.accumulate(function, initial)."
        for node in self._graph.nodes:
            if isinstance(node.operator, Function):
                yield from lost_changes(f"The function of {self._graph.name(node)!r}", node.operator.functions, fix)

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
    """The place where an operator runs, and the reason."""
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
    """Runs pipelines, and returns the contents of ``to_variable`` by the names of the variables.

    - ``until``, and the end of the run: see :meth:`App.run`.
    - ``checkpoint``: the folder of its state, from which a later run resumes. By default the state is in a folder that
      is deleted when the pipeline ends.
    - ``name``, ``broker``, ``clock``, ``spark``: see :class:`App`.

    Raises the error of the first query that fails; :class:`mullion.errors.InvalidArgumentError` for pipelines that
    cannot run.
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
    """A table of the operators: it shows which run in the JVM and which in Python, why, and where they are written."""
    return App(name, *pipelines).explain()
