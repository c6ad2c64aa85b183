"""What a body that has been read does, event by event, over dicts: the model of every way to run it.

It shares nothing with tables but their windows. A range is stale by the largest time that its table has applied.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from mullion.faust._context import Clock, Event, OutsideStreamError
from mullion.faust._seconds import length_us, seconds, time_us
from mullion.faust._syntax import (
    CALLS,
    About,
    Call,
    Const,
    Edge,
    Emit,
    Expression,
    Field,
    If,
    Item,
    Let,
    Local,
    Operation,
    Print,
    Read,
    Record,
    Statement,
    Text,
    Update,
    Value,
)
from mullion.faust.tables.operations import NAMED
from mullion.faust.tables.table import Table

_SIGNS: dict[str, Callable[..., Any]] = {
    **NAMED,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda one, other: one in other,
    "not in": lambda one, other: one not in other,
    "is": operator.is_,
    "is not": operator.is_not,
    "not": operator.not_,
    "neg": operator.neg,
    "pos": operator.pos,
}


class Interpreter:
    """Runs statements over events.

    ``ranges`` is what tables hold, by table, key and range; ``latest`` the largest time that each has applied.
    """

    def __init__(self, tables: Mapping[str, Table], clock: Clock) -> None:
        self._tables = tables
        self._clock = clock
        self.latest: dict[str, float] = {}
        self.ranges: dict[tuple[str, Any, tuple[float, float]], Any] = {}
        self._locals: dict[str, Any] = {}
        self._last: tuple[float, float] | None = None
        self.printed: list[tuple[Any, ...]] = []
        self.emitted: list[Any] = []

    def run(self, statements: tuple[Statement, ...], event: Event) -> None:
        """Does what statements say for an event."""
        self._last = None
        self._locals.clear()
        self._run(statements, event)

    def _run(self, statements: tuple[Statement, ...], event: Event) -> None:
        for one in statements:
            if isinstance(one, Update):
                self._update(one, event)
            elif isinstance(one, If):
                self._run(one.then if self.value(one.test, event) else one.otherwise, event)
            elif isinstance(one, Print):
                self.printed.append(tuple(self.value(value, event) for value in one.values))
            elif isinstance(one, Emit):
                self.emitted.append(self.value(one.value, event))
            else:
                assert isinstance(one, Let)
                self._locals[one.name] = self.value(one.value, event)

    def value(self, of: Expression, event: Event) -> Any:
        """What an expression is for an event."""
        if isinstance(of, Const):
            return of.value
        if isinstance(of, Local):
            return self._locals[of.name]
        if isinstance(of, Value):
            return event.value
        if isinstance(of, About):
            return event.key if of.what == "key" else event.timestamp
        if isinstance(of, Field):
            return getattr(self.value(of.of, event), of.name)
        if isinstance(of, Item):
            return self.value(of.of, event)[self.value(of.key, event)]
        if isinstance(of, Call):
            return CALLS[of.name](*(self.value(one, event) for one in of.arguments))
        if isinstance(of, Read):
            return self._read(of, event)
        if isinstance(of, Edge):
            if self._last is None:
                raise OutsideStreamError("no table has been touched")
            return self._last[0 if of.which == "start" else 1]
        if isinstance(of, Record):
            made = zip(of.keys, of.values, strict=True)
            return {self.value(key, event): self.value(held, event) for key, held in made}
        if isinstance(of, Text):
            parts = zip(of.parts, of.formats, strict=True)
            return "".join(format(self.value(part, event), spec) for part, spec in parts)
        return self._operation(of, event)

    def _operation(self, of: Operation, event: Event) -> Any:
        if of.sign in ("and", "or"):
            result: Any = None
            for one in of.operands:
                result = self.value(one, event)
                if bool(result) == (of.sign == "or"):
                    return result
            return result
        if of.sign == "if":
            test, then, otherwise = of.operands
            return self.value(then if self.value(test, event) else otherwise, event)
        return _SIGNS[of.sign](*(self.value(one, event) for one in of.operands))

    def _update(self, of: Update, event: Event) -> None:
        window = self._tables[of.table].window
        assert window is not None
        # As Python goes about it: the key, then the operand of '+='; of '=', the operand first.
        key, value = self.value(of.key, event), self.value(of.value, event)
        self._last = window.current(event.timestamp)
        latest = self.latest[of.table] = max(self.latest.get(of.table, event.timestamp), event.timestamp)
        for one in window.ranges(event.timestamp):
            if not window.stale(one[1], latest):
                at = (of.table, key, (one[0], one[1]))
                self.ranges[at] = value if not of.sign else NAMED[of.sign](self._held(at), value)

    def _read(self, of: Read, event: Event) -> Any:
        us = self._clock.time_us() if of.how == "now" else time_us(event.timestamp)
        key = self.value(of.key, event)
        if of.ago is not None:
            us -= length_us(self.value(of.ago, event), "d")
        window = self._tables[of.table].window
        assert window is not None
        one = self._last = window.current(seconds(us))
        return self._default(of.table) if one is None else self._held((of.table, key, (one[0], one[1])))

    def _held(self, at: tuple[str, Any, tuple[float, float]]) -> Any:
        return self.ranges[at] if at in self.ranges else self._default(at[0])

    def _default(self, table: str) -> Any:
        default = self._tables[table].default
        assert default is not None
        return default()
