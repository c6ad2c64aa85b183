"""The base class of Python aggregates, and its columns for Spark."""

from __future__ import annotations

import copy
import inspect
import json
import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyspark.sql import Column
from pyspark.sql.functions import lit, struct
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from mullion._bridge.ddl import type_of
from mullion._native.aggregates.translation import translated
from mullion._native.aggregates.worker import Adder, AddRows, finishing, finishing_one
from mullion._util import spark_versions
from mullion._util.checks import did_you_mean
from mullion.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
_EXAMPLE: Final = 'class Quantiles(PythonAggregate, returns="array<double>")'


class PythonAggregate:
    """An aggregate of panes, written in Python. Use it in ``windowed(...).agg(...)`` next to Spark's aggregates.

    A subclass has an accumulator, which is any Python object::

        class Quantiles(PythonAggregate, returns="array<double>", pickle=True):
            delta: float = 0.1

            def create(self):
                return TDigest(self.delta)

            def add(self, digest, rows: pa.RecordBatch):
                digest.add_many(rows["value"].to_numpy())
                return digest

            def merge(self, a, b):
                return a.merge(b)

            def finish(self, digest):
                return [digest.quantile(q) for q in (0.5, 0.99)]


        windowed(events, Tumbling("1 hour"), by="host", time="ts").agg(
            Quantiles("value", delta=0.05).alias("latency"), F.count("*").alias("n")
        )

    **Calls.** Positional arguments are columns: names or Columns, at least one. ``add`` reads them by name; give an
    expression a name with ``.alias``. Keyword arguments are parameters. Declare each as an attribute of the class, with
    or without a default; methods read it as ``self.delta``. A subclass has no ``__init__`` of its own.

    **Options of the class**

    - ``returns``: the Spark type of ``finish``'s result, as DDL text or a ``DataType``. Required.
    - ``pickle``: with ``True``, accumulators are stored with pickle. Whoever can write to the checkpoint can then run
      code on the executors. By default, accumulators are plain values: numbers, text, bytes, dates, lists, tuples,
      sets, dicts, dataclasses and NumPy arrays. For other objects, define ``dump`` and ``load`` instead.
    - ``ordered``: with ``True``, rows are added in the order of their event times. Rows of equal time are in the order
      of arrival where the window processes rows in that order (``PerKey()``, ``Early(each_row=True)``). All rows of a
      pane then wait in state until the pane fires. Without ``ordered``, windows that process rows in the order of
      arrival (also ``Count`` and ``Global``) add them in that order, and other windows in any order.

    **Calls of the methods.** Rows wait in state while they are few, and are added together. ``merge(a, b)`` may change
    and return ``a``, which is always a fresh copy. A pane may fire several times, so ``finish`` gets a fresh copy too.
    The firing of a pane without rows is ``finish(create())``. All methods must depend on their arguments only: a batch
    that runs again calls them again.

    If a method raises an error, the query fails with :class:`FunctionError`, which has the pane, the key, the method,
    the file and the line. Nothing of the batch is stored, and after the fix the query continues from its checkpoint.

    Raises :class:`InvalidArgumentError` for a subclass without ``returns`` or without a required method, and for a call
    without columns, or with an unknown or a missing parameter.
    """

    _returns: ClassVar[str | DataType]
    _pickle: ClassVar[bool] = False
    _ordered: ClassVar[bool] = False

    def __init_subclass__(
        cls, *, returns: str | DataType | None = None, pickle: bool = False, ordered: bool = False, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        if returns is not None:
            if not isinstance(returns, (str, DataType)):
                raise InvalidArgumentError(
                    f"returns={returns!r} ({type(returns).__name__}) is not a Spark type. Write it as DDL text, as in "
                    f"{_EXAMPLE}."
                )
            cls._returns = returns
        cls._pickle = pickle or cls._pickle
        cls._ordered = ordered or cls._ordered

    def __init__(self, *columns: Column | str, **parameters: Any) -> None:
        self._require_methods()
        name = type(self).__name__
        if not columns:
            raise InvalidArgumentError(
                f"{name}() has no column, so it would have no rows to add. Name the columns that it reads, as in "
                f"{name}('value')."
            )
        for column in columns:
            if not isinstance(column, (str, Column)):
                raise InvalidArgumentError(
                    f"{name}({column!r}) has a {type(column).__name__} as a positional argument, which is neither a "
                    f"column's name nor a Column. Pass parameters by keyword, as in {name}('value', size={column!r})."
                )
        self._columns = columns
        self._require_values()
        declared = self._declared()
        for parameter, value in parameters.items():
            if parameter not in declared:
                raise InvalidArgumentError(
                    f"{name} has no parameter {parameter!r}.{did_you_mean(parameter, declared)} Declare it in the "
                    f"class, as in {parameter}: {type(value).__name__} = {value!r}."
                )
            setattr(self, parameter, value)
        for parameter in declared:
            if not hasattr(self, parameter):
                raise InvalidArgumentError(
                    f"{name} needs the parameter {parameter!r}, which has no default. Write {name}(..., "
                    f"{parameter}=...)."
                )

    def create(self) -> Any:
        """Returns the accumulator of no rows."""
        raise NotImplementedError

    def add(self, accumulator: Any, rows: pa.RecordBatch) -> Any:
        """Returns the accumulator with ``rows`` added: at least one row, with the columns of the call.

        Timestamps are in UTC. Define this method or ``add_row``.
        """
        raise NotImplementedError

    def add_row(self, accumulator: Any, *values: Any) -> Any:
        """Returns the accumulator with one row added: its values as Python objects, in the order of the call."""
        raise NotImplementedError

    def merge(self, a: Any, b: Any) -> Any:
        """Returns the accumulator of all rows of both. It may change ``a``. With ``ordered``, it is never called."""
        raise NotImplementedError

    def finish(self, accumulator: Any) -> Any:
        """Returns the result for a firing, a value of ``returns`` or ``None``. By default the accumulator itself."""
        return accumulator

    def dump(self, accumulator: Any) -> bytes:
        """Returns the accumulator as bytes for state. Define it together with ``load``."""
        raise NotImplementedError

    def load(self, data: bytes) -> Any:
        """Returns the accumulator of the bytes of ``dump``: a new object for each call."""
        raise NotImplementedError

    def alias(self, name: str) -> Column:
        """The result as a column with a name, for ``agg``."""
        return self.column().alias(name)

    def column(self) -> Column:
        """The result as a column, for expressions in ``agg`` such as ``Quantiles("value").column()[0]``."""
        name = type(self).__name__
        finishes_rows = spark_versions.HAS_ARROW_UDFS
        worker = copy.copy(self)
        # Columns belong to the session and do not travel to workers.
        del worker._columns
        described = {
            "aggregate": name,
            "parameters": self._parameters(),
            "ordered": self._ordered,
            "addsAtEnd": not finishes_rows,
            "translated": self._translated(),
            "places": self._places(),
        }
        adder = Adder(worker, by_row=self._has("add_row"), dumps=self._has("dump"), pickles=self._pickle)
        state = spark_versions.aggregate_placeholder(AddRows(adder), name)
        rows = state(lit(json.dumps(described, separators=(",", ":"))), struct(*self._columns))
        # A DDL text needs a session, which subclasses may be defined before.
        returns = (
            type_of(self._returns, "returns", "array<double>") if isinstance(self._returns, str) else self._returns
        )
        result: Column
        if finishes_rows:
            kind = to_arrow_schema(StructType([StructField("result", returns)]), **spark_versions.IN_UTC).field(0).type
            result = spark_versions.over_structs(finishing(adder, kind), name, returns)(rows)
        else:
            result = spark_versions.by_row(finishing_one(adder), name, returns)(rows)
        return result

    def _translated(self) -> dict[str, Any] | None:
        """The aggregate as aggregates of the JVM, if it can be; a class that stores its accumulators itself cannot."""
        if not self._has("add_row") or self._has("dump") or self._pickle or self._ordered:
            return None
        return translated(self, {name: getattr(self, name) for name in self._declared()}, PythonAggregate.finish)

    @classmethod
    def _places(cls) -> dict[str, str]:
        """The file and the line of methods, for errors of a class that runs in the JVM."""
        codes = ((name, getattr(getattr(cls, name), "__code__", None)) for name in ("add_row", "finish"))
        return {name: f"{code.co_filename}:{code.co_firstlineno}" for name, code in codes if code is not None}

    def __repr__(self) -> str:
        columns = (repr(column) if isinstance(column, str) else str(column) for column in self._columns)
        parameters = (f"{name}={getattr(self, name)!r}" for name in self._declared())
        return f"{type(self).__name__}({', '.join((*columns, *parameters))})"

    def _parameters(self) -> list[str]:
        """The parameters as text that is equal in each process."""
        return [f"{name} => {_ADDRESS.sub('', repr(getattr(self, name)))}" for name in self._declared()]

    def _require_values(self) -> None:
        """Checks the number of columns against the parameters of ``add_row``; a star may be several columns."""
        if not self._has("add_row") or any("*" in str(column) or "star" in str(column) for column in self._columns):
            return
        try:
            inspect.signature(self.add_row).bind(None, *self._columns)
        except TypeError as error:
            call = f"{type(self).__name__}({', '.join(map(repr, self._columns))})"
            raise InvalidArgumentError(
                f"{call} does not fit add_row{inspect.signature(self.add_row)}: {error}. Name one column for each "
                "parameter after the accumulator."
            ) from None

    @classmethod
    def _declared(cls) -> list[str]:
        """The names of the parameters: public attributes of the subclass that are no functions, in order."""
        names: dict[str, None] = {}
        own = [
            kind for kind in reversed(cls.__mro__) if issubclass(kind, PythonAggregate) and kind is not PythonAggregate
        ]
        for kind in own:
            defaults = (
                name
                for name, value in vars(kind).items()
                if not callable(value) and not isinstance(value, (property, classmethod, staticmethod))
            )
            names.update(dict.fromkeys((*vars(kind).get("__annotations__", ()), *defaults)))
        return [name for name in names if not name.startswith("_")]

    @classmethod
    def _has(cls, method: str) -> bool:
        return getattr(cls, method) is not getattr(PythonAggregate, method)

    @classmethod
    def _require_methods(cls) -> None:
        name = cls.__name__
        if not hasattr(cls, "_returns"):
            raise InvalidArgumentError(f"{name} has no result type. Write it in the class, as in {_EXAMPLE}.")
        if cls._has("add") == cls._has("add_row"):
            some = "both add and add_row" if cls._has("add") else "neither add nor add_row"
            raise InvalidArgumentError(
                f"{name} defines {some}. Define one of them: add(accumulator, rows) for Arrow batches, or "
                "add_row(accumulator, *values) for single rows."
            )
        if cls._has("dump") != cls._has("load"):
            missing, there = ("load", "dump") if cls._has("dump") else ("dump", "load")
            raise InvalidArgumentError(f"{name} defines {there} without {missing}. Define both, or neither.")
        required = ["create"] if cls._ordered else ["create", "merge"]
        for method in required:
            if not cls._has(method):
                raise InvalidArgumentError(
                    f"{name} does not define {method}. A Python aggregate defines {' and '.join(required)}, and add or "
                    "add_row."
                )
