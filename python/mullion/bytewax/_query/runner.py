"""Runs a dataflow: reads its sources into the log, runs one query over it, and writes to its sinks."""

from __future__ import annotations

import logging
import secrets
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mullion._bridge import jvm
from mullion._keyed.api import stateful_map
from mullion._program.manifest import Manifest
from mullion._program.outside_state import lost_changes
from mullion._program.part_names import folder_name
from mullion._program.session import require_driver, session_for
from mullion._program.started import StartedQuery
from mullion._pyfunction.reach import is_library, reached
from mullion._util.clock import Clock, ManualClock, system
from mullion._util.files import reading
from mullion.bytewax._dataflow_plan import Plan
from mullion.bytewax._log.file_ranges import LinesIn, files_of
from mullion.bytewax._log.log import InputLog
from mullion.bytewax._log.source_loop import Feed
from mullion.bytewax._query.chunks import CHUNKS
from mullion.bytewax._query.sinks import Outputs
from mullion.bytewax._query.stage import Inputs, LeftInputs, Stage
from mullion.bytewax._query.state_meaning import differences, meaning_of
from mullion.bytewax._query.writing import Writing
from mullion.bytewax._translation.window_steps import Untraced, trace, trace_inputs
from mullion.bytewax._values.local_classes import classes_of
from mullion.bytewax._values.local_modules import send_by_value
from mullion.bytewax._values.values import learn
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.inputs import AbortExecution
from mullion.errors import IncompatibleStateError, MullionError, QueryFailedError
from mullion.topics import DirBroker, _leases

log = logging.getLogger("mullion")


