"""Expressions as columns against Python: random lambdas over rows at the edges of what numbers and texts can be."""

from __future__ import annotations

import linecache
import math
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from mullion._code import columns, reader
from mullion._code.columns import Items, column_of, known, row_of, struct_of
from mullion._code.syntax import Refused

KIND_OF = {"i": "int", "j": "int", "u": "float", "v": "float", "s": "str", "t": "str", "b": "bool", "c": "bool"}
TYPES = {"int": T.LongType(), "float": T.DoubleType(), "str": T.StringType(), "bool": T.BooleanType()}
SCHEMA = T.StructType([T.StructField(name, TYPES[kind]) for name, kind in KIND_OF.items()])
SURE = T.StructType([T.StructField(field.name, field.dataType, nullable=False) for field in SCHEMA])
INTS = (0, 1, -1, 2, 3, -7, 10, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1)
FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.5,
    -3.5,
    0.1,
    1e300,
    -1e300,
    5e-324,
    2.0**53,
    2.0**63,
    math.inf,
    -math.inf,
    math.nan,
)
INT_SIGNS = ("+", "-", "*", "//", "%", "&", "|", "^")
TEXTS = ("", "a", "b", "ab", "Z", "é", "\U0001f600", "\uffff", " ", "1")


LIMIT = 2


class Programs:
    """Random lambdas over ``x``, as text; of each kind of value those that Python can make of others."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_

    def of(self, kind: str, depth: int) -> str:
        choose, deep = self.random.choice, depth - 1
        if depth <= 0:
            return self.leaf(kind)
        ways: dict[str, list[Callable[[], str]]] = {
            "int": [
                lambda: f"({self.of('int', deep)} {choose(INT_SIGNS)} {self.of('int', deep)})",
                lambda: f"({self.of('bool', deep)} + {self.of('int', deep)})",
                lambda: f"(-{self.of('int', deep)})",
                lambda: f"abs({self.of('int', deep)})",
                lambda: f"{choose(['int', 'round'])}({self.of(choose(['float', 'int', 'bool']), deep)})",
                lambda: f"len({self.of('str', deep)})",
                lambda: f"{choose(['min', 'max'])}({self.of('int', deep)}, {self.of('int', deep)})",
            ],
            "float": [
                lambda: f"({self.of('float', deep)} {choose('+-*/%')} {self.of(choose(['float', 'int']), deep)})",
                lambda: f"({self.of('int', deep)} / {self.of('int', deep)})",
                lambda: f"(-{self.of('float', deep)})",
                lambda: f"abs({self.of('float', deep)})",
                lambda: f"float({self.of('int', deep)})",
                lambda: f"{choose(['min', 'max'])}({self.of('float', deep)}, {self.of('float', deep)})",
            ],
            "str": [
                lambda: f"({self.of('str', deep)} + {self.of('str', deep)})",
                lambda: f"str({self.of(choose(['int', 'bool', 'str']), deep)})",
                lambda: (
                    'f"{(' + self.leaf("int").replace('"', "'") + ")}-{" + self.leaf("str").replace('"', "'") + '}"'
                ),
            ],
            "bool": [
                lambda: self.compared(choose(["int", "float", "str", "bool"]), deep),
                lambda: f"({self.of('int', deep)} {choose(['<', '==', '>='])} {self.of('float', deep)})",
                lambda: f"(not {self.of(choose(['int', 'float', 'str', 'bool']), deep)})",
                lambda: f"bool({self.of(choose(['int', 'float', 'str', 'bool']), deep)})",
                lambda: f"(x['{choose('ijuvstbc')}'] {choose(['is', 'is not', '==', '!='])} None)",
                lambda: f"({self.of('int', deep)} {choose(['in', 'not in'])} ({self.of('int', deep)}, 3))",
                lambda: f"({self.of('str', deep)} in {self.of('str', deep)})",
                lambda: f"({self.of('bool', deep)} {choose('&|^')} {self.of('bool', deep)})",
                lambda: f"({self.of('int', deep)} < {self.of('int', deep)} <= {self.of('int', deep)})",
            ],
        }
        always: list[Callable[[], str]] = [
            lambda: (
                f"({self.of(kind, deep)} if {self.of(choose(['bool', 'int', 'str']), deep)} else {self.of(kind, deep)})"
            ),
            lambda: f"({self.of(kind, deep)} {choose(['and', 'or'])} {self.of(kind, deep)})",
            lambda: f"({self.of(kind, deep)}, {self.of('int', deep)})[0]",
            lambda: f"{{'k': {self.of(kind, deep)}, 'l': {self.of('bool', deep)}}}.get('k', {self.leaf('int')})",
        ]
        return choose([*ways[kind], *ways[kind], *always])()

    def compared(self, kind: str, depth: int) -> str:
        sign = self.random.choice(["==", "!=", "<", "<=", ">", ">="])
        return f"({self.of(kind, depth)} {sign} {self.of(kind, depth)})"

    def leaf(self, kind: str) -> str:
        if self.random.random() < 0.7:
            return f"x['{self.random.choice([name for name, of in KIND_OF.items() if of == kind])}']"
        constants = {
            "int": (0, 1, -2, 3, 2**53 + 1),
            "float": (0.5, -1.5, 1e10),
            "str": TEXTS[1:6],
            "bool": (True, False),
        }
        return repr(self.random.choice(constants[kind]))


def rows(random_: random.Random, count: int, *, nulls: bool) -> list[dict[str, Any]]:
    of = {"int": INTS, "float": FLOATS, "str": TEXTS, "bool": (True, False)}
    small = {"int": range(-9, 10), "float": [n / 4 for n in range(-9, 10)], "str": TEXTS, "bool": (True, False)}
    found = []
    for number in range(count):
        values = of if number % 2 else small
        row = {name: random_.choice(values[kind]) for name, kind in KIND_OF.items()}
        if nulls:
            row = {name: None if random_.random() < 0.15 else value for name, value in row.items()}
        found.append(row)
    return found


def lambdas(texts: list[str], name: str, parameters: str = "x") -> list[Callable[..., Any]]:
    """The functions, in a file that is there to be looked at."""
    file = f"<{name}>"
    text = "".join(f"f{i} = lambda {parameters}: {one}\n" for i, one in enumerate(texts))
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope)
    return [scope[f"f{i}"] for i in range(len(texts))]


def outcome(function: Callable[..., Any], *given: Any) -> tuple[str, Any]:
    try:
        return "gives", function(*given)
    except Exception as error:
        return "raises", type(error).__name__


def same(one: Any, other: Any) -> bool:
    """The same value of the same type, to the last bit; what is not a number is one value."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and repr(one) == repr(other)


