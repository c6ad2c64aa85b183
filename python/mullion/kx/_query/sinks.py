"""The writers of a pipeline, which process the batches of each micro-batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from mullion._program.report import table as aligned
from mullion._util.spark_versions import IN_UTC
from mullion.errors import FunctionError
from mullion.kx._operators import Writer
from mullion.kx._query.batches import Batch, Form, batches_in
from mullion.kx._query.host import PipelinesHost
from mullion.kx._query.worker import Stage, call_with_batch
from mullion.topics import Publisher, _types
from mullion.topics._broker import Broker
from mullion.topics._outputs import Output, query_id_of


@final
@dataclass(frozen=True)
class Arrived:
    """The input of a writer in one micro-batch: a DataFrame in one of the forms of a stream."""

    df: DataFrame
    form: Form
    mixed: bool
    number: int

    def batches(self) -> Iterator[Batch]:
        """The batches, on the driver."""
        batches = batches_in(self.form, self.df.toArrow().to_batches(), self.number, mixed=self.mixed)
        return (batch for batch in batches if not batch.meta.closing)

    def records(self) -> DataFrame | None:
        """The records in columns; ``None`` if there are none."""
        if self.form == "rows":
            return self.df
        if self.form == "panes" and not self.mixed:
            return self.df.select(sf.inline("rows"))
        first = next((table for batch in self.batches() for table in batch.tables if table.num_rows), None)
        if first is None:
            return None
        schema = _types.schema_of(first.schema)
        stage = Stage(self.form, (), "rows", self.mixed, to_arrow_schema(schema, **IN_UTC))
        return self.df.mapInArrow(stage, schema)


@final
@dataclass(frozen=True)
class ToConsole(Writer):
    """Prints each batch."""

    kind: ClassVar[str] = "to_console"

    prefix: str = ""

    def write(self, app: PipelinesHost, publisher: Publisher, arrived: Arrived, step: str) -> None:
        """Prints the batches."""
        for batch in arrived.batches():
            for table in batch.tables:
                sys.stdout.write(f"{self.prefix}{as_text(table)}\n")
        sys.stdout.flush()


@final
@dataclass(frozen=True)
class ToVariable(Writer):
    """Stores its input in the memory of the program."""

    kind: ClassVar[str] = "to_variable"

    variable: str | list[Any] = field(compare=False)
    mode: str = "append"

    def write(self, app: PipelinesHost, publisher: Publisher, arrived: Arrived, step: str) -> None:
        """Stores the batches."""
        for batch in arrived.batches():
            if isinstance(self.variable, list):
                if self.mode == "overwrite":
                    self.variable.clear()
                self.variable.append(batch.data)
            else:
                self._keep(app.variables, batch)

    def _keep(self, variables: dict[str, pa.Table], batch: Batch) -> None:
        assert isinstance(self.variable, str)
        table = variables.get(self.variable)
        tables = [] if table is None or self.mode == "overwrite" else [table]
        try:
            variables[self.variable] = pa.concat_tables([*tables, *batch.tables], promote_options="default")
        except pa.ArrowException as error:
            raise FunctionError(
                f"sp.write.to_variable({self.variable!r}) got batches whose columns do not go together: {error}. Give "
                "a list, sp.write.to_variable(batches), for batches as they are."
            ) from error


@final
@dataclass(frozen=True)
class ToCallback(Writer):
    """Calls a function of the program with each batch."""

    kind: ClassVar[str] = "to_callback"

    function: Callable[..., Any]
    params: tuple[str, ...] = ("data",)
    pandas: bool = False

    def write(self, app: PipelinesHost, publisher: Publisher, arrived: Arrived, step: str) -> None:
        """Calls the function."""
        for batch in arrived.batches():
            call_with_batch(f"{step} ({self.where})", self.function, self.params, step, batch, self.pandas)


@final
@dataclass(frozen=True)
class ToFile(Writer):
    """Writes files of a format that Spark writes, in a folder for each micro-batch."""

    kind: ClassVar[str] = "to_file"

    path: str
    format: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def write(self, app: PipelinesHost, publisher: Publisher, arrived: Arrived, step: str) -> None:
        """Writes the records; a micro-batch that runs again overwrites its folder."""
        df = arrived.df.persist()
        try:
            # The count computes all rows and the state of windows once; the write then reads the cached rows.
            there = df.count() > 0
            records = Arrived(df, arrived.form, arrived.mixed, arrived.number).records() if there else None
            if records is not None:
                folder = f"{self.path}/run={query_id_of(arrived.df)}/batch={arrived.number}"
                records.coalesce(1).write.format(self.format).options(**self.options).mode("overwrite").save(folder)
        finally:
            df.unpersist()


@final
@dataclass(frozen=True)
class ToTopic(Writer):
    """Publishes records to a topic, of a folder or of Kafka."""

    kind: ClassVar[str] = "to_topic"

    topic: str
    broker: Broker | None = None

    def write(self, app: PipelinesHost, publisher: Publisher, arrived: Arrived, step: str) -> None:
        """Publishes the records, exactly once."""
        outputs = _Published(self.topic, arrived.form, arrived.mixed, arrived.number)
        publisher.publish_made(arrived.df, arrived.number, outputs)


@final
@dataclass(frozen=True)
class _Published:
    """Publishes records from workers."""

    topic: str
    form: Form
    mixed: bool
    number: int

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[Output]:
        for batch in batches_in(self.form, rows, self.number, mixed=self.mixed):
            for table in batch.tables:
                for records in table.to_batches():
                    if records.num_rows:
                        yield Output(self.topic, None, records)


def as_text(table: pa.Table) -> str:
    """A table as aligned columns, with a header."""
    names = tuple(table.column_names)
    rows = [tuple("" if value is None else str(value) for value in row.values()) for row in table.to_pylist()]
    return aligned([names, *rows]) if names else "(no columns)"
