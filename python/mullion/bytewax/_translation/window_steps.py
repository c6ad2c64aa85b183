"""Translates steps for the JVM: their description in JSON, or the reason why Python has to run them.

::

    fold_window("sum", keyed, EventClock(lambda e: e["at"]), TumblingWindower(...),
                lambda: 0, lambda total, e: total + e["price"], lambda one, other: one + other)

    {"clock": {"kind": "event", "time": {"parameters": ["e"], "of": ["item", ["arg", "e"], ["text", "at"]]}}, ...}

A function can be translated if it only computes with its parameters and constants. The types of its values are not
known in advance. If a value has a type that only Python supports, Python processes its key in that batch.
"""

from __future__ import annotations

import base64
import contextlib
import dis
import json
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from mullion._pyfunction.evaluate import call
from mullion._pyfunction.functions import constant_of, names_of, plain, source_of
from mullion._pyfunction.jvm import PYTHONS, constant
from mullion._pyfunction.reader import Unknown, read
from mullion._pyfunction.syntax import (
    Argument,
    Call,
    Const,
    Dict,
    Expression,
    Field,
    Function,
    Get,
    Item,
    List,
    Local,
    Operation,
    Refused,
    Replaced,
    Text,
    Tuple,
    Where,
)
from mullion.bytewax._dataflow_plan import ENDS, STATEFUL, Plan, PlannedStep
from mullion.bytewax._key_windows.contents import Fold, Reduction
from mullion.bytewax._key_windows.specs import (
    EventClock,
    FixedWindower,
    SessionWindower,
    SystemClock,
    WindowSpec,
    identity,
    system_utc,
)
from mullion.bytewax._key_windows.times import MICROSECOND, duration, micros
from mullion.bytewax._steps import Kept, KeptValues, Keyed, Mapped, MappedValues, Unkeyed
from mullion.bytewax._translation.parsing import JSON, behind_json, is_json, known_call
from mullion.bytewax._values.values import encode_one

_MADE: dict[Any, Any] = {int: 0, float: 0.0, str: "", bool: False, list: [], dict: {}, tuple: ()}
"""The initial values of types that are used as builders."""


_MOST_WAYS = 50

NOT_OF_A_FILE: Final = "json.loads of what does not come from a file"


class Untraced(Exception):  # noqa: N818
    """The reason why Python runs a step."""


def trace(plan: Plan, number: int) -> str:
    """Describes a step for the JVM, as JSON. Raises :class:`Untraced` if Python has to run it."""
    step = plan.steps[number]
    if not isinstance(step.does, WindowSpec):
        raise Untraced("its logic is Python's")
    spec = step.does
    program = {
        "step": number,
        "sources": sorted(plan.sources_of()[number]),
        "ordered": spec.ordered,
        "ports": [_port(plan, stream) for stream in step.downs],
        "clock": _clock(spec.clock),
        "windower": _windower(spec.windower),
        "contents": _contents(spec),
    }
    return json.dumps(program)


def trace_inputs(plan: Plan, files: Collection[int]) -> str:
    """Describes the stateless steps behind the inputs for the JVM, as JSON. Raises :class:`Untraced`.

    ``files``: the inputs whose lines tasks read. Text of other inputs is in Python already, so Python parses its JSON.
    """
    ways = {}
    for number, step in enumerate(plan.steps):
        if step.kind == "input":
            ways[str(number)] = _ways(plan, step.downs[0], [])
            if number not in files and any([JSON] in way["steps"] for way in ways[str(number)]):
                raise Untraced(NOT_OF_A_FILE)
    return json.dumps(ways)


def _ways(plan: Plan, stream: str, before: list[Any]) -> list[dict[str, Any]]:
    """The paths from a stream to stateful steps, sinks and inspectors, in the order in which items take them."""
    ways: list[dict[str, Any]] = []
    for number, step in enumerate(plan.steps):
        for _ in range(step.ups.count(stream)):
            if step.kind in (*STATEFUL, *ENDS):
                ways.append({"steps": before, "target": number, "stateful": step.kind in STATEFUL})
            if step.kind == "branch":
                predicate = stateless(step)[0][1]
                for down, name in zip(step.downs, ("filter", "filter_not"), strict=True):
                    ways += _ways(plan, down, [*before, [name, predicate]])
            elif step.kind in ("inspect", "merge", "redistribute"):
                ways += _ways(plan, step.downs[0], before)
            elif step.kind == "flat_map_batch":
                ways += _ways(plan, step.downs[0], [*before, *stateless(step)])
    if len(ways) > _MOST_WAYS:
        raise Untraced(f"there are more than {_MOST_WAYS} ways through the steps")
    return ways


