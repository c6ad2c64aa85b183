"""The readers of a pipeline, as streams of Spark."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from mullion import topics
from mullion._bridge import jvm
from mullion._program.host import Host
from mullion._program.part_names import folder_name
from mullion._util.codec.arrow import encoded, table_in
from mullion.errors import InvalidArgumentError
from mullion.kx._operators import Reader
from mullion.kx._query.worker import as_data
from mullion.topics._broker import Broker, SchemaLike
from mullion.topics._folder.topic import DirTopic
from mullion.topics._records import COLUMNS, KEY, TIMESTAMP
from mullion.topics._schemas import remember, remembered_schema, spark_schema

SAMPLED: Final = 1000
"""The number of records of a reader that schema inference uses."""


@final
@dataclass(frozen=True)
class FromTopic(Reader):
    """Reads a topic, of a folder or of Kafka."""

    kind: ClassVar[str] = "from_topic"

    topic: str
    broker: Broker | None = None
    schema: Any = None
    envelope: bool = False

    def stream(self, app: Host, spark: SparkSession, folder: Path, name: str) -> DataFrame:
        """The reader's records."""
        broker = self.broker or app.broker
        remembered = folder / f"{folder_name(name)}.schema.json"
        rows = broker.stream(spark, self.topic, self.schema, remembered)
        return rows.drop(COLUMNS) if self.envelope else rows.drop(COLUMNS, KEY, TIMESTAMP)

    def sample(self, app: Host, spark: SparkSession, name: str) -> pa.Table | None:
        """Some of the records."""
        return topics.read(self.broker or app.broker, self.topic).slice(0, SAMPLED)


@final
@dataclass(frozen=True)
class FromFile(Reader):
    """Reads files of a format that Spark reads."""

    kind: ClassVar[str] = "from_file"

    path: str
    format: str
    schema: Any = None
    watch: bool = False
    files_per_batch: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def finite(self) -> bool:  # type: ignore[override]
        """True unless the reader watches for new files."""
        return not self.watch

    def stream(self, app: Host, spark: SparkSession, folder: Path, name: str) -> DataFrame:
        """The reader's records."""
        remembered = folder / f"{folder_name(name)}.schema.json"
        schema = spark_schema(self.schema) if self.schema is not None else remembered_schema(remembered)
        if schema is None:
            schema = self._batch(spark, None).schema
            remember(remembered, schema)
        return (
            spark.readStream.format(self.format)
            .schema(schema)
            .options(**self.options)
            .option("maxFilesPerTrigger", self.files_per_batch)
            .load(self._pattern)
        )

    def sample(self, app: Host, spark: SparkSession, name: str) -> pa.Table | None:
        """Some of the records."""
        schema = None if self.schema is None else spark_schema(self.schema)
        return self._batch(spark, schema).limit(SAMPLED).toArrow()

    @property
    def _pattern(self) -> str:
        """The path. A single file becomes a pattern that matches it, because streams read only folders and patterns."""
        if not Path(self.path).is_file():
            return self.path
        quoted = re.sub(r"([][{}*?\\])", r"\\\1", self.path)
        return f"{quoted[:-1]}[{quoted[-1]}]"

    def _batch(self, spark: SparkSession, schema: StructType | None) -> DataFrame:
        reader = spark.read.format(self.format).options(**self.options)
        if schema is not None:
            reader = reader.schema(schema)
        elif self.format == "csv":
            reader = reader.option("inferSchema", "true")
        try:
            return reader.load(self.path)
        except Exception as cause:
            raise InvalidArgumentError(
                f"sp.read.from_file({self.path!r}) cannot say what columns there are: "
                f"{str(cause).splitlines()[0]} Give the path of files that are there, or say which columns with "
                "schema='time timestamp, price double'."
            ) from cause


@final
@dataclass(frozen=True)
class FromDataFrame(Reader):
    """Reads a DataFrame of Spark: a stream, or a batch, which is one batch of the pipeline."""

    kind: ClassVar[str] = "from_dataframe"

    df: DataFrame = field(compare=False)

    @property
    def finite(self) -> bool:  # type: ignore[override]
        """True for a batch."""
        return not self.df.isStreaming

    def stream(self, app: Host, spark: SparkSession, folder: Path, name: str) -> DataFrame:
        """The reader's records."""
        if self.df.isStreaming:
            return self.df
        copy = folder / f"{folder_name(name)}.rows"
        if not (copy / "_SUCCESS").exists():
            # A restart must read the same records again.
            self.df.write.mode("overwrite").parquet(str(copy.absolute()))
        return spark.readStream.schema(self.df.schema).parquet(str(copy.absolute()))

    def sample(self, app: Host, spark: SparkSession, name: str) -> pa.Table | None:
        """Some of the records of a batch; ``None`` for a stream."""
        return None if self.df.isStreaming else self.df.limit(SAMPLED).toArrow()


