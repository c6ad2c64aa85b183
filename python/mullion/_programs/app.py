"""A program: where its topics are, where its state is, its clock and its session."""

from __future__ import annotations

import abc
import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mullion._clock import Clock, system
from mullion._programs.jobs import Job
from mullion._programs.names import Named, Names, folder_name
from mullion._programs.report import Part, Report, table
from mullion._programs.runner import Query, Running, drain, serve
from mullion._programs.session import require_driver, session_for
from mullion.errors import InvalidArgumentError
from mullion.topics import Broker, DirBroker
from mullion.topics import broker as broker_of
from mullion.topics._broker import SchemaLike

DEFAULT_BROKER = "dir:.mullion/topics"

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")

log = logging.getLogger("mullion")


class App(abc.ABC):
    """What the Apps of all APIs have in common; each says with :meth:`_jobs` and :meth:`_parts` what it is made of.

    - ``name``: of the program; letters, digits, '.', '_' and '-'.
    - ``broker``: where its topics are, ``"dir:PATH"`` or ``"kafka://host:port"``.
    - ``checkpoint``: where its state is. Left out: beside the topics of a ``dir:`` broker, in ``PATH/_apps/NAME``, and
      in ``.mullion/NAME`` for Kafka.
    - ``clock``: what tells the time; the machine's if left out, and a ``ManualClock`` in tests.
    - ``spark``: the session; the active one if left out, or else one that is made when it is needed.
    """

    api: ClassVar[str]
    """The package of Mullion that the App is one of, such as ``turbine``."""

    in_order: ClassVar[bool] = False
    """Whether a run to an end runs jobs after those that they read from: where what they make of rows depends on which
    batches these come in, or on where they end."""

    def __init__(
        self,
        name: str,
        *,
        broker: str | Broker = DEFAULT_BROKER,
        checkpoint: str | os.PathLike[str] | None = None,
        clock: Clock | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidArgumentError(
                f"name={name!r} is not the name of an App. Use letters, digits, '.', '_' and '-', a "
                "letter or digit first, as in App('orders')."
            )
        self.name = name
        self.broker = broker_of(broker)
        self.checkpoint = Path(checkpoint) if checkpoint is not None else beside(self.broker, name)
        self.clock = clock or system()
        self.names = Names()
        self.queries: dict[str, Query] = {}
        if spark is not None:
            require_driver(spark, f"{type(self).__module__.rpartition('.')[0] or type(self).__module__}.App({name!r})")
        self._spark = spark

    @property
    def spark(self) -> SparkSession:
        """The session the App runs in; made when it is first asked for, if there is no active one."""
        if self._spark is None:
            self._spark = session_for(self.name, self.broker)
        return self._spark

    def run(self, until: Literal["drained"] | None = None) -> None:
        """Runs until it is stopped, by SIGINT or SIGTERM: batches that are running end first.

        With ``until="drained"`` it processes all rows that are there, and those that its parts publish for one another,
        and returns. Windows close that the clock closes; the others stay open. Run again it goes on where it ended.

        Raises the error of the first query that fails, when all others have stopped; :class:`InvalidArgumentError` for
        another ``until``.
        """
        if until not in (None, "drained"):
            raise InvalidArgumentError(f"until={until!r} is not an end. Write run(until='drained'), or run() for none.")
        jobs = self._checked_jobs()
        if until == "drained":
            drain(self, jobs)
        else:
            serve(self, jobs)

    def start(self) -> Running:
        """Starts all queries and returns: for tests and notebooks, which say when to go on and when to stop."""
        return Running(self, self._checked_jobs())

    def explain(self) -> Report:
        """Which parts run in the JVM and which in Python, why, and the line that decided it."""
        return Report(tuple(self._parts()))

    def windows(self) -> str:
        """The named parts, as an aligned table: their kind, name and line, and what is in them."""
        lines = [("kind", "name", "state", "defined at")]
        lines += [(p.kind, p.name, self._state_of(p), p.where) for p in (*self.names.all(), *self._found())]
        lines += [(part.kind, part.name, "kept, for it was removed", part.where) for part in self.kept()]
        return table(lines)

    def _found(self) -> Sequence[Named]:
        """Parts that the program made while it ran."""
        return ()

    def _state_of(self, part: Named) -> str:
        """What is in a part, in a few words."""
        return "kept" if (self.checkpoint / (part.folder or "")).exists() else "none yet"

    def kept(self) -> list[Named]:
        """Parts that are no longer in the program and whose state is kept."""
        return self.names.kept(self.checkpoint)

    def drop(self, name: str) -> None:
        """Deletes the state of a part that is no longer in the program.

        Raises :class:`InvalidArgumentError` for one that is, and for one that has none.
        """
        self.names.drop(self.checkpoint, name)

    def _rid_of(self, name: str) -> str:
        """How the state of a part is deleted that is no longer in the program."""
        return f"drop({name!r}) deletes it."

    def stream(
        self,
        job: str,
        topic: str,
        schema: SchemaLike | None = None,
        spark: SparkSession | None = None,
        *,
        unfit: bool = False,
        records: bool = False,
        raw: bool = False,
        fresh: StructType | None = None,
    ) -> DataFrame:
        """A topic as a stream for a job, which remembers its schema beside its checkpoint."""
        remembered = self.folder_of(job) / f"{folder_name(topic)}.schema.json"
        about: dict[str, Any] = {"unfit": unfit, "records": records, "raw": raw, "fresh": fresh}
        return self.broker.stream(spark or self.spark, topic, schema, remembered, **about)

    def folder_of(self, job: str) -> Path:
        """Where a job keeps what is its own; the checkpoint of its query is in ``query`` in there."""
        return self.checkpoint / folder_name(job)

    @abc.abstractmethod
    def _jobs(self) -> Sequence[Job]:
        """The queries of the program."""

    @abc.abstractmethod
    def _parts(self) -> Sequence[Part]:
        """The parts that :meth:`explain` shows."""

    def _checked_jobs(self) -> Sequence[Job]:
        jobs = self._jobs()
        if not jobs:
            raise InvalidArgumentError(f"The App {self.name!r} has nothing to run: nothing in it reads a topic.")
        for part in self.names.remember(self.checkpoint):
            log.warning(
                "The %s %r is no longer in %s. Its state is kept in %s. %s",
                part.kind,
                part.name,
                self.name,
                self.checkpoint,
                self._rid_of(part.name),
            )
        return jobs

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, broker={self.broker.url!r})"


def beside(broker: Broker, name: str) -> Path:
    """Where the state of a program is that says no other place."""
    return broker.path / "_apps" / name if isinstance(broker, DirBroker) else Path(".mullion") / name