@pytest.mark.parametrize("schema", [SCHEMA, SURE], ids=["nulls", "no nulls"])
def test_what_a_column_knows_is_what_python_gives(spark: SparkSession, schema: T.StructType) -> None:
    seed = int(os.environ.get("MULLION_TEST_SEED", random.randrange(10**6)))
    print(f"MULLION_TEST_SEED={seed}")
    random_ = random.Random(seed)
    programs = Programs(random_)
    texts = [programs.of(kind, 1 + n % 3) for n in range(30) for kind in ("int", "float", "str", "bool")]
    given = rows(random_, 60, nulls=schema == SCHEMA)
    df = spark.createDataFrame([tuple(row.values()) for row in given], schema)
    row = row_of(df.schema)
    shapes = {}
    functions = lambdas(texts, f"random-{seed}-{schema == SCHEMA}")
    for i, function in enumerate(functions):
        try:
            shapes[i] = column_of(reader.read(function).result, {"x": row})
        except Refused:
            continue
    assert len(shapes) > len(texts) * 0.7
    asked = [known(one).alias(f"k{i}") for i, one in shapes.items()]
    asked += [struct_of(one).alias(f"v{i}") for i, one in shapes.items()]
    answers = df.select(*asked).collect()
    plain = small = 0
    for number, (values, answer) in enumerate(zip(given, answers, strict=True)):
        for i in shapes:
            how, expected = outcome(functions[i], values)
            if answer[f"k{i}"]:
                assert how == "gives", f"{texts[i]} of {values} raises {expected}, not {answer[f'v{i}']!r}"
                assert same(answer[f"v{i}"], expected), f"{texts[i]} of {values}: {answer[f'v{i}']!r}, not {expected!r}"
            # Of small numbers all is known that Python can compute.
            if number % 2 == 0 and how == "gives" and str(2**53 + 1) not in texts[i]:
                plain += 1
                small += bool(answer[f"k{i}"])
    assert small > plain * 0.9


