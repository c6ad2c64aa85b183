"""A query that runs, with the error of the program's code that ended it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from mullion._bridge import jvm
from mullion._program.failures import failure_of
from mullion._util.clock import Clock, ManualClock


class StartedQuery:
    """A query of a program over its checkpoint.

    - ``name``: in messages. Spark's name of the query is ``full_name``.
    - ``folder``: its checkpoint is in ``folder / "query"``.
    - ``build``, ``write``: make its rows, and write a batch of them. An error of ``write`` is the error of the query:
      Spark keeps only its text.
    - ``drain``: it ends once it has processed the available input.
    """

    def __init__(
        self,
        name: str,
        full_name: str,
        folder: Path,
        clock: Clock,
        build: Callable[[], DataFrame],
        write: Callable[[DataFrame, int], None],
        *,
        drain: bool = False,
    ) -> None:
        self.error: BaseException | None = None
        self._name, self._full_name = name, full_name
        self._checkpoint = str(folder.absolute() / "query")
        self._clock, self._drain = clock, drain
        self._build, self._write = build, write
        self.start()

    def start(self) -> None:
        """Starts the query, again after a failure."""
        self.error = None
        rows = self._build()
        if isinstance(self._clock, ManualClock):
            about = self._full_name, self._checkpoint, self._written, self._clock, self._drain
            self.query: StreamingQuery = jvm.start_on_clock(rows, *about)
            return
        writer = rows.writeStream.queryName(self._full_name).option("checkpointLocation", self._checkpoint)
        writer = writer.trigger(availableNow=True) if self._drain else writer
        self.query = writer.foreachBatch(self._written).start()

    def _written(self, rows: DataFrame, batch: int) -> None:
        try:
            self._write(rows, batch)
        except BaseException as error:
            self.error = error
            raise

    def failure(self) -> Exception | None:
        """The error, if it failed."""
        return failure_of(self._name, self.query, self.error)
