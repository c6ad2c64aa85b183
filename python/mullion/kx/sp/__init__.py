"""The Stream Processor's pipelines: readers, windows, functions over batches, and writers, joined with ``|``.

::

    sp.run(
        sp.read.from_file("trades.csv", header=True)
        | sp.window.tumbling(timedelta(minutes=5), time_column="time")
        | sp.map(lambda data: {"rows": data.num_rows})
        | sp.write.to_console()
    )

Functions receive a batch as a ``pyarrow.Table``, or with ``pandas=True`` as a ``pandas.DataFrame``. After a window the
batch has the window's records, elsewhere the records of a micro-batch. A function that calls ``data.pd()``,
``data.pa()``, ``data.np()`` or ``data.py()`` receives a table with these conversions of PyKX. Functions return a table,
a DataFrame, a dict (one record), a list of dicts, or plain values (the column ``value``); ``None`` emits nothing. They
run in Spark's workers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from mullion._util.checks import require_bool, require_one_of
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError
from mullion.kx._arguments import OperatorParams, function_of, missing_name, params_of
from mullion.kx._operators import Accumulate, Filter, Map, Merge, Operator, Pipeline, Reduce, Split, Union
from mullion.kx.app import App, explain, run
from mullion.kx.sp import read, window, write
from mullion.topics._broker import SchemaLike
from mullion.topics._schemas import given_schema

__all__ = [
    "App",
    "Operator",
    "OperatorParams",
    "Pipeline",
    "accumulate",
    "explain",
    "filter",
    "map",
    "merge",
    "read",
    "reduce",
    "run",
    "split",
    "union",
    "window",
    "write",
]

_F = TypeVar("_F", Accumulate, Reduce)

_ELSEWHERE: Final = {
    "apply": "sp.map(function), with sp.accumulate for values that a later batch needs",
    "parallel": "sp.map(function), which runs in Spark's tasks",
    "op": "sp.map, sp.filter and the other functions without op",
    "state": "sp.accumulate(function, initial), which keeps a value from one batch to the next",
    "rolling": "sp.window.sliding(...) | sp.map(function)",
    "sql": "sp.map(function), or F.expr on a DataFrame and sp.read.from_dataframe(df)",
    "udf": "sp.map(function)",
    "decode": "schema= of the reader, or sp.map(function)",
    "encode": "sp.map(function)",
    "transform": "sp.map(function)",
    "ml": "sp.map(function)",
    "push": "App.publish(callback, batch), for sp.read.from_callback(callback)",
    "teardown": "run(until='end')",
}


def __getattr__(name: str) -> Any:
    raise missing_name("sp", name, __all__, _ELSEWHERE)


@explained("sp.map(lambda data: data.select(['price']))", name="sp.map")
def map(  # noqa: A001 - as KX calls it
    function: str | Callable[..., Any],
    *,
    params: Sequence[str] = ("data",),
    pandas: bool = False,
    schema: SchemaLike | None = None,
    name: str | None = None,
) -> Map:
    """Applies a function to each batch, and emits the results.

    - ``function``: a function, or the name of one.
    - ``params``: its parameters, of ``"operator"``, ``"metadata"`` and ``"data"``; see :class:`Operator`.
    - ``pandas``: True to pass it a ``pandas.DataFrame``.
    - ``schema``: the columns of its results, for a window after it: DDL, a ``StructType`` or an Arrow schema. By
      default they are inferred from the first records.
    - ``name``: by default ``map_1`` and so on.

    Raises :class:`mullion.errors.InvalidArgumentError` for invalid arguments.
    """
    checked, parameters = _function(function, params, pandas, "sp.map")
    return Map(checked, parameters, pandas, given_schema(schema), name=name)


@explained("sp.filter(lambda data: pc.greater(data['price'], 0))", name="sp.filter")
def filter(  # noqa: A001 - as KX calls it
    function: str | Callable[..., Any],
    *,
    params: Sequence[str] = ("data",),
    pandas: bool = False,
    name: str | None = None,
) -> Filter:
    """Keeps batches, or rows of them.

    ``function`` returns True or False for a batch, or a list or array of them for its rows. The other parameters are
    those of :func:`map`.
    """
    checked, parameters = _function(function, params, pandas, "sp.filter")
    return Filter(checked, parameters, pandas, name=name)


@explained("sp.accumulate(lambda data, total: total + data.num_rows, 0)", name="sp.accumulate")
def accumulate(
    function: str | Callable[..., Any],
    initial: Any = None,
    output: Callable[..., Any] | None = None,
    *,
    params: Sequence[str] | None = None,
    pandas: bool = False,
    schema: SchemaLike | None = None,
    name: str | None = None,
) -> Accumulate:
    """Folds all batches into an accumulator, and emits it after each of them.

    - ``function``: receives the metadata, the data and the accumulator, or, if it has two parameters, the data and the
      accumulator; it returns the new accumulator.
    - ``initial``: the first accumulator: an Arrow table, or a JSON value (numbers, texts, lists, dicts).
    - ``output``: receives the accumulator, and returns the batch; without it the accumulator is the batch.
    - ``params``: the parameters of ``function`` before the accumulator.

    The other parameters are those of :func:`map`. All batches are in one task.
    """
    return _fold(Accumulate, function, initial, output, params, pandas, schema, name)


@explained("sp.reduce(lambda data, total: total + data.num_rows, 0)", name="sp.reduce")
def reduce(
    function: str | Callable[..., Any],
    initial: Any = None,
    output: Callable[..., Any] | None = None,
    *,
    params: Sequence[str] | None = None,
    pandas: bool = False,
    schema: SchemaLike | None = None,
    name: str | None = None,
) -> Reduce:
    """Folds the batches of each window into an accumulator, and emits it when the window is complete.

    A window with ``count_trigger`` emits its records in several batches, so that they need not all be in memory at
    once. The parameters are those of :func:`accumulate`; each window begins with ``initial``.
    """
    return _fold(Reduce, function, initial, output, params, pandas, schema, name)


@explained("sp.merge(quotes, lambda trades, quotes: trades.join(quotes, 'sym'))", name="sp.merge")
def merge(
    stream: Pipeline | Operator,
    function: str | Callable[..., Any],
    flush: str = "left",
    trigger: str = "both",
    *,
    pandas: bool = False,
    schema: SchemaLike | None = None,
    name: str | None = None,
) -> Merge:
    """Applies a function to the buffers of two streams: this one, the left stream, and another, the right stream.

    Both streams are buffered. The function receives the two buffers, each a table of all records in it, or ``None`` for
    a stream without records so far. Within a micro-batch the right stream's batches come first.

    - ``stream``: the right stream.
    - ``flush``: the buffer that is emptied after a call: ``"left"``, ``"right"``, ``"both"`` or ``"none"``. A buffer
      that is never emptied grows with its stream.
    - ``trigger``: the time of a call: with a batch of the ``"left"`` or the ``"right"`` stream, of ``"either"``, or
      when ``"both"`` buffers have records.

    The other parameters are those of :func:`map`. All batches are in one task.
    """
    if not isinstance(stream, (Operator, Pipeline)):
        raise InvalidArgumentError(
            f"stream={stream!r} ({type(stream).__name__}) is not a pipeline. Write source | sp.merge(other, function)."
        )
    require_one_of("flush", flush, ("left", "right", "both", "none"))
    require_one_of("trigger", trigger, ("both", "left", "right", "either"))
    checked, _ = _function(function, ("data",), pandas, "sp.merge")
    return Merge(
        checked,
        ("data",),
        pandas,
        given_schema(schema),
        other=stream.as_pipeline,
        flush=flush,
        trigger=trigger,
        name=name,
    )


@explained("sp.union(other)", name="sp.union")
def union(stream: Pipeline | Operator, *, name: str | None = None) -> Union:
    """Emits the batches of this stream and of another."""
    if not isinstance(stream, (Operator, Pipeline)):
        raise InvalidArgumentError(
            f"stream={stream!r} ({type(stream).__name__}) is not a pipeline. Write source | sp.union(other)."
        )
    return Union(other=stream.as_pipeline, name=name)


@explained("sp.split()", name="sp.split")
def split(*, name: str | None = None) -> Split:
    """Emits its input to each pipeline that is joined to it: ``source | sp.split() | [first, second]``.

    Each end is a separate query, which reads the source separately.
    """
    return Split(name=name)


def _function(
    function: object, params: Sequence[str], pandas: bool, kind: str
) -> tuple[Callable[..., Any], tuple[str, ...]]:
    require_bool("pandas", pandas)
    return function_of(function, "function", f"{kind}(lambda data: ...)"), params_of(params, kind)


def _fold(
    kind: type[_F],
    function: object,
    initial: Any,
    output: object,
    params: Sequence[str] | None,
    pandas: bool,
    schema: SchemaLike | None,
    name: str | None,
) -> _F:
    checked, parameters = _function(function, _fold_parameters(function, params), pandas, f"sp.{kind.kind}")
    shown = None if output is None else function_of(output, "output", "output=lambda total: {'total': total}")
    return kind(checked, parameters, pandas, given_schema(schema), initial, shown, name=name)


def _fold_parameters(function: object, params: Sequence[str] | None) -> Sequence[str]:
    """The parameters of a fold before the accumulator: the data, and the metadata if the function has three."""
    if params is not None:
        return params
    try:
        signature = inspect.signature(function_of(function, "function", "lambda data, total: ..."))
        signature.bind(*range(3))
    except (TypeError, ValueError):
        return ("data",)
    return ("metadata", "data")
