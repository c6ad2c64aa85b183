"""Python functions over Arrow batches with durable state of each shard, the base of Mullion's stateful packages.

One stage, :func:`stateful_map`::

    rows - [shuffle by shard] - function(batches, state) -> batches

Two stages in one task, with windows between them and one state for both, :func:`staged`::

    rows - [shuffle by shard] - process(batches, state) - windows in the JVM - callbacks(firings, state) -> batches

In each batch and partition ``process`` runs to its end before any pane fires; then ``callbacks`` gets all firings of
the batch, early ones before closes. There is no shuffle in between: the rows of a window stay in their partition, and
so do its panes. The key of each window must therefore include all columns of the shard, under whatever names; otherwise
two partitions may each have a pane of one key.

State is written with the micro-batch: committed state survives a crash, and a retried batch changes nothing twice.
Functions are pickled and run in Spark's Python workers, where ``mullion`` must be installed.

The function of :func:`stateful_map`, and ``process``, are called in a partition that has rows in this batch or a due
timer; ``callbacks`` in one where a pane fired. They return an iterator (a generator, a list), or ``None`` for no
output. Their errors fail the query as :class:`mullion.errors.FunctionError`, with file and line; errors of
:mod:`mullion.errors` are not wrapped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mullion._bridge import dispatch, jvm
from mullion._bridge.columns import ColumnOrName, field_of, require_dataframe
from mullion._keyed.stage import Firings, Stage
from mullion._keyed.state import State
from mullion._util import checkpoints
from mullion._util.checks import require_bool
from mullion._util.spark_versions import IN_UTC
from mullion.errors import InvalidArgumentError

__all__ = ["Branch", "Firings", "State", "keyed_map", "read_state", "staged", "stateful_map"]


Function: TypeAlias = Callable[[Iterator[pa.RecordBatch], State], Iterable[pa.RecordBatch] | None]
Process: TypeAlias = Callable[
    [Iterator[pa.RecordBatch], State], Iterable[pa.RecordBatch | tuple[str, pa.RecordBatch]] | None
]
Callbacks: TypeAlias = Callable[[Iterator[Firings], State], Iterable[pa.RecordBatch] | None]


@dataclass(frozen=True)
class Branch:
    """A window between two stages.

    - ``schema``: of the rows that ``process`` yields for it, a ``StructType`` or DDL.
    - ``panes``: schemas a streaming DataFrame of ``schema``, returns the result of ``windowed(...)`` with ``.agg(...)``
      or ``.collect(...)``. It may only use operations without a shuffle, such as ``withWatermark``, ``withColumn`` and
      ``where``.
    - ``clock``: windows with the same name share an event clock, the latest of their watermarks; with ``None`` a window
      has its own. The query's is the minimum of all clocks: one without rows holds the others back.
    """

    schema: StructType | str
    panes: Callable[[DataFrame], DataFrame]
    clock: str | None = None


def stateful_map(
    df: DataFrame,
    function: Function,
    schema: StructType | str,
    *,
    shard_by: ColumnOrName | Sequence[ColumnOrName] = (),
    wall_timers: bool = False,
    passing: bool = False,
    begins: bool = False,
    folds: str | None = None,
    flow: str | None = None,
    keys: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Runs ``function`` over the rows of each shard partition, with state that outlives the batch.

    - ``df``: a stream.
    - ``function(batches, state)``: gets the rows as an iterator of Arrow batches, with times in UTC, and a
      :class:`State`; yields Arrow batches (or tables) of ``schema``, with columns matched by name.
    - ``schema``: a ``StructType`` or DDL.
    - ``shard_by``: columns by whose hash rows are distributed; the function gets all rows of a shard, in one task.
      Empty for one shard: all rows in one task.
    - ``wall_timers``: whether timers by the wall clock are used.
    - ``passing``: whether the query never restarts from its checkpoint. Otherwise a restart runs a batch first, for
      timers that fell due in the meantime.
    - ``begins``: whether the function is called in the first partition in any case, with rows or without, until it has
      set a timer by the wall clock there.
    - ``folds``, ``flow``: the part that the JVM runs first, for ``mullion.faust`` and ``mullion.bytewax``; the function
      gets the remaining rows.
    - ``keys``: the encoding of shards in the keys of records, in the form of Scala's ``RecordKeys``; without it, state
      in several shards keeps its number of partitions.

    Raises :class:`InvalidArgumentError` and :class:`UnknownColumnError` for invalid arguments, and
    :class:`UnsupportedError` for a batch DataFrame.
    """
    shards = _checked(df, shard_by, wall_timers)
    rows = _schema(schema, "schema")
    stage = _stage(function, "function", "the function", rows)
    request = jvm.Stateful(df.sparkSession, stage, rows, shards, wall_timers, passing)
    if begins:
        request.begin()
    if folds is not None:
        request.add_folds(folds)
    if flow is not None:
        request.add_flow(flow)
    if keys is not None:
        request.add_keys(json.dumps(keys))
    return request.over(df)


