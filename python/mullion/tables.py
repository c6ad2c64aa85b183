"""Tables that :func:`mullion.upsert` maintains. Specs are values: frozen, comparable and validated."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from mullion._bridge import jvm
from mullion._bridge.request import quoted
from mullion.errors import IncompatibleStateError, InvalidArgumentError, UnsupportedError

_ROWS: Final = "mullion_upsert_rows"
_GONE: Final = "mullion_upsert_gone"


class Table(Protocol):
    """A table in which rows replace others."""

    def check(self, spark: SparkSession) -> None:
        """Raises an error if the table cannot be written to, as far as that is known before there are rows."""

    def read(self, spark: SparkSession) -> DataFrame | None:
        """The contents of the table; ``None`` if it does not exist yet."""

    def adapt(self, spark: SparkSession, schema: StructType, keys: Sequence[str], renamed: Mapping[str, str]) -> None:
        """Prepares an existing table for rows of ``schema``, from a query that has changed.

        ``renamed`` maps new names of key columns to their old names.

        Raises :class:`IncompatibleStateError` if the table must be changed by hand first.
        """

    def merge(self, rows: DataFrame, keys: DataFrame) -> None:
        """Replaces the rows with one of ``keys`` by ``rows``, whose keys are among these, in one step."""


@final
@dataclass(frozen=True, slots=True)
class DeltaTable:
    """A table of Delta Lake, or of any other format that Spark's ``MERGE INTO`` can change, such as Iceberg and Hudi.

    ``name`` is the name of a table in a catalog, such as ``"lake.visits"``, or ``delta.`path``` for a folder. If the
    table does not exist, the first batch creates it in the format ``delta``.

    A batch is one ``MERGE``. For Delta the session needs ``delta-spark`` and the settings of Delta's documentation.

    >>> DeltaTable("lake.visits")
    DeltaTable(name='lake.visits')

    Raises :class:`InvalidArgumentError` when ``name`` is not text.
    """

    name: str

    def __post_init__(self) -> None:
        _require_text("name", self.name, "DeltaTable('lake.visits')")

    def check(self, spark: SparkSession) -> None:
        """Raises :class:`UnsupportedError` if neither the table nor Delta exists."""
        if self._exists(spark):
            return
        try:
            spark.read.format("delta").load("/nowhere")
        except Exception as error:
            if "DATA_SOURCE_NOT_FOUND" not in str(error):
                return
            raise UnsupportedError(
                f"There is no table {self.name}, and it cannot be made: this session has no Delta Lake. Start it with "
                "the package delta-spark for its Spark, with io.delta.sql.DeltaSparkSessionExtension among "
                "spark.sql.extensions and org.apache.spark.sql.delta.catalog.DeltaCatalog as "
                "spark.sql.catalog.spark_catalog; or make the table first, in a format that MERGE INTO can change."
            ) from None

    def read(self, spark: SparkSession) -> DataFrame | None:
        """The contents of the table; ``None`` if it does not exist yet."""
        return spark.table(self.name) if self._exists(spark) else None

    def adapt(self, spark: SparkSession, schema: StructType, keys: Sequence[str], renamed: Mapping[str, str]) -> None:
        """Raises :class:`IncompatibleStateError` where the table lacks a column."""
        _require_columns(self.name, spark.table(self.name).columns, schema, keys, renamed)

    def merge(self, rows: DataFrame, keys: DataFrame) -> None:
        """Replaces the rows with one of ``keys`` by ``rows``."""
        spark = rows.sparkSession
        if not self._exists(spark):
            rows.limit(0).writeTo(self.name).using("delta").create()
        marked = rows.withColumn(_GONE, sf.lit(False))
        named = keys.columns
        gone = keys.alias("t").join(rows.select(*map(_column, named)).alias("k"), same_key(named), "left_anti")
        marked = marked.unionByName(gone.withColumn(_GONE, sf.lit(True)), allowMissingColumns=True)
        marked.createOrReplaceTempView(_ROWS)
        try:
            columns = [quoted(name) for name in rows.columns]
            match = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in named)
            spark.sql(
                # The name is the user's own SQL.
                f"MERGE INTO {self.name} t USING {_ROWS} s ON {match} "  # noqa: S608
                f"WHEN MATCHED AND s.{_GONE} THEN DELETE "
                f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{c} = s.{c}' for c in columns)} "
                f"WHEN NOT MATCHED AND NOT s.{_GONE} THEN "
                f"INSERT ({', '.join(columns)}) VALUES ({', '.join(f's.{c}' for c in columns)})"
            )
        finally:
            spark.catalog.dropTempView(_ROWS)

    def _exists(self, spark: SparkSession) -> bool:
        try:
            return len(spark.table(self.name).columns) > 0
        except Exception as error:
            if any(condition in str(error) for condition in _NO_TABLE):
                return False
            raise


_NO_TABLE: Final = (
    "TABLE_OR_VIEW_NOT_FOUND",
    "PATH_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_MISSING_DELTA_TABLE",
    "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY",
    "DELTA_TABLE_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
)


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class JdbcTable:
    """A table of a database that Spark reaches by JDBC.

    ``url`` and ``table`` are those of Spark's JDBC source. ``options`` are more of its options: ``user``, ``password``,
    ``driver``, ``batchsize``, ``createTableColumnTypes``. The database's driver must be on the class path. If the table
    does not exist, the first batch creates it, without a primary key. A key on the ``by`` columns and ``pane_id`` makes
    batches of a large table fast.

    A batch is one transaction. Tasks write to two more tables, with its name and ``_mullion_rows`` or
    ``_mullion_keys``. A ``DELETE`` and an ``INSERT``, which all databases support, then move the rows. So the user may
    need the right to create tables.

    >>> JdbcTable("jdbc:postgresql://host/db", "visits", user="etl", password="secret")
    JdbcTable('jdbc:postgresql://host/db', 'visits', password=..., user='etl')

    Raises :class:`InvalidArgumentError` when ``url``, ``table`` or an option is not text, or ``url`` does not begin
    with ``jdbc:``.
    """

    url: str
    table: str
    options: tuple[tuple[str, str], ...]

    def __init__(self, url: str, table: str, **options: str) -> None:
        example = "JdbcTable('jdbc:postgresql://host/db', 'visits', user='etl')"
        _require_text("url", url, example)
        _require_text("table", table, example)
        if not url.startswith("jdbc:"):
            raise InvalidArgumentError(f"url={url!r} does not begin with 'jdbc:'. Write {example}.")
        for name, value in options.items():
            _require_text(name, value, example)
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "options", tuple(sorted(options.items())))

    def __repr__(self) -> str:
        shown = [repr(self.url), repr(self.table)]
        shown += [f"{name}={'...' if 'password' in name.lower() else repr(value)}" for name, value in self.options]
        return f"JdbcTable({', '.join(shown)})"

    def check(self, spark: SparkSession) -> None:
        """Raises an error if the database cannot be reached."""
        self.read(spark)

    def read(self, spark: SparkSession) -> DataFrame | None:
        """The contents of the table; ``None`` if it does not exist yet."""
        return jvm.read_jdbc(spark, self._all())

    def adapt(self, spark: SparkSession, schema: StructType, keys: Sequence[str], renamed: Mapping[str, str]) -> None:
        """Raises :class:`IncompatibleStateError` where the table lacks a column."""
        existing = self.read(spark)
        if existing is not None:
            _require_columns(self.table, existing.columns, schema, keys, renamed)

    def merge(self, rows: DataFrame, keys: DataFrame) -> None:
        """Replaces the rows with one of ``keys`` by ``rows``."""
        jvm.upsert_jdbc(rows, keys, self._all())

    def _all(self) -> Mapping[str, str]:
        return {**dict(self.options), "url": self.url, "dbtable": self.table}


@final
@dataclass(frozen=True, slots=True)
class ParquetTable:
    """A table in Parquet files, which each batch rewrites. It is for small tables and for tests.

    ``path`` is its folder, in any file system that Spark reads. It holds a folder for each of the last two versions. An
    incomplete version does not count. :meth:`read` returns the newest version; reading the folder itself would return
    both.

    >>> ParquetTable("tables/visits")
    ParquetTable(path='tables/visits')

    Raises :class:`InvalidArgumentError` when ``path`` is neither text nor a path.
    """

    path: str

    def __post_init__(self) -> None:
        if isinstance(self.path, os.PathLike):
            object.__setattr__(self, "path", os.fspath(self.path))
        _require_text("path", self.path, "ParquetTable('tables/visits')")

    def check(self, spark: SparkSession) -> None:
        """Raises an error if the folder cannot be listed."""
        jvm.newest_version(spark, self.path)

    def read(self, spark: SparkSession) -> DataFrame | None:
        """The contents of the table; ``None`` if it does not exist yet."""
        newest = jvm.newest_version(spark, self.path)
        return None if newest < 0 else spark.read.parquet(self._folder(spark, newest))

    def adapt(self, spark: SparkSession, schema: StructType, keys: Sequence[str], renamed: Mapping[str, str]) -> None:
        """Rewrites the table if it lacks columns or keys were renamed. Old rows have null in new columns."""
        newest = jvm.newest_version(spark, self.path)
        existing = spark.read.parquet(self._folder(spark, newest))
        for new, old in renamed.items():
            if not _lacking([old], existing.columns) and _lacking([new], existing.columns):
                existing = existing.withColumnRenamed(old, new)
        lacking = _lacking(schema.names, existing.columns)
        _require_keys(self.path, existing.columns, keys)
        if lacking or renamed:
            none = [sf.lit(None).cast(schema[name].dataType).alias(name) for name in lacking]
            self._write(existing.select("*", *none), newest)

    def merge(self, rows: DataFrame, keys: DataFrame) -> None:
        """Rewrites the table, with ``rows`` instead of the rows with one of ``keys``."""
        spark = rows.sparkSession
        newest = jvm.newest_version(spark, self.path)
        if newest >= 0:
            old = spark.read.parquet(self._folder(spark, newest))
            unchanged = old.alias("t").join(keys.alias("k"), same_key(keys.columns), "left_anti")
            # The column of a removed aggregate stays.
            rows = unchanged.unionByName(rows, allowMissingColumns=True)
        self._write(rows, newest)

    def _write(self, rows: DataFrame, newest: int) -> None:
        spark = rows.sparkSession
        writer = rows.write.mode("overwrite").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "true")
        writer.parquet(self._folder(spark, newest + 1))
        # Readers may still use the previous version.
        jvm.remove_versions_before(spark, self.path, newest)

    def _folder(self, spark: SparkSession, version: int) -> str:
        return f"{self.path.rstrip('/')}/{jvm.version_folder(spark, version)}"


def _lacking(names: Sequence[str], existing: Sequence[str]) -> list[str]:
    """Those of ``names`` that are not among ``existing``, whatever their case."""
    names_in_lower_case = {name.lower() for name in existing}
    return [name for name in names if name.lower() not in names_in_lower_case]


def _require_keys(table: str, existing: Sequence[str], keys: Sequence[str]) -> None:
    lacking = _lacking(keys, existing)
    if lacking:
        raise IncompatibleStateError(
            f"The table {table} has no column {lacking[0]!r}, a key of the panes, so its rows cannot be found. "
            f"It has {', '.join(map(repr, existing))}. Rename its column for that key, or name a new table, together "
            "with a new checkpointLocation."
        )


def _require_columns(
    table: str, existing: Sequence[str], schema: StructType, keys: Sequence[str], renamed: Mapping[str, str]
) -> None:
    for new, old in renamed.items():
        if _lacking([new], existing) and not _lacking([old], existing):
            raise IncompatibleStateError(
                f"The key {old!r} of the panes is now called {new!r}, and the table {table} has rows under the old "
                f"name. Rename its column first: ALTER TABLE {table} RENAME COLUMN {old} TO {new}."
            )
    _require_keys(table, existing, keys)
    lacking = _lacking(schema.names, existing)
    if lacking:
        columns = ", ".join(f"{name} ({schema[name].dataType.simpleString()})" for name in lacking)
        raise IncompatibleStateError(
            f"The table {table} has no column {lacking[0]!r}, which the panes have. Add the missing columns with ALTER "
            f"TABLE: {columns}."
        )


def same_key(names: Sequence[str]) -> Column:
    """The condition that ``t`` and ``k`` have the same key. Nulls are equal."""
    same = [sf.col(f"t.{quoted(name)}").eqNullSafe(sf.col(f"k.{quoted(name)}")) for name in names]
    all_of = same[0]
    for one in same[1:]:
        all_of = all_of & one
    return all_of


def _column(name: str) -> Column:
    return sf.col(quoted(name))


def _require_text(name: str, value: object, example: str) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(f"{name}={value!r} ({type(value).__name__}) is not a text. Write {example}.")
