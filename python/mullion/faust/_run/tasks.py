"""What the user's code begins with ``asyncio.create_task`` and does not await: it ends before the event is over.

What such work does belongs to the event that began it. So it is waited for, it fails as the event's own code does, and
it is undone with it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, final

from mullion.errors import UnsupportedError

LONGEST_SECONDS = 60.0
"""How long is waited for work that nobody awaits; longer, and it is taken for work that never ends."""


@final
class Begun:
    """The tasks that have been begun in an event loop since it was made."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []
        asyncio.get_running_loop().set_task_factory(self._make)

    def _make(self, loop: asyncio.AbstractEventLoop, work: Any, **given: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **given)
        self._tasks.append(task)
        return task

    async def ended(self) -> None:
        """Waits until all have ended, and raises the error of one that failed and that nobody asked why.

        Raises :class:`UnsupportedError` where one does not end.
        """
        while self._tasks:
            if asyncio.current_task() in self._tasks:
                # Begun work goes through the stream itself: who waits for whom, the code knows.
                return
            tasks, self._tasks = self._tasks, []
            running = [task for task in tasks if not task.done()]
            if running:
                _, left = await asyncio.wait(running, timeout=LONGEST_SECONDS)
                if left:
                    self._tasks = list(left)
                    raise UnsupportedError(
                        f"Work that was begun with asyncio.create_task has not ended {LONGEST_SECONDS:g} seconds after "
                        f"the code that began it: {', '.join(sorted(_named(task) for task in left))}. An event is over "
                        "when all that it began has ended: await it, or end it, before the next event."
                    )
            for task in tasks:
                # Reset once somebody has seen the error.
                if not task.cancelled() and getattr(task, "_log_traceback", True):
                    error = task.exception()
                    if error is not None:
                        raise error

    async def cancelled(self) -> None:
        """Cancels all that run, and waits for them to end."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        running = [task for task in tasks if not task.done()]
        if running:
            await asyncio.wait(running, timeout=LONGEST_SECONDS)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()


def _named(task: asyncio.Task[Any]) -> str:
    work = task.get_coro()
    code = getattr(work, "cr_code", None)
    name = getattr(work, "__qualname__", repr(work))
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


async def to_its_end(function: Callable[[], Any]) -> None:
    """Calls a function, plain or a coroutine's, and waits for all that it begins."""
    begun = Begun()
    result = function()
    if inspect.isawaitable(result):
        await result
    await begun.ended()
