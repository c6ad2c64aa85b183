"""A savepoint of a program: of each of its queries, with the files next to their checkpoints.

::

    shop/manifest.json                            copied
    shop/revenue/query   shop/visits/query        a savepoint of each
    shop/_running                                 omitted

Queries of a program publish rows for one another, each batch once. The program must therefore have stopped, each of its
queries after a batch: the published rows of an incomplete batch would be published again.
"""

from __future__ import annotations

import glob
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from pyspark.sql import SparkSession

from mullion._native.savepoint import savepoint
from mullion._program.app import log
from mullion._program.manifest import Manifest
from mullion.errors import InvalidArgumentError, MullionError
from mullion.topics import _leases

# Sections of the manifest that only an App, or a dataflow, writes.
_MARKS: Final = (("", "names"), ("", "steps"), ("*/", "steps"))
_QUERIES: Final = ("query", "*/query")
_WRITING: Final = ".writing"
_LEASES: Final = ("_running/*.lock", "running.lock", "*/running.lock")


@final
class _Owner:
    """The owner of the queries of a program while its savepoint is written."""


def is_program(folder: Path) -> bool:
    """True if a folder belongs to an App, or to dataflows."""
    return any(
        Manifest(file.parent).read(section, dict) is not None
        for place, section in _MARKS
        for file in folder.glob(f"{place}{Manifest.NAME}")
    )


def savepoint_of_program(
    spark: SparkSession,
    folder: Path,
    to: Path,
    *,
    partitions: int | None = None,
    checkpoint_format: int | None = None,
) -> dict[str, int]:
    """Writes a savepoint of all queries of a program. Returns the last batch of each, by its place in the folder.

    - ``folder``: the ``checkpoint`` of an App, or the folder of a dataflow's state. The program must have stopped.
    - ``to``: a folder that does not exist or is empty, for the new ``checkpoint`` of the App.

    A query without batches is omitted: it begins there as it would here. If the call fails, nothing exists at ``to``.
    Raises :class:`InvalidArgumentError` if the program is running, or was killed in a batch, and the errors of
    :func:`mullion.savepoint`.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise InvalidArgumentError(
            f"{to} exists and is not an empty folder. A savepoint overwrites nothing: give a new folder."
        )
    queries = [query for pattern in _QUERIES for query in sorted(folder.glob(pattern)) if query.is_dir()]
    owner = _Owner()
    leases = [lease.absolute() for pattern in _LEASES for lease in folder.glob(pattern)]
    taken: list[Path] = []
    _remove_leftovers(to, owner)
    temporary = to.parent / f".{to.name}.savepoint-{uuid.uuid4()}"
    try:
        _leases.take((temporary / _WRITING).absolute(), owner, to.name, done="written")
        for lease in leases:
            if _leases.is_held(lease):
                raise InvalidArgumentError(f"The program in {folder} runs in this process. Stop it first.")
            _leases.take(lease, owner, lease.stem, done="run")
            taken.append(lease)
        done = {query: _last_of(query) for query in queries}
        shutil.copytree(folder, temporary, ignore=_not_copied(folder, queries), dirs_exist_ok=True)
        written = {}
        for query, last in done.items():
            if last is not None:
                place = query.relative_to(folder)
                written[str(place)] = savepoint(
                    query, temporary / place, partitions=partitions, checkpoint_format=checkpoint_format, spark=spark
                )
        if to.exists():
            to.rmdir()
        temporary.rename(to)
        # Only used while writing.
        (to / _WRITING).unlink(missing_ok=True)
        return written
    finally:
        _leases.release((temporary / _WRITING).absolute(), owner)
        for lease in taken:
            _leases.release(lease, owner)
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_leftovers(to: Path, owner: _Owner) -> None:
    """Removes the leftovers of a killed savepoint to the same place: a running one holds the lease in it.

    Leases are local to this machine. Savepoints written by other machines are left alone.
    """
    for leftover in to.parent.glob(f".{glob.escape(to.name)}.savepoint-*"):
        lease = (leftover / _WRITING).absolute()
        if not _leases.is_of_here(lease) or _leases.is_held(lease):
            continue
        try:
            _leases.take(lease, owner, to.name, done="written")
        except MullionError:
            continue
        try:
            shutil.rmtree(leftover, ignore_errors=True)
        finally:
            _leases.release(lease, owner)
        log.warning("Removed %s, which a savepoint that was killed had left.", leftover)


def _last_of(query: Path) -> int | None:
    """The last committed batch of a query; ``None`` if it has begun none."""
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
        omitted = {name for name in names if here / name in queries or name == "running.lock" or name.startswith(".")}
        return omitted | ({"_running"} if here == folder else set())

    return ignored
