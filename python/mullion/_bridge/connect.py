"""The interface to a server of Spark Connect: requests to the JAR are hints over DataFrames.

``df.hint("mullion", json, *columns)`` is a call, which the server replaces by its plan (``ResolveCalls`` in Scala).
Columns travel in Spark's own form, Python functions too. The server's Mullion errors are converted to
:mod:`mullion.errors`.

A call is resolved whenever its DataFrame is analysed. ``_jvm`` is the equivalent for a session of this process.

In a query function of a declarative pipeline no request to the server is allowed (:mod:`mullion._bridge.pipelines`). A
call is then resolved during the pipeline's analysis, which also reports its errors.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.types import BinaryType, IntegerType, StructType

from mullion._bridge import pipelines
from mullion._bridge.query_errors import (
    FAILED_QUERY,
    FAILED_TASK,
    function_failure,
    is_of_windows,
    other_operators,
    task_failure,
)
from mullion._bridge.request import Description
from mullion._util.install import pip_install
from mullion._util.tracebacks import most_telling
from mullion._version import __version__
from mullion.errors import InvalidArgumentError, MullionError, UnsupportedError, VersionMismatchError, error_of

_HINT: Final = "mullion"
_EXCEPTION: Final = "dev.mullion.MullionException"
_CONDITION: Final = "MULLION_"
# The server removes it from a resolved call. A server without Mullion reports an unknown function.
_GUARD: Final = "mullion_extension_is_not_in_this_session()"

_greeted: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()


def is_remote(thing: object) -> bool:
    """True if a DataFrame, session, column or query belongs to Spark Connect."""
    return any(kind.__module__.startswith("pyspark.sql.connect") for kind in type(thing).__mro__)


def greet(spark: SparkSession) -> None:
    """Checks that the server has this Mullion; one without it treats the hints as misspelt.

    Raises :class:`MullionError` without Mullion, and :class:`VersionMismatchError` for another version.
    """
    translate_errors()
    if pipelines.is_query_function(spark):
        raise UnsupportedError(
            "This is called in a query function of a declarative pipeline, where Spark lets nobody ask the server. "
            "windowed and together go there; call what looks at data or checkpoints outside of the pipeline."
        )
    if spark in _greeted:
        return
    answer = _ask(spark, "version")
    rows = answer.collect() if answer.columns == ["said"] else []
    if not rows:
        raise MullionError(
            f"The Spark Connect server (Spark {spark.version}) has no Mullion, or does not look at hints. Start it "
            f"with --jars mullion-spark-{'.'.join(spark.version.split('.')[:2])}_2.13-{__version__}.jar and --conf "
            "spark.sql.extensions=dev.mullion.MullionExtensions, and leave spark.sql.optimizer.disableHints as it is."
        )
    if rows[0][0] != __version__:
        raise VersionMismatchError(
            f"The Spark Connect server has Mullion {rows[0][0]}, and this Python package is {__version__}. They must "
            f"be the same: {pip_install(version=rows[0][0])}, or start the server with the JAR of {__version__}."
        )
    _greeted[spark] = True


def is_declared(spark: SparkSession) -> bool:
    """True if calls are resolved later, during the analysis of a declarative pipeline."""
    declared = pipelines.is_query_function(spark)
    if declared:
        translate_errors()
    return declared


def check_window(df: DataFrame, request: Description) -> None:
    """Checks a window before its aggregates are known."""
    _analysed(_hinted(df, request.json, *request.columns))


def windowed(df: DataFrame, request: Description) -> DataFrame:
    """The operator over ``df``."""
    if is_declared(df.sparkSession):
        df = pipelines.with_later_watermarks(df, _watermark)
    return _panes(_hinted(df, request.json, *request.columns))


def dropped_before(df: DataFrame) -> list[str]:
    """Warnings about rows that Spark's operators drop before a window over ``df``."""
    return [line[0] for line in _hinted(df, _call("dropped_before")).collect()] if df.isStreaming else []


def together(windows: Mapping[str, DataFrame]) -> DataFrame:
    """Several results of :func:`windowed` in one DataFrame, each under its name."""
    # A hint is over one DataFrame: over a union, which the server splits again.
    over = functools.reduce(DataFrame.union, windows.values())
    return _panes(_hinted(over, _call("together", names=list(windows))))


def asof_join(left: DataFrame, right: DataFrame, request: Mapping[str, Any]) -> DataFrame:
    """The rows of ``left``, each with the row of ``right`` that is nearest in time."""
    # A hint is over one DataFrame: over a union of aliases, which the server splits again.
    over = left.alias("left").union(right.alias("right"))
    return _analysed(_hinted(over, _call("asof_join", **request)))


def windowed_join(left: DataFrame, right: DataFrame, request: Description) -> DataFrame:
    """The rows of both sides that are in the same window."""
    return _analysed(_hinted(left.alias("left").union(right.alias("right")), request.json, *request.columns))


def read_panes(
    spark: SparkSession, checkpoint: str, which: int, panes: DataFrame | None, window: str | None
) -> DataFrame:
    """The open panes of a checkpoint; with ``panes``, with the code of its aggregates."""
    request = {"checkpoint": checkpoint, "operator": which, "window": window}
    return _analysed(_ask(spark, "read_panes", panes, **request))


