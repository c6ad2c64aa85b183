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

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from mullion._state import State

__all__ = ["Branch", "Firings", "State", "read_state", "staged", "stateful_map"]


class Firings(NamedTuple):
    """Some firings of one window, all of one kind: what ``callbacks`` is given, in this order of kinds.

    - ``window``: its name in ``windows=``.
    - ``firing``: ``"late"``, ``"running"``, ``"early"``, ``"on_time"``, ``"update"`` or ``"close"``.
    - ``batch``: a row for each, with the columns of the panes: the keys, ``window``, ``pane``, then the aggregates.
      Large numbers of them come in several of these.
    """

    window: str
    firing: str
    batch: pa.RecordBatch


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
    """

    schema: StructType | str
    panes: Callable[[DataFrame], DataFrame]


def stateful_map(
    df: DataFrame,
    function: Function,
    schema: StructType | str,
    *,
    shard_by: Column | str | Sequence[Column | str] = (),
    state: str = "rocksdb",
    wall_timers: bool = False,
) -> DataFrame:
    """Runs ``function`` over the rows of each shard partition, with state that outlives the batch.

    - ``df``: a stream.
    - ``function(batches, state)``: gets the rows as an iterator of Arrow batches, with times in UTC, and a
      :class:`State`; yields Arrow batches (or tables) of ``schema``, their columns found by name.
    - ``schema``: a ``StructType`` or DDL.
    - ``shard_by``: columns by whose hash rows are distributed; the function gets all rows of a shard, in one task.
      Nothing for one shard: all rows in one task.
    - ``state``: ``"rocksdb"``, ``"hdfs"`` or ``"memory"``, as in :func:`mullion.windowed`.
    - ``wall_timers``: whether timers by the wall clock are used.

    Raises :class:`InvalidArgumentError` and :class:`UnknownColumnError` for what cannot be right, and
    :class:`UnsupportedError` for a batch DataFrame.
    """
    raise NotImplementedError


def staged(
    df: DataFrame,
    process: Process,
    windows: Mapping[str, Branch],
    callbacks: Callbacks,
    schema: StructType | str,
    *,
    shard_by: Column | str | Sequence[Column | str] = (),
    state: str = "rocksdb",
    wall_timers: bool = False,
) -> DataFrame:
    """Runs ``process``, then windows over what it made, then ``callbacks``: in one task, with one state.

    - ``process(batches, state)``: as the function of :func:`stateful_map`. What it yields is output, of ``schema``, or
      a pair of a window's name and rows for that window, of its ``schema``. Both may come in any order.
    - ``windows``: by their names. Their state is found again by their order, so it must not change.
    - ``callbacks(firings, state)``: gets an iterator of :class:`Firings`, first the early ones of all windows and last
      their closes, and the state as ``process`` left it; yields batches of ``schema``.

    The rest as in :func:`stateful_map`. The output of a batch is that of ``process``, then that of ``callbacks``.

    The clock of ``state`` is the least of the watermarks of ``df`` and of the windows' results, where they have any.
    """
    raise NotImplementedError


def read_state(
    checkpoint: str | os.PathLike[str], *, operator: int | None = None, spark: SparkSession | None = None
) -> DataFrame:
    """The records in a checkpoint, as of its last committed batch: ``shard`` int, ``key`` binary, ``value`` binary.

    - ``checkpoint``: the query's ``checkpointLocation``. The query may be running; nothing is written. Of state in
      memory the newest snapshot is read.
    - ``operator``: which of the query's stateful operators, by Spark's id; ``None`` when only one is of this kind.
    - ``spark``: the session to read in; the active one where none is given.

    Raises :class:`InvalidArgumentError` when there is no such checkpoint, operator or session.
    """
    raise NotImplementedError


