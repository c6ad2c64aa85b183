"""Infers the schemas of the rows that ``process`` passes to windows, from the first rows.

A query needs its types before it starts. A call of ``process`` without rows gives a guess; if it gives nothing, the
types of the topic are the guess. A worker compares the guess with the first rows. If they differ, it fails the batch
with their types. The driver records the types next to the checkpoint and restarts the query::

    call with no rows    first rows     the window has
    x: int64             x: int64       int64
    nothing, or null     x: string      string, recorded: the query starts once more
    x: string            x: int64       int64, recorded likewise

The first rows may be in any batch: until then the window has no state, and its schema may change. Windows that have
rows are also recorded next to the checkpoint, before their first batch is committed. From then on a window's types are
fixed. Values that fit the types are accepted, wider types included; others fail the query. No value is cast to a type
that only resembles its own.
"""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from mullion._program.manifest import Manifest
from mullion._program.part_names import folder_name
from mullion._util.files import reading
from mullion._util.spark_versions import IN_UTC
from mullion.errors import InvalidArgumentError, UnknownColumnError, WindowInputError
from mullion.turbine._plans.topic_rows import own_columns
from mullion.turbine._process.subscription import Subscription
from mullion.turbine._process.window_rows import LEARNT, ROW, WindowRows, fit_into, has_null, plain, text_of, types_of
from mullion.turbine.functions import column_of
from mullion.turbine.state import TurbineState
from mullion.turbine.windowing import BUILDING, UPDATING, TurbineWindow


class _Rehearsed:
    """The subscription of windows that a call of ``process`` without rows makes."""

    def __init__(self, partition_key: str | None) -> None:
        self.partition_key = partition_key

    def add(self, window: TurbineWindow) -> None:
        """Ignores the window."""


def rows_given(subscription: Subscription, topic: DataFrame, folder: Path) -> dict[str, WindowRows]:
    """The input of each window, as far as it is known; ``folder`` is the query's."""
    topic_schema = to_arrow_schema(topic.select(*map(column_of, own_columns(topic))).schema, **IN_UTC)
    types_of_empty, noted = _types_without_rows(subscription, topic_schema), _recorded_types(folder)
    fresh = unbegun(folder, subscription.windows)
    if not _has_run(folder):
        _note_begun(folder, ())
    rows: dict[str, WindowRows] = {}
    for name, window in subscription.windows.items():
        spec, types, guessed = window.spec, dict[str, pa.DataType](), set[str]()
        likely = _likely(window, topic, topic_schema)
        for needed in spec.needs:
            kind = noted.get(name, {}).get(needed, types_of_empty.get(name, {}).get(needed))
            if kind is None and needed not in topic_schema.names and types_of_empty.get(name):
                raise UnknownColumnError(
                    f"The window {name!r} needs the column {needed!r}, which no row of the topic "
                    f"{subscription.options.topic!r} has, nor what process gave the window when it was called with a "
                    "batch of no rows. Name the column that it has, or give it in process."
                )
            if needed == spec.time_column:
                # No other type is possible; rows of other types raise an error.
                kind = pa.int64()
            elif kind is None or has_null(kind):
                guessed.add(needed)
                kind = likely.get(needed, pa.null() if kind is None else kind)
            types[needed] = kind
        schema = pa.schema(list(types.items())) if types else ROW
        rows[name] = WindowRows(name, schema, spec.time_column, frozenset(guessed), name in fresh)
    known_types = {f.name: f.type for each in rows.values() for f in each.schema if f.name not in each.guessed}
    return {name: each.with_guesses(known_types) for name, each in rows.items()}


def with_one_type(rows: Mapping[str, WindowRows], folder: Path) -> dict[str, WindowRows]:
    """The input of windows that share columns: a recorded type replaces the guesses for windows without rows.

    If the first rows of such a window have another type, that type is recorded, and the restart finds two types.
    """
    noted = _recorded_types(folder)
    known_types = {name: kind for window in rows for name, kind in noted.get(window, {}).items()}

    def shared(window: str) -> dict[str, pa.DataType]:
        return {name: kind for name, kind in known_types.items() if name not in noted.get(window, {})}

    return {name: each.with_types(shared(name)) if each.learns else each for name, each in rows.items()}


def forget_guesses(folder: Path) -> None:
    """Deletes the types of windows without rows, so that a corrected program is not compared with them."""
    noted = _recorded_types(folder)
    fresh = unbegun(folder, noted)
    _note_types(folder, {window: types for window, types in noted.items() if window not in fresh})


