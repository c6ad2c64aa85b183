"""Leases: only one process at a time runs a query or publishes for it.

A lease is a lock on a file. The system releases it when the process ends in any way, and Mullion when its owner is
garbage-collected. Within one process a later publisher takes it over from an earlier one, because Spark itself ensures
that a query runs once there.
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

_leases: dict[Path, tuple[weakref.ref[object], IO[str]]] = {}
# Reentrant, because a finalizer may run at any allocation, also within these functions.
_guard = threading.RLock()


def take(file: Path, owner: object, query: str, *, done: str = "published") -> None:
    """Acquires or keeps the lease of a query. Raises :class:`MullionError` if another process has it.

    ``done``: the use of the query in the message, as a participle.
    """
    with _guard:
        lease = _leases.get(file)
        if lease is not None and lease[0]() is owner:
            return
        _leases[file] = (weakref.ref(owner), lease[1] if lease else _locked(file, query, done))
        weakref.finalize(owner, _give_back, file)


def is_held(file: Path) -> bool:
    """True if this process has the lease of a query."""
    with _guard:
        lease = _leases.get(file)
        return lease is not None and lease[0]() is not None


def is_of_here(file: Path) -> bool:
    """True if the last owner of a lease was on this machine. Other machines cannot see the lock."""
    return file.is_file() and file.read_text("utf-8").endswith(_here())


def release(file: Path, owner: object) -> None:
    """Releases a lease if it still belongs to the owner."""
    with _guard:
        lease = _leases.get(file)
        if lease is not None and lease[0]() is owner:
            del _leases[file]
            lease[1].close()


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
