"""Tasks that the user's code starts with ``asyncio.create_task`` without awaiting them.

The effects of such a task belong to the event that started it. So the event waits for it, fails if it fails, and is
undone together with it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, final

from mullion.errors import UnsupportedError

LONGEST_SECONDS = 60.0
"""The longest wait for an unawaited task; a longer one counts as never ending."""


@final
class Begun:
    """The tasks started in an event loop since this object was created."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []
        asyncio.get_running_loop().set_task_factory(self._make)

    def _make(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **options)
        self._tasks.append(task)
        return task

    async def ended(self) -> None:
        """Waits until all tasks have ended, and raises an error that no code has retrieved.

        Raises :class:`UnsupportedError` if a task does not end.
        """
        while self._tasks:
            if asyncio.current_task() in self._tasks:
                # A started task reads the stream itself: waiting for it here would deadlock.
                return
            tasks, self._tasks = self._tasks, []
            running = [task for task in tasks if not task.done()]
            if running:
                _, unfinished = await asyncio.wait(running, timeout=LONGEST_SECONDS)
                if unfinished:
                    self._tasks = list(unfinished)
                    raise UnsupportedError(
                        f"Work that was begun with asyncio.create_task has not ended {LONGEST_SECONDS:g} seconds after "
                        f"the code that began it: {', '.join(sorted(map(_describe, unfinished)))}. An event is over "
                        "when all that it began has ended: await it, or end it, before the next event."
                    )
            for task in tasks:
                # asyncio resets the flag when any code retrieves the error.
                if not task.cancelled() and getattr(task, "_log_traceback", True):
                    error = task.exception()
                    if error is not None:
                        raise error

    async def cancelled(self) -> None:
        """Cancels all running tasks and waits for their end."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        running = [task for task in tasks if not task.done()]
        if running:
            await asyncio.wait(running, timeout=LONGEST_SECONDS)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()


def _describe(task: asyncio.Task[Any]) -> str:
    work = task.get_coro()
    code = getattr(work, "cr_code", None)
    name = getattr(work, "__qualname__", repr(work))
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


async def to_its_end(function: Callable[[], Any]) -> None:
    """Calls a function or a coroutine function, and waits for all tasks that it starts."""
    begun = Begun()
    result = function()
    if inspect.isawaitable(result):
        await result
    await begun.ended()
