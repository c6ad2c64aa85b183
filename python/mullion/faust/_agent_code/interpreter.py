"""The reference implementation of translated bodies: runs them event by event over dicts.

It shares only windows with the implementation of tables. A range is stale by the largest time that its table has
applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mullion._pyfunction.evaluate import Evaluator
from mullion._pyfunction.syntax import Expression, If, Let, Statement
from mullion.faust._agent_code.syntax import About, Edge, Emit, Print, Read, Update, Value
from mullion.faust._context import Clock, Event, OutsideStreamError
from mullion.faust._values.times import length_us, seconds, time_us
from mullion.faust.tables.operations import NAMED
from mullion.faust.tables.table import Table


class Interpreter(Evaluator[Event]):
    """Runs statements over events.

    ``ranges`` holds the values by table, key and range; ``latest`` holds the largest time that each table has applied.
    """

    def __init__(self, tables: Mapping[str, Table], clock: Clock) -> None:
        super().__init__()
        self._tables = tables
        self._clock = clock
        self.latest: dict[str, float] = {}
        self.ranges: dict[tuple[str, Any, tuple[float, float]], Any] = {}
        self._last: tuple[float, float] | None = None
        self.printed: list[tuple[Any, ...]] = []
        self.emitted: list[Any] = []

    def run(self, statements: tuple[Statement, ...], event: Event) -> None:
        self._last = None
        self.locals.clear()
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
                self.locals[one.name] = self.value(one.value, event)

    def other(self, of: Expression, event: Event) -> Any:
        """Evaluates an expression that depends on the event or a table."""
        if isinstance(of, Value):
            return event.value
        if isinstance(of, About):
            return event.key if of.what == "key" else event.timestamp
        if isinstance(of, Read):
            return self._read(of, event)
        assert isinstance(of, Edge)
        if self._last is None:
            raise OutsideStreamError("no table has been touched")
        return self._last[0 if of.which == "start" else 1]

    def _update(self, of: Update, event: Event) -> None:
        window = self._tables[of.table].window
        assert window is not None
        # Python's order of evaluation: for ``+=`` the key, then the operand; for ``=`` the operand first.
        key, value = self.value(of.key, event), self.value(of.value, event)
        self._last = window.current(event.timestamp)
        latest = self.latest[of.table] = max(self.latest.get(of.table, event.timestamp), event.timestamp)
        for one in window.ranges(event.timestamp):
            if not window.stale(one[1], latest):
                at = (of.table, key, (one[0], one[1]))
                self.ranges[at] = value if not of.sign else NAMED[of.sign](self._range_value(at), value)

    def _read(self, of: Read, event: Event) -> Any:
        us = self._clock.time_us() if of.how == "now" else time_us(event.timestamp)
        key = self.value(of.key, event)
        if of.ago is not None:
            us -= length_us(self.value(of.ago, event), "d")
        window = self._tables[of.table].window
        assert window is not None
        one = self._last = window.current(seconds(us))
        return self._default(of.table) if one is None else self._range_value((of.table, key, (one[0], one[1])))

    def _range_value(self, at: tuple[str, Any, tuple[float, float]]) -> Any:
        return self.ranges[at] if at in self.ranges else self._default(at[0])

    def _default(self, table: str) -> Any:
        default = self._tables[table].default
        assert default is not None
        return default()
