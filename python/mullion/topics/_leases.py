"""Who runs a query or publishes for it: one process at a time, for as long as it lives or until it lets go.

A lease is a lock on a file, which the system gives back when its process ends, however it does; one whose owner nobody
refers to is given back too. Inside one process a later publisher takes it over from an earlier one: there Spark itself
sees to it that a query runs once.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import weakref
from pathlib import Path
from typing import IO

from mullion.errors import MullionError

_held: dict[Path, tuple[weakref.ref[object], IO[str]]] = {}
# A finalizer may run wherever memory is asked for, in here too.
_guard = threading.RLock()


def take(file: Path, owner: object, query: str, *, done: str = "published") -> None:
    """Takes the lease of a query, or keeps it; raises :class:`MullionError` where another process has it.

    ``done``: what its owner does with the query, as a participle.
    """
    with _guard:
        held = _held.get(file)
        if held is not None and held[0]() is owner:
            return
        _held[file] = (weakref.ref(owner), held[1] if held else _locked(file, query, done))
        weakref.finalize(owner, _give_back, file)


def is_held(file: Path) -> bool:
    """Whether somebody in this process has the lease of a query."""
    with _guard:
        held = _held.get(file)
        return held is not None and held[0]() is not None


def is_of_here(file: Path) -> bool:
    """Whether the last who had a lease was on this machine: others do not see whether it is held."""
    return file.is_file() and file.read_text("utf-8").endswith(_here())


def release(file: Path, owner: object) -> None:
    """Gives a lease back, if it is still the owner's."""
    with _guard:
        held = _held.get(file)
        if held is not None and held[0]() is owner:
            del _held[file]
            held[1].close()


def _give_back(file: Path) -> None:
    release(file, None)


def _locked(file: Path, query: str, done: str) -> IO[str]:
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = file.open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        who = lock.read().strip() or "another process"
        lock.close()
        raise MullionError(
            f"The query {query} is {done} by {who} already, and two at once would publish its batches twice. Stop "
            "that one first, or wait until it has ended; a program of its own needs a checkpoint of its own."
        ) from None
    lock.truncate(0)
    lock.write(f"process {os.getpid()}{_here()}")
    lock.flush()
    return lock


def _here() -> str:
    return f" on {socket.gethostname()}"
