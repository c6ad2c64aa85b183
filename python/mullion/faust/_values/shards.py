"""The shard of a key: one rule, for rows of a topic in Spark and for keys of tables in Python.

::

    text                       itself                  "a"        a
    a whole number             its digits, of 64 bits  1, 1.0     1
    a bool                     true, false
    any other                  one shard for all       0.5, (1, 2), date(2020, 1, 1)

Keys that are equal in a dict are in one shard. The shard of an event's row is inferred from the program's code. So each
use of a table by an event is checked against it, and a key of another shard stops the program.
"""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from typing import Any, Final

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

OTHERS: Final = "~"
"""The shard of keys that are neither text nor whole numbers."""
_LONGEST: Final = 2**63
_WHOLE: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def shard_of(key: Any) -> str:
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, Enum):
        return OTHERS
    if isinstance(key, str):
        return str(key)
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None:
        return ""
    if isinstance(key, (int, float, Decimal)):
        try:
            integer = int(key)
        except (ValueError, OverflowError):
            return OTHERS
        return str(integer) if integer == key and -_LONGEST <= integer < _LONGEST else OTHERS
    return OTHERS


def shard_column(value: Column, kind: T.DataType) -> Column:
    """:func:`shard_of` for a column of a type; null for null."""
    if isinstance(kind, (T.StringType, T.BooleanType, *_WHOLE)):
        return value.cast("string")
    others = F.when(value.isNotNull(), F.lit(OTHERS))
    if isinstance(kind, (T.DoubleType, T.FloatType, T.DecimalType)):
        fits = (value >= F.lit(-float(_LONGEST))) & (value < F.lit(float(_LONGEST)))
        integer = F.when(fits, value.cast("bigint"))
        return F.when(integer == value, integer.cast("string")).otherwise(others)
    return others


def is_exact(kind: T.DataType, read_as: type) -> bool:
    """True if casting the column to ``read_as`` keeps every key in its shard."""
    exact: dict[type, tuple[type[T.DataType], ...]] = {
        str: (T.StringType, *_WHOLE),
        int: _WHOLE,
        bool: (T.BooleanType,),
    }
    return isinstance(kind, (T.NullType, *exact.get(read_as, ())))


__all__ = ["OTHERS", "is_exact", "shard_column", "shard_of"]
