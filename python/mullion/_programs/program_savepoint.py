"""A savepoint of a program: of each of its queries, with what is noted beside their checkpoints.

::

    shop/_names.json  shop/revenue/types.json     copied as they are
    shop/revenue/query   shop/visits/query        a savepoint of each
    shop/_running                                 not taken over

Queries of a program hand rows on to one another, and publish each batch once. So it must have stopped, each of its
queries after a batch: what one has published of a batch that it has not ended would be published again.
"""

from __future__ import annotations

import glob
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from pyspark.sql import SparkSession

from mullion._programs.app import log
from mullion._savepoints import savepoint
from mullion.errors import InvalidArgumentError, MullionError
from mullion.topics import _leases

_MARKS: Final = ("_names.json", "steps.json", "*/steps.json")
_QUERIES: Final = ("query", "*/query")
_WRITING: Final = ".writing"
_LEASES: Final = ("_running/*.lock", "running.lock", "*/running.lock")


@final
class _Owner:
    """Who has the queries of a program while its savepoint is written."""


def is_program(folder: Path) -> bool:
    """Whether a folder is that of an App, or of dataflows."""
    return any(True for mark in _MARKS for _ in folder.glob(mark))


def savepoint_of_program(
    spark: SparkSession,
    folder: Path,
    to: Path,
    *,
    partitions: int | None = None,
    checkpoint_format: int | None = None,
) -> dict[str, int]:
    """Writes a savepoint of all queries of a program; gives the last batch of each by its place in the folder.

    - ``folder``: the ``checkpoint`` of an App, or the folder of a dataflow's state. The program must have stopped.
    - ``to``: a folder that is not there, or is empty. The App is then given it as its ``checkpoint``.

    A query that has done no batch yet is left out: it begins there as it would here. If the call fails, there is
    nothing at ``to``. Raises :class:`InvalidArgumentError` where the program runs, or was killed in a batch, and what
    :func:`mullion.savepoint` raises.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise InvalidArgumentError(f"{to} is there and is not an empty folder. A savepoint overwrites nothing.")
    queries = [query for pattern in _QUERIES for query in sorted(folder.glob(pattern)) if query.is_dir()]
    owner = _Owner()
    leases = [lease.absolute() for pattern in _LEASES for lease in folder.glob(pattern)]
    taken: list[Path] = []
    _remove_leftovers(to, owner)
    beside = to.parent / f".{to.name}.savepoint-{uuid.uuid4()}"
    try:
        _leases.take((beside / _WRITING).absolute(), owner, to.name, done="written")
        for lease in leases:
            if _leases.is_held(lease):
                raise InvalidArgumentError(f"The program in {folder} runs in this process. Stop it first.")
            _leases.take(lease, owner, lease.stem, done="run")
            taken.append(lease)
        done = {query: _last_of(query) for query in queries}
        shutil.copytree(folder, beside, ignore=_not_copied(folder, queries), dirs_exist_ok=True)
        written = {}
        for query, last in done.items():
            if last is not None:
                place = query.relative_to(folder)
                written[str(place)] = savepoint(
                    query, beside / place, partitions=partitions, checkpoint_format=checkpoint_format, spark=spark
                )
        if to.exists():
            to.rmdir()
        beside.rename(to)
        # Nobody reads it there.
        (to / _WRITING).unlink(missing_ok=True)
        return written
    finally:
        _leases.release((beside / _WRITING).absolute(), owner)
        for lease in taken:
            _leases.release(lease, owner)
        shutil.rmtree(beside, ignore_errors=True)


def _remove_leftovers(to: Path, owner: _Owner) -> None:
    """Removes what a savepoint to the same place has left that was killed: who writes one has the lease in it.

    Leases are of this machine. What one on another machine writes is left alone.
    """
    for found in to.parent.glob(f".{glob.escape(to.name)}.savepoint-*"):
        lease = (found / _WRITING).absolute()
        if not _leases.is_of_here(lease) or _leases.is_held(lease):
            continue
        try:
            _leases.take(lease, owner, to.name, done="written")
        except MullionError:
            continue
        try:
            shutil.rmtree(found, ignore_errors=True)
        finally:
            _leases.release(lease, owner)
        log.warning("Removed %s, which a savepoint that was killed had left.", found)


def _last_of(query: Path) -> int | None:
    """The last batch that a query has done; ``None`` where it has begun none."""
    begun, done = (_newest(query / log) for log in ("offsets", "commits"))
    if begun != done:
        raise InvalidArgumentError(
            f"The query in {query} has begun batch {begun} and not ended it, and may have published it. Run the "
            "program with until='drained', and write the savepoint then."
        )
    return done


def _newest(log: Path) -> int | None:
    return max((int(file.name) for file in log.glob("[0-9]*") if file.name.isdigit()), default=None)


def _not_copied(folder: Path, queries: list[Path]) -> Callable[[str, list[str]], set[str]]:
    def ignored(at: str, names: list[str]) -> set[str]:
        here = Path(at)
        left = {name for name in names if here / name in queries or name == "running.lock" or name.startswith(".")}
        return left | ({"_running"} if here == folder else set())

    return ignored
