"""Fifty-six ways to write an agent, each as a small program.

Each program begins with ``views``, a windowed table of numbers, and ``totals``, one without windows. ``topic(...)`` and
``out`` are topics, and ``agent(...)`` creates an agent whose failed events become dead letters. Words in capitals are
placeholders.
"""

from __future__ import annotations

import random
import textwrap

from tests.support.faust.faust_against_python import Batches, Program
from tests.support.faust.faust_messages import PRELUDE, messages
from tests.support.faust.programs.faust_ways_to_tables import REACHED

_BEFORE = """
views = app.Table("NAME-views", default=int).hopping(20, 10, expires=0)
totals = app.Table("NAME-totals", default=int)
out = app.topic("NAME-out")


def agent(topic, kind=None, sink=(), name="fold"):
    return app.agent(app.topic(topic, value_type=kind), name="NAME-" + name, sink=sink, on_error=ON_ERROR)
"""

REFUSED = {
    "a stream grouped by one field, and a table of another": "'.*' goes through a stream grouped by 'k'",
    "two tables of different fields": "uses tables by different keys",
}
"""The rejected ways, with words of the error: totals would be split between shards, in Faust too."""

WAYS = {
    # The meaning of the event's name
    "the event's own name is set in one branch": """
@agent("ints", int)
async def fold(events):
    async for x in events:
        if x > 3:
            x = 3
        views["a"] += x
""",
    "an empty text is given a name": """
@agent("texts", str)
async def fold(events):
    async for page in events:
        if page == "":
            page = "/"
        views[page] += 1
""",
    "a variable is set in one branch and used in both": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        by = 1
        if e["on"]:
            by = e["n"]
        views[e["k"]] += by
""",
    "a variable of an event before is not there": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        if "by" in locals():
            del by
        if e["n"] > 3:
            by = e["n"]
        totals[e["k"]] += by
""",
    # Changed events
    "the key's field is written over": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        e["k"] = e["k"].upper()
        views[e["k"]] += 1
        totals[e["k"]] += 1
""",
    "the event is updated": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        e.update(k=e["k"].lower())
        totals[e["k"]] += 1
""",
    "the event is changed through another name": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        d = e
        d["k"] = d["k"][:1]
        totals[e["k"]] += 1
""",
    "a helper changes the event": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        shout(e)
        totals[e["k"]] += 1
""",
    "an item is deleted and set again": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        held = e["k"]
        del e["k"]
        e["k"] = held.upper()
        totals[e["k"]] += 1
""",
    "the event is joined with a dict": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        e |= {"k": e["k"].upper()}
        totals[e["k"]] += 1
""",
    "a field of a record is set": """
@agent("default", Default)
async def fold(events):
    async for w in events:
        w.country = w.country.lower()
        totals[w.country] += 1
""",
    "a field of a record is set by name": """
@agent("plain", Plain)
async def fold(events):
    async for e in events:
        setattr(e, "k", e.k.upper())
        views[e.k] += 1
""",
    "a function within has a parameter of the event's name": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        def name(e):
            return e.upper()
        totals[name(e["k"])] += 1
        views[e["k"]] += 1
""",
    "the event is replaced by a copy": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        e = {**e, "k": e["k"].upper()}
        totals[e["k"]] += 1
""",
    # Records
    "a record's field with a default": """
@agent("default", Default)
async def fold(events):
    async for e in events:
        totals[e.country] += 1
        views[e.country] += e.n
""",
    "a record that coerces": """
@agent("coerced", Coerced)
async def fold(events):
    async for e in events:
        totals[e.id] += 1
""",
    "a record that is made in its own way": """
@agent("own", Own)
async def fold(events):
    async for e in events:
        totals[e.k] += 1
        views[e.k] += 1
""",
    "a record's property is the key": """
@agent("plain", Plain)
async def fold(events):
    async for e in events:
        totals[e.upper] += 1
""",
    "a record's method makes the key": """
@agent("plain", Plain)
async def fold(events):
    async for e in events:
        views[e.named()] += 1
""",
    "a stream grouped by a record's field with a default": """
@agent("default", Default)
async def fold(events):
    async for e in events.group_by(Default.country):
        totals[e.country] += 1
""",
    "a stream grouped by a field that is coerced": """
@agent("coerced", Coerced)
async def fold(events):
    async for e in events.group_by(Coerced.id):
        totals[e.id] += 1
""",
    "a stream grouped by a field that a record makes in its own way": """
@agent("own", Own)
async def fold(events):
    async for e in events.group_by(Own.k):
        totals[e.k] += 1
""",
    # Keys
    "0.0 and -0.0 are one key": """
@agent("floats", float)
async def fold(events):
    async for e in events:
        totals[e] += 1
        views[e] += 1
""",
    "a table by ints of one topic and floats of another": """
@agent("dicts", dict, name="ints")
async def ints(events):
    async for e in events:
        totals[e["id"]] += 1


@agent("floats", float, name="floats")
async def floats(events):
    async for e in events:
        totals[e] += 1
""",
    "a key that is computed": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        totals[f"{e['k'].upper()} {e['on']}"] += 1
""",
    "a key of two parts": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        totals[e["k"], e["id"]] += 1
""",
    "the message's key": """
@agent("dicts", dict)
async def fold(events):
    async for event in events.events():
        totals[event.key or "none"] += 1
""",
    "the message's key alone, which may be None": """
@agent("dicts", dict)
async def fold(events):
    async for event in events.events():
        totals[event.key] += event.value["n"]
""",
    "keys and values": """
@agent("dicts", dict)
async def fold(events):
    async for key, e in events.items():
        if key is not None:
            views[key] += e["n"]
""",
    "numbers and values": """
@agent("dicts", dict)
async def fold(events):
    async for i, e in events.enumerate():
        totals[e["k"]] += 1 if i >= 0 else 100
""",
    "lists of events": """
@agent("dicts", dict)
async def fold(events):
    async for taken in events.take(7):
        for e in taken:
            totals[e["k"]] += e["n"]
""",
    "lists of events, of which some fail": """
@agent("dicts", dict)
async def fold(events):
    async for taken in events.take(5):
        for e in taken:
            totals[e["k"]] += 12 // e["n"]
""",
    "a stream grouped by a computed value": """
@agent("dicts", dict)
async def fold(events):
    async for event in events.group_by(lambda e: e["k"].upper()).events():
        totals[event.key] += 1
""",
    "fields called _id and _source": """
@agent("docs", dict)
async def fold(events):
    async for e in events:
        totals[e["_id"]] += e["_source"]
        views[e["_id"]] += 1
""",
    # Nested loops
    "words of a text": """
@agent("texts", str)
async def fold(events):
    async for line in events:
        async for w in words(line):
            totals[w] += 1
""",
    "words of a text under the event's name": """
@agent("texts", str)
async def fold(events):
    async for e in events:
        async for e in words(e):
            views[e] += 1
""",
    **REACHED,
}


def programs() -> dict[str, Program]:
    """Returns each way as a program."""
    programs_ = {}
    for number, (words, body) in enumerate(WAYS.items()):
        text = (_BEFORE + "\n\n" + textwrap.dedent(body).strip() + "\n").replace("NAME", f"w{number}")
        programs_[words] = Program(f"w{number}", text, PRELUDE)
    return programs_


def batches() -> Batches:
    """Messages for the programs."""
    chance = random.Random(29)
    times = iter(chance.sample(range(120_000), 120))
    docs = [
        [(None, {"_id": chance.choice("abc"), "_source": chance.randrange(5)}, next(times) / 1000) for _ in range(40)]
        for _ in range(3)
    ]
    return {**messages(chance), "docs": docs}
