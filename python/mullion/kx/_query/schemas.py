"""The columns of windows whose records come from a Python function.

A query needs them before it starts. The ``schema=`` of the function has priority. Without it, the functions before the
window run once on the driver, over the first records of the readers, or over no records if there are none yet::

    reader      first 1,000 records
    map         called with them                  x: double
    window      has                               x: double, recorded next to the checkpoint

The recorded columns never change. The workers compare every batch with them, and a batch with other columns fails the
query: no value is cast to a type that only resembles its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, final

import pyarrow as pa
import pyspark.sql.types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from mullion._keyed.memory import MemoryStore
from mullion._program.manifest import Manifest
from mullion._util.files import reading
from mullion._util.spark_versions import IN_UTC
from mullion.errors import InvalidArgumentError, MullionError
from mullion.kx._graph import Graph
from mullion.kx._operators import Filter, Function, Merge, Node, Reader, Split, Union
from mullion.kx._query.batches import Batch, Meta
from mullion.kx._query.host import PipelinesHost
from mullion.kx._query.sources import SAMPLED, FromCallback, FromExpr, Spool
from mullion.kx._query.worker import TIME, Step
from mullion.kx._window_spec import Window
from mullion.topics import _types
from mullion.topics._schemas import spark_schema


@final
class Schemas:
    """The input schemas of the windows of one query."""

    def __init__(self, app: PipelinesHost, graph: Graph, folder: Path) -> None:
        self._app = app
        self._graph = graph
        self._folder = folder

    def of(self, window: Node, *, timed: bool = True) -> T.StructType:
        """The columns of a window's input; with ``timed`` also the column of a ``time_assigner``."""
        manifest, name = Manifest(self._folder), self._graph.name(window)
        columns: dict[str, Any] = manifest.read("columns", dict) or {}
        if name not in columns:
            columns[name] = (self._declared_schema(window) or self._learnt(window)).jsonValue()
            manifest.write("columns", columns)
        with reading(manifest.file):
            schema = T.StructType.fromJson(columns[name])
        assert isinstance(window.operator, Window)
        timed = timed and window.operator.time_assigner is not None
        return schema.add(TIME, T.TimestampType()) if timed else schema

    def _declared_schema(self, window: Node) -> T.StructType | None:
        """The ``schema=`` of the last function that may change columns."""
        node = window.before
        while node is not None and isinstance(node.operator, (Filter, Split)):
            node = node.before
        operator = None if node is None else node.operator
        if isinstance(operator, Function) and operator.schema is not None:
            return spark_schema(operator.schema)
        return None

    def _learnt(self, window: Node) -> T.StructType:
        assert window.before is not None
        failures: list[MullionError] = []
        for with_records in (True, False):
            try:
                results = [batch.data for batch in self._batches(window.before, with_records)]
            except MullionError as failed:
                failures.append(failed)
                continue
            tables = [table for data in results for table in (data if isinstance(data, list) else [data])]
            example = next((each for each in tables if each.num_rows), tables[0] if tables else None)
            if (
                example is not None
                and example.column_names
                and not any(pa.types.is_null(kind) for kind in example.schema.types)
            ):
                try:
                    return T.StructType(_types.nullable(_types.schema_of(example.schema)).fields)  # type: ignore[attr-defined]
                except _types.UnstorableError as no_type:
                    raise InvalidArgumentError(
                        f"{self._what(window)} would have a column of the Arrow type {no_type}, which Spark has none "
                        "for. Cast it in the function before, for instance to int64 or string."
                    ) from None
        why = f" They failed when they were tried: {failures[0]}" if failures else ""
        raise InvalidArgumentError(
            f"{self._what(window)} needs its columns before the first record arrives. The existing records do not "
            f"show what the functions before it return.{why} Pass schema= to the last of them, as in "
            "sp.map(function, schema='time timestamp, price double')."
        )

    def _what(self, window: Node) -> str:
        return f"{self._graph.name(window)} ({window.operator.where})"

    def _batches(self, node: Node, with_records: bool) -> Iterable[Batch]:
        """The output of a node for the first records, on the driver."""
        operator, name = node.operator, self._graph.name(node)
        if isinstance(operator, Reader):
            return [Batch(table, Meta(0)) for table in self._sample(node, operator, name, with_records)]
        assert node.before is not None
        before = self._batches(node.before, with_records)
        if isinstance(operator, Window):
            shown = [
                each if isinstance(each.data, list) or not operator.mixed_schemas else _in_list(each) for each in before
            ]
            times = (0, max(operator.size_us, operator.size)) if operator.clocked else (0, 1)
            return [Batch(each.data, Meta(0, times, operator.clocked)) for each in shown]
        if isinstance(operator, Split):
            return before
        if isinstance(operator, Union):
            return [*before, *self._batches(operator.other.ends[0], with_records)]
        if isinstance(operator, Merge):
            right = self._batches(operator.other.ends[0], with_records)
            before = [*before, *(Batch(each.data, Meta(0, right=True)) for each in right)]
        assert isinstance(operator, Function)
        return list(Step(operator, name).run(iter(before), MemoryStore()))

    def _sample(self, node: Node, reader: Any, name: str, with_records: bool) -> list[pa.Table]:
        if isinstance(reader, (FromExpr, FromCallback)):
            tables = Spool(self._app, name, is_mixed=self._graph.is_mixed(node)).sample()
            if not tables and isinstance(reader, FromCallback) and reader.schema is not None:
                tables = [to_arrow_schema(spark_schema(reader.schema), **IN_UTC).empty_table()]
        else:
            records = reader.sample(self._app, self._app.spark, name)
            tables = [] if records is None else [records]
            if (not any(table.num_rows for table in tables) and reader.kind != "from_topic") or not tables:
                rows = reader.stream(self._app, self._app.spark, self._folder, name)
                tables = [to_arrow_schema(rows.schema, **IN_UTC).empty_table()]
        return [table.slice(0, SAMPLED if with_records else 0) for table in tables]


def _in_list(batch: Batch) -> Batch:
    return Batch([batch.data], batch.meta)
