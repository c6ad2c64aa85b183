"""The topics of random programs for Faust: the models of their values, and messages, some of the wrong type."""

from __future__ import annotations

import random

from tests.support.faust.faust_against_python import Batches

PRELUDE = """
import asyncio
import functools
import types


class Plain(faust.Record):
    k: str
    n: int = 0
    s: float = 0.5
    on: bool = True
    note: str | None = None
    id: int = 0
    text: str = ""

    @property
    def upper(self):
        return self.k.upper()

    def named(self, end="!"):
        return self.k + end


class Default(faust.Record):
    n: int
    k: str = "AT"
    country: str = "CH"
    s: float = 0.5
    on: bool = True
    note: str | None = None
    id: int = 7
    text: str = "x y"


class Coerced(faust.Record, coerce=True):
    k: str
    id: int
    n: int = 0
    s: float = 0.5
    on: bool = True
    note: str | None = None
    text: str = ""


class Own(faust.Record):
    k: str
    n: int = 0
    s: float = 0.5
    on: bool = True
    note: str | None = None
    id: int = 0
    text: str = ""

    def __post_init__(self):
        self.k = self.k.lower()


class Checked(faust.Record, validation=True):
    k: str
    n: int
    s: float
    on: bool
    note: str | None = None
    id: int = 0
    text: str = ""


def twice(value):
    return value * 2


def upper(text):
    return text.upper()


def item(event, name):
    return event[name]


def shout(event):
    event["k"] = event["k"].upper()
    return event


async def words(text):
    for word in text.split():
        yield word


async def later(value):
    await asyncio.sleep(0)
    return value


def logged(function):
    @functools.wraps(function)
    def around(*args, **kwargs):
        return function(*args, **kwargs)

    return around
"""

KINDS = {
    "dicts": "dict",
    "bare": "None",
    "plain": "Plain",
    "default": "Default",
    "coerced": "Coerced",
    "own": "Own",
    "checked": "Checked",
    "texts": "str",
    "ints": "int",
    "floats": "float",
}
FIELDS = ("k", "n", "s", "on", "note", "id", "text")
RECORDS = ("plain", "default", "coerced", "own", "checked")


def messages(chance: random.Random, batches: int = 3, each: int = 40) -> Batches:
    """Messages for each topic, some of the wrong type."""
    topics: dict[str, list[list[tuple[object, object, float]]]] = {}
    for topic in KINDS:
        # Times are unique, because they identify dead letters.
        times = iter(chance.sample(range(120_000), batches * each))
        topics[topic] = [[_message(chance, topic, next(times) / 1000) for _ in range(each)] for _ in range(batches)]
    return topics


def _message(chance: random.Random, topic: str, at: float) -> tuple[object, object, float]:
    key = chance.choice([None, "a", "b", "A", "key", "k1", "k2"])
    if topic == "texts":
        return key, chance.choice(["a", "b", "a b", "A", "", "b a a", "1", "é"]), at
    if topic == "ints":
        return key, chance.choice([0, 1, 2, 3, 5, -4, 10**6]), at
    if topic == "floats":
        return key, chance.choice([0.0, -0.0, 1.0, 0.5, -2.25, 3.0, 1e15]), at
    value = {
        "k": chance.choice(["a", "b", "c", "A", "B", "1", "", "é\n", "k1", "k2", "k3", "k4"]),
        "n": chance.randrange(-3, 12),
        "s": chance.choice([0.5, -1.25, 3.0, 0.1, 0.0]),
        "on": chance.random() < 0.5,
        "note": chance.choice([None, "x", "yy"]),
        "id": chance.choice([0, 1, 2, 7]),
        "text": chance.choice(["", "a", "a b", "b b c"]),
    }
    if topic == "coerced":
        value["id"] = chance.choice(["1", "01", "2", "x", "7 "])
    if topic == "default":
        value["country"] = chance.choice(["AT", "CH", "DE"])
    return key, value, at
