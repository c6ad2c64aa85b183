"""Random results of a window: aggregates of all kinds, and expressions over them.

Each is a Column that both ``windowed(...).agg`` and Spark's ``groupBy(...).agg`` accept. Results do not depend on the
order of rows, and sums of floats are exact.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

COLUMNS = "k string, j int, v bigint, d double, s string, b boolean, m decimal(12, 2), n bigint"
"""Rows have a unique ascending number ``n``; other columns may be null."""

raised = F.udf(lambda value: None if value is None else value + 1000, LongType())
spelt = F.udf(lambda text, number: f"{text}/{number}", StringType())
shouted = F.udf(lambda text: None if text is None else f"{text}!", StringType())

KEYS: dict[str, Callable[[], Column | str]] = {
    "k": lambda: "k",
    "j": lambda: F.col("j"),
    "upper": lambda: F.upper("k").alias("upper"),
    "even": lambda: (F.col("j") % 2 == 0).alias("even"),
    "odd j": lambda: F.when(F.col("j") % 2 == 1, F.col("j")).alias("odd j"),
    "of udf": lambda: shouted(F.col("k")).alias("of udf"),
}
"""Keys by their names in a result."""

FILTERS = ("v > 10", "b", "s LIKE 'b%'", "v > 10 AND d < 5", "k IS NULL", "false", "j = 1 OR b", "v IS NOT NULL")


def _added(total: Column, value: Column) -> Column:
    return F.coalesce(F.try_add(total, value), total)


def random_rows(rng: random.Random, count: int, first: int, times: tuple[int, int]) -> list[dict[str, Any]]:
    def some(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    return [
        {
            "t": rng.randrange(*times) * 1000,
            "k": some(rng.choice(["a", "b", "ä", ""])),
            "j": some(rng.randrange(3)),
            "v": some(rng.randrange(-30, 60)),
            "d": some(rng.randrange(-40, 40) / 4),
            "s": some(rng.choice(["a", "b", "bb", "", "c" * 40])),
            "b": some(rng.random() < 0.5),
            "m": some(rng.randrange(-10_000, 10_000)),
            "n": first + i,
        }
        for i in range(count)
    ]


class Results:
    """Creates random results from few aggregates, so that many results share them."""

    def __init__(self, rng: random.Random, keys: list[str]) -> None:
        self._rng = rng
        self._keys = keys
        self._columns: dict[str, list[Column]] = {}

    def one(self) -> Column:
        """A result that contains an aggregate or a key."""
        rng = self._rng
        of = rng.choice([self.integer, self.integer, self.double, self.text, self.truth, self.values, self.record])
        return of(rng.choice([0, 1, 1, 2, 3]))

    def integer(self, depth: int) -> Column:
        if depth <= 0:
            return self._aggregate("integer", self._integers)
        less = depth - 1
        i, j, t = self.integer, self.integer, self.truth
        return self._of(
            lambda: F.try_add(i(less), j(less)),
            lambda: F.try_multiply(i(less), F.lit(3)),
            lambda: F.try_subtract(i(less), self._integer_key()),
            lambda: F.when(t(less), i(less)).otherwise(j(less)),
            lambda: F.when(t(less), i(less)),
            lambda: F.coalesce(i(less), j(less), F.lit(-1).cast("bigint")),
            lambda: raised(i(less)),
            lambda: raised(F.try_add(i(less), raised(j(less)))),
            lambda: F.when(F.current_timestamp().isNotNull(), i(less)),
            lambda: F.try_add(i(less), F.datediff(F.current_date(), F.current_timestamp()).cast("bigint")),
            lambda: F.length(self.text(less)).cast("bigint"),
            lambda: F.size(self.values(less)).cast("bigint"),
            lambda: F.aggregate(
                self.values(less), F.lit(0).cast("bigint"), lambda a, b: F.coalesce(F.try_add(a, b), a)
            ),
            lambda: self.record(less).getField("number"),
        )

    def double(self, depth: int) -> Column:
        if depth <= 0:
            return self._aggregate("double", self._doubles)
        less = depth - 1
        return self._of(
            lambda: F.try_divide(self.integer(less), self.integer(less)).cast("double"),
            lambda: self.double(less) * 2 - F.lit(0.5),
            lambda: F.when(self.truth(less), self.double(less)).otherwise(self.integer(less).cast("double")),
            lambda: raised(self.integer(less)).cast("double") / 4,
            lambda: F.nullif(self.double(less), F.lit(0.5)),
        )

    def text(self, depth: int) -> Column:
        if depth <= 0:
            return self._aggregate("text", self._texts)
        less = depth - 1
        return self._of(
            lambda: F.concat(self.text(less), F.lit(":"), self.integer(less).cast("string")),
            lambda: F.concat_ws("-", self.text(less), self._text_key()),
            lambda: F.upper(self.text(less)),
            lambda: F.nullif(self._text_key(), self.text(less)),
            lambda: F.nullif(F.upper(self.text(less)), F.lit("B")),
            lambda: spelt(self.text(less), self.integer(less)),
            lambda: spelt(self._text_key(), self.integer(less)),
            lambda: shouted(F.concat(self.text(less), self.text(less))),
            lambda: F.when(self.truth(less), self.text(less)).otherwise(self._text_key()),
            lambda: F.coalesce(self.text(less), F.lit("none")),
            lambda: self.record(less).getField("text"),
        )

    def truth(self, depth: int) -> Column:
        if depth <= 0:
            return self._aggregate("truth", self._truths)
        less = depth - 1
        return self._of(
            lambda: self.integer(less) > self.integer(less),
            lambda: self.text(less).isNull(),
            lambda: self.text(less) == self._text_key(),
            lambda: self.integer(less).between(self.integer(less), F.lit(40)),
            lambda: F.concat(self._text_key(), self.text(less)).between("a", "c"),
            lambda: self.truth(less) & ~self.truth(less),
            lambda: F.current_timestamp().isNotNull() & self.truth(less),
            lambda: self.double(less).eqNullSafe(self.double(less)),
        )

    def values(self, depth: int) -> Column:
        if depth <= 0:
            return self._aggregate("values", self._lists)
        less = depth - 1
        return self._of(
            lambda: F.array(self.integer(less), self.integer(less)),
            lambda: F.transform(self.values(less), lambda x: F.coalesce(F.try_add(x, F.lit(1)), x)),
            lambda: F.slice(self.values(less), 1, 3),
            lambda: F.coalesce(self.values(less), F.array(self.integer(less))),
        )

    def record(self, depth: int) -> Column:
        less = depth - 1
        return F.struct(self.integer(less).alias("number"), self.text(less).alias("text"))

    def _of(self, *ways: Callable[[], Column]) -> Column:
        return self._rng.choice(ways)()

    def _integer_key(self) -> Column:
        keys = [F.col("j")] * ("j" in self._keys) + [F.when(F.col("j") % 2 == 1, F.col("j"))] * ("odd j" in self._keys)
        return self._rng.choice([*keys, F.lit(7)]).cast("bigint")

    def _text_key(self) -> Column:
        keys = {"k": F.col("k"), "upper": F.upper("k"), "of udf": shouted(F.col("k")), "j": F.col("j").cast("string")}
        return self._rng.choice([*(column for name, column in keys.items() if name in self._keys), F.lit("b")])

    def _aggregate(self, kind: str, make: Callable[[], Column]) -> Column:
        """A previous aggregate of the kind, or a new one."""
        previous = self._columns.setdefault(kind, [])
        if previous and self._rng.random() < 0.4:
            return self._rng.choice(previous)
        previous.append(make())
        return previous[-1]

    def _filtered(self, *aggregates: str) -> Column:
        text = self._rng.choice(aggregates)
        if self._rng.random() < 0.4:
            text += f" FILTER (WHERE {self._rng.choice(FILTERS)})"
        return F.expr(text)

    def _integers(self) -> Column:
        plain = ("count(*)", "count(v)", "sum(v)", "min(v)", "max(v)", "max_by(v, n)", "min_by(v, n)", "count_if(b)")
        return self._of(
            lambda: self._filtered(*plain, "sum(v % 7)", "max(length(s) + v)", "bit_xor(v)", "sum(j)"),
            lambda: self._filtered(*plain, "approx_count_distinct(s)", "max(CAST(j AS bigint))", "sum(v + 0)"),
            lambda: self._filtered("count(DISTINCT v)", "count(DISTINCT s, j)", "sum(DISTINCT v)", "count(DISTINCT d)"),
            lambda: F.count_distinct(raised("v"), F.col("b")),
            lambda: F.sum(raised("v")),
            lambda: F.max(raised(F.col("v") + F.lit(1))),
            lambda: F.sum(F.when(F.current_timestamp().isNotNull(), F.col("v"))),
            lambda: F.count("*"),
            lambda: self._integer_key(),
        )

    def _doubles(self) -> Column:
        return self._of(
            lambda: self._filtered("avg(v)", "sum(d)", "min(d)", "max(d)", "max_by(d, n)", "avg(d)"),
            lambda: self._filtered("percentile(v, 0.5)", "median(d)", "sum(d)"),
            lambda: self._filtered("sum(DISTINCT d)", "avg(DISTINCT v)", "avg(DISTINCT d)"),
            lambda: F.sum("m").cast("double"),
            lambda: F.max("m").cast("double"),
        )

    def _texts(self) -> Column:
        return self._of(
            lambda: self._filtered("max(s)", "min(s)", "max_by(s, n)", "min_by(s, n)", "max(concat(s, k))"),
            lambda: F.concat_ws(",", F.sort_array(F.collect_list("s"))),
            lambda: F.max(spelt("s", "v")),
            lambda: F.max_by(F.struct("s", "v"), "n").getField("s"),
            lambda: self._text_key(),
        )

    def _truths(self) -> Column:
        return self._filtered("bool_or(b)", "bool_and(b)", "max(v > 10)", "min_by(b, n)", "every(v > 0)")

    def _lists(self) -> Column:
        return self._of(
            lambda: F.sort_array(self._filtered("collect_list(v)")),
            lambda: F.sort_array(self._filtered("collect_set(v)", "collect_list(v + 1)")),
            lambda: F.sort_array(F.collect_list(raised("v"))),
            lambda: F.sort_array(self._filtered("collect_list(DISTINCT v)")),
            lambda: F.array(F.max("v"), F.count("*")),
        )