def stateless(step: PlannedStep) -> list[Any]:
    """Describes a stateless step as one or two steps of the JVM. Raises :class:`Untraced`."""
    if step.kind == "branch":
        return [["filter", _function("predicate", step.does, 1)]]
    match step.does:
        case Mapped(mapper=function):
            return _mapped(function)
        case MappedValues(mapper=function):
            return [["map_value", _function("mapper", function, 1)]]
        case Kept(predicate=function):
            return [["filter", _function("predicate", function, 1)]]
        case KeptValues(predicate=function):
            return [["filter_value", _function("predicate", function, 1)]]
        case Keyed(key=function):
            return [["key", _function("key", function, 1)]]
        case Unkeyed():
            return [["key_rm"]]
    raise Untraced("its function is Python's")


def _mapped(mapper: Any) -> list[Any]:
    if is_json(mapper):
        return [[JSON]]
    behind = None
    with contextlib.suppress(Unknown):
        behind = behind_json(read(mapper, known_call))
    if behind is None or behind.changes:
        return [["map", _function("mapper", mapper, 1)]]
    return [[JSON], ["map", _json_of("mapper", behind)]]


def _port(plan: Plan, stream: str) -> dict[str, Any]:
    """The target steps of a stream; none, and ``python``, if Python functions process its items."""
    targets: list[list[Any]] = []
    waiting, passed = [stream], []
    while waiting:
        one = waiting.pop(0)
        passed.append(one)
        for number, step in enumerate(plan.steps):
            for _ in range(step.ups.count(one)):
                if step.kind in (*STATEFUL, "output", "inspect"):
                    targets.append([number, step.kind in STATEFUL])
                if step.kind in ("inspect", "merge", "redistribute"):
                    waiting.append(step.downs[0])
                elif step.kind not in (*STATEFUL, "output"):
                    return {"targets": [], "python": True}
    return {"targets": targets, "python": False}


def _clock(clock: Any) -> dict[str, Any]:
    if isinstance(clock, SystemClock):
        return {"kind": "system"}
    if type(clock) is not EventClock:
        raise Untraced("its clock is the program's own")
    if clock.to_system_utc is not identity:
        raise Untraced("to_system_utc is Python's")
    return {
        "kind": "event",
        "time": _function("ts_getter", clock.ts_getter, 1),
        "wait": duration("wait_for_system_duration", clock.wait_for_system_duration),
        "stands": None if clock.now_getter is system_utc else _standing(clock.now_getter),
    }


def _standing(now_getter: Any) -> int:
    """The constant time that a function returns, in microseconds."""
    plain_function, value = plain(now_getter), constant_of(now_getter)
    source = None if plain_function is None else source_of(plain_function)
    if value is None and plain_function is not None and not plain_function.__code__.co_argcount:
        # A function that only returns a variable.
        names = plain_function.__code__.co_names + plain_function.__code__.co_freevars
        around = names_of(plain_function)
        if len(names) == 1 and _gives_a_name(plain_function) and names[0] in around:
            value = (around[names[0]],)
    if value is None or not isinstance(value[0], datetime):
        raise Untraced(f"now_getter is Python's{'' if source is None else f' ({source.file}:{source.line})'}")
    return micros(value[0])


def _gives_a_name(function: Any) -> bool:
    loads = ("LOAD_GLOBAL", "LOAD_DEREF")
    rest = ("RESUME", "NOP", "COPY_FREE_VARS", "RETURN_VALUE", *loads)
    steps = [step.opname for step in dis.get_instructions(function)]
    return all(step in rest for step in steps) and sum(step in loads for step in steps) == 1


def _windower(windower: Any) -> dict[str, Any]:
    if type(windower) is SessionWindower:
        return {"kind": "session", "gap": duration("gap", windower.gap)}
    if not isinstance(windower, FixedWindower):
        raise Untraced("its windower is the program's own")
    if (windower.align_to.tzinfo or UTC) is not UTC:
        raise Untraced("align_to is in another zone than UTC")
    length = duration("length", windower.length)
    offset = duration("offset", getattr(windower, "offset", windower.length))
    return {"kind": "sliding", "length": length, "offset": offset, "align": micros(windower.align_to)}


