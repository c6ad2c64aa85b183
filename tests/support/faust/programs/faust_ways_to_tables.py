"""Ways to write an agent, as in ``faust_ways``: references to tables, and ends of bodies."""

REACHED = {
    # References to tables
    "through app.tables": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        app.tables["NAME-totals"][e["k"]] += 1
""",
    "through a module": """
shop = types.ModuleType("shop")
shop.totals, shop.views = totals, views


@agent("dicts", dict)
async def fold(events):
    async for e in events:
        shop.totals[e["k"]] += 1
        shop.views[e["k"].upper()] += 1
""",
    "through self": """
class Counter:
    def __init__(self, table):
        self.table = table

    async def fold(self, events):
        async for e in events:
            self.table[e["k"].upper()] += 1


agent("dicts", dict)(Counter(totals).fold)
""",
    "through a class": """
class Held:
    table = totals


@agent("dicts", dict)
async def fold(events):
    async for e in events:
        Held.table[e["k"].upper()] += 1
""",
    "by a decorator of the body": """
def counted(inner):
    @functools.wraps(inner)
    async def outer(events):
        await inner(events.filter(lambda e: totals.get(e["k"].upper(), 0) < 3))

    return outer


@agent("dicts", dict)
@counted
async def fold(events):
    async for e in events:
        totals[e["k"].upper()] += 1
""",
    "by a closure": """
def made(table, by):
    @agent("dicts", dict)
    async def fold(events):
        async for e in events:
            table[e["k"]] += by


made(views, 2)
""",
    "as a parameter's default": """
@agent("dicts", dict)
async def fold(events, table=totals):
    async for e in events:
        table[e["k"]] += 1
""",
    "from a dict of tables": """
tables = {True: totals, False: app.Table("NAME-others", default=int)}


@agent("dicts", dict)
async def fold(events):
    async for e in events:
        tables[e["on"]][e["k"].upper()] += 1
""",
    "by a helper that is given it": """
def bump(table, key, by=1):
    table[key] += by


@agent("dicts", dict)
async def fold(events):
    async for e in events:
        bump(totals, e["k"].upper())
        bump(views, e["k"], by=e["n"])
""",
    "by a partial of a helper": """
def bump(table, key):
    table[key] += 1


count = functools.partial(bump, totals)


@agent("dicts", dict)
async def fold(events):
    async for e in events:
        count(e["k"].upper())
""",
    "under another name, set in the body": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        table = totals if e["on"] else app.tables["NAME-totals"]
        table[e["k"].upper()] += 1
""",
    "by a sink that is a function": """
def note(value):
    totals[value] += 1


@agent("dicts", dict, sink=[note])
async def fold(events):
    async for e in events:
        yield e["k"].upper()
""",
    # Uses of tables
    "setdefault, in, get, pop and del": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        totals.setdefault(e["k"], 10)
        totals[e["k"]] = totals.get(e["k"], 0) + 1
        if e["k"] in totals and e["n"] > 8:
            totals.pop(e["k"])
        elif e["n"] == 8:
            del totals[e["k"]]
""",
    "a default that a function makes of a global": """
START = 5


def start():
    return START + len("x")


kept = app.Table("NAME-kept", default=start).tumbling(10, expires=0)


@agent("dicts", dict)
async def fold(events):
    async for e in events:
        kept[e["k"]] += 1
""",
    # How a body ends, and what it begins
    "it returns, breaks and continues": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        totals[e["k"]] += 1
        if e["n"] == 3:
            return
        if e["n"] == 4:
            break
        if e["on"]:
            continue
        views[e["k"]] += 1
""",
    "a cancellation that it raises": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        totals[e["k"]] += 1
        if e["n"] > 9:
            raise asyncio.CancelledError
        views[e["k"]] += 1
""",
    "work that is begun and not awaited": """
@agent("dicts", dict)
async def fold(events):
    async def work(key):
        await asyncio.sleep(0)
        totals[key] += 1

    async for e in events:
        asyncio.create_task(work(e["k"].upper()))
""",
    "a message of no fields": """
@agent("dicts", dict, sink=[out])
async def fold(events):
    async for e in events:
        views[e["k"]] += 1
        if e["n"] > 5:
            yield {}
""",
    # What cannot be right
    "a stream grouped by one field, and a table of another": """
@agent("dicts", dict)
async def fold(events):
    async for e in events.group_by("k"):
        totals[e["id"]] += 1
""",
    "two tables of different fields": """
@agent("dicts", dict)
async def fold(events):
    async for e in events:
        totals[e["k"]] += 1
        views[e["id"]] += 1
""",
}
