"""Tables with the last firing of each pane of a stream, and the changes of such a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import DataType

from mullion._bridge import jvm
from mullion._bridge.columns import require_dataframe
from mullion._bridge.request import quoted
from mullion._native.flat import flat
from mullion._util.signatures import explained
from mullion.errors import IncompatibleStateError, InvalidArgumentError, StateLostError
from mullion.tables import DeltaTable, JdbcTable, ParquetTable, Table, same_key

OnBatch: TypeAlias = Callable[[DataFrame, int], object]
"""A function of rows and the number of their batch."""

ID: Final = "pane_id"
_MERGED: Final = "pane_merged"
CHANGE: Final = "change"


@explained(
    "upsert(panes, into=ParquetTable('tables/visits'))", {"into": "Say which table, as in into=DeltaTable(...)."}
)
def upsert(
    panes: DataFrame, *, into: Table, late: OnBatch | None = None, changes: OnBatch | None = None
) -> DataStreamWriter:
    """Maintains a table with one row per pane, with the values of its last firing.

    - ``panes``: a stream of ``windowed(..., ids=True)``, or of several windows :func:`together`.
    - ``into``: a :class:`DeltaTable`, :class:`JdbcTable` or :class:`ParquetTable`. The first batch creates the table if
      it does not exist. Only one query may write a table.
    - ``late``: a function of the late rows of a batch (``late="emit"``), with the columns of the input, and the number
      of the batch. These rows belong to no pane. Panes with ``late_row`` need this function.
    - ``changes``: a function of the changes of a batch, before they are applied, and the number of the batch. The
      columns are those of :func:`changelog`, with additional rows ``update_before``, and with the complete row for
      ``delete``.

    Returns a ``DataStreamWriter`` whose output mode and ``foreachBatch`` are set. Call
    ``.option("checkpointLocation", ...)`` and ``.start()`` on it.

    The columns are those of :func:`flat`: the keys, ``window_start``, ``window_end``, ``pane_firing``, ``pane_seq``,
    ``pane_id``, then the aggregates. The row of a closed pane stays, with ``pane_firing = 'close'``. The rows of merged
    panes are deleted. A pane that ``late="reopen"`` opened has its own row, next to that of the closed pane.

    Each batch changes the table in one step. A batch that runs again after a crash leaves the table unchanged. It calls
    ``late`` and ``changes`` again; applied changes are not repeated, so ``changes`` may receive no rows.

    Raises :class:`InvalidArgumentError` if ``panes`` is not a stream, has no ids, or lacks a key, or if ``late`` is
    missing; and :class:`UnsupportedError` with ``accumulate=False``, whose firings have only a part of a pane.

    >>> query = (  # doctest: +SKIP
    ...     upsert(panes, into=DeltaTable("lake.visits")).option("checkpointLocation", "checkpoints/visits").start()
    ... )
    """
    keys = _keys_of(panes, "upsert()")
    if not isinstance(into, (DeltaTable, JdbcTable, ParquetTable)):
        raise InvalidArgumentError(
            f"into={into!r} ({type(into).__name__}) is not a table. Write into=DeltaTable('lake.visits'), "
            "JdbcTable('jdbc:postgresql://host/db', 'visits') or ParquetTable('tables/visits')."
        )
    if not panes.isStreaming:
        raise InvalidArgumentError(
            "upsert() was given the panes of a batch DataFrame, which have all closed: they take the place of nothing. "
            "Write them, as in mullion.flat(panes).write.save(...)."
        )
    for name, function in (("late", late), ("changes", changes)):
        if function is not None and not callable(function):
            raise InvalidArgumentError(
                f"{name}={function!r} ({type(function).__name__}) is not a function. Give one of a DataFrame and the "
                f"number of its batch, as in {name}=lambda rows, batch: rows.write.mode('append').save(...)."
            )
    emits = "late_row" in panes.columns
    if emits and late is None:
        raise InvalidArgumentError(
            "The panes have late rows among them (late='emit'), which belong into no pane and so not into the table. "
            "Say what becomes of them, as in late=lambda rows, batch: rows.write.mode('append').save(...), or leave "
            "late='emit' out."
        )
    if late is not None and not emits:
        raise InvalidArgumentError("late= is for the rows that late='emit' sends out, and these panes have none.")
    _columns_of(panes)
    into.check(panes.sparkSession)

    kept_table = _KeptTable(into, [*keys, ID])

    def write(batch: DataFrame, number: int) -> None:
        batch.persist()
        try:
            if late is not None:
                late(batch.where("pane.firing IN ('late', 'ahead')").select("late_row.*"), number)
            rows, touched = last_of(batch, keys)
            rows.persist()
            touched.persist()
            try:
                if not touched.isEmpty():
                    kept_table.require(rows)
                    if changes is not None:
                        changes(_changes(into, rows, touched, [*keys, ID]), number)
                    into.merge(rows, touched)
                    kept_table.note(batch.sparkSession)
            finally:
                rows.unpersist()
                touched.unpersist()
        finally:
            batch.unpersist()

    return panes.writeStream.outputMode("append").foreachBatch(write)


class _KeptTable:
    """The table of one run of a query, and the note of it in the query's checkpoint."""

    def __init__(self, table: Table, keys: Sequence[str]) -> None:
        self._table, self._keys = table, list(keys)
        self._noted: dict[str, Any] | None = None
        self._is_known = False

    def require(self, rows: DataFrame) -> None:
        """Raises where a table that the query had is gone, and adapts one to a query that has changed."""
        spark = rows.sparkSession
        if self._noted is None:
            self._noted = json.loads(jvm.table_note(spark, _query_id(spark)) or "{}")
        exists = self._table.read(spark) is not None
        if self._noted and not exists:
            raise StateLostError(
                f"{self._table!r} does not exist, and this query has kept {self._noted['table']}. A new table would "
                "have only the panes that fire from now on. Restore it, or copy the former one to it; or start the "
                "query with a new checkpointLocation, so that it builds the table from its source again."
            )
        if exists and not self._is_known:
            self._table.adapt(spark, rows.schema, self._keys, self._renamed())
        self._is_known = exists

    def note(self, spark: SparkSession) -> None:
        """Notes the table, once it exists."""
        now = {"table": repr(self._table), "keys": self._keys}
        if now != self._noted:
            jvm.note_table(spark, _query_id(spark), json.dumps(now))
            self._noted = now

    def _renamed(self) -> dict[str, str]:
        before = (self._noted or {}).get("keys", self._keys)
        gone = [name for name in before if name.lower() not in {key.lower() for key in self._keys}]
        new = [name for name in self._keys if name.lower() not in {key.lower() for key in before}]
        if len(gone) == len(new) <= 1:
            return dict(zip(new, gone, strict=True))
        old, new_ = (", ".join(map(repr, names)) for names in (before, self._keys))
        raise IncompatibleStateError(
            f"The keys of the panes were {old} and are now {new_}, and {self._table!r} has rows under the old names. "
            "Rename one key at a time, and let a batch change the table in between; or name a table that does not "
            "exist, together with a new checkpointLocation."
        )


