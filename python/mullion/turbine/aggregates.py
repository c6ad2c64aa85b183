"""Aggregates of a window: ``agg.Sum("amount")``, ``agg.Multi(n=agg.Count(), mean=agg.Mean("latency_ms"))``.

An aggregate is a frozen value that compiles to a Spark aggregate; the JVM merges it from batch to batch. Callbacks
receive the result as the scalar ``value`` or the column ``value``; a :class:`Multi` gives the attributes or columns
that it names. Integers never wrap: a sum beyond 64 bits is still an ``int`` in ``value``, and a decimal in a column.

>>> from mullion.turbine import aggregates as agg
>>> agg.Multi(err_sum=agg.Sum("is_error"), n=agg.Count())
Multi(err_sum=Sum('is_error'), n=Count())
>>> agg.Sum("amount") == agg.Sum("amount")
True
"""

from __future__ import annotations

import difflib
import keyword
from collections.abc import Sequence
from typing import Any, final

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, DecimalType, LongType, NullType

from mullion.errors import InvalidArgumentError
from mullion.turbine._aggregate import (
    ARRIVAL,
    Aggregate,
    OfOne,
    OfSample,
    OfTwo,
    TypeOf,
    numeric,
    one_of,
    wrong_type,
)
from mullion.turbine.functions import Expression

__all__ = [
    "Aggregate",
    "ApproxDistinct",
    "ApproxTop",
    "Collect",
    "CollectSet",
    "Count",
    "CountIf",
    "First",
    "Last",
    "Max",
    "MaxBy",
    "Mean",
    "Median",
    "Min",
    "MinBy",
    "Multi",
    "Percentile",
    "Percentiles",
    "StdDev",
    "Sum",
    "Variance",
]


@final
class Count(Aggregate):
    """The number of rows, an int; for a column or expression, the number of its values that are not null."""

    __slots__ = ()

    def __init__(self, of: str | Expression | None = None) -> None:
        if of is None:
            super().__init__("Count()")
        else:
            text, expression = one_of(of, "Count")
            super().__init__(f"Count({text})", expression)

    def _column(self, type_of: TypeOf) -> Column:
        return sf.count(self.inputs[0].to_column()) if self.inputs else sf.count(sf.lit(1))


@final
class CountIf(Aggregate):
    """The number of rows for which a condition is true: ``agg.CountIf(fn.col("status") >= 500)``."""

    __slots__ = ()

    def __init__(self, condition: str | Expression) -> None:
        text, expression = one_of(condition, "CountIf")
        super().__init__(f"CountIf({text})", expression)

    def _column(self, type_of: TypeOf) -> Column:
        condition = self.inputs[0]
        if not isinstance(type_of(condition), (BooleanType, NullType)):
            raise wrong_type(self, type_of(condition), "a condition, as in agg.CountIf(fn.col('status') >= 500)")
        return sf.count_if(condition.to_column())


@final
class Sum(OfOne):
    """The sum; nulls are ignored, and the sum of nulls alone is 0. The sum of a bool is the number of true values.

    The sum of integers is an exact int of any size. The sum of decimals is a decimal that keeps all digits after the
    point. The sum of floats is a float, within 1e-9 of Python's own sum.
    """

    __slots__ = ()

    def _column(self, type_of: TypeOf) -> Column:
        column, kind = numeric(self, type_of)
        if isinstance(kind, LongType):
            # Two halves cannot overflow: a pane would need 2^31 rows.
            high = sf.sum(sf.shiftright(column, 32)).cast("decimal(20, 0)") * sf.lit(2**32).cast("decimal(11, 0)")
            low = sf.sum(column.bitwiseAND(sf.lit(2**32 - 1))).cast("decimal(20, 0)")
            return sf.coalesce((high + low).cast("decimal(38, 0)"), sf.lit(0).cast("decimal(38, 0)"))
        if isinstance(kind, DecimalType):
            # The default has the scale of the sum: a plain 0 would reduce it.
            return sf.coalesce(sf.sum(column), sf.lit(0).cast(DecimalType(min(38, kind.precision + 10), kind.scale)))
        return sf.coalesce(sf.sum(column), sf.lit(0))


@final
class Mean(OfOne):
    """The mean, a float; nulls are ignored, and the mean of nulls alone is ``None``."""

    __slots__ = ()

    def _column(self, type_of: TypeOf) -> Column:
        column, kind = numeric(self, type_of)
        return sf.avg(column.cast("double") if isinstance(kind, DecimalType) else column)


@final
class Max(OfOne):
    """The greatest number, text or time; nulls are ignored. NaN is greater than any number."""

    __slots__ = ()

    def _column(self, type_of: TypeOf) -> Column:
        return sf.max(self.inputs[0].to_column())