def run(
    flow: Dataflow,
    folder: Path | None,
    clock: Clock | None = None,
    spark: SparkSession | None = None,
    asked_to_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Runs a dataflow until its sources end or ``asked_to_stop`` returns True.

    ``folder``: the folder of its state; without one, no state is kept. Raises the error of the query, of a source or
    of a sink.
    """
    plan = Plan.of(flow)
    warn_of_lost_changes(plan)
    if spark is not None:
        require_driver(spark, f"The dataflow {flow.flow_id!r}")
    session = spark or session_for(flow.flow_id, DirBroker(folder or tempfile.gettempdir()))
    if folder is not None:
        _Run(flow, plan, folder, session, clock or system(), passing=False).run(asked_to_stop)
        return
    passing = Path(tempfile.mkdtemp(prefix="mullion-bytewax-"))
    try:
        _Run(flow, plan, passing, session, clock or system(), passing=True).run(asked_to_stop)
    finally:
        shutil.rmtree(passing, ignore_errors=True)


def warn_of_lost_changes(plan: Plan) -> None:
    """Names the variables outside of the steps' functions that they change."""
    for step in plan.steps:
        functions = reached([step.does], _is_of_user, lambda _: False).values
        fix = "Use op.stateful_map, which keeps a state for each key."
        for warning in lost_changes(f"The step {step.step_id!r}", functions, fix):
            log.warning("%s", warning)


def _is_of_user(value: Any) -> bool:
    return isinstance(value, FunctionType) and not is_library(value)


class _Stopped(Exception):  # noqa: N818
    """The signal that ends a run on request."""


class _Run:
    def __init__(
        self, flow: Dataflow, plan: Plan, folder: Path, spark: SparkSession, clock: Clock, *, passing: bool
    ) -> None:
        self._flow = flow
        self._plan = plan
        self._folder = folder.absolute() / folder_name(flow.flow_id)
        self._spark = spark
        self._clock = clock
        # No state is kept, so this run never resumes.
        self._passing = passing

    def run(self, asked_to_stop: Callable[[], bool]) -> None:
        """Runs the dataflow while holding the lease of its folder."""
        name = f"bytewax.{self._flow.flow_id}"
        lease = self._folder / "running.lock"
        _leases.take(lease, self, name, done="run")
        try:
            self._require_same_steps()
            self._run(name, asked_to_stop)
        finally:
            _leases.release(lease, self)

    def _require_same_steps(self) -> None:
        """Raises an error if the stateful steps changed: state is stored by the position of its step among them."""
        manifest = Manifest(self._folder)
        stages = [self._plan.steps[number] for number in self._plan.stages()]
        steps, meanings = [step.step_id for step in stages], {step.step_id: meaning_of(step) for step in stages}
        content = {"stateful": steps, "kept": meanings}
        noted = manifest.read("steps", dict)
        if noted is not None:
            with reading(manifest.file):
                old_steps, old_meanings = noted["stateful"], noted.get("kept", {})
            if old_steps != steps:
                raise IncompatibleStateError(
                    f"The folder {self._folder} has the state of a dataflow whose steps with state were "
                    f"{', '.join(old_steps) or 'none'}, and now they are {', '.join(steps) or 'none'}. Restore their "
                    "ids and their order, or start with a new folder."
                )
            for step, now in meanings.items():
                differ = differences(old_meanings.get(step, {}), now)
                if differ:
                    raise IncompatibleStateError(
                        f"The folder {self._folder} has state of the step {step!r}, and "
                        f"{'; '.join(differ)}. The state of each key would get another meaning. Nothing was "
                        "overwritten. Restore the step, or start with a new folder."
                    )
        manifest.write("steps", content)

    def _run(self, name: str, asked_to_stop: Callable[[], bool]) -> None:
        send_by_value()
        classes = classes_of(self._flow)
        learn(classes)
        inputs = InputLog(self._folder / "inputs", not self._passing, classes)
        # A run that never resumes can write a batch while the next one runs.
        writing = Writing(Outputs(self._flow, self._folder / "outputs.json"), beside=self._is_free)
        query: StartedQuery | None = None
        feed: Feed | None = None

        def going() -> None:
            if query is not None and not query.query.isActive:
                self._raise(query)
            if query is not None and isinstance(self._clock, ManualClock):
                # With a manual clock, micro-batches run only on request.
                self._process(query, writing)
            if writing.has_failed:
                self._require_success(writing)
            if asked_to_stop():
                raise _Stopped

        try:
            query = StartedQuery(
                self._flow.flow_id, name, self._folder, self._clock, lambda: self._rows(classes), writing.write
            )
            feed = Feed(self._flow, inputs, self._clock, going, writing.write_next, self._lines_in())
            feed.run()
            self._settle(query, inputs, writing)
        except AbortExecution:
            log.warning("%s was aborted by a source.", name)
        except _Stopped:
            assert query is not None
            self._settle(query, inputs, writing)
        finally:
            if query is not None:
                writing.write_during(query.query.stop)
            if feed is not None:
                feed.close()
            writing.close()

    @property
    def _is_free(self) -> bool:
        """True if no state is kept and no manual clock controls the micro-batches."""
        return self._passing and not isinstance(self._clock, ManualClock)

    def _lines_in(self) -> LinesIn | None:
        """The function that finds lines of files; ``None`` if tasks may not have access to the program's files."""
        if not str(self._spark.sparkContext.master).startswith("local"):
            return None
        return partial(jvm.flow_lines, self._spark)

    def _rows(self, classes: dict[str, type]) -> DataFrame:
        entries = jvm.flow_inputs(self._spark, str(self._folder / "inputs"), self._is_free)
        inputs = Inputs(self._plan, classes)
        try:
            inputs_program = trace_inputs(self._plan, files_of(self._flow) if self._lines_in() else frozenset())
            schema = StructType.fromDDL(CHUNKS)
            assert isinstance(schema, StructType)
            rows = jvm.flow_entries(entries, LeftInputs(inputs), schema, inputs_program)
        except Untraced:
            rows = entries.mapInArrow(inputs, CHUNKS)
        sources, key = self._plan.sources_of(), secrets.token_bytes(32)
        for step in self._plan.stages():
            stage = Stage(
                self._plan, step, sources[step], classes, str(self._folder / "inputs"), key, resumes=not self._passing
            )
            try:
                windows: str | None = trace(self._plan, step)
            except Untraced:
                windows = None
            rows = stateful_map(
                rows,
                stage,
                CHUNKS,
                shard_by="shard",
                wall_timers=True,
                passing=self._passing,
                flow=windows,
                keys={"of": "keys"},
            )
        return rows

    def _settle(self, query: StartedQuery, inputs: InputLog, writing: Writing) -> None:
        """Waits until all entries of the log are processed and written."""
        self._process(query, writing)
        # A batch that was planned before the last entry was written does not contain it.
        while writing.outputs.entry < inputs.next_number - 1 and query.query.isActive:
            self._process(query, writing)
        if not query.query.isActive:
            self._raise(query)

    def _require_success(self, writing: Writing) -> None:
        try:
            writing.require_success()
        except MullionError:
            raise
        except BaseException as error:
            raise QueryFailedError(f"{self._flow.flow_id!r} failed. {type(error).__name__}: {error}") from error

    def _process(self, query: StartedQuery, writing: Writing) -> None:
        try:
            writing.write_during(query.query.processAllAvailable)
        except Exception:
            self._raise(query)
            raise
        self._require_success(writing)

    def _raise(self, query: StartedQuery) -> None:
        failure = query.failure()
        if failure is not None:
            raise failure