def _query_id(spark: SparkSession) -> str:
    """The id of the query whose batch runs."""
    return spark.sparkContext.getLocalProperty("sql.streaming.queryId") or ""


def last_of(batch: DataFrame, keys: Sequence[str]) -> tuple[DataFrame, DataFrame]:
    """The new rows of a table after a batch, and the keys of all rows that they replace."""
    fired = _columns_of(batch.where("pane.firing NOT IN ('late', 'ahead')"))
    named = [*keys, ID]
    gone = fired.select(*map(_column, keys), sf.explode(_MERGED).alias(ID))
    shown = fired.drop(_MERGED)
    row = sf.struct(*map(_column, shown.columns))
    last = shown.groupBy(*map(_column, named)).agg(sf.max_by(row, "pane_seq").alias("_last")).select("_last.*")
    rows = last.alias("t").join(gone.alias("k"), same_key(named), "left_anti")
    return rows, fired.select(*map(_column, named)).union(gone).distinct()


def _changes(into: Table, rows: DataFrame, touched: DataFrame, named: Sequence[str]) -> DataFrame:
    there = into.read(rows.sparkSession)
    kinds = sf.when(sf.col("_old").isNull(), sf.array(sf.lit("insert")))
    kinds = kinds.when(sf.col("_new").isNull(), sf.array(sf.lit("delete")))
    kinds = kinds.when(
        ~sf.col("_old").eqNullSafe(sf.col("_new")), sf.array(sf.lit("update_before"), sf.lit("update_after"))
    )
    new = rows.select(*map(_column, named), sf.struct(*map(_column, rows.columns)).alias("_new"))
    if there is None:
        old = new.select(*map(_column, named), sf.col("_new").alias("_old")).limit(0)
    else:
        replaced = there.alias("t").join(touched.alias("k"), same_key(named), "left_semi")
        cells = [_column(name).cast(rows.schema[name].dataType).alias(name) for name in rows.columns]
        old = replaced.select(*map(_column, named), sf.struct(*cells).alias("_old"))
    both = old.alias("t").join(new.alias("k"), same_key(named), "full_outer").select("t._old", "k._new")
    each = both.select("_old", "_new", sf.explode(kinds).alias(CHANGE))
    row = sf.when(sf.col(CHANGE).isin("delete", "update_before"), sf.col("_old")).otherwise(sf.col("_new"))
    return each.select(CHANGE, row.alias("_row")).select(CHANGE, "_row.*")