def _contents(spec: WindowSpec) -> dict[str, Any]:
    contents = spec.contents
    if type(contents) is Fold:
        if contents.builder is list and contents.merger is list.__add__ and contents.folder.__name__ == "_appended":
            return {"kind": "collect"}
        program = {
            "kind": "fold",
            "initial": _initial(contents.builder),
            "folder": _function("folder", contents.folder, 2, True),
        }
        if contents.merger is not None:
            program["merger"] = _function("merger", contents.merger, 2, True)
        return program
    if type(contents) is Reduction:
        reducer = contents.reducer
        if isinstance(reducer, partial) and reducer.func in (max, min):
            return {"kind": reducer.func.__name__, "by": _function("by", reducer.keywords["key"], 1)}
        return {"kind": "reduce", "reducer": _function("reducer", reducer, 2)}
    raise Untraced("what its windows hold is Python's")


def _initial(builder: Any) -> str:
    """The encoded initial value of a builder."""
    if isinstance(builder, type) and builder in _MADE:
        value = _MADE[builder]
    else:
        try:
            value = call(read(builder))
        except Unknown as unknown:
            raise Untraced(f"builder: {unknown.why}") from None
        except Exception as error:
            raise Untraced(f"builder: {error}") from None
    return base64.b64encode(encode_one(value)).decode()


def _function(name: str, function: Callable[..., Any], parameters: int, changes: bool = False) -> dict[str, Any]:
    """Translates a function. With ``changes`` it may mutate its first parameter, which nothing else refers to."""
    try:
        translated = read(function, known_call)
        if len(translated.parameters) != parameters:
            raise Untraced(f"{name} takes {len(translated.parameters)} parameters")
        if translated.changes - (set(translated.parameters[:1]) if changes else set()):
            raise Untraced(f"{name} changes what it is given")
    except Unknown as unknown:
        raise Untraced(f"{name}: {unknown.why}, line {unknown.line}") from None
    return _json_of(name, translated)


def _json_of(name: str, function: Function) -> dict[str, Any]:
    try:
        return {"parameters": list(function.parameters), "of": _Writer().expression(function.result)}
    except Refused as refused:
        raise Untraced(f"{name}: {refused.why}") from None


class _Writer:
    """Translates expressions into JSON for the JVM."""

    def expression(self, of: Expression) -> list[Any]:
        match of:
            case Argument(name=name):
                return ["arg", name]
            case Local(name=name):
                return ["local", name]
            case Const(value=value):
                return _constant(value)
            case Field(of=container, name=name):
                return ["attr", self.expression(container), name]
            case Item(of=container, key=Const(value=key)) if type(key) in (int, str):
                return ["item", self.expression(container), _constant(key)]
            case Get(of=container, key=Const(value=key), default=default) if type(key) is str:
                return ["get", self.expression(container), key, self.expression(default)]
            case Replaced(of=container, key=Const(value=key), value=value) if type(key) in (int, str):
                return ["replaced", self.expression(container), _constant(key), self.expression(value)]
            case Tuple(items=items) | List(items=items):
                return ["tuple" if isinstance(of, Tuple) else "list", list(map(self.expression, items))]
            case Dict(keys=keys, values=values):
                names = [key.value for key in keys if isinstance(key, Const) and type(key.value) is str]
                if len(names) != len(keys):
                    raise Refused("a dict with keys that are not known texts")
                return ["dict", names, list(map(self.expression, values))]
            case Where(name=name, value=value, of=then):
                return ["where", name, self.expression(value), self.expression(then)]
            case Call(name="json"):
                raise Refused("json.loads of something other than the item of a map")
            case Call(name=name, arguments=arguments):
                return ["call", name, *map(self.expression, arguments)]
            case Operation(sign=sign, operands=operands):
                plain_sign = sign.removesuffix("=") if sign not in ("==", "!=", "<=", ">=") else sign
                if plain_sign in PYTHONS:
                    raise Refused(f"the operator {sign!r}")
                return [plain_sign, *map(self.expression, operands)]
            case Text():
                raise Refused("a text that it makes")
        raise Refused(f"a {type(of).__name__.lower()} that is not known before")


def _constant(value: Any) -> list[Any]:
    if type(value) is timedelta:
        return ["length", str(value // MICROSECOND)]
    return constant(value)