def note(folder: Path, error: BaseException) -> bool:
    """Records the types in an error, for a window without rows so far. Returns True if the query may restart.

    If the window has got rows since the query started, the types must fit those of the rows.
    """
    if not isinstance(error, WindowInputError):
        return False
    text = f"{error}\n{error.jvm_trace}"
    if LEARNT not in text:
        return False
    report, _ = json.JSONDecoder().raw_decode(text, text.index(LEARNT))
    window, types, noted = report["window"], types_of(report["learnt"]), _recorded_types(folder)
    columns = noted.setdefault(window, {})
    if not unbegun(folder, [window]):
        return all(name in columns and fit_into(kind, columns[name]) for name, kind in types.items())
    fresh = {name: kind for name, kind in types.items() if name not in columns}
    if fresh:
        columns.update(fresh)
        _note_types(folder, noted)
        if not _has_run(folder):
            # The checkpoint has no batch: it contains only the guessed types.
            shutil.rmtree(folder / "query", ignore_errors=True)
        # In the query of a state, a window has its own folder and starts anew without it.
        shutil.rmtree(folder / "query" / "state" / "0" / "_windows" / folder_name(window), ignore_errors=True)
    return bool(fresh)


def unbegun(folder: Path, windows: Iterable[str]) -> frozenset[str]:
    """The windows of a query that have no rows in any committed batch."""
    if not _has_run(folder):
        return frozenset(windows)
    begun = _windows_at_start(folder)
    # A query that was killed before its first record may have passed rows to any window.
    return frozenset() if begun is None else frozenset(windows) - begun


def note_begun(folder: Path, windows: Mapping[str, WindowRows]) -> None:
    """Records windows that get rows in a batch, and the types of these rows, before the batch is committed."""
    noted = _recorded_types(folder)
    for name, rows in windows.items():
        if not rows.schema.equals(ROW):
            noted.setdefault(name, {}).update({field.name: field.type for field in rows.schema})
    _note_types(folder, noted)
    _note_begun(folder, {*(_windows_at_start(folder) or ()), *windows})


def forget(checkpoint: Path, window: str) -> None:
    """Deletes the types of a window whose state is deleted, in any query."""
    for file in checkpoint.glob(f"*/{Manifest.NAME}"):
        folder = file.parent
        begun = _windows_at_start(folder) or frozenset()
        if window in begun:
            noted = _recorded_types(folder)
            noted.pop(window, None)
            _note_types(folder, noted)
            _note_begun(folder, begun - {window})


def _note_types(folder: Path, noted: Mapping[str, Mapping[str, pa.DataType]]) -> None:
    Manifest(folder).write("types", {window: text_of(types) for window, types in noted.items()})


def _note_begun(folder: Path, windows: Iterable[str]) -> None:
    Manifest(folder).write("begun", sorted(windows))


def _types_without_rows(subscription: Subscription, schema: pa.Schema) -> dict[str, dict[str, pa.DataType]]:
    """The types that a call of ``process`` without rows gives to each window, on a copy of the subscription."""
    types: dict[str, dict[str, pa.DataType]] = {}

    def update(window: TurbineWindow, batch: pa.RecordBatch) -> None:
        # A type that Spark does not have is unknown here; rows of it raise an error that names it.
        types.setdefault(window.name, {field.name: plain(field.type) or pa.null() for field in batch.schema})

    token = UPDATING.set(update)
    copy = pickle.loads(cloudpickle.dumps(subscription.instance))  # type: ignore[no-untyped-call]  # noqa: S301
    making = BUILDING.set((copy, _Rehearsed(subscription.partition_key)) if subscription.makes_windows else None)
    try:
        copy.process(pa.RecordBatch.from_pylist([], schema=schema), TurbineState())
    except Exception:
        # The types stay unknown until the first rows.
        return types
    finally:
        BUILDING.reset(making)
        UPDATING.reset(token)
    return types


def _likely(window: TurbineWindow, topic: DataFrame, schema: pa.Schema) -> dict[str, pa.DataType]:
    """The topic's types of columns, if the window's aggregates accept them."""
    types = {field.name: field.type for field in schema}
    for part in window.spec.parts.values():
        if part.columns <= types.keys():
            try:
                part.to_column(lambda expression: topic.select(expression.to_column()).schema[0].dataType)
            except (InvalidArgumentError, AnalysisException):
                # ``process`` must change the type of these columns.
                types = {name: kind for name, kind in types.items() if name not in part.columns}
    return types


def _has_run(folder: Path) -> bool:
    return any((folder / "query" / "commits").glob("[0-9]*"))


def _recorded_types(folder: Path) -> dict[str, dict[str, pa.DataType]]:
    manifest = Manifest(folder)
    noted: dict[str, str] = manifest.read("types", dict) or {}
    with reading(manifest.file):
        return {window: types_of(text) for window, text in noted.items()}


def _windows_at_start(folder: Path) -> frozenset[str] | None:
    windows = Manifest(folder).read("begun", list)
    return None if windows is None else frozenset(windows)
