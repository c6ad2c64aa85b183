"""The translation of a user's function, compared with the function."""

from __future__ import annotations

import ast
import linecache
import random
from collections.abc import Callable
from typing import Any

import pytest

from mullion._pyfunction import evaluate, reader
from mullion._pyfunction.functions import lambda_source_of
from mullion._pyfunction.syntax import Argument, Call, Const, Function, Item, Operation, Tuple
from tests.support.functions import python_programs
from tests.support.seeds import SEED

LIMIT = 3
LATER: Any = [1]


def test_a_lambda_is_translated_into_its_expression() -> None:
    assert reader.read(lambda acc, x: (acc[0] + x["n"] * LIMIT, acc[1] + 1)) == Function(
        ("acc", "x"),
        Tuple(
            (
                Operation(
                    "+",
                    (
                        Item(Argument("acc"), Const(0)),
                        Operation("*", (Item(Argument("x"), Const("n")), Const(3))),
                    ),
                ),
                Operation("+", (Item(Argument("acc"), Const(1)), Const(1))),
            )
        ),
    )


def test_each_of_several_lambdas_on_a_line_is_found() -> None:
    one, other, third = (lambda x: x + 1), (lambda x: x + 2), (lambda x: x + 1)
    assert [reader.read(each).result for each in (one, other, third)] == [
        Operation("+", (Argument("x"), Const(n))) for n in (1, 2, 1)
    ]


def test_each_of_several_constant_lambdas_on_a_line_is_found() -> None:
    # Python 3.12 has no position for a constant that is the only result of a function.
    functions = compiled("f = [lambda: 0, lambda: False, lambda: 0.0, lambda x: 0, lambda x=1: 0, lambda *x: 0]\n", "c")
    read = [lambda_source_of(each) for each in functions]  # type: ignore[attr-defined]
    texts = [None if each is None else ast.unparse(each.definition) for each in read]
    assert texts[:4] == ["lambda: 0", "lambda: False", "lambda: 0.0", "lambda x: 0"]
    assert texts[4:] in (["lambda x=1: 0", "lambda *x: 0"], [None, None])


def test_a_lambda_around_another_is_not_taken_for_it() -> None:
    outer: Callable[..., Any] = lambda x: lambda y: y + x  # noqa: E731
    assert lambda_source_of(outer) is not None
    assert reader.read(outer(2)).result == Operation("+", (Argument("y"), Const(2)))
    with pytest.raises(reader.Unknown, match="an expression that is not one of a function that only computes"):
        reader.read(outer)


def compiled(text: str, name: str) -> Callable[..., Any]:
    """A function as a module of this text has it, whose source is there to be looked at."""
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope)
    function: Callable[..., Any] = scope["f"]
    return function


def test_a_file_that_has_changed_since_is_not_read() -> None:
    function = compiled("f = lambda x: x + 1\n", "changed")
    assert reader.read(function).result == Operation("+", (Argument("x"), Const(1)))
    linecache.cache["<changed>"] = (20, None, ["f = lambda x: x - 1\n"], "<changed>")
    with pytest.raises(reader.Unknown, match="its source code is not available"):
        reader.read(function)


