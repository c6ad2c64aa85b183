"""Random lambdas, and rows whose values are at the edges of numbers and texts."""

from __future__ import annotations

import linecache
import math
import random
from collections.abc import Callable
from typing import Any

KIND_OF = {"i": "int", "j": "int", "u": "float", "v": "float", "s": "str", "t": "str", "b": "bool", "c": "bool"}
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


class Programs:
    """Writes random lambdas over ``x`` as text, for each type of value that Python computes from others."""

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
    rows_ = []
    for number in range(count):
        values = of if number % 2 else small
        row = {name: random_.choice(values[kind]) for name, kind in KIND_OF.items()}
        if nulls:
            row = {name: None if random_.random() < 0.15 else value for name, value in row.items()}
        rows_.append(row)
    return rows_


def lambdas(texts: list[str], name: str, parameters: str = "x") -> list[Callable[..., Any]]:
    """Imports the functions from a file, so that their source is available."""
    file = f"<{name}>"
    text = "".join(f"f{i} = lambda {parameters}: {one}\n" for i, one in enumerate(texts))
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope)
    return [scope[f"f{i}"] for i in range(len(texts))]


def outcome(function: Callable[..., Any], *arguments: Any) -> tuple[str, Any]:
    try:
        return "gives", function(*arguments)
    except Exception as error:
        return "raises", type(error).__name__