@pytest.mark.parametrize("sign", ["==", "!=", "<", ">="])
def test_what_is_not_known_is_not_compared_with_what_is_no_number(spark: SparkSession, sign: str) -> None:
    (compared,) = lambdas([f"x['i'] {sign} x['u']"], f"not a number {sign}")
    df = spark.createDataFrame([(2**53 + 1, math.nan), (1, math.nan)], T.StructType([SURE["i"], SURE["u"]]))
    shape = column_of(reader.read(compared).result, {"x": row_of(df.schema)})
    beyond, within = df.select(known(shape).alias("known"), struct_of(shape).alias("value")).collect()
    assert not beyond.known
    assert within.known
    assert within.value is (sign == "!=")


def test_a_fold_over_an_accumulator_is_a_column(spark: SparkSession) -> None:
    folded = reader.read(lambda acc, x: (acc[0] + x["n"], acc[1] + 1, x["s"] if x["n"] > acc[2] else None))
    df = spark.sql("SELECT 5L AS sum, 2L AS count, 3L AS last, 7L AS n, 'a' AS s")
    acc = Items(tuple(row_of(df.select("sum", "count", "last").schema).fields.values()))
    shape = column_of(folded.result, {"acc": acc, "x": row_of(df.select("n", "s").schema)})
    (row,) = df.select(known(shape).alias("known"), struct_of(shape).alias("acc")).collect()
    assert row.known is True
    assert tuple(row.acc) == (12, 3, "a")


def test_a_dict_that_is_changed_is_a_column(spark: SparkSession) -> None:
    def count(acc: Any, x: Any) -> Any:
        acc["n"] += 1
        acc["last"] = x["v"]
        return acc

    df = spark.sql("SELECT named_struct('n', 1L, 'last', 'a') AS acc, named_struct('v', 'b') AS x")
    shape = column_of(reader.read(count).result, dict(row_of(df.schema).fields))
    (row,) = df.select(struct_of(shape).alias("acc")).collect()
    assert row.acc.asDict() == {"n": 2, "last": "b"}


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: x["i"] ** 2, "the operator"),
        (lambda x: x["i"] << 2, "the operator"),
        (lambda x: x["u"] // 2.0, "the operator '//' with floats"),
        (lambda x: str(x["u"]), "the text of a float"),
        (lambda x: f"{x['i']:03}", "a text has a format"),
        (lambda x: int(x["s"]), "it computes with a str"),
        (lambda x: x["s"] * 2, "it computes with a str"),
        (lambda x: x["i"] if x["b"] else x["u"], "it is int or float"),
        (lambda x: x["s"] == x["i"], "it compares str and int"),
        (lambda x: x["u"] in (1.0, 2.0), "the operator 'in' with floats"),
        (lambda x: x["other"], "'other' of what has no such item"),
        (lambda x: x.i, "'i' of what has no such attribute"),
        (lambda x: (x["i"], 1)[LIMIT], "an item of a tuple or a list that is not known"),
        (lambda x: x["s"][0], "an item of a single value"),
        (lambda x: x["i"] is x["j"], "the operator 'is' with something other than None"),
        (lambda x: min(x["i"], x["u"]), "min of float, int"),
        (lambda x: round(x["u"], 2), "round with 2 arguments"),
        (lambda x: (x["i"],) < (1,), "as a whole"),
        (lambda x: 2**70 + x["i"], "the constant 1180591620717411303424"),
        (lambda x: x["i"] + 1180591620717411303424, "the constant 1180591620717411303424"),
        (lambda x: x["u"] if x["b"] else -0.0, r"the constant -0\.0"),
    ],
)
def test_what_no_column_computes_as_python_does_is_refused(
    spark: SparkSession, function: Callable[..., Any], why: str
) -> None:
    with pytest.raises(Refused, match=why):
        column_of(reader.read(function).result, {"x": row_of(SCHEMA)})


def test_a_column_of_another_type_is_not_among_the_fields(spark: SparkSession) -> None:
    kinds = {"i": T.IntegerType(), "d": T.DecimalType(9, 2), "a": T.ArrayType(T.IntegerType()), "a.b": T.LongType()}
    schema = T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])
    assert list(row_of(schema).fields) == ["i", "a.b"]
    with pytest.raises(Refused, match=r"a column is decimal\(9,2\)"):
        columns.shape_of(F.col("d"), T.DecimalType(9, 2))