FUNCTIONS = {
    "steps": "def f(x):\n    y = x['n'] + 1\n    y *= 2\n    return (y, x['n'])",
    "ways": "def f(x):\n    if x['n'] > 1:\n        return 'much'\n    elif x['n'] < 0:\n        z = -x['n']\n"
    "    else:\n        z = 7\n    return z * 2",
    "unused": "def f(x):\n    y = 1 // x['n']\n    return 5",
    "nothing": "def f(x):\n    '''Text.'''\n    if x['n'] > 1:\n        return 1",
    "get": "def f(x):\n    return x.get('n', 3), x.get('m'), x.get('m', 4)",
    "joined": "f = lambda x: x['n'] and x['n'] > 1 or 'none'",
    "text": "f = lambda x: f\"{x['n']}: {x['n'] + 0.5:.2f}\"",
    "chained": "f = lambda x: 0 <= x['n'] < 3",
    "none": "f = lambda x: None if x['n'] in (0, 2) else [x['n'], abs(x['n'])]",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_translated_function_computes_the_same(name: str) -> None:
    function = compiled(FUNCTIONS[name], name)
    reading = reader.read(function)
    assert not reading.changes
    for n in (-5, -1, 0, 1, 2, 3, 2**70):
        assert outcome(evaluate.call, reading, {"n": n}) == outcome(function, {"n": n}), n


def outcome(function: Callable[..., Any], *arguments: Any) -> str:
    try:
        return repr(function(*arguments))
    except Exception as error:
        return type(error).__name__


def test_random_expressions_compute_what_python_computes() -> None:
    random_ = random.Random(SEED)
    programs = python_programs.Programs(random_)
    texts = [programs.of(kind, 1 + n % 3) for n in range(100) for kind in ("int", "float", "str", "bool")]
    rows = python_programs.rows(random_, 30, nulls=True)
    computed = 0
    for text, function in zip(texts, python_programs.lambdas(texts, "random expressions"), strict=True):
        try:
            reading = reader.read(function)
        except reader.Unknown:
            continue
        computed += 1
        for row in rows:
            assert outcome(evaluate.call, reading, row) == outcome(function, row), f"{text} of {row}"
    assert computed > len(texts) * 0.9


FOLDS = {
    "dict": "def f(acc, x):\n    acc['n'] += x\n    acc['last'] = x\n    acc['twice'] = acc['n'] * 2\n    return acc",
    "list": "def f(acc, x):\n    if x > 1:\n        acc[0] = x\n    else:\n        acc[1] += acc[0]\n    return acc",
}


@pytest.mark.parametrize(("name", "start"), [("dict", {"n": 1}), ("list", [4, 5])])
def test_a_changed_accumulator_has_its_new_value(name: str, start: Any) -> None:
    function = compiled(FOLDS[name], f"fold-{name}")
    reading = reader.read(function)
    assert reading.changes == {"acc"}
    for x in (0, 1, 2, 3):
        before = repr(start)
        assert repr(evaluate.call(reading, start, x)) == repr(function(type(start)(start), x))
        assert repr(start) == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def f(x):\n    for y in x:\n        pass\n    return 1", "a statement that is not one of .*: for y in x"),
        ("def f(x):\n    x.append(1)\n    return x", "a statement that is not one of"),
        ("f = lambda *x: x", "other parameters than positional ones"),
        ("f = lambda x, y=1: x", "other parameters than positional ones"),
        ("async def f(x):\n    return x", "it is an async def"),
        ("f = lambda x: LATER", "the name 'LATER' is not known"),
        ("def f(x):\n    import os\n    return os", "a statement that is not one of"),
        ("f = lambda x: [y for y in x]", "an expression that is not one of"),
        ("f = lambda x: x[1:]", "an expression that is not one of"),
        ("f = lambda x: print(x)", "a call of print"),
        ("f = lambda x: max(x, key=len)", "a call of max"),
        # Another name has the same dict: a change of one is a change of both.
        ("def f(a, x):\n    b = a\n    a['n'] = x\n    return b", "something other than a parameter is changed"),
        ("def f(a, x):\n    b = (a, 1)\n    a['n'] = x\n    return b", "something other than a parameter is changed"),
        ("def f(a, x):\n    b = a['m']\n    b['n'] = x\n    return a", "something other than a parameter is changed"),
        ("def f(a, x):\n    a['n'] = a\n    return a", "something other than a parameter is changed"),
        ("def f(x):\n    y = {'a': 1}\n    y['a'] = x\n    return y", "something other than a parameter is changed"),
    ],
)
def test_functions_with_unknown_details_are_not_translated(text: str, why: str) -> None:
    with pytest.raises(reader.Unknown, match=why) as refused:
        reader.read(compiled(text, f"unknown-{hash(text)}"))
    assert refused.value.line >= 1


def test_a_list_that_would_change_itself_is_not_computed() -> None:
    reading = reader.read(
        compiled("def f(acc, x):\n    rest = acc[0]\n    rest += x\n    return acc, rest", "in-place")
    )
    assert evaluate.call(reading, (1,), 2) == ((1,), 3)
    with pytest.raises(TypeError, match=r"\+= changes a list"):
        evaluate.call(reading, ([1],), [2])


def test_a_redefined_builtin_is_not_called() -> None:
    text = "def abs(x):\n    return 5\nf = lambda x: abs(x)"
    with pytest.raises(reader.Unknown, match="a call of abs"):
        reader.read(compiled(text, "shadowed"))


def test_a_global_that_can_change_is_no_constant() -> None:
    with pytest.raises(reader.Unknown, match=r"the constant \[1\]"):
        reader.read(lambda x: LATER)
    assert reader.read(lambda x: len(x)).result == Call("len", (Argument("x"),))
