"""Records the query in which each window runs, and the columns of its key.

A window owns the folder of its name, under the checkpoint of its App. The code decides which query has the window's
panes: the window's own, a shared one (``together=True``), or that of its subscription's state. One more line in a
callback may thus move a window to a query that has neither its panes nor its offset in the topic::

    run 1    the window "revenue" alone                 recorded: query "revenue", key region
    run 2    its callback reads state                   error: its panes are in "revenue", not in "shop.state"
    run 3    as in run 1, with key=["city"]             error: its panes are of regions

The operator itself rejects a changed size, lateness or aggregate. Its state numbers the columns of a key without their
names.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mullion._program.manifest import Manifest
from mullion._program.part_names import folder_name
from mullion.errors import IncompatibleStateError
from mullion.turbine._spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def require_same(checkpoint: Path, query: str, why: str, specs: Iterable[Spec], has_run: Callable[[str], bool]) -> None:
    """Compares the windows of a query with their records.

    - ``query``, ``why``: the query's name, and the reason why the windows are in it.
    - ``has_run``: returns True for the name of a query that has committed a batch.

    Raises :class:`IncompatibleStateError` if a window's panes are in another query, or if its key or time was another
    column.
    """
    for spec in specs:
        before = _recorded_window(checkpoint, spec.name)
        if before is not None and has_run(before["query"]):
            _require_same(before, _note_of(query, spec), why, f"The window {spec.name!r}")


def note(checkpoint: Path, query: str, specs: Iterable[Spec]) -> None:
    """Records the windows of a query that is about to start."""
    for spec in specs:
        _of(checkpoint, spec.name).write("window", _note_of(query, spec))


def require_same_topic(checkpoint: Path, query: str, topic: str) -> None:
    """Compares the topic of a query with the topic of its offsets: offsets of one topic are invalid in another one.

    Raises :class:`IncompatibleStateError`.
    """
    before = _of(checkpoint, query).read("topic", str)
    if before not in (None, topic):
        raise IncompatibleStateError(
            f"The query {query!r} has read the topic {before!r}, and would now read {topic!r}. Its place is one in the "
            "first: rows of the second would be left out, or read as if they followed. Nothing was changed. Have it "
            f"read {before!r}; or give its windows other names, under which they begin with nothing; or start the "
            "changed program with another checkpoint=."
        )


def note_topic(checkpoint: Path, query: str, topic: str, *, has_run: bool) -> None:
    """Records the topic of a query that is about to start."""
    manifest = _of(checkpoint, query)
    if not has_run or manifest.read("topic", str) is None:
        manifest.write("topic", topic)


def query_of(checkpoint: Path, window: str) -> str | None:
    """The query that is recorded for a window; ``None`` for a window without a record."""
    noted = _recorded_window(checkpoint, window)
    return None if noted is None else str(noted["query"])


def forget(checkpoint: Path, window: str) -> None:
    """Deletes the record of a window."""
    _of(checkpoint, window).write("window", None)


def moved(what: str, before: str, now: str, why: str) -> IncompatibleStateError:
    """The error for ``what`` if the code moves it from the query ``before`` to the query ``now``."""
    return IncompatibleStateError(
        f"{what} has run in the query {before!r}, and would now run in {now!r}: {why}. Its state and its offsets are "
        "in the first, so it would read all rows again, and publish their results again. Nothing was changed. Undo "
        f"the change of the code; or delete the state with app.drop({before!r}), to start anew; or start the changed "
        "program with another checkpoint=."
    )


def _require_same(before: dict[str, Any], now: dict[str, Any], why: str, what: str) -> None:
    if before["query"] != now["query"]:
        raise moved(what, before["query"], now["query"], why)
    differ = [
        f"{name}={before.get(name)!r} and is now {name}={is_!r}" for name, is_ in now.items() if before.get(name) != is_
    ]
    if differ:
        raise IncompatibleStateError(
            f"{what} had {', '.join(differ)}: its open panes have the former, and would be published with the latter. "
            "Nothing was overwritten. Undo the change, give the changed window another name=, or start the changed "
            "program with another checkpoint=."
        )


def _note_of(query: str, spec: Spec) -> dict[str, Any]:
    return {"query": query, "key": list(spec.key), "time_column": spec.time_column}


def _recorded_window(checkpoint: Path, window: str) -> dict[str, Any] | None:
    noted: dict[str, Any] | None = _of(checkpoint, window).read("window", dict)
    return noted


def _of(checkpoint: Path, name: str) -> Manifest:
    return Manifest(checkpoint / folder_name(name))
