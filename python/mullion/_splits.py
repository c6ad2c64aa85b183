"""Global windows split by a function: the other end, in Python workers, of the JVM's ``PythonSplit``."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql.functions import lit

from mullion import _lines
from mullion.windows import SplitOf

_ANSWER = "struct<at: array<bigint>, wrong: string, trace: string>"


def splits_of(function: SplitOf, with_offset: bool) -> Column:
    """A call of a UDF that asks ``function``: only what it calls matters, the operator calls it by itself."""
    call: Column = _lines.splits(_of_keys(function, with_offset), _ANSWER)(lit(0))
    return call


def _of_keys(function: SplitOf, with_offset: bool) -> Any:
    import pyarrow as pa

    # Workers need not have this package: what runs there is all inside of this function, and travels whole.
    def of_keys(offsets: Any, buffers: Any) -> Any:
        """For each key where its rows of this batch begin, and all its rows; gives what the function says of each."""
        import traceback

        def bad(found: object, why: str) -> str:
            written = repr(found)
            return f"gave {written if len(written) <= 200 else written[:200] + '...'} ({type(found).__name__}), {why}"

        def indices(found: Any) -> list[int] | str:
            if found is None:
                return []
            listed = found.to_pylist() if hasattr(found, "to_pylist") else found
            if isinstance(listed, (str, bytes)) or not hasattr(listed, "__iter__"):
                return bad(found, "which is not a list of indices")
            wanted = []
            for value in listed:
                # Whole numbers of NumPy's have it too; what is true or false is no index.
                if isinstance(value, bool) or not hasattr(value, "__index__"):
                    return bad(found, f"in which {value!r} ({type(value).__name__}) is not a whole number")
                index = value.__index__()
                if not -(2**63) <= index < 2**63:
                    return bad(found, f"in which {index} is not an index of a row")
                wanted.append(index)
            return wanted

        def raised(error: Exception) -> str:
            frames = traceback.extract_tb(error.__traceback__)[1:]
            code = getattr(function, "__code__", None)
            own = [frame for frame in frames if code is not None and frame.filename == code.co_filename]
            said = f"raised {type(error).__name__}: {error}"
            # What is raised by a call that a function in C refuses has no frame.
            for last in (own or frames)[-1:]:
                said += f", at {last.filename}, line {last.lineno}" + (f": {last.line}" if last.line else "")
            return said

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
            found: list[int] | str
            failed = None
            try:
                ask: Any = function
                found = indices(ask(buffer, offset) if with_offset else ask(buffer))
            except Exception as error:
                found, failed = raised(error), trace_of(error)
            at.append(None if isinstance(found, str) else found)
            wrong.append(found if isinstance(found, str) else None)
            trace.append(failed)
            if wrong[-1] is not None:
                break
        # What comes after an error is not asked: the batch fails.
        missing = len(offsets) - len(at)
        at += [[]] * missing
        wrong += [None] * missing
        trace += [None] * missing
        lists = pa.array(at, pa.list_(pa.int64()))
        texts = [pa.array(said, pa.string()) for said in (wrong, trace)]
        return pa.StructArray.from_arrays([lists, *texts], names=["at", "wrong", "trace"])

    of_keys.__name__ = getattr(function, "__name__", type(function).__name__)
    # By which PySpark knows that it takes and gives arrays.
    of_keys.__annotations__ = {"offsets": pa.Array, "buffers": pa.Array, "return": pa.Array}
    return of_keys
