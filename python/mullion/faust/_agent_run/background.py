"""The code that runs next to the query, in the process that started the program: tasks, commands, signal handlers.

::

    tasks      start ---- send ---- wait for time ---- send ---- stop
    messages          published                   published
    tables                read as of the last batch

A task may run as long as the program. Its messages are published when it waits, and at its end. It may read all shards
of a table as of the last batch. It cannot change tables: only events do that.
"""

from __future__ import annotations

import asyncio
import inspect
import selectors
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NoReturn, Self, final

from mullion.errors import UnsupportedError
from mullion.faust._agent_run.runtime_app import HostedProgram
from mullion.faust._agent_run.shard import Shard
from mullion.faust._context import Context, Sent, enter
from mullion.faust.tables.records import Kept, TableData

_MOST_SENT: Final = 10_000
"""The number of pending messages that triggers publication."""
_PATIENCE_SECONDS: Final = 60.0
"""The time that a draining program waits for a task that waits for the network or another thread."""
_POLL_SECONDS: Final = 0.05
_CLOCKS: Final = struct.Struct(">qqq")


@final
class Snapshot:
    """The records of all tables as of the last batch. It is refreshed after the code has waited."""

    def __init__(self, load: Callable[[], Iterable[tuple[bytes, bytes]]]) -> None:
        self._load = load
        self._records: dict[bytes, bytes] | None = None

    @property
    def is_taken(self) -> bool:
        return self._records is not None

    def get(self, key: bytes) -> bytes | None:
        return self._now().get(key)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([(key, value) for key, value in self._now().items() if key.startswith(prefix)])

    def put(self, key: bytes, value: bytes) -> NoReturn:
        """Raises :class:`UnsupportedError`."""
        raise UnsupportedError(
            "A table was changed in a task or a command, which no event is processed in: its records belong to the "
            "shards of events. Send a message to an agent that changes it, with agent.cast(value)."
        )

    def delete(self, key: bytes) -> NoReturn:
        self.put(key, b"")

    def put_timer(self, due_us: int, key: bytes) -> NoReturn:
        self.put(key, b"")

    def delete_timer(self, due_us: int, key: bytes) -> NoReturn:
        self.put(key, b"")

    def due(self, until_us: int, since_us: int) -> Iterator[tuple[int, bytes]]:
        """Nothing: only batches run due timers."""
        return iter(())

    def _now(self) -> dict[bytes, bytes]:
        if self._records is None:
            self._records = {}
            for key, value in self._load():
                previous = self._records.get(key)
                self._records[key] = value if previous is None else _later(previous, value)
            asyncio.get_running_loop().call_soon(self._forget)
        return self._records

    def _forget(self) -> None:
        self._records = None


def _later(previous: bytes, value: bytes) -> bytes:
    """Merges the clocks of a table, one per shard partition: the latest of each."""
    if len(previous) != _CLOCKS.size or len(value) != _CLOCKS.size:
        return max(previous, value)
    return _CLOCKS.pack(*map(max, _CLOCKS.unpack(previous), _CLOCKS.unpack(value)))


@final
class _Outbox(list[Sent]):
    def __init__(self, publish: Callable[[Sequence[Sent]], None]) -> None:
        super().__init__()
        self._publish = publish
        self.published = 0

    def append(self, sent: Sent) -> None:
        """Adds a message; publishes all when there are many."""
        super().append(sent)
        if len(self) >= _MOST_SENT:
            self.flush()

    def flush(self) -> None:
        if self:
            waiting = list(self)
            self.clear()
            self.published += len(waiting)
            self._publish(waiting)


@final
class _Beside(Shard):
    """The shard of code that runs next to the query: its tables are read-only."""

    is_one_of_several = False

    def __init__(self, app: HostedProgram) -> None:
        self.snapshot = Snapshot(app.records)
        super().__init__(self.snapshot, app.clock)
        self.sent = self.outbox = _Outbox(app.publish)

    def data(self, table: Kept) -> TableData:
        if not self.snapshot.is_taken:
            self._data.clear()
        return super().data(table)


@final
class _Waiting(selectors.DefaultSelector):
    """Reports when an event loop can only wait, and whether it waits for time alone."""

    def __init__(self, waits: Callable[[bool], None], goes_on: Callable[[], None]) -> None:
        super().__init__()
        self._waits = waits
        self._goes_on = goes_on

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        # One registered file is the loop's own, by which other threads wake it.
        self._waits(timeout is not None and len(self.get_map()) <= 1)
        try:
            return super().select(timeout)
        finally:
            self._goes_on()


@final
class Background:
    """Functions of a program that run next to its query, in a thread of their own."""

    def __init__(self, app: HostedProgram, functions: Iterable[Callable[[], Any]]) -> None:
        self._app = app
        self._functions = list(functions)
        self._beside = _Beside(app)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asleep = threading.Event()
        self._stop_request = threading.Event()
        self.error: BaseException | None = None

    @property
    def should_stop(self) -> bool:
        return self._stop_request.is_set()

    @property
    def published(self) -> int:
        return self._beside.outbox.published

    def run(self) -> None:
        """Runs all functions to their end, in this thread. Raises their first error."""
        self._main()
        if self.error is not None:
            raise self.error

    def settle(self, longest: float = _PATIENCE_SECONDS) -> None:
        """Waits until each function has ended or waits for time, with its messages published. Raises its error."""
        if self._thread is not None:
            self._asleep.wait(longest)
        if self.error is not None:
            raise self.error

    def wait(self, asked_to_stop: Callable[[], bool]) -> None:
        """Waits until all functions have ended, or until it is asked to stop."""
        while self._thread is not None and self._thread.is_alive() and not asked_to_stop():
            self._thread.join(_POLL_SECONDS)

    def __enter__(self) -> Self:
        if self._functions:
            self._thread = threading.Thread(target=self._main, name=f"{self._app.name}.tasks", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_request.set()
        if self._thread is not None:
            if self._loop is not None and self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._cancel)
            self._thread.join(_PATIENCE_SECONDS)

    def _main(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._create_loop) as runner:
                runner.run(self._all())
        except BaseException as error:
            self.error = error
        finally:
            self._asleep.set()

    def _create_loop(self) -> asyncio.AbstractEventLoop:
        self._loop = asyncio.SelectorEventLoop(_Waiting(self._waits, self._asleep.clear))
        return self._loop

    def _waits(self, for_time: bool) -> None:
        try:
            self._beside.outbox.flush()
        except Exception as error:
            self.error = error
            self._cancel()
        if for_time:
            self._asleep.set()

    async def _all(self) -> None:
        tasks = [asyncio.create_task(self._one(function)) for function in self._functions]
        try:
            await asyncio.gather(*tasks)
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others and not self.should_stop:
                await asyncio.wait(others, timeout=_PATIENCE_SECONDS)
        except asyncio.CancelledError:
            if not self.should_stop and self.error is None:
                raise
        finally:
            self._beside.outbox.flush()

    async def _one(self, function: Callable[[], Any]) -> None:
        enter(Context(self._beside, None))
        result = function()
        if inspect.isawaitable(result):
            await result

    def _cancel(self) -> None:
        assert self._loop is not None
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
