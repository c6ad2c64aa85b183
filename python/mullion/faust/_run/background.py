"""What runs beside the query, where the program was started: tasks, commands, and what is connected to signals.

::

    tasks      begin ---- send ---- wait for time ---- send ---- told to stop
    messages          published                   published
    tables                read, as the last batch left them

A task may go on as long as the program does. What it sends is published when it waits, and at its end. It may read
tables, all shards of them, as the last batch has left them; it cannot change them, for that is what events do.
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
from mullion.faust._context import Context, Sent, enter
from mullion.faust._run.hosted import HostedProgram
from mullion.faust._run.shard import Shard
from mullion.faust.tables.records import Kept, TableData

_MOST_SENT: Final = 10_000
"""How many messages wait at most for being published."""
_PATIENCE_SECONDS: Final = 60.0
"""How long a program that is drained waits for a task that waits for the network, or for another thread."""
_POLL_SECONDS: Final = 0.05
_CLOCKS: Final = struct.Struct(">qqq")


@final
class Snapshot:
    """The records of all tables, as the last batch has left them; it is taken anew once the code has waited."""

    def __init__(self, load: Callable[[], Iterable[tuple[bytes, bytes]]]) -> None:
        self._load = load
        self._records: dict[bytes, bytes] | None = None

    @property
    def is_taken(self) -> bool:
        """Whether there is one."""
        return self._records is not None

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``; ``None`` if there is none."""
        return self._now().get(key)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The records whose keys begin with ``prefix``."""
        return iter([(key, value) for key, value in self._now().items() if key.startswith(prefix)])

    def put(self, key: bytes, value: bytes) -> NoReturn:
        """Raises :class:`UnsupportedError`."""
        raise UnsupportedError(
            "A table was changed in a task or a command, which no event is processed in: its records belong to the "
            "shards of events. Send a message to an agent that changes it, with agent.cast(value)."
        )

    def delete(self, key: bytes) -> NoReturn:
        """Raises :class:`UnsupportedError`."""
        self.put(key, b"")

    def put_timer(self, due_us: int, key: bytes) -> NoReturn:
        """Raises :class:`UnsupportedError`."""
        self.put(key, b"")

    def delete_timer(self, due_us: int, key: bytes) -> NoReturn:
        """Raises :class:`UnsupportedError`."""
        self.put(key, b"")

    def due(self, until_us: int, since_us: int) -> Iterator[tuple[int, bytes]]:
        """None: what is due is the batches' to do."""
        return iter(())

    def _now(self) -> dict[bytes, bytes]:
        if self._records is None:
            self._records = {}
            for key, value in self._load():
                known = self._records.get(key)
                self._records[key] = value if known is None else _later(known, value)
            asyncio.get_running_loop().call_soon(self._forget)
        return self._records

    def _forget(self) -> None:
        self._records = None


def _later(known: bytes, value: bytes) -> bytes:
    """The clocks of a table, of which each shard partition has its own: the latest of each."""
    if len(known) != _CLOCKS.size or len(value) != _CLOCKS.size:
        return max(known, value)
    return _CLOCKS.pack(*map(max, _CLOCKS.unpack(known), _CLOCKS.unpack(value)))


@final
class _Outbox(list[Sent]):
    """Messages that wait for being published."""

    def __init__(self, publish: Callable[[Sequence[Sent]], None]) -> None:
        super().__init__()
        self._publish = publish
        self.published = 0

    def append(self, sent: Sent) -> None:
        """Adds one; where there are many all are published."""
        super().append(sent)
        if len(self) >= _MOST_SENT:
            self.flush()

    def flush(self) -> None:
        """Publishes all."""
        if self:
            waiting = list(self)
            self.clear()
            self.published += len(waiting)
            self._publish(waiting)


@final
class _Beside(Shard):
    """What code beside the query has in the place of a shard: tables that it can read."""

    is_one_of_several = False

    def __init__(self, app: HostedProgram) -> None:
        self.snapshot = Snapshot(app.records)
        super().__init__(self.snapshot, app.clock)
        self.sent = self.outbox = _Outbox(app.publish)

    def data(self, table: Kept) -> TableData:
        """A table's records."""
        if not self.snapshot.is_taken:
            self._data.clear()
        return super().data(table)


@final
class _Waiting(selectors.DefaultSelector):
    """Tells when a loop has nothing to do but wait, and whether it is for time alone."""

    def __init__(self, waits: Callable[[bool], None], goes_on: Callable[[], None]) -> None:
        super().__init__()
        self._waits = waits
        self._goes_on = goes_on

    def select(self, timeout: float | None = None) -> Any:
        """What is ready."""
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        # One of what is registered is the loop's own, by which other threads wake it.
        self._waits(timeout is not None and len(self.get_map()) <= 1)
        try:
            return super().select(timeout)
        finally:
            self._goes_on()


@final
class Background:
    """Functions of a program that run beside its query, in a thread of their own: plain ones and coroutines'."""

    def __init__(self, app: HostedProgram, functions: Iterable[Callable[[], Any]]) -> None:
        self._app = app
        self._functions = list(functions)
        self._beside = _Beside(app)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asleep = threading.Event()
        self._told = threading.Event()
        self.error: BaseException | None = None

    @property
    def should_stop(self) -> bool:
        """Whether the program ends."""
        return self._told.is_set()

    @property
    def published(self) -> int:
        """How many messages have been published."""
        return self._beside.outbox.published

    def run(self) -> None:
        """Runs all to their end, here. Raises what one of them raises."""
        self._main()
        if self.error is not None:
            raise self.error

    def settle(self, longest: float = _PATIENCE_SECONDS) -> None:
        """Waits until each has ended, or waits for time; what was sent is published then. Raises what one raises."""
        if self._thread is not None:
            self._asleep.wait(longest)
        if self.error is not None:
            raise self.error

    def wait(self, asked_to_stop: Callable[[], bool]) -> None:
        """Waits until all have ended, or it is asked to stop."""
        while self._thread is not None and self._thread.is_alive() and not asked_to_stop():
            self._thread.join(_POLL_SECONDS)

    def __enter__(self) -> Self:
        if self._functions:
            self._thread = threading.Thread(target=self._main, name=f"{self._app.name}.tasks", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._told.set()
        if self._thread is not None:
            if self._loop is not None and self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._cancel)
            self._thread.join(_PATIENCE_SECONDS)

    def _main(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._made) as runner:
                runner.run(self._all())
        except BaseException as error:
            self.error = error
        finally:
            self._asleep.set()

    def _made(self) -> asyncio.AbstractEventLoop:
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
