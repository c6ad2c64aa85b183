"""Random functions that read and change outer variables in every way that Python has.

:func:`state_of` decides if a function has changed a variable. It writes all data of the program as text and shares no
code with the tested modules.
"""

from __future__ import annotations

import array
import collections
import itertools
import linecache
import random
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_NUMBER = itertools.count()

PRELUDE = """
import copy, functools, heapq, bisect, itertools, operator, array, types, dataclasses, enum
from collections import Counter, OrderedDict, defaultdict, deque

counts, seen, names, total, last = {}, set(), ["a", "b"], 0, None
groups, queue, ordered, tally = defaultdict(list), deque(maxlen=5), OrderedDict(a=1, b=2), Counter()
nested, lists, pair = {"u": {}, "v": {"n": 1}}, [[], [1]], ([], 0)
raw, numbers, ids = bytearray(b"ab"), array.array("i", [1, 2]), itertools.count()
shared = names
LIMITS = {"low": 1, "high": 3}

class Stats:
    total = 0
    by_key = {}
    def __init__(self):
        self.n, self.items, self.parent = 0, [], None
    def bump(self, by=1):
        self.n += by
    def look(self):
        return self.n
    def note(self, item):
        self.items.append(item)
        return self
    @classmethod
    def count(cls):
        cls.total += 1
    @staticmethod
    def keep(key):
        Stats.by_key[key] = 1
    @property
    def number(self):
        self.n += 1
        return self.n
    def __getitem__(self, key):
        return self.items[:1]
    def __iadd__(self, other):
        self.n += 1
        return self
    def __call__(self, key):
        self.items.append(key)

class Slots:
    __slots__ = ("n",)
    def __init__(self):
        self.n = 0

class Words(dict):
    def learn(self, key):
        self[key] = len(self)

@dataclasses.dataclass
class Point:
    x: int = 0
    tags: list = dataclasses.field(default_factory=list)

class Level(enum.Enum):
    LOW = 1
    HIGH = 2

stats, slots, words, point = Stats(), Slots(), Words(), Point()
holder = types.SimpleNamespace(n=0, inner=Stats(), data={})
handlers = {"note": stats.note, "plain": lambda key: seen.add(key)}
add_seen = seen.add

def put(container, key):
    container[key] = 1

def tell(key):
    global total
    total += 1
    return key

def pure(key):
    copied = dict(counts)
    copied[key] = 1
    return len(copied)

def counted(function):
    calls = 0
    @functools.wraps(function)
    def run(*given):
        nonlocal calls
        calls += 1
        return function(*given)
    return run

def passed(function):
    @functools.wraps(function)
    def run(*given):
        return function(*given)
    return run

@counted
def with_count(key):
    return key

@passed
def without_count(key):
    return key

@functools.lru_cache
def cached(key):
    return [key]

def counter():
    n, kept = 0, []
    def up(key):
        nonlocal n
        n += 1
        kept.append(key)
        return n
    return up

up = counter()
push = functools.partial(put, counts)
look = functools.partial(len, counts)

def default(key, memo={}):
    memo[key] = 1
    return key

def attribute(key):
    attribute.calls = getattr(attribute, "calls", 0) + 1
    return key
"""

