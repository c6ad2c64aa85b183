"""Random bodies of agents: statements over windowed tables, as text."""

from __future__ import annotations

import itertools
import linecache
import random
from typing import Any

import mullion.faust as faust

_NUMBER = itertools.count()


class Order(faust.Record, validation=True):
    k: str
    n: int = 0
    share: float = 0.5
    on: bool = True
    note: str | None = None


class Bodies:
    """Writes bodies for one kind of event: ``e.n`` for records, ``e["n"]`` for dicts."""

    def __init__(self, chance: random.Random, record: bool, reads: bool) -> None:
        self._chance = chance
        self._record = record
        self._reads = reads

    def body(self, tables: list[str]) -> list[str]:
        """The lines of a body over tables with these names."""
        return [f"k = {self._field('k')}", f"m = {self._field('n')} * 2", *self._block(tables, 3)]

    def _field(self, name: str) -> str:
        return f"e.{name}" if self._record else f'e["{name}"]'

    def _key(self) -> str:
        return self._chance.choice([self._field("k"), "k"])

    def _value(self, tables: list[str], depth: int = 2) -> str:
        one = self._chance.choice
        simple = ["1", "2", "0.5", "m", "-m", "LIMIT", self._field("n"), self._field("share"), f"len({self._key()})"]
        if depth == 0:
            return one(simple)
        inner, other = self._value(tables, depth - 1), self._value(tables, depth - 1)
        choices = [
            *simple,
            f"({inner} {one('+-')} {other})",
            # A factor that is read from a table would soon exceed the largest float.
            f"({inner} * {one(['3', '-2', '1.5', 'm'])})",
            f"({inner} {one(['/', '//', '%'])} {one(['2', '3', '-4', '0.25'])})",
            f"({inner} if {self._test(tables, 0)} else {other})",
            f"{one(['max', 'min'])}({inner}, {other})",
            f"{one(['abs', 'int', 'float', 'round', 'bool'])}({inner})",
        ]
        if self._reads:
            choices += [self._read(tables)] * 4
        return one(choices)

    def _read(self, tables: list[str]) -> str:
        how = self._chance.choice(["value()", "current()", "now()", "delta(10)", "delta(PAUSE)"])
        return f"{self._chance.choice(tables)}[{self._key()}].{how}"

    def _test(self, tables: list[str], depth: int = 1) -> str:
        one = self._chance.choice
        signs = ["<", "<=", "==", "!=", ">", ">="]
        plain = [
            f"{self._value(tables, depth)} {one(signs)} {self._value(tables, depth)}",
            f"{self._key()} {one(signs)} 'c'",
            f"'a' in {self._key()}",
            f"not {self._field('on')}",
            f"{self._field('note')} is {one(['', 'not '])}None",
            f"{self._field('n')} > 0 and k != 'b'",
            f"{self._field('n')} < 0 or {self._field('on')}",
        ]
        return one(plain)

    def _block(self, tables: list[str], depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self._chance.randint(1, 3)):
            lines += self._statement(tables, depth)
        return lines

    def _statement(self, tables: list[str], depth: int) -> list[str]:
        kind = self._chance.random()
        if depth and kind < 0.25:
            then = [f"    {line}" for line in self._block(tables, depth - 1)]
            otherwise = [f"    {line}" for line in self._block(tables, depth - 1)]
            return [f"if {self._test(tables)}:", *then, *(["else:", *otherwise] if kind < 0.12 else [])]
        if depth and kind < 0.32:
            return [f"if {self._test(tables)}:", "    continue"]
        if self._reads and kind < 0.5:
            # A topic's column has one type, and a bool is not a number.
            value = f"{self._value(tables)} + 0"
            choices = [value, "{'k': k, 'n': " + value + "}", "{'text': f'''{k}: {" + value + ":.3f} of {e}'''}"]
            return [f"yield {self._chance.choice(choices)}"]
        sign = self._chance.choice(["+=", "+=", "+=", "-=", "="])
        return [f"{self._chance.choice(tables)}[{self._key()}] {sign} {self._value(tables)}"]


def agent(app: Any, name: str, topic: Any, lines: list[str], sinks: list[Any], on_error: str, **names: Any) -> None:
    """Creates an agent from a body."""
    text = "\n".join(
        [
            "@app.agent(topic, name=name, sink=sinks, on_error=on_error)",
            "async def fold(events):",
            "    async for e in events:",
            *(f"        {line}" for line in lines),
        ]
    )
    file = f"<body {next(_NUMBER)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = {"app": app, "name": name, "topic": topic, "sinks": sinks, "on_error": on_error, **names}
    exec(compile(text, file, "exec"), scope)
    # Workers receive only the globals that the body names.
    for one in ("app", "topic", "sinks", "__builtins__"):
        scope.pop(one, None)
