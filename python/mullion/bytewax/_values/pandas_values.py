"""Converts values of pandas to tuples of simpler values, and back. Import it only if pandas is loaded.

::

    Timestamp, Timedelta    (nanoseconds, unit, zone)      (nanoseconds, unit)
    Interval, Period        (left, right, closed)          (ordinal, frequency)
    Series, DataFrame       (array, index, name)           (arrays, columns, index)
    NaT, NA                 ()

An array is ``(values, dtype)``, with the values of numpy dtypes as an array of numpy. A ``freq`` of an index is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, timezone
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd


class UnsupportedDtypeError(ValueError):
    """The error for a dtype whose name does not identify it."""


def _zone(value: pd.Timestamp) -> Any:
    """A zone of the standard library; pandas resolves others, such as those of pytz, by name."""
    zone = value.tzinfo
    return zone if isinstance(zone, (type(None), timezone, ZoneInfo)) else str(zone)


def _timestamp(ns: int, unit: Any, zone: Any) -> Any:
    time = pd.Timestamp(ns, unit="ns").as_unit(unit)
    return time if zone is None else time.tz_localize(UTC).tz_convert(zone)


def _array(values: Any) -> tuple[Any, Any]:
    dtype = values.dtype
    if isinstance(dtype, np.dtype):
        return (list(values), "object") if dtype.hasobject else (values.to_numpy(), None)
    if isinstance(dtype, pd.CategoricalDtype):
        codes = values.codes if isinstance(values, pd.CategoricalIndex) else values.cat.codes.to_numpy()
        return codes, (_index_parts(dtype.categories), dtype.ordered)
    for name in (str(dtype), repr(dtype)):
        try:
            if pd.api.types.pandas_dtype(name) == dtype:
                return list(values), name
        except (TypeError, NotImplementedError):
            continue
    raise UnsupportedDtypeError(str(dtype))


def _made_array(values: Any, dtype: Any) -> Any:
    if dtype is None:
        return values
    if isinstance(dtype, tuple):
        return pd.Categorical.from_codes(values, _index(*dtype[0]), dtype[1])
    return pd.Series(values, dtype=dtype).array


def _index_parts(index: Any) -> tuple[Any, ...]:
    if isinstance(index, pd.RangeIndex):
        return range(index.start, index.stop, index.step), index.name
    if isinstance(index, pd.MultiIndex):
        levels, codes = map(_index_parts, index.levels), map(np.asarray, index.codes)
        return list(levels), list(codes), list(index.names)
    return _array(index), index.name


def _index(*parts: Any) -> Any:
    match parts:
        case (range() as numbers, name):
            return pd.RangeIndex(numbers, name=name)
        case (levels, codes, names):
            return pd.MultiIndex([_index(*level) for level in levels], codes, names=names)
        case (array, name):
            return pd.Index(_made_array(*array), name=name, tupleize_cols=False)
    raise ValueError(f"{parts!r} are not the parts of an index")


def _series(array: Any, index: Any, name: Any) -> Any:
    return pd.Series(_made_array(*array), _index(*index), name=name)


def _frame_parts(frame: pd.DataFrame) -> tuple[Any, ...]:
    arrays = [_array(frame.iloc[:, column]) for column in range(frame.shape[1])]
    return arrays, _index_parts(frame.columns), _index_parts(frame.index)


def _frame(arrays: Any, columns: Any, index: Any) -> Any:
    frame = pd.DataFrame({number: _made_array(*array) for number, array in enumerate(arrays)}, _index(*index))
    frame.columns = _index(*columns)
    return frame


_INDEXES: Final = (
    *(pd.Index, pd.RangeIndex, pd.MultiIndex, pd.CategoricalIndex),
    *(pd.DatetimeIndex, pd.TimedeltaIndex, pd.PeriodIndex, pd.IntervalIndex),
)
_Parts = Callable[[Any], tuple[Any, ...]]
_CODECS: Final[dict[type, tuple[_Parts, Callable[..., Any]]]] = {
    type(pd.NaT): (lambda _: (), lambda: pd.NaT),
    type(pd.NA): (lambda _: (), lambda: pd.NA),
    pd.Timestamp: (lambda value: (value.value, value.unit, _zone(value)), _timestamp),
    pd.Timedelta: (lambda value: (value.value, value.unit), lambda ns, unit: pd.Timedelta(ns, "ns").as_unit(unit)),
    pd.Interval: (lambda value: (value.left, value.right, value.closed), pd.Interval),
    pd.Period: (lambda value: (value.ordinal, value.freqstr), lambda n, freq: pd.Period(ordinal=n, freq=freq)),
    pd.Series: (lambda value: (_array(value), _index_parts(value.index), value.name), _series),
    pd.DataFrame: (_frame_parts, _frame),
    **dict.fromkeys(_INDEXES, (_index_parts, _index)),
}
_BY_NAME: Final = {kind.__name__: build for kind, (_, build) in _CODECS.items()}


def is_supported(kind: type) -> bool:
    return kind in _CODECS


def parts_of(value: Any) -> tuple[Any, ...]:
    """Converts a value. Raises :class:`UnsupportedDtypeError` for a dtype of another library."""
    return _CODECS[type(value)][0](value)


def value_of(kind: str, parts: tuple[Any, ...]) -> Any:
    """Restores a value of a class name from its parts."""
    return _BY_NAME[kind](*parts)
