"""Differences between Spark versions in Python."""

from __future__ import annotations

import inspect
from typing import Any, Final

import pyspark
from pyspark.sql import Column
from pyspark.sql.functions import udf
from pyspark.sql.types import DataType

from mullion.errors import UnsupportedError


def _in_utc() -> dict[str, Any]:
    from pyspark.sql.pandas.types import to_arrow_schema

    return {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


IN_UTC: Final[dict[str, Any]] = _in_utc()
"""An option for Arrow types with timestamps in UTC. Up to Spark 4.1 they are always in UTC."""


def _arrow_udf() -> Any:
    try:
        from pyspark.sql.pandas.functions import arrow_udf
    except ImportError:
        return None
    return arrow_udf


_ARROW_UDF: Final[Any] = _arrow_udf()
"""Spark's UDFs over Arrow arrays; 4.0 has none."""


def over_arrays(function: Any, column: Column, returned: str) -> Column:
    """The result of a function over Arrow arrays for a column, in batches; on Spark 4.0 row by row."""
    result: Column = (_ARROW_UDF or _row_by_row)(function, returned)(column)
    return result


HAS_ARROW_UDFS: Final[bool] = _ARROW_UDF is not None
"""True if Spark has UDFs over Arrow arrays: from 4.1 on."""


def over_structs(function: Any, name: str, returned: str | DataType) -> Any:
    """A UDF over one Arrow array. Only for Spark versions with ``HAS_ARROW_UDFS``."""
    import pyarrow as pa

    function.__name__ = name
    # PySpark derives the kind of UDF from these annotations.
    function.__annotations__ = {"panes": pa.Array, "return": pa.Array}
    return _ARROW_UDF(function, returned)


def by_row(function: Any, name: str, returned: str | DataType) -> Any:
    """A UDF that is called for each row."""
    function.__name__ = name
    function.__annotations__ = {}
    return udf(function, returned)


def aggregate_placeholder(function: Any, name: str) -> Any:
    """A pandas aggregate function that the operator replaces. It needs no pandas, because Spark never runs it."""
    from pyspark.sql.utils import is_remote
    from pyspark.util import PythonEvalType

    if is_remote():
        from pyspark.sql.connect.udf import UserDefinedFunction
    else:
        from pyspark.sql.udf import UserDefinedFunction  # type: ignore[assignment]
    return UserDefinedFunction(function, "binary", name, PythonEvalType.SQL_GROUPED_AGG_PANDAS_UDF)


def _row_by_row(function: Any, returned: str) -> Any:
    import pyarrow as pa

    def of_one(value: Any) -> Any:
        return function(pa.array([value], pa.int64())).to_pylist()[0]

    of_one.__name__ = function.__name__
    # Newer Spark versions would derive the kind of function from its type hints.
    of_one.__annotations__ = {}
    return udf(of_one, returned)


def splits(function: Any, returned: str) -> Any:
    """A UDF over Arrow arrays that an operator calls directly. Spark 4.0 does not support it."""
    if _ARROW_UDF is None:
        raise UnsupportedError(
            f"Global.split needs Spark 4.1 or newer, and this is Spark {pyspark.__version__}, whose workers cannot be "
            "asked so. Use a newer Spark; or Global.when(...) or Global.changes(...), which need no function of Python."
        )
    return _ARROW_UDF(function, returned)