@explained("changelog(panes)")
def changelog(panes: DataFrame) -> DataFrame:
    """Turns panes into changes of a table, for sinks that accept changes.

    - ``panes``: the result of ``windowed(..., ids=True)``, or of several windows :func:`together`.

    The first column, ``change``, is ``insert`` for a pane's first firing, ``update_after`` for a later one, and
    ``delete`` for a pane that was merged into another one. A ``delete`` has the keys and ``pane_id``; its other columns
    are null. (Flink writes ``+I``, ``+U`` and ``-D``.) The other columns are those of :func:`flat`; the keys and
    ``pane_id`` are the key of a row. Late rows are omitted.

    As in Flink's upsert changelog there is no ``update_before`` (``-U``), because a stream of firings does not have
    the old row. ``upsert(panes, into=..., changes=...)`` reads it from the table.

    Raises the errors of :func:`upsert` for ``panes``.

    >>> changelog(panes).columns  # doctest: +SKIP
    ['change', 'k', 'window_start', 'window_end', 'pane_firing', 'pane_seq', 'pane_id', 'n']
    """
    keys = _keys_of(panes, "changelog()")
    plain = _columns_of(panes.where("pane.firing NOT IN ('late', 'ahead')"))
    columns = [field for field in plain.schema.fields if field.name != _MERGED]
    if CHANGE in plain.columns:
        raise InvalidArgumentError(
            f"The panes have a column {CHANGE!r}, as the changelog would have. Give it another name with .alias('...')."
        )

    def removed(gone: Column) -> Column:
        def value(name: str, kind: DataType) -> Column:
            if name == ID:
                return gone
            return _column(name) if name in keys else sf.lit(None).cast(kind)

        values = [value(field.name, field.dataType).alias(field.name) for field in columns]
        return sf.struct(sf.lit("delete").alias(CHANGE), *values)

    kind = sf.when(sf.col("pane_seq") == 0, "insert").otherwise("update_after")
    fired = sf.struct(kind.alias(CHANGE), *(_column(field.name) for field in columns))
    changes = sf.concat(sf.transform(_MERGED, removed), sf.array(fired))
    return plain.select(sf.explode(changes).alias("_change")).select("_change.*")


def _keys_of(panes: DataFrame, function: str) -> list[str]:
    """The columns that distinguish panes with the same id."""
    require_dataframe(panes, f"{function} was given")
    return jvm.pane_keys(panes)


def _columns_of(panes: DataFrame) -> DataFrame:
    """The columns of a table of panes, and the ids of merged panes."""
    return flat(panes.drop("late_row"))


def _column(name: str) -> Column:
    return sf.col(quoted(name))