def keyed_map(
    df: DataFrame, function: Function, schema: StructType | str, shard_by: Sequence[ColumnOrName] = ()
) -> DataFrame:
    """:func:`stateful_map` without options, which works on Spark Connect too."""
    shards = [column if isinstance(column, Column) else col(column) for column in _checked(df, shard_by, False)]
    rows = _schema(schema, "schema")
    return dispatch.keyed(df, _stage(function, "function", "the function", rows), rows, shards)


def staged(
    df: DataFrame,
    process: Process,
    windows: Mapping[str, Branch],
    callbacks: Callbacks,
    schema: StructType | str,
    *,
    shard_by: ColumnOrName | Sequence[ColumnOrName] = (),
    wall_timers: bool = False,
) -> DataFrame:
    """Runs ``process``, then windows over its output, then ``callbacks``: in one task, with one state.

    - ``process(batches, state)``: like the function of :func:`stateful_map`. It yields output, of ``schema``, or pairs
      of a window's name and rows for that window, of its ``schema``, in any order.
    - ``windows``: by name, which identifies their state: they may be reordered and added, and the state of a removed
      one is kept until it returns.
    - ``callbacks(firings, state)``: gets an iterator of :class:`Firings`, first the early ones of all windows and last
      their closes, and the state after ``process``; yields batches of ``schema``.

    Other parameters as in :func:`stateful_map`. The output of a batch is that of ``process``, then that of
    ``callbacks``.

    The clock of ``state`` is the minimum of the watermarks of ``df`` and of the windows' rows, if they have any.
    """
    shards = _checked(df, shard_by, wall_timers)
    rows = _schema(schema, "schema")
    if not isinstance(windows, Mapping) or not windows:
        raise InvalidArgumentError(
            f"windows={windows!r} names no window. Give a dict of names and Branch(schema, panes), or use stateful_map."
        )
    schemas = {}
    for name, branch in windows.items():
        if not isinstance(name, str) or not isinstance(branch, Branch):
            raise InvalidArgumentError(f"windows has {name!r}: {branch!r}, and is a dict of names and Branches.")
        schemas[name] = _schema(branch.schema, f"the schema of the window {name!r}")
    first = _stage(process, "process", "process", rows, schemas)
    request = jvm.Stateful(df.sparkSession, first, rows, shards, wall_timers)
    for number, (name, branch) in enumerate(windows.items(), start=1):
        panes = branch.panes(request.rows_of(number, schemas[name]))
        require_dataframe(panes, f"the window {name!r} gave")
        request.add_window(name, panes, branch.clock)
    request.add_callbacks(_stage(callbacks, "callbacks", "callbacks", rows, of_firings=tuple(windows)))
    return request.over(df)


def read_state(
    checkpoint: str | os.PathLike[str], *, operator: int | None = None, spark: SparkSession | None = None
) -> DataFrame:
    """The records in a checkpoint, as of its last committed batch: ``shard`` int, ``key`` binary, ``value`` binary.

    - ``checkpoint``: the query's ``checkpointLocation``. The query may be running; nothing is written.
    - ``operator``: the stateful operator, by Spark's id; ``None`` when only one is of this kind.
    - ``spark``: the session to read in; the active one by default.

    Raises :class:`InvalidArgumentError` when there is no such checkpoint, operator or session.
    """
    path = checkpoints.path_of(checkpoint)
    number = checkpoints.operator_of(operator)
    return jvm.read_state(checkpoints.session_of(spark), path, number)


def _checked(df: DataFrame, shard_by: Any, wall_timers: bool) -> tuple[ColumnOrName, ...]:
    require_dataframe(df, "a function with state was given")
    shards = (shard_by,) if isinstance(shard_by, (str, Column)) else shard_by
    if not isinstance(shards, (list, tuple)) or not all(isinstance(column, (str, Column)) for column in shards):
        raise InvalidArgumentError(
            f"shard_by={shard_by!r} is not a column or a list of columns. Write shard_by='region' or "
            "shard_by=['region', 'sensor'], or leave it out for one shard."
        )
    for column in shards:
        field_of(df, f"shard_by={column!r}", column)
    require_bool("wall_timers", wall_timers)
    return tuple(shards)


def _schema(schema: object, what: str) -> StructType:
    if isinstance(schema, str):
        schema = StructType.fromDDL(schema)
    if not isinstance(schema, StructType) or not schema.fields:
        raise InvalidArgumentError(
            f"{what} is {schema!r}, which is not a schema of columns. Write it as DDL, such as 'key string, n bigint', "
            "or as a StructType."
        )
    return schema


def _stage(
    function: Any,
    name: str,
    role: str,
    output: StructType,
    windows: Mapping[str, StructType] | None = None,
    of_firings: tuple[str, ...] | None = None,
) -> Stage:
    if not callable(function):
        raise InvalidArgumentError(f"{name}={function!r} ({type(function).__name__}) is not a function.")
    of_windows = tuple((window, _arrow(schema)) for window, schema in (windows or {}).items())
    return Stage(function, role, _arrow(output), of_windows, of_firings)


def _arrow(schema: StructType) -> pa.Schema:
    """The schema in Arrow, with all columns nullable, because the output of a function is unknown."""
    return pa.schema([field.with_nullable(True) for field in to_arrow_schema(schema, **IN_UTC)])