WRITES = (
    *("counts[e] = 1", "counts[e] = counts.get(e, 0) + 1", "counts.update({e: 1})"),
    *("counts.setdefault(e, []).append(e)", "counts |= {e: 1}", "vars(holder)['n'] = e", "seen.add(e)"),
    *("add_seen(e)", "names.append(e)", "names += [e]", "names[0] = e", "names[:] = [e]", "del names[:]"),
    *("names.sort(key=str, reverse=True)", "shared.insert(0, e)", "groups[e]", "groups[e].append(1)"),
    *("x = groups[e]", "queue.append(e)", "queue.rotate(1) or queue.append(e)"),
    *("ordered.move_to_end('a')", "ordered['a'] = e", "tally[e] += 1", "tally.update([e])"),
    *("nested['u'][e] = 1", "nested['v']['n'] += 1", "lists[0].append(e)", "pair[0].append(e)"),
    *("copy.copy(nested)['u'][e] = 1", "dict(nested)['u'].update(k=e)", "list(lists)[0].append(e)"),
    *("{**nested}['u'][e] = 1", "lists[:][1].append(e)", "nested.copy()['u'][e] = 2", "raw.extend(b'x')"),
    *("raw[0] = 120", "numbers.append(3)", "numbers[0] = 9", "next(ids)", "x = next(ids)"),
    *("heapq.heappush(lists[1], 0)", "bisect.insort(lists[1], 0)", "operator.setitem(counts, e, 1)"),
    *("stats.bump()", "Stats.bump(stats)", "stats.note(e)", "stats.n += 1", "stats.items.append(e)"),
    *("Stats.count()", "stats.count()", "Stats.keep(e)", "Stats.total += 1", "Stats.by_key[e] = 1"),
    *("stats.number", "x = stats.number", "stats += 1", "stats(e)", "stats.parent = point"),
    *("setattr(stats, 'n', e)", "setattr(Stats, 'total', 7)", "object.__setattr__(stats, 'n', e)"),
    *("stats.__dict__['n'] = e", "slots.n += 1", "setattr(slots, 'n', e)", "words.learn(e)"),
    *("words[e] = 1", "point.x += 1", "point.tags.append(e)", "holder.n += 1", "holder.inner.bump()"),
    *("holder.data[e] = 1", "getattr(holder, 'data')[e] = 1", "handlers['note'](e)"),
    *("handlers['plain'](e)", "[f(e) for f in handlers.values()]", "put(counts, e)", "push(e)"),
    *("tell(e)", "with_count(e)", "up(e)", "default(e)", "attribute(e)", "put.calls = e"),
    *("setattr(put, 'calls', e)", "(lambda k: counts.update({k: 1}))(e)"),
    *("write = lambda: seen.add(e); write()", "f = counts.update; f({e: 1})", "f = names.append; f(e)"),
    *("(f := seen.add)(e)", "[counts.update({k: 1}) for k in (e,)]", "{seen.add(k) for k in (e, 'z')}"),
    *("list(map(seen.add, [e]))", "any(names.append(k) for k in [e])"),
    *("functools.reduce(lambda a, k: a.append(k) or a, [e], names)", "for one in lists: one.append(e)"),
    *("for one in nested.values(): one[e] = 1", "a, b = counts, seen; b.add(e)"),
    *("a = [counts]; a[0][e] = 1", "a = {'c': counts}; a['c'][e] = 1", "globals()['total'] = e"),
    *("globals()['fresh'] = e", "total += 1", "total = e", "last = e", "last = [e]"),
    *("names = [*names, e]", "counts = {**counts, e: 1}", "pair = (pair[0], e)", "seen = seen | {e}"),
    *("LIMITS['high'] = e", "del LIMITS['low']; LIMITS[e] = 1", "def inner(): counts[e] = 1\ninner()"),
    *("def inner(c=counts): c[e] = 1\ninner()", "class Local(Stats): pass\nLocal.by_key[e] = 1"),
    *("with_count(put(counts, e))", "cached(e) and tell(e)", "match e:\n    case _: seen.add(e)"),
    *("try: counts[e].x\nexcept KeyError: counts[e] = 1",),
)
"""Statements that change a variable of the prelude. An escaped `` ;; `` is that of sets."""

READS = (
    *("x = counts.get(e)", "x = e in seen", "x = len(names)", "x = sorted(names)"),
    *("x = nested['v']['n']", "x = stats.look()", "x = [one for one in lists]", "x = {**counts, e: 1}"),
    *("own = dict(counts); own[e] = 1", "own = list(names); own.append(e)"),
    *("own = copy.deepcopy(nested); own['u'][e] = 1", "own = {}; put(own, e)", "x = pure(e)"),
    *("x = without_count(e)", "x = cached(e)", "x = look()", "x = LIMITS['low'] + 1", "x = Level.HIGH"),
    *("x = point.x", "own = Stats(); own.bump(); own.note(e)", "own = Point(e); own.tags.append(e)"),
    *("x = stats[0]", "x = holder.inner.look()", "x = tally.most_common(1)", "x = max(numbers)"),
    *("x = bytes(raw)", "for one in nested: x = one", "x = getattr(holder, 'n')", "x = ordered['a']"),
    *("x = groups.get(e)", "x = str(stats.items)", "x = total", "x = last", "x = counter()(e)"),
    *("x = Words(); x.learn(e)", "x = tuple(map(str, names))", "local = Stats; x = local().n"),
    *("x = (lambda k: [k])(e)", "x = names + [e]", "x = seen | {e}"),
)
"""Statements that change nothing outside."""