@final
class Min(OfOne):
    """The least number, text or time; nulls are ignored."""

    __slots__ = ()

    def _column(self, type_of: TypeOf) -> Column:
        return sf.min(self.inputs[0].to_column())


@final
class First(OfOne):
    """The value of the row that arrived first, null or not."""

    __slots__ = ()

    by_arrival = True

    def _column(self, type_of: TypeOf) -> Column:
        return sf.min_by(self.inputs[0].to_column(), sf.col(ARRIVAL))


@final
class Last(OfOne):
    """The value of the row that arrived last, null or not."""

    __slots__ = ()

    by_arrival = True

    def _column(self, type_of: TypeOf) -> Column:
        return sf.max_by(self.inputs[0].to_column(), sf.col(ARRIVAL))


@final
class MaxBy(OfTwo):
    """The value of the row in which another column is greatest: ``agg.MaxBy("price", "event_ts_ms")``."""

    __slots__ = ()

    def _column(self, type_of: TypeOf) -> Column:
        return sf.max_by(self.inputs[0].to_column(), self.inputs[1].to_column())


@final
class MinBy(OfTwo):
    """The value of the row in which another column is least: ``agg.MinBy("price", "event_ts_ms")``."""

    __slots__ = ()

    def _column(self, type_of: TypeOf) -> Column:
        return sf.min_by(self.inputs[0].to_column(), self.inputs[1].to_column())


@final
class StdDev(OfSample):
    """The standard deviation of the rows, dividing by ``n``; with ``sample=True`` by ``n - 1``."""

    __slots__ = ()

    def _column(self, type_of: TypeOf) -> Column:
        column, _ = numeric(self, type_of)
        return sf.stddev_samp(column) if self._parameters[0] else sf.stddev_pop(column)


@final
class Variance(OfSample):
    """The variance of the rows, dividing by ``n``; with ``sample=True`` by ``n - 1``."""

    __slots__ = ()

    def _column(self, type_of: TypeOf) -> Column:
        column, _ = numeric(self, type_of)
        return sf.var_samp(column) if self._parameters[0] else sf.var_pop(column)


@final
class Percentile(Aggregate):
    """One percentile by a mergeable sketch: ``agg.Percentile("latency_ms", 0.95)``.

    The result is the value of some row. Its rank is off by at most ``1 / accuracy`` of the rows; with no more rows than
    ``accuracy`` the result is exact. The sketch is Greenwald and Khanna's, Spark's ``percentile_approx``.
    """

    __slots__ = ()

    def __init__(self, of: str | Expression, percentage: float, accuracy: int = 10_000) -> None:
        text, expression = one_of(of, "Percentile")
        checked = _percentage(percentage, "agg.Percentile('latency_ms', {})")
        source = f"Percentile({text}, {percentage!r}{_accuracy(accuracy)})"
        super().__init__(source, expression, arguments=(checked, accuracy))

    def _column(self, type_of: TypeOf) -> Column:
        return sf.percentile_approx(numeric(self, type_of)[0], *self._parameters)


@final
class Percentiles(Aggregate):
    """Several percentiles by one mergeable sketch, as a list: ``agg.Percentiles("latency_ms", [0.5, 0.95, 0.99])``."""

    __slots__ = ()

    def __init__(self, of: str | Expression, percentages: Sequence[float], accuracy: int = 10_000) -> None:
        text, expression = one_of(of, "Percentiles")
        listed = list(percentages)
        if not listed:
            raise InvalidArgumentError(
                "agg.Percentiles() lists no percentile. Write agg.Percentiles('latency_ms', [0.5, 0.95])."
            )
        checked = [_percentage(each, "agg.Percentiles('latency_ms', [{}])") for each in listed]
        source = f"Percentiles({text}, {listed!r}{_accuracy(accuracy)})"
        super().__init__(source, expression, arguments=(checked, accuracy))

    def _column(self, type_of: TypeOf) -> Column:
        return sf.percentile_approx(numeric(self, type_of)[0], *self._parameters)


@final
class Median(OfOne):
    """The median by a mergeable sketch: ``agg.Percentile(of, 0.5)``."""

    __slots__ = ()

    def _column(self, type_of: TypeOf) -> Column:
        return sf.percentile_approx(numeric(self, type_of)[0], 0.5, 10_000)


@final
class ApproxDistinct(Aggregate):
    """The number of distinct values by a HyperLogLog++ sketch, an int; its relative error is about ``error`` (0.05)."""

    __slots__ = ()

    def __init__(self, of: str | Expression, error: float = 0.05) -> None:
        text, expression = one_of(of, "ApproxDistinct")
        if isinstance(error, bool) or not isinstance(error, (int, float)) or not 0.001 <= error <= 0.39:
            raise InvalidArgumentError(
                f"error={error!r} is not a number from 0.001 to 0.39. Write, for instance, "
                "agg.ApproxDistinct('user', error=0.02)."
            )
        source = f"ApproxDistinct({text}{'' if error == 0.05 else f', error={error!r}'})"
        super().__init__(source, expression, arguments=(float(error),))

    def _column(self, type_of: TypeOf) -> Column:
        return sf.approx_count_distinct(self.inputs[0].to_column(), *self._parameters)


