"""The view of a program for its queries, sources and sinks: topics, state, clock and session."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mullion._program.part_names import Names, folder_name
from mullion._program.session import require_driver, session_for
from mullion._util.clock import Clock, system
from mullion.errors import InvalidArgumentError
from mullion.topics import Broker, DirBroker
from mullion.topics import broker as broker_of
from mullion.topics._broker import SchemaLike

DEFAULT_BROKER = "dir:.mullion/topics"

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")


class Started(Protocol):
    """A query that the program has started."""

    @property
    def progress(self) -> list[dict[str, Any]]:
        """The progress reports of its batches, Spark's ``StreamingQueryProgress`` as dicts, oldest first."""


class Host:
    """A program, for its queries; its App adds the parts and the run.

    - ``name``: of the program; letters, digits, '.', '_' and '-'.
    - ``broker``: of its topics, ``"dir:PATH"`` or ``"kafka://host:port"``.
    - ``checkpoint``: of its state. By default next to the topics of a ``dir:`` broker, in ``PATH/_apps/NAME``, and in
      ``.mullion/NAME`` for Kafka.
    - ``clock``: the machine's by default, and a ``ManualClock`` in tests.
    - ``spark``: the session; the active one by default, or else a new one on demand.
    """

    in_order: ClassVar[bool] = False
    """True if a run to an end starts a job after the jobs that it reads from, because its results depend on the batches
    of its input, or on their end."""

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
        self.queries: dict[str, Started] = {}
        if spark is not None:
            require_driver(spark, f"{type(self).__module__.rpartition('.')[0] or type(self).__module__}.App({name!r})")
        self._spark = spark

    @property
    def spark(self) -> SparkSession:
        """The session of the App; created on demand if there is no active one."""
        if self._spark is None:
            self._spark = session_for(self.name, self.broker)
        return self._spark

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
        """A topic as a stream for a job, which stores its schema next to its checkpoint."""
        remembered = self.folder_of(job) / f"{folder_name(topic)}.schema.json"
        about: dict[str, Any] = {"unfit": unfit, "records": records, "raw": raw, "fresh": fresh}
        return self.broker.stream(spark or self.spark, topic, schema, remembered, **about)

    def folder_of(self, job: str) -> Path:
        """The folder of a job; the checkpoint of its query is the subfolder ``query``."""
        return self.checkpoint / folder_name(job)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, broker={self.broker.url!r})"


def beside(broker: Broker, name: str) -> Path:
    """The default location of a program's state."""
    return broker.path / "_apps" / name if isinstance(broker, DirBroker) else Path(".mullion") / name
