"""Python functions over Arrow batches with durable state of each shard: what packages of ours with state stand on.

One stage, :func:`stateful_map`::

    rows - [shuffle by shard] - function(batches, state) -> batches

Two stages in one task, with windows between them and one state for both, :func:`staged`::

    rows - [shuffle by shard] - process(batches, state) - windows in the JVM - callbacks(firings, state) -> batches

In each batch and partition ``process`` runs to its end before any pane fires; then ``callbacks`` gets all firings of
the batch, early ones before closes. There is no shuffle between: the rows that a window is given stay in the partition
that they were made in, and so do its panes. So each window must be keyed by all columns that say the shard, under
whatever names, or two partitions may each have a pane of one key.

State is written with the micro-batch: what was committed survives a crash, and a batch that is tried again changes
nothing twice. Functions are pickled and run in Spark's Python workers, where ``mullion`` must be installed.

The function of :func:`stateful_map`, and ``process``, are called in a partition that has rows in this batch or a timer
that is due; ``callbacks`` in one where a pane fired. They return an iterator (a generator, a list), or ``None`` for no
output. Their errors fail the query as :class:`mullion.errors.FunctionError`, which says file and line; an error that is
one of :mod:`mullion.errors` already comes out as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mullion import _checkpoints, _jvm
from mullion._checks import require_bool
from mullion._columns import ColumnOrName, field_of, require_dataframe
from mullion._lines import IN_UTC
from mullion._stateful.stage import Firings, Stage
from mullion._stateful.state import State
from mullion.errors import InvalidArgumentError

__all__ = ["Branch", "Firings", "State", "read_state", "staged", "stateful_map"]


Function: TypeAlias = Callable[[Iterator[pa.RecordBatch], State], Iterable[pa.RecordBatch] | None]
Process: TypeAlias = Callable[
    [Iterator[pa.RecordBatch], State], Iterable[pa.RecordBatch | tuple[str, pa.RecordBatch]] | None
]
Callbacks: TypeAlias = Callable[[Iterator[Firings], State], Iterable[pa.RecordBatch] | None]


@dataclass(frozen=True)
class Branch:
    """A window between two stages.

    - ``schema``: of the rows that ``process`` gives it, a ``StructType`` or DDL.
    - ``panes``: makes panes of them: given a streaming DataFrame of ``schema`` it returns what ``windowed(...)`` with
      ``.agg(...)`` or ``.collect(...)`` makes of it. Between the two it may only do what needs no shuffle, such as
      ``withWatermark``, ``withColumn`` and ``where``.
    - ``clock``: windows that give the same name share an event clock, the latest of their watermarks; with ``None`` a
      window has its own. The query's is the least of all clocks: one whose rows do not come holds the others.
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
      :class:`State`; yields Arrow batches (or tables) of ``schema``, their columns found by name.
    - ``schema``: a ``StructType`` or DDL.
    - ``shard_by``: columns by whose hash rows are distributed; the function gets all rows of a shard, in one task.
      Nothing for one shard: all rows in one task.
    - ``wall_timers``: whether timers by the wall clock are used.
    - ``passing``: whether the query never starts again from its checkpoint. One that does runs a batch at first, for
      what has fallen due while it was down.
    - ``begins``: whether the function is called in the first partition in any case, with rows or without, until it has
      set a timer by the wall clock there.
    - ``folds``, ``flow``: what the JVM does of it first, for ``mullion.faust`` and ``mullion.bytewax``; the function
      gets the rows that are left.
    - ``keys``: what the keys of records say of the shards that these are of, as ``RecordKeys`` has it in Scala; without
      it state in several shards keeps the number of partitions that it has.

    Raises :class:`InvalidArgumentError` and :class:`UnknownColumnError` for what cannot be right, and
    :class:`UnsupportedError` for a batch DataFrame.
    """
    shards = _checked(df, shard_by, wall_timers)
    rows = _schema(schema, "schema")
    stage = _stage(function, "function", "the function", rows)
    asked = _jvm.Stateful(df.sparkSession, stage, rows, shards, wall_timers, passing)
    if begins:
        asked.begin()
    if folds is not None:
        asked.add_folds(folds)
    if flow is not None:
        asked.add_flow(flow)
    if keys is not None:
        asked.add_keys(json.dumps(keys))
    return asked.over(df)


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
    """Runs ``process``, then windows over what it made, then ``callbacks``: in one task, with one state.

    - ``process(batches, state)``: as the function of :func:`stateful_map`. What it yields is output, of ``schema``, or
      a pair of a window's name and rows for that window, of its ``schema``. Both may come in any order.
    - ``windows``: by their names, by which their state is found again: they may change places, new ones may come, and
      the state of one that is gone is kept for when it is back.
    - ``callbacks(firings, state)``: gets an iterator of :class:`Firings`, first the early ones of all windows and last
      their closes, and the state as ``process`` left it; yields batches of ``schema``.

    The rest as in :func:`stateful_map`. The output of a batch is that of ``process``, then that of ``callbacks``.

    The clock of ``state`` is the least of the watermarks of ``df`` and of the windows' rows, where they have any.
    """
    shards = _checked(df, shard_by, wall_timers)
    rows = _schema(schema, "schema")
    if not isinstance(windows, Mapping) or not windows:
        raise InvalidArgumentError(
            f"windows={windows!r} names no window. Give a dict of names and Branch(schema, panes), or use stateful_map."
        )
    given = {}
    for name, branch in windows.items():
        if not isinstance(name, str) or not isinstance(branch, Branch):
            raise InvalidArgumentError(f"windows has {name!r}: {branch!r}, and is a dict of names and Branches.")
        given[name] = _schema(branch.schema, f"the schema of the window {name!r}")
    first = _stage(process, "process", "process", rows, given)
    asked = _jvm.Stateful(df.sparkSession, first, rows, shards, wall_timers)
    for number, (name, branch) in enumerate(windows.items(), start=1):
        panes = branch.panes(asked.rows_of(number, given[name]))
        require_dataframe(panes, f"the window {name!r} gave")
        asked.add_window(name, panes, branch.clock)
    asked.add_callbacks(_stage(callbacks, "callbacks", "callbacks", rows, of_firings=tuple(windows)))
    return asked.over(df)


def read_state(
    checkpoint: str | os.PathLike[str], *, operator: int | None = None, spark: SparkSession | None = None
) -> DataFrame:
    """The records in a checkpoint, as of its last committed batch: ``shard`` int, ``key`` binary, ``value`` binary.

    - ``checkpoint``: the query's ``checkpointLocation``. The query may be running; nothing is written.
    - ``operator``: which of the query's stateful operators, by Spark's id; ``None`` when only one is of this kind.
    - ``spark``: the session to read in; the active one where none is given.

    Raises :class:`InvalidArgumentError` when there is no such checkpoint, operator or session.
    """
    path = _checkpoints.path_of(checkpoint)
    number = _checkpoints.operator_of(operator)
    return _jvm.read_state(_checkpoints.session_of(spark), path, number)


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
    """The schema in Arrow, where every column may be null: what a function makes is not known."""
    return pa.schema([field.with_nullable(True) for field in to_arrow_schema(schema, **IN_UTC)])