@final
class ApproxTop(Aggregate):
    """The most frequent values by a mergeable sketch: a list of ``{"item", "count"}``, the most frequent first."""

    __slots__ = ()

    def __init__(self, of: str | Expression, k: int = 5) -> None:
        text, expression = one_of(of, "ApproxTop")
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InvalidArgumentError(f"k={k!r} is not a whole number above 0. Write agg.ApproxTop('page', 5).")
        super().__init__(f"ApproxTop({text}, {k})", expression, arguments=(k,))

    def _column(self, type_of: TypeOf) -> Column:
        return sf.call_function("approx_top_k", self.inputs[0].to_column(), sf.lit(self._parameters[0]))


@final
class Collect(OfOne):
    """All values that are not null, as a list without order. Use it for small panes."""

    __slots__ = ()

    def _column(self, type_of: TypeOf) -> Column:
        return sf.collect_list(self.inputs[0].to_column())


@final
class CollectSet(OfOne):
    """The distinct values that are not null, as a list without order. Use it for small panes."""

    __slots__ = ()

    def _column(self, type_of: TypeOf) -> Column:
        return sf.collect_set(self.inputs[0].to_column())


@final
class Multi:
    """Several aggregates of one window: attributes of ``value`` in ``_each`` callbacks, columns in batch callbacks.

    A batch that lacks a column of any aggregate updates none of them, so that they all cover the same rows.
    """

    __slots__ = ("parts",)

    parts: dict[str, Aggregate]

    def __init__(self, **parts: Any) -> None:
        if not parts:
            raise InvalidArgumentError(
                "agg.Multi() names no aggregate. Write, for instance, agg.Multi(total=agg.Sum('amount'), "
                "n=agg.Count())."
            )
        for name, part in parts.items():
            if isinstance(part, Multi):
                raise InvalidArgumentError(
                    f"agg.Multi({name}=Multi(...)): a Multi cannot contain another one. Write all aggregates in one."
                )
            require_aggregate(part, f"agg.Multi({name}=...)")
            if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
                raise InvalidArgumentError(
                    f"agg.Multi({name}=...): {name!r} cannot be an attribute of a pane's value. Call it otherwise."
                )
        object.__setattr__(self, "parts", dict(parts))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self!r} is a value and does not change; make another one")

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that the aggregates read."""
        return frozenset().union(*(part.columns for part in self.parts.values()))

    def __repr__(self) -> str:
        return f"Multi({', '.join(f'{name}={part!r}' for name, part in self.parts.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Multi) and list(self.parts.items()) == list(other.parts.items())

    def __hash__(self) -> int:
        return hash(tuple(self.parts.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _multi, (self.parts,)


def _multi(parts: dict[str, Aggregate]) -> Multi:
    return Multi(**parts)


def require_aggregate(value: object, what: str) -> None:
    """Raises an error that names ``what`` unless ``value`` is an aggregate."""
    if isinstance(value, Aggregate):
        return
    if isinstance(value, type) and issubclass(value, Aggregate):
        raise InvalidArgumentError(
            f"{what} is the class agg.{value.__name__} and not an aggregate. Call it, as in "
            f"agg.{value.__name__}({'' if value is Count else repr('amount')})."
        )
    meant = difflib.get_close_matches(str(value).capitalize(), __all__, 1) if isinstance(value, str) else []
    raise InvalidArgumentError(
        f"{what} is {value!r} ({type(value).__name__}), which is not an aggregate. Write, for instance, "
        f"agg.{meant[0] if meant else 'Sum'}('amount') or agg.Count()."
    )


def _percentage(percentage: object, example: str) -> float:
    if isinstance(percentage, bool) or not isinstance(percentage, (int, float)) or not 0 <= percentage <= 1:
        fix = percentage / 100 if isinstance(percentage, (int, float)) and 1 < percentage <= 100 else 0.95
        raise InvalidArgumentError(
            f"{percentage!r} is not a percentile from 0 to 1. Write, for instance, {example.format(fix)}."
        )
    return float(percentage)


def _accuracy(accuracy: object) -> str:
    if isinstance(accuracy, bool) or not isinstance(accuracy, int) or accuracy < 1:
        raise InvalidArgumentError(
            f"accuracy={accuracy!r} is not a whole number above 0. Leave it out for 10,000, or give a larger one for "
            "ranks that are closer."
        )
    return "" if accuracy == 10_000 else f", accuracy={accuracy}"
