"""Base classes of the aggregates of a window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final

from pyspark.sql import Column
from pyspark.sql.types import BooleanType, DataType, NullType, NumericType, StringType

from mullion.errors import InvalidArgumentError
from mullion.turbine.functions import Expression, expression_of

ARRIVAL: Final = "__mullion_arrival"
"""The column that orders rows by arrival, for aggregates that need it."""

TypeOf = Callable[[Expression], DataType]
"""Returns the type of an expression over the rows of a window."""


class Aggregate(ABC):
    """An aggregate over the rows of a pane. Two aggregates are equal if their texts are."""

    __slots__ = ("_parameters", "_text", "columns", "inputs")

    _parameters: tuple[Any, ...]
    _text: str

    columns: frozenset[str]
    """The names of the columns that the aggregate reads."""

    inputs: tuple[Expression, ...]
    """The expressions that the aggregate reads."""

    by_arrival: ClassVar[bool] = False
    """True if the aggregate depends on the order in which rows arrive."""

    def __init__(self, text: str, *inputs: Expression, arguments: tuple[Any, ...] = ()) -> None:
        object.__setattr__(self, "_text", text)
        object.__setattr__(self, "_parameters", arguments)
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "columns", frozenset().union(*(of.columns for of in inputs)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self._text} is a value and does not change; make another one")

    def __repr__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Aggregate) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        slots = [slot for kind in type(self).__mro__ for slot in getattr(kind, "__slots__", ())]
        return _restored, (type(self), {slot: getattr(self, slot) for slot in slots})

    def to_column(self, type_of: TypeOf) -> Column:
        """The aggregate as a Spark column."""
        return self._column(type_of)

    @abstractmethod
    def _column(self, type_of: TypeOf) -> Column: ...


def one_of(of: object, name: str) -> tuple[str, Expression]:
    """The argument of the aggregate ``name``, as text and as an expression."""
    expression = expression_of(of, f"agg.{name}(...)")
    return (repr(of) if isinstance(of, str) else repr(expression)), expression


class OfOne(Aggregate):
    """An aggregate of one column or expression."""

    __slots__ = ()

    def __init__(self, of: str | Expression) -> None:
        name = type(self).__name__
        text, expression = one_of(of, name)
        super().__init__(f"{name}({text})", expression)


class OfTwo(Aggregate):
    """An aggregate of one column or expression by another."""

    __slots__ = ()

    def __init__(self, of: str | Expression, by: str | Expression) -> None:
        name = type(self).__name__
        text, expression = one_of(of, name)
        by_text, by_expression = one_of(by, name)
        super().__init__(f"{name}({text}, {by_text})", expression, by_expression)


class OfSample(Aggregate):
    """An aggregate of a population, or of a sample of it."""

    __slots__ = ()

    def __init__(self, of: str | Expression, *, sample: bool = False) -> None:
        name = type(self).__name__
        text, expression = one_of(of, name)
        super().__init__(f"{name}({text}{', sample=True' if sample else ''})", expression, arguments=(sample,))


def _restored(kind: type[Aggregate], fields: dict[str, Any]) -> Aggregate:
    copy = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(copy, name, value)
    return copy


def numeric(aggregate: Aggregate, type_of: TypeOf) -> tuple[Column, DataType]:
    """The input of a numeric aggregate and its type. Bools are read as 0 and 1."""
    expression = aggregate.inputs[0]
    column, kind = expression.to_column(), type_of(expression)
    if isinstance(kind, BooleanType):
        return column.cast("int"), kind
    if isinstance(kind, NullType):
        return column.cast("double"), kind
    if not isinstance(kind, NumericType):
        raise wrong_type(aggregate, kind, "a column of numbers")
    return column, kind


def wrong_type(aggregate: Aggregate, kind: DataType, wanted: str) -> InvalidArgumentError:
    """The error for an aggregate of a column whose type is not ``wanted``."""
    text = " Cast it, as in fn.cast(fn.col('amount'), 'float64')." if isinstance(kind, StringType) else ""
    return InvalidArgumentError(
        f"agg.{aggregate!r} reads {aggregate.inputs[0]!r}, which is {kind.simpleString()}: it needs {wanted}.{text}"
    )