def open_panes(spark: SparkSession, of: Any, which: int, panes: DataFrame | None, window: str | None) -> DataFrame:
    """The reasons why panes are open, of a query of the server or of a checkpoint."""
    request = {"checkpoint": of} if isinstance(of, str) else {"query": str(of.id)}
    return _analysed(_ask(spark, "open_panes", panes, operator=which, window=window, **request))


def with_arrival(df: DataFrame, batch: str, row: str) -> DataFrame:
    """The rows with their order of arrival in two columns."""
    return _hinted(df, _call("arrival", batch=batch, row=row))


def keyed(df: DataFrame, stage: Callable[..., Any], schema: StructType, shards: Sequence[Column]) -> DataFrame:
    """A Python function with state over the rows of a stream."""
    from pyspark.sql.connect.functions import lit
    from pyspark.sql.connect.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    frame = StructType().add("kind", IntegerType()).add("data", BinaryType())
    function: Any = UserDefinedFunction(stage, frame, stage.__name__, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    # Only the function matters, because the operator calls it directly.
    return _analysed(_hinted(df, _call("keyed", schema=schema.json()), function(lit(0)), *shards))


def recover(spark: SparkSession, checkpoint: str) -> int:
    """Resets a checkpoint that has lost state to an earlier batch. Returns the number of batches to repeat."""
    return int(_ask(spark, "recover", checkpoint=checkpoint).collect()[0][0])


def _watermark(df: DataFrame, time: str, delay: str) -> DataFrame:
    return _hinted(df, _call("watermark", time=time, delay=delay))


def _call(call: str, **arguments: Any) -> str:
    return json.dumps({"call": call, "version": __version__, **arguments})


def _ask(spark: SparkSession, call: str, panes: DataFrame | None = None, **arguments: Any) -> DataFrame:
    rows = spark.range(0) if panes is None else panes
    return _hinted(rows, _call(call, of=panes is not None, **arguments))


def _hinted(df: DataFrame, json: str, *columns: Column) -> DataFrame:
    result = df.hint(_HINT, json, *columns)
    # PySpark assumes that a hint keeps the columns, and copies the cached schema.
    setattr(result, "_cached_schema", None)  # noqa: B010
    return result


def _analysed(df: DataFrame) -> DataFrame:
    """Makes the server analyse a plan now instead of on its first use."""
    _ = df.schema
    return df


def _panes(df: DataFrame) -> DataFrame:
    if is_declared(df.sparkSession):
        # Without Mullion the table would get the input rows.
        return df.where(expr(_GUARD))
    fields = {field.name: field.dataType for field in df.schema.fields}
    pane = fields.get("pane")
    if not isinstance(pane, StructType) or pane.names[:2] != ["firing", "seq"]:
        raise InvalidArgumentError(
            "The Spark Connect server did not look at a hint, and so made no windows: spark.sql.optimizer.disableHints "
            "is true in this session. Leave it at false, its default."
        )
    return df


def error_in(info: Any, details: Any) -> MullionError | None:
    """Mullion's error in a server's error or its causes; ``None`` if there is none."""
    chain = list(details.errors) if details is not None else []
    for error in chain:
        if error.error_type_hierarchy and error.error_type_hierarchy[0] == _EXCEPTION:
            return _ours(error.spark_throwable.error_class, error.message)
        failure = function_failure(error.message) or other_operators(error.message)
        if failure is not None:
            return failure
    if info.reason == _EXCEPTION:
        return _ours(info.metadata.get("errorClass", ""), "")
    if chain and chain[0].error_type_hierarchy[0] == FAILED_QUERY and is_of_windows(chain[0].message):
        frames = (frame.declaring_class for error in chain for frame in error.stack_trace)
        if FAILED_TASK in frames or FAILED_TASK in " ".join(error.message for error in chain):
            return task_failure(most_telling([error.message for error in chain]), chain[0].message)
    return None


def _ours(condition: str, message: str) -> MullionError:
    return error_of(condition.removeprefix(_CONDITION), message)


def translate_errors() -> None:
    """Makes PySpark raise Mullion's own types for errors of the server's Mullion. Idempotent."""
    from pyspark.errors.exceptions import connect
    from pyspark.sql.connect.client import core
    from pyspark.sql.connect.streaming.query import StreamingQuery

    if getattr(getattr(core, "convert_exception"), "_mullion", False):  # noqa: B009
        return
    setattr(core, "convert_exception", _translating(connect.convert_exception))  # noqa: B010
    setattr(StreamingQuery, "exception", _translating_result(StreamingQuery.exception))  # noqa: B010


def _translating(convert: Callable[..., Exception]) -> Callable[..., Exception]:
    @functools.wraps(convert)
    def converting(info: Any, message: str, details: Any, *args: Any, **kwargs: Any) -> Exception:
        error = convert(info, message, details, *args, **kwargs)
        ours = error_in(info, details)
        if ours is None:
            return error
        if not str(ours):
            # A server without details truncates its message.
            ours = _ours(ours.condition, message)
        stack = getattr(error, "getStackTrace", lambda: None)()
        ours.jvm_trace = f"{error}\n{stack}" if stack else str(error)
        return ours

    converting._mullion = True  # type: ignore[attr-defined]
    return converting


def _translating_result(exception: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``query.exception()`` only has text; waiting for a failed query raises the same error with its causes."""

    @functools.wraps(exception)
    def exception_of(query: Any) -> Any:
        error = exception(query)
        if error is None:
            return None
        try:
            query.awaitTermination()
        except MullionError as ours:
            return ours
        except Exception:
            return error
        return error

    return exception_of
