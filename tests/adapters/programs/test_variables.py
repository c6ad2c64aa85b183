"""Changes of variables outside of functions, found after the functions have run."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import linecache
import os
import queue
import random
import types
from collections import ChainMap, OrderedDict, UserDict, defaultdict, deque
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mullion.faust as faust
from mullion._pyfunction.outside_writes import created_once
from mullion._pyfunction.variables import Variables
from tests.support.functions.outside_bodies import body_of, state_of
from tests.support.seeds import SEED

EVENTS = ("k1", "k2", "k1")
ROUNDS = int(os.environ.get("MULLION_TEST_ROUNDS", "100"))
NUMBER = itertools.count()


def variables_of(process: Any, **options: Any) -> Variables:
    return Variables([process], created_once=created_once(Variables([process]).functions), **options)


def test_random_bodies_that_change_a_variable_are_found_and_no_others() -> None:
    chance, changed = random.Random(SEED), 0
    for _ in range(ROUNDS):
        body = body_of(chance)
        variables, before = variables_of(body.process), state_of(body.scope)
        # A body may fail after it has removed an item.
        with contextlib.suppress(AttributeError, LookupError, TypeError):
            body.process(EVENTS)
        is_changed = state_of(body.scope) != before
        assert bool(variables.changes()) == is_changed, f"seed {SEED}:\n{body.text}"
        changed += is_changed
    assert 0 < changed < ROUNDS


class Client:
    """An object of a library: the module makes it one."""

    __module__ = "pandas.client"

    def __init__(self) -> None:
        self.requests = 0


class Words(UserDict[str, int]):
    pass


class Lazy:
    def __init__(self) -> None:
        self.n = 0

    @functools.cached_property
    def size(self) -> int:
        return self.n


class Session(Client):
    """A user's class over that of a library."""

    def __init__(self) -> None:
        super().__init__()
        self.logins = 0


def function_of(text: str, scope: dict[str, Any]) -> Any:
    file = f"<variables {next(NUMBER)}>"
    text = f"def process(e):\n    global value, client\n    {text}\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec", dont_inherit=True), scope)
    return scope["process"]


@pytest.mark.parametrize(
    ("value", "text", "difference"),
    [
        ({}, "value[e] = 1", "had 0 items and has 1"),
        ({"k": 1}, "value[e] += 1", "['k'] was 1 and is 2"),
        ({"k": 1, "j": 2}, "del value[e]; value['new'] = 1", "['k'] was 1 and does not exist any more"),
        ([1, 2], "value[0] = e", "[0] was 1 and is 'k'"),
        ({1, 2}, "value.remove(1); value.add(3)", "[1] was True and does not exist any more"),
        (OrderedDict(a=1, b=2), "value.move_to_end('a')", "[0] was 'a' and is 'b'"),
        (deque([1], 1), "value.append(2)", "[0] was 1 and is 2"),
        (defaultdict(list), "value[e]", "had 0 items and has 1"),
        (Words(a=1), "value['a'] += 1", "['a'] was 1 and is 2"),
        (itertools.count(), "next(value)", "['next'] was 'count(0)' and is 'count(1)'"),
        (iter([1, 2]), "next(value)", "['left'] was 2 and is 1"),
        (queue.Queue(), "value.put(e)", "[0] did not exist and is 'k'"),
        (io.StringIO(), "value.write(e)", "['position'] was 0 and is 1"),
        (np.zeros(3), "value[1] = 1", "['bytes 0'] was an object of type tuple and is an object of type tuple"),
        (np.array(5), "value += 1", "['bytes 0'] was an object of type tuple and is an object of type tuple"),
        (np.int64(0), "value += 1", "was an object of type int64 and is an object of type int64"),
        (np.array([None, {}], dtype=object), "value[0] = e", "[0] was None and is 'k'"),
        (np.arange(30_000), "value[-1] = 1", "['bytes 1'] was an object of type tuple and is an object of type tuple"),
        (pd.DataFrame({"a": [1]}), "value.loc[1] = 5", "had 1 item and has 2"),
        (ChainMap({}, {"a": 1}), "value[e] = 1", "had 0 items and has 1"),
        (pd.Series([1.0]), "value[0] = 2.0", "[0] was 1.0 and is 2.0"),
        (types.SimpleNamespace(n=0), "value.n += 1", ".n was 0 and is 1"),
        (Lazy(), "value.n += 1", ".n was 0 and is 1"),
        (Session(), "value.logins += 1", ".logins was 0 and is 1"),
        (0, "value += 1", "was 0 and is 1"),
        (None, "value = e", "was None and is 'k'"),
        (None, "value = value or {}; value[e] = 1", "was None and is an object of type dict"),
        (range(3), "value = {**{}, e: 1}", "was range(0, 3) and is an object of type dict"),
        ("k", "value = None", "was 'k' and is None"),
        # Not changed, or not lost.
        ({"k": 1}, "value = {'k': 1}", None),
        (float("nan"), "value = float('nan')", None),
        ([[1]], "value = [[1]]", None),
        (None, "value = {}", None),
        (None, "value = client()", None),
        (Client(), "value.requests += 1", None),
        (Client(), "value = client()", None),
        (Client(), "value = None", None),
        (Session(), "value.cookies = {1: 2}; del value.cookies", None),
        (Lazy(), "value.size", None),
        (pd.DataFrame({"a": [1]}), "value['a'].sum()", None),
        (functools.lru_cache(str), "value(e)", None),
    ],
)
def test_a_change_is_named_with_its_difference(value: Any, text: str, difference: str | None) -> None:
    scope = {"__name__": "shop", "value": value, "client": Client}
    variables = variables_of(function_of(text, scope))
    scope["process"]("k")
    changes = [(change.name, change.module, change.difference) for change in variables.changes()]
    assert changes == ([] if difference is None else [("value", "shop", difference)])


