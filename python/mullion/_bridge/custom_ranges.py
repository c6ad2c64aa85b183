"""Custom windows by a function: a column with its ranges, computed in Python workers over Arrow."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql.functions import struct, timestamp_micros, transform

from mullion._bridge.query_errors import FUNCTION_FAILED
from mullion._util.spark_versions import over_arrays
from mullion.windows import RangesOf

_MICROS = "array<struct<start: bigint, end: bigint>>"


def ranges_of(function: RangesOf, name: str, time: Column) -> Column:
    """The ranges of ``function`` for ``time``, microseconds since the epoch: an array of ranges of timestamps.

    Times are passed as numbers, so that the time zone of a session or worker has no effect.
    """
    in_micros = over_arrays(_in_batches(function, name), time, _MICROS)
    return transform(
        in_micros,
        lambda ranges: struct(
            timestamp_micros(ranges["start"]).alias("start"), timestamp_micros(ranges["end"]).alias("end")
        ),
    )


def _in_batches(function: RangesOf, name: str) -> Any:
    import pyarrow as pa

    # Workers may lack this package: their code is within this function, which is pickled entirely.
    failed_mark = FUNCTION_FAILED

    def of_times(times: Any) -> Any:
        import traceback
        from datetime import UTC, datetime, timedelta

        epoch, microsecond = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)

        def failure(error: Exception, call: str) -> ValueError:
            """An error of the function as one line, which the driver finds in the worker's traceback."""
            frames = traceback.extract_tb(error.__traceback__)[1:]
            at = f", at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
            text = " ".join(str(error).split())
            return ValueError(f"{failed_mark}{name} failed for {call}: {type(error).__name__}: {text}{at}")

        def micros(value: object, time: datetime) -> int:
            if not isinstance(value, datetime):
                raise ValueError(
                    f"{failed_mark}{name} returned {value!r} ({type(value).__name__}) for the time {time}, where a "
                    "range has a datetime. Return a list of (start, end), two datetimes with a time zone each; [] for "
                    "no window"
                )
            if value.tzinfo is None:
                raise ValueError(
                    f"{failed_mark}{name} returned {value!r} for the time {time}: a datetime without time zone. Make "
                    "it of the time that it was given, which is in UTC, or of time.astimezone(...)"
                )
            return (value - epoch) // microsecond

        def of(us: int | None) -> list[dict[str, int]] | None:
            if us is None:
                return None
            try:
                time = epoch + us * microsecond
            except OverflowError:
                raise ValueError(
                    f"{failed_mark}{name} cannot be called: a row's time is {us} microseconds from 1970, which "
                    "Python's datetime cannot hold (years 1 to 9999). Leave such rows out before the window"
                ) from None
            try:
                result = function(time)
                # A generator runs while it is consumed.
                result = result if result is None or isinstance(result, (tuple, list)) else list(result)
            except Exception as error:
                raise failure(error, f"the time {time}") from error
            if result is None:
                return None
            ranges = []
            for listed in result:
                if not isinstance(listed, (tuple, list)) or len(listed) != 2:
                    raise ValueError(
                        f"{failed_mark}{name} returned {result!r} for the time {time}, which is not a list of ranges. "
                        "Return a list of (start, end), as in [(start, end)]; [] for no window"
                    )
                ranges.append({"start": micros(listed[0], time), "end": micros(listed[1], time)})
            return ranges

        kind = pa.list_(pa.struct([("start", pa.int64()), ("end", pa.int64())]))
        return pa.array([of(us) for us in times.to_pylist()], kind)

    of_times.__name__ = getattr(function, "__name__", type(function).__name__)
    # PySpark reads these to recognise a function of arrays.
    of_times.__annotations__ = {"times": pa.Array, "return": pa.Array}
    return of_times
