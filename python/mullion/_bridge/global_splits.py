"""Global windows split by a function: the Python side of the JVM's ``PythonSplit``."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql.functions import lit

from mullion._util import spark_versions
from mullion.windows import SplitOf

_ANSWER = "struct<at: array<bigint>, wrong: string, trace: string>"


def splits_of(function: SplitOf, with_offset: bool) -> Column:
    """A call of a UDF that runs ``function``. Only the UDF matters, because the operator calls it directly."""
    call: Column = spark_versions.splits(_of_keys(function, with_offset), _ANSWER)(lit(0))
    return call


def _of_keys(function: SplitOf, with_offset: bool) -> Any:
    import pyarrow as pa

    # Workers may lack this package, so this function contains all code that runs there.
    def of_keys(offsets: Any, buffers: Any) -> Any:
        """Calls the function for each key, with all its rows and the index of the first row of this batch."""
        import traceback

        def bad(result: object, why: str) -> str:
            written = repr(result)
            return f"gave {written if len(written) <= 200 else written[:200] + '...'} ({type(result).__name__}), {why}"

        def indices(result: Any) -> list[int] | str:
            if result is None:
                return []
            listed = result.to_pylist() if hasattr(result, "to_pylist") else result
            if isinstance(listed, (str, bytes)) or not hasattr(listed, "__iter__"):
                return bad(result, "which is not a list of indices")
            wanted = []
            for value in listed:
                # NumPy's integers have __index__ too; booleans are not indices.
                if isinstance(value, bool) or not hasattr(value, "__index__"):
                    return bad(result, f"in which {value!r} ({type(value).__name__}) is not a whole number")
                index = value.__index__()
                if not -(2**63) <= index < 2**63:
                    return bad(result, f"in which {index} is not an index of a row")
                wanted.append(index)
            return wanted

        def raised(error: Exception) -> str:
            frames = traceback.extract_tb(error.__traceback__)[1:]
            code = getattr(function, "__code__", None)
            own = [frame for frame in frames if code is not None and frame.filename == code.co_filename]
            message = f"raised {type(error).__name__}: {error}"
            # An error of a function in C has no frame.
            for last in (own or frames)[-1:]:
                message += f", at {last.filename}, line {last.lineno}" + (f": {last.line}" if last.line else "")
            return message

        def trace_of(error: Exception) -> str:
            deeper = error.__traceback__.tb_next if error.__traceback__ is not None else None
            return "".join(traceback.format_exception(type(error), error, deeper))

        at: list[list[int] | None] = []
        wrong: list[str | None] = []
        trace: list[str | None] = []
        bounds = buffers.offsets.to_pylist()
        for key, offset in enumerate(offsets.to_pylist()):
            rows = buffers.values.slice(bounds[key], bounds[key + 1] - bounds[key])
            buffer = pa.RecordBatch.from_struct_array(rows)
            outcome: list[int] | str
            failed = None
            try:
                call: Any = function
                outcome = indices(call(buffer, offset) if with_offset else call(buffer))
            except Exception as error:
                outcome, failed = raised(error), trace_of(error)
            at.append(None if isinstance(outcome, str) else outcome)
            wrong.append(outcome if isinstance(outcome, str) else None)
            trace.append(failed)
            if wrong[-1] is not None:
                break
        # After an error the batch fails, so no further key is processed.
        missing = len(offsets) - len(at)
        at += [[]] * missing
        wrong += [None] * missing
        trace += [None] * missing
        lists = pa.array(at, pa.list_(pa.int64()))
        texts = [pa.array(values, pa.string()) for values in (wrong, trace)]
        return pa.StructArray.from_arrays([lists, *texts], names=["at", "wrong", "trace"])

    of_keys.__name__ = getattr(function, "__name__", type(function).__name__)
    # PySpark derives the kind of UDF from these annotations.
    of_keys.__annotations__ = {"offsets": pa.Array, "buffers": pa.Array, "return": pa.Array}
    return of_keys
