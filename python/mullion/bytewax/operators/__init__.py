"""The operators of Bytewax 0.21 except windows, as in ``bytewax.operators``.

Functions run in Spark's Python workers, on batches of items. :func:`inspect`, sources and sinks run in the driver.
"""

from __future__ import annotations

from typing import Any, TypeVar

from mullion.bytewax._key_windows.contents import JoinEmitMode, JoinInsertMode
from mullion.bytewax.dataflow import Dataflow, KeyedStream, Stream, f_repr, operator
from mullion.bytewax.inputs import Source
from mullion.bytewax.operators._core import (
    BranchOut,
    S,
    StatefulBatchLogic,
    StatefulLogic,
    V,
    W,
    X,
    Y,
    branch,
    flat_map_batch,
    input,  # noqa: A004
    inspect_debug,
    merge,
    output,
    redistribute,
    stateful,
    stateful_batch,
)
from mullion.bytewax.operators._stateful import (
    collect,
    count_final,
    fold_final,
    join,
    max_final,
    min_final,
    reduce_final,
    stateful_flat_map,
    stateful_map,
)
from mullion.bytewax.operators._stateless import (
    TTLCache,
    enrich_cached,
    filter,  # noqa: A004
    filter_map,
    filter_map_value,
    filter_value,
    flat_map,
    flat_map_value,
    flatten,
    inspect,
    key_on,
    key_rm,
    map,  # noqa: A004
    map_value,
    raises,
)
from mullion.bytewax.outputs import DynamicSink, Sink, StatelessSinkPartition
from mullion.errors import UnsupportedError

U = TypeVar("U")
DK = TypeVar("DK")
DV = TypeVar("DV")
W_co = TypeVar("W_co", covariant=True)

__all__ = [
    "DK",
    "DV",
    "BranchOut",
    "Dataflow",
    "DynamicSink",
    "JoinEmitMode",
    "JoinInsertMode",
    "KeyedStream",
    "S",
    "Sink",
    "Source",
    "StatefulBatchLogic",
    "StatefulLogic",
    "StatelessSinkPartition",
    "Stream",
    "TTLCache",
    "U",
    "V",
    "W",
    "W_co",
    "X",
    "Y",
    "branch",
    "collect",
    "count_final",
    "enrich_cached",
    "f_repr",
    "filter",
    "filter_map",
    "filter_map_value",
    "filter_value",
    "flat_map",
    "flat_map_batch",
    "flat_map_value",
    "flatten",
    "fold_final",
    "input",
    "inspect",
    "inspect_debug",
    "join",
    "key_on",
    "key_rm",
    "map",
    "map_value",
    "max_final",
    "merge",
    "min_final",
    "operator",
    "output",
    "raises",
    "redistribute",
    "reduce_final",
    "stateful",
    "stateful_batch",
    "stateful_flat_map",
    "stateful_map",
]


def __getattr__(name: str) -> Any:
    old = {
        "reduce_window": "mullion.bytewax.operators.windowing.reduce_window",
        "fold_window": "mullion.bytewax.operators.windowing.fold_window",
        "collect_window": "mullion.bytewax.operators.windowing.collect_window",
        "count_window": "mullion.bytewax.operators.windowing.count_window",
        "join_window": "mullion.bytewax.operators.windowing.join_window",
        "unary": "stateful_batch",
        "count": "count_final",
        "reduce": "reduce_final",
        "fold": "fold_final",
    }
    if name in old:
        raise UnsupportedError(f"{name} is not an operator of Bytewax 0.21. Use {old[name]}.")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