@dataclass(frozen=True)
class Body:
    """A function ``process(events)``, its names, and its source."""

    text: str
    scope: dict[str, Any]

    @property
    def process(self) -> Any:
        return self.scope["process"]


def body_of(chance: random.Random) -> Body:
    """A random body: statements of both kinds, some of which do not run."""
    lines: list[str] = []
    for _ in range(chance.choice([1, 1, 2, 3])):
        statement = chance.choice(WRITES if chance.random() < 0.6 else READS).strip()
        lines += _placed(chance, statement.replace("; ", "\n").split("\n"))
    globals_ = [name for name in ("total", "last", "names", "counts", "pair", "seen", "stats") if _is_set(lines, name)]
    head = [f"global {', '.join(globals_)}"] if globals_ else []
    indented = "".join(f"        {line}\n" for line in lines)
    text = (
        PRELUDE
        + "def process(events):\n"
        + "".join(f"    {one}\n" for one in head)
        + "    for e in events:\n"
        + indented
    )
    file = f"<outside body {next(_NUMBER)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"__name__": "outside_bodies"}
    exec(compile(text, file, "exec", dont_inherit=True), scope)
    return Body(text.removeprefix(PRELUDE), scope)


def _placed(chance: random.Random, lines: list[str]) -> list[str]:
    kind = chance.random()
    indented = [f"    {line}" for line in lines]
    if kind < 0.15:
        return ["if e == 'never':", *indented]
    if kind < 0.3:
        return ["if e != 'k1':", *indented]
    if kind < 0.4:
        return ["try:", *indented, "finally:", "    pass"]
    return lines


def _is_set(lines: list[str], name: str) -> bool:
    starts = tuple(f"{name} {sign}" for sign in ("=", "+=", "|="))
    return any(line.strip().startswith(starts) for line in lines)


def state_of(scope: dict[str, Any]) -> str:
    """All data of a program as text."""
    numbers: dict[int, tuple[int, Any]] = {}
    return "\n".join(
        f"{name} {_text(value, numbers)}"
        for name, value in scope.items()
        if not name.startswith("__") and not isinstance(value, types.ModuleType)
    )


def _text(value: Any, numbers: dict[int, tuple[int, Any]]) -> str:
    if isinstance(value, (str, bytes, int, float, type(None))):
        return repr(value)
    if id(value) in numbers:
        return f"@{numbers[id(value)][0]}"
    # The reference prevents that another object gets the same identity.
    numbers[id(value)] = (len(numbers), value)
    return f"{type(value).__name__}({', '.join(_text(one, numbers) for one in _parts(value))})"


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from itertools.chain.from_iterable(value.items())
    elif isinstance(value, (list, tuple, collections.deque, array.array, bytearray)):
        yield from value
    elif isinstance(value, (set, frozenset)):
        yield from sorted(value, key=repr)
    elif isinstance(value, itertools.count):
        yield repr(value)
    if isinstance(value, types.FunctionType):
        for cell in value.__closure__ or ():
            yield cell.cell_contents
        yield from (value.__defaults__ or ())
        yield from value.__dict__.items()
    elif isinstance(value, type):
        if value.__module__ == "outside_bodies":
            yield from ((name, one) for name, one in vars(value).items() if not name.startswith("__"))
    elif type(value).__module__ in ("outside_bodies", "types"):
        yield from (getattr(value, "__dict__", None) or {}).items()
        yield from [value.n] if type(value).__name__ == "Slots" else []


__all__ = ["Body", "body_of", "state_of"]