def test_attributes_that_a_library_changes_in_an_object_are_not_those_of_the_program() -> None:
    scope: dict[str, Any] = {"__name__": "shop", "value": Session(), "client": Client}
    variables = variables_of(function_of("value.logins", scope))
    scope["value"].requests += 1
    assert variables.changes() == []
    scope["value"].logins += 1
    assert [change.difference for change in variables.changes()] == [".logins was 0 and is 1"]


def test_private_attributes_that_a_library_sets_in_a_class_are_not_those_of_the_program() -> None:
    class Order(faust.Record):
        n: int
        count = 0

    # A computed name may be that of any attribute.
    scope: dict[str, Any] = {"__name__": "shop", "Order": Order, "name": "n"}
    variables = variables_of(function_of("getattr(Order, name)", scope))
    assert Order.from_data({"n": 1}).n == 1
    assert variables.changes() == []
    Order.count += 1
    assert [(change.name, change.difference) for change in variables.changes()] == [("Order", ".count was 0 and is 1")]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("value = value or load()", ["value"]),
        ("if value is None: value = load()", []),
        ("if value is None: value = dict()", []),
        ("if value is None: value = dict()\n    value.update(k=e)", ["value"]),
        ("if 'rate' not in client: client['rate'] = load()", []),
        ("if 'rate' not in client: client['rate'] = load()\n    client[e] = 1", ["client"]),
    ],
)
def test_a_variable_may_be_set_once_to_a_value_that_depends_on_no_event(text: str, names: list[str]) -> None:
    scope: dict[str, Any] = {"__name__": "shop", "value": None, "client": {}, "load": lambda: {"a": 1}}
    variables = variables_of(function_of(text, scope))
    scope["process"]("k")
    assert [change.name for change in variables.changes()] == names


def test_large_containers_are_compared_by_their_length_and_ends() -> None:
    scope: dict[str, Any] = {"__name__": "shop", "value": list(range(20_000)), "client": None}
    variables = variables_of(function_of("value.append(e)", scope))
    scope["value"][10_000] = "not seen"
    assert variables.changes() == []
    scope["process"]("k")
    assert [change.difference for change in variables.changes()] == ["had 20000 items and has 20001"]
    scope["value"], scope["client"] = [{n: Lazy()} for n in range(9_900)], {}
    variables = variables_of(function_of("value; client[e] = 1", scope))
    assert variables.changes() == []
    scope["process"]("k")
    assert [change.name for change in variables.changes()] == ["client"]


def test_objects_that_keep_their_changes_are_not_compared_except_for_some_attributes() -> None:
    managed = Lazy()
    scope: dict[str, Any] = {"__name__": "shop", "client": None}
    scope["value"] = [managed]
    process = function_of("value[0].n += 1; value[0].visits = e", scope)
    options = {
        "is_managed": lambda value: value is managed,
        "attributes_of": lambda value: {"visits": value.__dict__.get("visits")},
    }
    variables = variables_of(process, **options)
    process("k")
    assert [change.difference for change in variables.changes()] == [".visits was None and is 'k'"]