@final
@dataclass(frozen=True)
class FromExpr(Reader):
    """Reads the results of a function, or data."""

    kind: ClassVar[str] = "from_expr"
    finite: ClassVar[bool] = True

    expr: Any = field(compare=False)

    def batches(self, what: str) -> Iterator[pa.Table]:
        """The batches, one after the other."""
        value = self.expr() if callable(self.expr) else self.expr
        several = isinstance(value, Iterator) or (
            isinstance(value, (list, tuple)) and len(value) > 0 and not all(isinstance(each, dict) for each in value)
        )
        for each in value if several else [value]:
            data = as_data(each, what)
            for table in data if isinstance(data, list) else [data]:
                if table is not None and table.num_rows:
                    yield table


@final
@dataclass(frozen=True)
class FromCallback(Reader):
    """Reads the batches that the program publishes under a name, with ``App.publish``."""

    kind: ClassVar[str] = "from_callback"

    callback: str
    schema: Any = None


@final
class Spool:
    """Python batches that wait to be read: one file per batch, which survives a restart.

    The batches are in a topic of a folder in the checkpoint. ``is_mixed``: True if each batch is one record, an Arrow
    stream, so that the next batch may have other columns.
    """

    def __init__(self, app: Host, name: str, *, is_mixed: bool) -> None:
        self._broker = topics.DirBroker(app.checkpoint / "_input")
        self._name = name
        self._is_mixed = is_mixed

    def fill(self, batches: Iterable[pa.Table], what: str) -> None:
        """Appends the batches that the topic does not have yet; each start provides all batches again."""
        there = len(self.topic.files())
        for index, table in enumerate(batches):
            if index >= there:
                self.append(table, what)

    def append(self, table: pa.Table, what: str) -> None:
        """Appends a batch."""
        if self._is_mixed:
            self._broker.produce(self._name, pa.table({_WHOLE: [encoded(table)]}))
            return
        columns = self._columns()
        if columns and set(columns) != set(table.column_names):
            raise InvalidArgumentError(
                f"{what} has a batch with the columns {', '.join(map(repr, table.column_names))}, and those before it "
                f"had {', '.join(map(repr, columns))}. Batches of mixed schemas are for "
                "sp.window.global_window(trigger, mixed_schemas=True); give all batches the same columns otherwise."
            )
        with self._errors_of(what):
            self._broker.produce(self._name, table)

    @contextlib.contextmanager
    def _errors_of(self, what: str) -> Iterator[None]:
        """Rewrites an error about the internal topic into one about ``what``, the user's code."""
        try:
            yield
        except InvalidArgumentError as error:
            text = str(error)
            for topic, words in (
                (f"Topic {self._name!r} of {self._broker.url}", what),
                (f"Topic {self._name!r}", what),
                ("in the topic", "in earlier batches"),
                (", under another name, or to another topic", ", or under another name"),
            ):
                text = text.replace(topic, words)
            raise InvalidArgumentError(text) from error

    @property
    def topic(self) -> DirTopic:
        """The topic of the batches."""
        return DirTopic(self._broker.path, self._name)

    def stream(self, spark: SparkSession, schema: SchemaLike | None, remembered: Path, what: str) -> DataFrame:
        """The records of the batches as a stream; with ``is_mixed`` they are rows of :data:`TABLES`.

        ``what`` describes the reader in errors.
        """
        if not self._is_mixed and schema is None and remembered_schema(remembered) is None and not self._columns():
            raise InvalidArgumentError(
                f"{what} has no records yet, so its columns are unknown. Give them with schema='sym string, price "
                "double', or publish the first batch before the program starts."
            )
        with self._errors_of(what):
            rows = self._broker.stream(spark, self._name, "data binary" if self._is_mixed else schema, remembered)
        if not self._is_mixed:
            return rows.drop(COLUMNS, KEY, TIMESTAMP)
        number = jvm.batch_number(spark).cast("string")
        meta = sf.concat(sf.lit("["), number, sf.lit(", null, false, false, false, false, false]"))
        place, tables = jvm.row_in_batch(spark).cast("bigint"), sf.array(_WHOLE)
        return rows.select(place.alias("at"), meta.alias("meta"), tables.alias("data"), sf.lit(False).alias("many"))

    def sample(self) -> list[pa.Table]:
        """Some of the batches."""
        try:
            table = self._broker.read(self._name).slice(0, SAMPLED).drop_columns([KEY, TIMESTAMP])
        except FileNotFoundError:
            # Some batches have been processed and deleted.
            return []
        if not self._is_mixed:
            return [table] if table.num_rows else []
        return [table_in(data) for data in table[_WHOLE].to_pylist()]

    def _columns(self) -> list[str]:
        return list(self.topic.about().schema.names)


_WHOLE: Final = "data"
