"""Random programs for Faust as text. ``faust_random.py --programs 20000`` compares that many with plain Python.

The form of a body varies more than its computations: assignments at any place, early ends, helpers, closures, models,
and many ways to refer to tables and to build keys.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.faust.faust_against_python import Comparison, Program, Runs
from tests.support.faust.faust_expressions import Expressions
from tests.support.faust.faust_messages import KINDS, PRELUDE, RECORDS, messages


class Writer(Expressions):
    """Writes one program."""

    def __init__(self, chance: random.Random, name: str) -> None:
        self._chance = chance
        self._name = name
        self.topic = chance.choices(list(KINDS), [8, 3, 4, 4, 2, 2, 2, 3, 1, 1])[0]
        self._lines: list[str] = []
        self._windowed: dict[str, bool] = {}
        self._ways: dict[str, str] = {}
        self._yields = chance.random() < 0.35
        # True for a program that runs in the JVM and in the shards of a field.
        self._simple = chance.random() < 0.6
        if self._simple and chance.random() < 0.7:
            self.topic = chance.choice(["dicts", "dicts", "plain", "default", "checked", "texts"])
        self._record = self.topic in RECORDS
        self._scalar = self.topic in ("texts", "ints", "floats")
        self._parameter = ""
        self._inner = 0
        self._begin()

    def _begin(self) -> None:
        """Draws the properties of a body."""
        self._event_key = "None"
        self._e = "e"
        self._fresh = False
        self._carries = False
        self._grouped = ""

    def program(self) -> Program:
        one = self._chance
        for number in range(one.choice([1, 1, 2])):
            self._table(f"t{number}")
        inside: list[str] = []
        for agent in "a" if one.random() < 0.85 else "ab":
            body = self._body()
            while not any(way in line for line in body for way in self._ways.values()):
                body = self._body()
            inside += [
                f'@app.agent(app.topic("{self.topic}", value_type={KINDS[self.topic]}), name="{self._name}-{agent}",',
                f'    sink=[app.topic("{self._name}-out")], on_error=ON_ERROR)',
                f"async def fold(events{self._defaults()}):",
                *_in(body),
            ]
        first = [f"def agent_of({self._parameter}):"] if self._parameter else []
        lines = [*self._lines]
        lines += [*first, *_in(inside), f"agent_of({self._parameter.replace('in_', '')})"] if first else inside
        return Program(self._name, "\n".join(lines) + "\n", PRELUDE)

    # -- tables

    def _table(self, name: str) -> None:
        one = self._chance
        default = one.choice(["int", "int", "float", "lambda: 0", "lambda: 5", "zero"])
        if default == "zero":
            self._lines += ["def zero():", "    return 0", ""]
        windowed = one.random() < (0.85 if self._simple else 0.55)
        definition = f'app.Table("{self._name}-{name}", default={default})'
        if windowed:
            window = one.choice(
                ["tumbling(10, expires=0)", "hopping(10, 5, expires=0)", "hopping(30, 10, expires=0, key_index=True)"]
            )
            definition += f".{window}"
        self._lines.append(f"{name} = {definition}")
        self._windowed[name] = windowed
        ways = {
            "global": name,
            "held": f"held_{name}.table",
            "class": f"Held_{name}.table",
            "module": f"module_{name}.table",
            "dict": f'dict_{name}["x"]',
            "list": f"list_{name}[0]",
            "alias": f"alias_{name}",
            "getattr": f'getattr(held_{name}, "table")',
            "closure": f"in_{name}",
            "default": f"given_{name}",
        }
        weights = [12, 1, 1, 1, 1, 1, 1, 1, 3, 2]
        if not windowed:
            ways["app"] = f'app.tables["{self._name}-{name}"]'
            weights.append(2)
        if self._simple:
            weights = [1, *(0 for _ in weights[1:])]
        way = one.choices(list(ways), weights)[0]
        if way == "held" or way == "getattr":
            self._lines += [f"held_{name} = types.SimpleNamespace(table={name})"]
        elif way == "class":
            self._lines += [f"class Held_{name}:", f"    table = {name}"]
        elif way == "module":
            self._lines += [f'module_{name} = types.ModuleType("module_{self._name}")', f"module_{name}.table = {name}"]
        elif way == "dict":
            self._lines += [f'dict_{name} = {{"x": {name}}}']
        elif way == "list":
            self._lines += [f"list_{name} = [{name}]"]
        elif way == "alias":
            self._lines += [f"alias_{name} = {name}"]
        elif way == "closure":
            self._parameter = ", ".join(filter(None, [self._parameter, f"in_{name}"]))
        self._ways[name] = ways[way]

    def _defaults(self) -> str:
        names = [f"given_{name}" for name, way in self._ways.items() if way == f"given_{name}"]
        return "".join(f", {one}={one.removeprefix('given_')}" for one in names)

    # -- the body

    def _body(self) -> list[str]:
        self._begin()
        one = self._chance
        before = []
        stream = "events"
        if one.random() < 0.1:
            before.append("s = events")
            stream = "s"
        if one.random() < 0.1:
            before.append(one.choice(["x = 0", "count = 1", '"""What it does."""', "k = None"]))
        kind = one.random()
        if kind < 0.14:
            stream += self._filter()
        if 0.1 < kind < 0.3 and not self._scalar:
            stream += self._group()
        if one.random() < 0.1:
            stream += one.choice([".noack()", ".echo()"])
        kind = one.random()
        if self._simple and kind > 0.3:
            kind = 0.9
        if kind < 0.12:
            self._event_key = "event.key"
            loop, inside = f"async for event in {stream}.events():", ["e = event.value"]
            if one.random() < 0.4:
                self._e, inside = "event.value", []
        elif kind < 0.2:
            self._event_key = "key"
            loop, inside = f"async for key, e in {stream}.items():", []
        elif kind < 0.25:
            loop, inside = f"async for i, e in {stream}.enumerate():", []
        elif kind < 0.32 and not any(self._windowed.values()):
            loop, inside = f"async for taken in {stream}.take({one.choice([1, 3, 100])}):", ["for e in taken:"]
            return [*before, loop, *_in([*inside, *_in(self._block(2))])]
        else:
            loop, inside = f"async for e in {stream}:", []
        first = []
        if one.random() < 0.85:
            # Uses only the event: other names may be unset, or set by an earlier event.
            self._fresh = True
            first = [f"k = {self._text(1)}", f"m = {self._number(1)}"]
            self._fresh = False
        block = [*inside, *first, *self._block(3)]
        return [*before, loop, *_in(block), *self._ends()]

    def _ends(self) -> list[str]:
        # A generated loop reaches this line only by ``break``.
        table = self._chance.choice(list(self._ways))
        return [f"{self._ways[table]}['after'] += 1"] if self._chance.random() < 0.04 else []

    def _filter(self) -> str:
        if self._scalar:
            return self._chance.choice([".filter(lambda e: e)", ".filter(later)", ".filter(bool)"])
        field = "e.n" if self._record else 'e["n"]'
        choices = [
            f".filter(lambda e: {field} > 0)",
            ".filter(later)",
            f".filter(lambda value: {field.replace('e', 'value', 1)})",
        ]
        if not self._record:
            choices += [".filter(shout)", '.filter(lambda e: item(e, "n"))']
        return self._chance.choice(choices)

    def _group(self) -> str:
        one = self._chance
        if one.random() < 0.3:
            self._grouped = "upper"
            return f".group_by(lambda e: {self._field_of('e', 'k')}.upper())"
        self._grouped = one.choice(["k", "k", "id"])
        return f".group_by({KINDS[self.topic]}.{self._grouped})" if self._record else f'.group_by("{self._grouped}")'

    def _field_of(self, event: str, name: str) -> str:
        return f"{event}.{name}" if self._record else f'{event}["{name}"]'

    def _block(self, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self._chance.choice([1, 1, 2, 2, 3])):
            lines += self._statement(depth)
        return lines

    def _statement(self, depth: int) -> list[str]:
        one = self._chance
        makers: list[tuple[Callable[[int], list[str]], float]] = [(self._update, 10), (self._assign, 4), (self._let, 3)]
        if depth:
            makers += [(self._if, 5), (self._early, 2)]
        if self._yields:
            makers += [(self._yield, 4)]
        if not self._simple:
            makers += [(self._table_method, 3), (self._name_anywhere, 1), (self._event_changed, 1), (self._send, 1)]
            if depth:
                makers += [
                    (self._loop, 2),
                    (self._try, 2),
                    (self._function, 2),
                    (self._inner_stream, 1),
                    (self._match, 1),
                ]
        else:
            makers += [(self._name_anywhere, 0.4)]
        make = one.choices([maker for maker, _ in makers], [weight for _, weight in makers])[0]
        return make(depth)

    def _update(self, depth: int) -> list[str]:
        one = self._chance
        table = one.choice(list(self._ways))
        sign = one.choice(["+=", "+=", "+=", "+=", "-=", "*=", "//=", "%=", "/="])
        value = self._number(2) if sign in ("+=", "-=") else one.choice(["2", "3", "-1", "m"])
        return [f"{self._ways[table]}[{self._key()}] {sign} {value}"]

    def _assign(self, depth: int) -> list[str]:
        table = self._chance.choice(list(self._ways))
        return [f"{self._ways[table]}[{self._key()}] = {self._number(2)}"]

    def _let(self, depth: int) -> list[str]:
        one = self._chance
        if one.random() < 0.15:
            # Some events set it, and others read it.
            self._carries = True
            return [f"if {self._test(1)}:", f"    y = {self._number(1)}"]
        choices = [f"k = {self._text(2)}", f"m = {self._number(2)}", f"x = {self._number(2)}", f"q = {self._text(1)}"]
        if not self._simple:
            choices += [
                f"m, x = {self._number(1)}, {self._number(1)}",
                f"k = q = {self._text(1)}",
                "x: int = 1",
                f"if (x := {self._number(1)}) > 1: m = x",
                "m += 1",
                "del x",
            ]
        return [one.choice(choices)]

    def _name_anywhere(self, depth: int) -> list[str]:
        """Assigns a name that has another meaning."""
        one = self._chance
        scalar = {"texts": "'z'", "ints": "3", "floats": "1.0"}.get(self.topic)
        choices = [
            "events = None",
            "len = twice",
            "print = None",
            "twice = upper",
            f"k, {self._e if self._e == 'e' else 'q'} = 'a', {scalar or '{}'}",
        ]
        if self._e == "e":
            choices += ["e = None", f"if {self._test(1)}: e = {scalar or 'dict(k=str(1), n=2)'}"] * 2
        if self._simple:
            choices = [line for line in choices if "if" in line or "k," in line] or ["m = 1"]
        return [one.choice(choices)]

    def _event_changed(self, depth: int) -> list[str]:
        if self._scalar:
            return ["m = 1"]
        e = self._e
        if self._record:
            choices = [
                f"{e}.k = {self._text(1)}",
                f"setattr({e}, 'n', 3)",
                f"other = {e}; other.k = 'other'",
                f"del {e}.note",
            ]
        else:
            choices = [
                f'{e}["k"] = {self._text(1)}',
                f"{e}.update(k='up')",
                f"other = {e}; other['k'] = 'other'",
                f"shout({e})",
                f"{e}.pop('note', None)",
                f"{e}.setdefault('k', 'none')",
                f"del {e}['k']",
                f"for name in {e}: pass",
            ]
        return [self._chance.choice(choices)]

    def _send(self, depth: int) -> list[str]:
        return [f'await app.topic("{self._name}-out").send(value={self._out()})']

    def _yield(self, depth: int) -> list[str]:
        return [f"yield {self._out()}"]

    def _out(self) -> str:
        one = self._chance
        return one.choice(
            [
                f'{{"k": {self._text(1)}, "n": float({self._number(1)})}}',
                f'{{"text": f"{{{self._number(1)}}} of {{{self._text(1)}}}"}}',
            ]
        )

    def _table_method(self, depth: int) -> list[str]:
        one = self._chance
        table = one.choice(list(self._ways))
        way, key = self._ways[table], self._key()
        if self._windowed[table]:
            choices = [
                f"del {way}[{key}]",
                f"v = {way}[{key}]; v += 1",
                f"if {key} in {way}: {way}[{key}] += 1",
                f"v = {way}; v[{key}] += 2",
            ]
            choices += [f"x = {way}.get({key}, 0)"]
        else:
            choices = [
                f"{way}.setdefault({key}, 3)",
                f"x = {way}.setdefault({key}, {self._number(1)})",
                f"x = {way}.pop({key}, 0)",
                f"{way}.pop({key})",
                f"del {way}[{key}]",
                f"if {key} not in {way}: {way}[{key}] = 1",
                f"{way}.update({{{key}: {self._number(1)}}})",
                f"v = {way}; v[{key}] += 2",
                f"x = {way}.get({key}, 1)",
                f"{way}[{key}] = {way}.get({key}, 0) + 1",
            ]
        return one.choice(choices).split("; ")

    def _if(self, depth: int) -> list[str]:
        lines = [f"if {self._test(2)}:", *_in(self._block(depth - 1))]
        if self._chance.random() < 0.3:
            lines += [f"elif {self._test(1)}:", *_in(self._block(depth - 1))]
        if self._chance.random() < 0.5:
            lines += ["else:", *_in(self._block(depth - 1))]
        return lines

    def _early(self, depth: int) -> list[str]:
        ends = ["continue"] * 5
        if not self._simple:
            ends += ["return", "break", "raise KeyError('early')", "assert False, 'early'"]
        end = self._chance.choice(ends)
        if self._chance.random() < 0.2 and end == "continue":
            return [f"if {self._test(1)}:", *_in(self._block(0)), "    continue"]
        return [f"if {self._test(1)}:", f"    {end}"]

    def _loop(self, depth: int) -> list[str]:
        one = self._chance
        name = one.choice(["m", "x", "n", "k"])
        through = (
            f"range({one.choice([0, 2, 3])})" if name != "k" else one.choice(["('a', 'b')", f"{self._text(1)}.split()"])
        )
        body = [line for line in self._block(depth - 1) if line.strip() not in ("return",)]
        if one.random() < 0.25:
            return ["turns = 0", "while turns < 2:", "    turns += 1", *_in(body)]
        return [f"for {name} in {through}:", *_in(body), *(["else:", "    m = 9"] if one.random() < 0.2 else [])]

    def _try(self, depth: int) -> list[str]:
        one = self._chance
        error = one.choice(["KeyError", "ZeroDivisionError", "TypeError", "NameError", "Exception"])
        lines = [
            "try:",
            *_in(self._block(depth - 1)),
            f"except {error}{one.choice(['', ' as k'])}:",
            *_in(self._block(depth - 1)),
        ]
        if one.random() < 0.3:
            lines += ["else:", *_in(self._block(0))]
        if one.random() < 0.3:
            lines += ["finally:", "    m = 2"]
        return lines

    def _match(self, depth: int) -> list[str]:
        return [
            f"match {self._number(1)}:",
            "    case 0 | 1:",
            *_in(_in(self._block(depth - 1))),
            f"    case {self._chance.choice(['m', 'x', '_'])}:",
            *_in(_in(self._block(depth - 1))),
        ]

    def _function(self, depth: int) -> list[str]:
        one = self._chance
        table = one.choice(list(self._ways))
        way = self._ways[table]
        self._inner += 1
        name = f"inner{self._inner}"
        kind = one.randrange(7)
        if kind == 0:
            return [f"def {name}(key):", f"    {way}[key] += 1", f"{name}({self._key()})"]
        if kind == 1:
            return [f"def {name}(table, key, by=1):", "    table[key] += by", f"{name}({way}, {self._key()})"]
        if kind == 2:
            # A parameter with the event's name.
            return [f"def {name}(e):", "    return str(e) + '!'", f"{way}[{name}({self._text(1)})] += 1"]
        if kind == 3:
            return [f"async def {name}():", f"    {way}[{self._key()}] += 1", f"await {name}()"]
        if kind == 4:
            return [
                "m = 0",
                f"def {name}():",
                "    nonlocal m",
                "    m += 1",
                f"{name}()",
                f"{way}[{self._key()}] += m",
            ]
        if kind == 5:
            return [f"{name} = lambda key: key + '?'", f"{way}[{name}({self._text(1)})] += 1"]
        return [f"work = asyncio.create_task(later({self._number(1)}))", f"{way}[{self._key()}] += await work"]

    def _inner_stream(self, depth: int) -> list[str]:
        table = self._chance.choice(list(self._ways))
        name = self._chance.choice(["w", "k", "e" if self._e == "e" else "w"])
        return [f"async for {name} in words({self._text(1)}):", f"    {self._ways[table]}[{name}] += 1"]


def _in(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def programs(chance: random.Random, number: int) -> list[Program]:
    """Returns this many programs. Invalid Python is skipped."""
    valid: list[Program] = []
    while len(valid) < number:
        program = Writer(chance, f"p{len(valid)}").program()
        try:
            compile(program.text, "<program>", "exec")
        except SyntaxError:
            # For example, a name that is both a parameter and nonlocal.
            continue
        valid.append(program)
    return valid


def run(seed: int, number: int, folder: Path) -> Comparison:
    """Compares this many programs of a seed with plain Python."""
    chance = random.Random(seed)
    return Runs(folder, messages(chance)).compare(programs(chance, number))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=None, help="of one round, as a failure prints it")
    parser.add_argument("--each", type=int, default=200, help="programs in a round")
    arguments = parser.parse_args()
    from tests.conftest import session

    spark = session()
    done = wrong = refused = 0
    begun = time.monotonic()
    seeds = random.SystemRandom()
    while done < arguments.programs and not (arguments.seed is not None and done):
        seed = seeds.randrange(10**9) if arguments.seed is None else arguments.seed
        with tempfile.TemporaryDirectory() as folder:
            result = run(seed, arguments.each, Path(folder))
        done += arguments.each
        wrong += len(result.wrong)
        refused += len(result.refused)
        print(
            f"{done:>6} programs, {wrong} wrong, {refused} refused; seed {seed}: {len(result.sharded)} sharded, "
            f"{len(result.jvm)} in the JVM, {len(result.carries)} carry, {result.folded} rows there; "
            f"{time.monotonic() - begun:.0f} s",
            flush=True,
        )
        for name, why in result.refused.items():
            print(f"refused {name}: {why.splitlines()[0][:300]}")
        for text in result.wrong.values():
            print(f"--- seed {seed}\n{text}", flush=True)
    spark.stop()
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    sys.exit(main())
