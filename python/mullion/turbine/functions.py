"""Expressions over the columns of a batch: ``fn.col("bytes_in") + fn.col("bytes_out")``.

An expression describes a computation; Python computes nothing. A window compiles its expressions to Spark expressions,
which run with the window in the JVM. Nulls give nulls, as in Arrow and in SQL. A division by zero gives null. An
integer overflow fails the query; integers never wrap.

The first argument of a function may be the name of a column: ``fn.lower("region")`` is ``fn.lower(fn.col("region"))``.
In all other places a string is a literal.

>>> from mullion.turbine import functions as fn
>>> fn.col("bytes_in") + fn.col("bytes_out")
fn.col('bytes_in') + fn.col('bytes_out')
>>> fn.when(fn.col("status") >= 500, 1).otherwise(0)
fn.when(fn.col('status') >= 500, 1).otherwise(0)
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as sf

from mullion.errors import InvalidArgumentError

__all__ = [
    "Expression",
    "abs",
    "cast",
    "ceil",
    "coalesce",
    "col",
    "concat",
    "contains",
    "ends_with",
    "exp",
    "floor",
    "greatest",
    "is_in",
    "is_not_null",
    "is_null",
    "least",
    "length",
    "lit",
    "log",
    "log2",
    "log10",
    "lower",
    "null_if",
    "power",
    "replace",
    "round",
    "sign",
    "sqrt",
    "starts_with",
    "substring",
    "trim",
    "upper",
    "when",
]

Operand: TypeAlias = "Expression | str | int | float | bool | bytes | decimal.Decimal | datetime.datetime | None"

_LITERALS: Final = (str, int, float, bool, bytes, decimal.Decimal, datetime.datetime, datetime.date, type(None))

# Arrow's names of types, and Spark's.
_TYPES: Final = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "bool": "boolean",
    "string": "string",
    "binary": "binary",
}


def column_of(name: str) -> Column:
    """The column with exactly this name: dots and other special characters are not parsed."""
    return sf.col("`" + name.replace("`", "``") + "`")


class Expression:
    """An expression over the columns of a row, built with the functions of this module and with operators.

    ``==`` builds an expression; :meth:`same_as` compares two expressions.
    """

    __slots__ = ("_build", "_needs", "_text", "columns")

    columns: frozenset[str]
    """The names of the columns that the expression reads."""

    def __init__(
        self, text: str, columns: frozenset[str], build: Callable[[], Column], *, needs_brackets: bool = False
    ) -> None:
        self._text = text
        self._build = build
        self._needs = needs_brackets
        self.columns = columns

    def to_column(self) -> Column:
        """The expression as a Spark column."""
        return self._build()

    def same_as(self, other: object) -> bool:
        """Returns True if ``other`` is the same expression."""
        return isinstance(other, Expression) and self._text == other._text

    def __repr__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __bool__(self) -> bool:
        raise InvalidArgumentError(
            f"{self._text} is not true or false: it has a value for each row. Write & for and, | for or, ~ for not, "
            "with brackets about the sides, as in (fn.col('a') > 1) & (fn.col('b') < 2)."
        )

    def __add__(self, other: Operand) -> Expression:
        return _binary("+", self, other, lambda a, b: a + b)

    def __radd__(self, other: Operand) -> Expression:
        return _binary("+", other, self, lambda a, b: a + b)

    def __sub__(self, other: Operand) -> Expression:
        return _binary("-", self, other, lambda a, b: a - b)

    def __rsub__(self, other: Operand) -> Expression:
        return _binary("-", other, self, lambda a, b: a - b)

    def __mul__(self, other: Operand) -> Expression:
        return _binary("*", self, other, lambda a, b: a * b)

    def __rmul__(self, other: Operand) -> Expression:
        return _binary("*", other, self, lambda a, b: a * b)

    def __truediv__(self, other: Operand) -> Expression:
        return _binary("/", self, other, sf.try_divide)

    def __rtruediv__(self, other: Operand) -> Expression:
        return _binary("/", other, self, sf.try_divide)

    def __mod__(self, other: Operand) -> Expression:
        return _binary("%", self, other, sf.try_mod)

    def __rmod__(self, other: Operand) -> Expression:
        return _binary("%", other, self, sf.try_mod)

    def __neg__(self) -> Expression:
        return Expression(f"-{_inner(self)}", self.columns, lambda: -self.to_column())

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _binary("==", self, other, lambda a, b: a == b)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return _binary("!=", self, other, lambda a, b: a != b)

    def __lt__(self, other: Operand) -> Expression:
        return _binary("<", self, other, lambda a, b: a < b)

    def __le__(self, other: Operand) -> Expression:
        return _binary("<=", self, other, lambda a, b: a <= b)

    def __gt__(self, other: Operand) -> Expression:
        return _binary(">", self, other, lambda a, b: a > b)

    def __ge__(self, other: Operand) -> Expression:
        return _binary(">=", self, other, lambda a, b: a >= b)

    def __and__(self, other: Operand) -> Expression:
        return _binary("&", self, other, lambda a, b: a & b)

    def __rand__(self, other: Operand) -> Expression:
        return _binary("&", other, self, lambda a, b: a & b)

    def __or__(self, other: Operand) -> Expression:
        return _binary("|", self, other, lambda a, b: a | b)

    def __ror__(self, other: Operand) -> Expression:
        return _binary("|", other, self, lambda a, b: a | b)

    def __invert__(self) -> Expression:
        return Expression(f"~{_inner(self)}", self.columns, lambda: ~self.to_column())


class When(Expression):
    """A conditional expression that accepts :meth:`otherwise`."""

    __slots__ = ("_condition", "_then")

    def __init__(self, condition: Expression, then: Expression) -> None:
        super().__init__(
            f"fn.when({condition!r}, {then!r})",
            condition.columns | then.columns,
            lambda: sf.when(condition.to_column(), then.to_column()),
        )
        self._condition = condition
        self._then = then

    def otherwise(self, value: Operand) -> Expression:
        """Sets the value for rows whose condition is false or null."""
        other, condition, then = _operand(value), self._condition, self._then
        return Expression(
            f"{self!r}.otherwise({other!r})",
            self.columns | other.columns,
            lambda: sf.when(condition.to_column(), then.to_column()).otherwise(other.to_column()),
        )


def col(name: str) -> Expression:
    """The column of a batch with this name.

    >>> col("bytes_in").columns
    frozenset({'bytes_in'})
    """
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(f"fn.col({name!r}) does not name a column. Write, for instance, fn.col('amount').")
    return Expression(f"fn.col({name!r})", frozenset({name}), lambda: column_of(name))


def lit(value: Operand) -> Expression:
    """A literal: the same value for all rows."""
    if isinstance(value, Expression):
        return value
    if not isinstance(value, _LITERALS):
        raise InvalidArgumentError(
            f"fn.lit({value!r}) ({type(value).__name__}) is neither an expression nor a plain value. Give a number, "
            "text, bytes, bool, Decimal, date or datetime."
        )
    return Expression(repr(value), frozenset(), lambda: sf.lit(value))


def cast(value: Operand, to: str) -> Expression:
    """``value`` cast to the Arrow type ``to``: ``fn.cast(fn.col("n"), "float64")``. A value that does not fit fails."""
    if to not in _TYPES:
        raise InvalidArgumentError(f"fn.cast(..., {to!r}): there is no such type here. Use one of {', '.join(_TYPES)}.")
    of = _subject(value)
    return Expression(f"fn.cast({of!r}, {to!r})", of.columns, lambda: of.to_column().cast(_TYPES[to]))


def when(condition: Operand, then: Operand) -> When:
    """``then`` where ``condition`` is true, else null or the value of ``.otherwise(value)``."""
    return When(_operand(condition), lit(then))


def is_in(value: Operand, values: list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any]) -> Expression:
    """True for rows whose value is in ``values``."""
    of, listed = _subject(value), list(values)
    return Expression(f"fn.is_in({of!r}, {listed!r})", of.columns, lambda: of.to_column().isin(listed))


def abs(value: Operand) -> Expression:  # noqa: A001
    """The absolute value."""
    return _call("abs", sf.abs, _subject(value))


def ceil(value: Operand) -> Expression:
    """The smallest integer that is not less than the value."""
    return _call("ceil", sf.ceil, _subject(value))


def floor(value: Operand) -> Expression:
    """The largest integer that is not greater than the value."""
    return _call("floor", sf.floor, _subject(value))


def round(value: Operand, digits: int = 0) -> Expression:  # noqa: A001
    """The value rounded to ``digits`` decimal places, halves to even, as in Arrow and Python."""
    of = _subject(value)
    return Expression(f"fn.round({of!r}, {digits})", of.columns, lambda: sf.bround(of.to_column(), digits))


def sqrt(value: Operand) -> Expression:
    """The square root; NaN for negative values."""
    return _call("sqrt", sf.sqrt, _subject(value))


def exp(value: Operand) -> Expression:
    """The exponential function: e to the power of ``value``."""
    return _call("exp", sf.exp, _subject(value))


def log(value: Operand) -> Expression:
    """The natural logarithm; null for values that are not positive."""
    return _call("log", sf.ln, _subject(value))


def log2(value: Operand) -> Expression:
    """The logarithm to the base 2; null for values that are not positive."""
    return _call("log2", sf.log2, _subject(value))


def log10(value: Operand) -> Expression:
    """The logarithm to the base 10; null for values that are not positive."""
    return _call("log10", sf.log10, _subject(value))


def power(value: Operand, exponent: Operand) -> Expression:
    """``value`` to the power of ``exponent``, a float."""
    return _call("power", sf.pow, _subject(value), exponent)


def sign(value: Operand) -> Expression:
    """The sign of the value: -1.0, 0.0 or 1.0."""
    return _call("sign", sf.signum, _subject(value))


def coalesce(*values: Operand) -> Expression:
    """The first value that is not null."""
    return _call("coalesce", sf.coalesce, *values)


def least(*values: Operand) -> Expression:
    """The least of two or more values; nulls are ignored."""
    return _call("least", sf.least, *values)


def greatest(*values: Operand) -> Expression:
    """The greatest of two or more values; nulls are ignored."""
    return _call("greatest", sf.greatest, *values)


def null_if(value: Operand, other: Operand) -> Expression:
    """Null if both values are equal, else ``value``."""
    return _call("null_if", sf.nullif, _subject(value), other)


def is_null(value: Operand) -> Expression:
    """True for null values."""
    return _call("is_null", sf.isnull, _subject(value))


def is_not_null(value: Operand) -> Expression:
    """True for values that are not null."""
    return _call("is_not_null", sf.isnotnull, _subject(value))


def lower(value: Operand) -> Expression:
    """The text in lower case."""
    return _call("lower", sf.lower, _subject(value))


def upper(value: Operand) -> Expression:
    """The text in upper case."""
    return _call("upper", sf.upper, _subject(value))


def trim(value: Operand) -> Expression:
    """The text without leading and trailing spaces."""
    return _call("trim", sf.trim, _subject(value))


def length(value: Operand) -> Expression:
    """The length of a text in characters."""
    return _call("length", sf.char_length, _subject(value))


def concat(*values: Operand) -> Expression:
    """The concatenation of texts; null if any is null. A str is a literal; a column is ``fn.col("name")``."""
    parts = [lit(value) for value in values]
    return Expression(
        f"fn.concat({', '.join(map(repr, parts))})",
        frozenset().union(*(part.columns for part in parts)),
        lambda: sf.concat(*(part.to_column() for part in parts)),
    )


def substring(value: Operand, start: int, length: int) -> Expression:
    """The ``length`` characters of a text from position ``start``, which counts from 0."""
    of = _subject(value)
    return Expression(
        f"fn.substring({of!r}, {start}, {length})",
        of.columns,
        lambda: sf.substring(of.to_column(), start + 1 if start >= 0 else start, length),
    )


def contains(value: Operand, part: str) -> Expression:
    """True for texts that contain ``part``."""
    of = _subject(value)
    return Expression(f"fn.contains({of!r}, {part!r})", of.columns, lambda: of.to_column().contains(part))


def starts_with(value: Operand, part: str) -> Expression:
    """True for texts that start with ``part``."""
    of = _subject(value)
    return Expression(f"fn.starts_with({of!r}, {part!r})", of.columns, lambda: of.to_column().startswith(part))


def ends_with(value: Operand, part: str) -> Expression:
    """True for texts that end with ``part``."""
    of = _subject(value)
    return Expression(f"fn.ends_with({of!r}, {part!r})", of.columns, lambda: of.to_column().endswith(part))


def replace(value: Operand, part: str, by: str) -> Expression:
    """The text with every ``part`` replaced by ``by``."""
    of = _subject(value)
    return Expression(
        f"fn.replace({of!r}, {part!r}, {by!r})",
        of.columns,
        lambda: sf.replace(of.to_column(), sf.lit(part), sf.lit(by)),
    )


def expression_of(value: object, what: str) -> Expression:
    """The expression for the argument of an aggregate: a column name or an expression. Errors name ``what``."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, str) and value:
        return col(value)
    raise InvalidArgumentError(
        f"{what} takes a column's name or an expression, and {value!r} ({type(value).__name__}) is neither. Write, for "
        "instance, agg.Sum('amount') or agg.Sum(fn.col('bytes_in') + fn.col('bytes_out'))."
    )


def _operand(value: object) -> Expression:
    if isinstance(value, float) and not math.isfinite(value):
        return Expression(f"float({str(value)!r})", frozenset(), lambda: sf.lit(value))
    return value if isinstance(value, Expression) else lit(value)  # type: ignore[arg-type]


def _subject(value: object) -> Expression:
    """The first argument of a function, where a string names a column."""
    return col(value) if isinstance(value, str) else _operand(value)


def _inner(expression: Expression) -> str:
    return f"({expression!r})" if expression._needs else repr(expression)


def _binary(sign: str, left: object, right: object, build: Callable[[Column, Column], Column]) -> Expression:
    a, b = _operand(left), _operand(right)
    return Expression(
        f"{_inner(a)} {sign} {_inner(b)}",
        a.columns | b.columns,
        lambda: build(a.to_column(), b.to_column()),
        needs_brackets=True,
    )


def _call(name: str, function: Callable[..., Column], *values: object) -> Expression:
    of = [_operand(value) for value in values]
    return Expression(
        f"fn.{name}({', '.join(map(repr, of))})",
        frozenset().union(*(value.columns for value in of)),
        lambda: function(*(value.to_column() for value in of)),
    )
