"""The records of all tables for some of the keys, and the clock."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from mullion._keyed.store import Store
from mullion.errors import UnsupportedError, WrongShardError
from mullion.faust._context import Clock, Context, Event, ForgottenChangeWarning, Sent, enter, finish, line_of_user
from mullion.faust._values.shards import shard_of
from mullion.faust.agents import Timer
from mullion.faust.tables.records import Kept, TableData, table_id, take_due


class Shard:
    """The records of all tables for some of the keys, and the clock. Only one thread at a time may use it."""

    is_one_of_several = True
    """True if there may be other shards, with the records of other keys."""

    def __init__(self, store: Store, clock: Clock, tables: Iterable[Kept] = ()) -> None:
        self.store = store
        self.clock = clock
        self.dropped: dict[str, int] = {}
        self.sent: list[Sent] = []
        self.apart: Timer | None = None
        self._agent: str | None = None
        self._misplaced: WrongShardError | None = None
        self._data: dict[str, TableData] = {}
        self._warned: set[str] = set()
        for table in tables:
            self.data(table)

    def data(self, table: Kept) -> TableData:
        if self.apart is not None:
            raise UnsupportedError(_why_one_shard(self.apart, table))
        data = self._data.get(table.name)
        if data is None:
            data = self._data[table.name] = TableData(self, table)
        return data

    @contextmanager
    def of_agent(self, name: str) -> Iterator[None]:
        """Runs the events of an agent. Raises :class:`WrongShardError` if one used a key of another shard.

        That error replaces any other result: an error that the agent caught, or an event that was set aside.
        """
        self._agent = name
        try:
            yield
        except Exception:
            if self._misplaced is not None:
                raise self._misplaced from None
            raise
        finally:
            self._agent = None
        if self._misplaced is not None:
            raise self._misplaced

    def require_own(self, table: str, key: Any, event: Event | None) -> None:
        """Raises :class:`WrongShardError` if a table's key belongs to another shard than the event."""
        own = None if event is None else event.message.shard
        if own is None or key == own or shard_of(key) == own:
            return
        assert event is not None
        if self._misplaced is None:
            self._misplaced = WrongShardError(
                f"The agent {self._agent!r} used {table}[{key!r}] at {line_of_user()} for the event "
                f"{event.message.value!r} (topic {event.message.topic!r}, key {event.message.key!r}, time "
                f"{event.timestamp}), which is in the shard {own!r}. The records of the key {key!r} are in "
                "another one, so each shard would have a part of the total. Nothing of the batch was stored. Iterate "
                "over stream.group_by(...) with the table's key: a field, or lambda value: ... for a computed key."
            )
        raise self._misplaced

    def require_all_keys(self, table: str, event: Event | None) -> None:
        """Raises :class:`WrongShardError` if an event uses all keys of a table of which its shard has only some."""
        if event is None or event.message.shard is None:
            return
        if self._misplaced is None:
            self._misplaced = WrongShardError(
                f"The agent {self._agent!r} used all keys of the table {table!r} at {line_of_user()}, and this shard "
                "has only some of them. Nothing of the batch was stored. Use the table by its name in the body of the "
                f"agent, as in {table}.items(): then all events are in one shard. Or use it in a timer, which sees one "
                "shard after the other."
            )
        raise self._misplaced

    def wait(self, result: Any) -> None:
        """Runs the result of a user's function to its end, if it is awaitable."""
        if inspect.isawaitable(result):
            finish(result)

    def count_dropped(self, table: Kept) -> None:
        """Counts an event that a table dropped because all its ranges had expired."""
        self.dropped[table.name] = self.dropped.get(table.name, 0) + 1

    def expire(self) -> int:
        """Removes expired ranges and returns their number."""
        before = sum(data.closed for data in self._data.values())
        take_due(self, {table_id(data.table.name): data for data in self._data.values()})
        return sum(data.closed for data in self._data.values()) - before

    def advance(self, us: int) -> None:
        """Advances the clock of each table's expiry to a time."""
        for data in self._data.values():
            data.advance(us)

    def reread(self) -> None:
        """Clears all caches, because the store was rolled back."""
        for data in list(self._data.values()):
            again = type(data)(self, data.table)
            again.closed = data.closed
            self._data[data.table.name] = again

    def settled(self, warn: bool = True) -> None:
        """Completes the event: warns of values that were changed in place and not assigned back, and discards them."""
        for data in self._data.values():
            for where, key in data.forgotten():
                if warn and where not in self._warned:
                    self._warned.add(where)
                    warnings.warn(
                        f"{where}: the value of {data.table.name}[{key!r}] was changed and not assigned back, and is "
                        f"not saved. Write {data.table.name}[{key!r}] = value after the change.",
                        ForgottenChangeWarning,
                        stacklevel=2,
                    )

    @contextmanager
    def event(self, event: Event) -> Iterator[None]:
        """Runs the block as a part of processing an event."""
        with self._within(Context(self, event)):
            yield

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Runs the block in this shard without an event: in a timer, or when a window closes."""
        with self._within(Context(self, None)):
            yield

    @contextmanager
    def _within(self, inner: Context) -> Iterator[None]:
        before = enter(inner)
        try:
            yield
        except BaseException:
            self.settled(warn=False)
            raise
        else:
            self.settled()
        finally:
            enter(before)


def _why_one_shard(timer: Timer, table: Kept) -> str:
    """The reason why a timer that is called once cannot use a table."""
    if timer.on_leader:
        return (
            f"The timer {timer.name!r} has on_leader=True, so it is called once, in one shard. It uses the table "
            f"{table.name!r}, and would see the records of that shard alone. Leave on_leader out: then it is called in "
            "each shard, with its records."
        )
    return (
        f"The timer {timer.name!r} uses the table {table.name!r}, and the names in its code do not say so: it was "
        "taken for one that works on no table, is called once for the program, and would see the records of one shard. "
        "Use the table by its own name, as in: views = app.Table(...), then views[key] in the timer."
    )
