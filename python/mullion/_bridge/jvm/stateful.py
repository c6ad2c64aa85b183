"""Functions of Python with state: building their plan, and the records of their state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, StructType

from mullion._bridge.jvm.entry import facade
from mullion._bridge.jvm.objects import dataframe_of, internal, java_columns


class Stateful:
    """A builder for functions with state, and the windows between them."""

    def __init__(
        self,
        spark: SparkSession,
        process: Callable[..., Any],
        schema: StructType,
        shards: Sequence[Column | str],
        wall_timers: bool,
        passing: bool = False,
    ) -> None:
        self._spark = spark
        self._facade = facade(spark)
        self._request = self._facade.stateful(_function(spark, process), schema.json())
        self._request = self._request.withShards(java_columns(spark, shards))
        if wall_timers:
            self._request = self._request.withWallTimers()
        if passing:
            self._request = self._request.withPassing()

    def begin(self) -> None:
        """Calls ``process`` in the first partition until it has set a timer by the wall clock there."""
        self._request = self._request.withBegins()

    def add_folds(self, folds: str) -> None:
        """Sets the part of ``process`` that runs in the JVM."""
        self._request = self._request.withFolds(folds)

    def add_flow(self, flow: str) -> None:
        """Sets a window's step of a dataflow that runs in the JVM, as far as it is supported."""
        self._request = self._request.withFlow(flow)

    def add_keys(self, keys: str) -> None:
        """Sets the encoding of shards in the keys of records, as JSON."""
        self._request = self._request.withKeys(keys)

    def rows_of(self, window: int, schema: StructType) -> DataFrame:
        """The rows of ``process`` for a window, by its number from 1."""
        session = internal(self._spark, "_jsparkSession")
        return dataframe_of(self._facade.statefulRows(session, window, schema.json()), self._spark)

    def add_window(self, name: str, panes: DataFrame, clock: str | None) -> None:
        """Adds a window; those with one ``clock`` share it."""
        self._request = self._request.withWindow(name, internal(panes, "_jdf"), clock or "")

    def add_callbacks(self, callbacks: Callable[..., Any]) -> None:
        """Sets the function for the firings of all windows."""
        self._request = self._request.withCallbacks(_function(self._spark, callbacks))

    def over(self, df: DataFrame) -> DataFrame:
        """The functions over the rows of a stream."""
        return dataframe_of(self._facade.statefulOver(internal(df, "_jdf"), self._request), self._spark)


def flow_inputs(spark: SparkSession, folder: str, gathers: bool) -> DataFrame:
    """The entries of the log of a dataflow's inputs, as a stream: ``number``, ``data``."""
    return dataframe_of(facade(spark).flowInputs(internal(spark, "_jsparkSession"), folder, gathers), spark)


def flow_lines(
    spark: SparkSession, path: str, start: int, delimiter: str, batch_size: int, most: int
) -> tuple[int, int]:
    """The number of lines of a file, from an offset on, that Python is certain to read as that many; and their end."""
    end, lines = facade(spark).flowLines(path, start, delimiter, batch_size, most)
    return int(end), int(lines)


def flow_entries(df: DataFrame, process: Callable[..., Any], schema: StructType, program: str) -> DataFrame:
    """The steps of a dataflow over the entries of its log, in the JVM if supported, else by ``process``."""
    java = facade(df.sparkSession).flowEntries(
        internal(df, "_jdf"), _function(df.sparkSession, process), schema.json(), program
    )
    return dataframe_of(java, df.sparkSession)


def read_state(spark: SparkSession, checkpoint: str, operator: int) -> DataFrame:
    """The records of functions' state in a checkpoint."""
    return dataframe_of(facade(spark).readState(internal(spark, "_jsparkSession"), checkpoint, operator), spark)


def _function(spark: SparkSession, function: Callable[..., Any]) -> Any:
    """A pickled function in the form of ``mapInArrow``, without its check for pandas, which it never uses."""
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    frame = StructType().add("kind", IntegerType()).add("data", BinaryType())
    udf = UserDefinedFunction(
        function,
        returnType=frame,
        name=getattr(function, "__name__", type(function).__name__),
        evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
    )
    return internal(udf, "_judf")
