"""A program: its parts, its run, and its reports."""

from __future__ import annotations

import abc
import logging
from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from mullion._program.compare import Change
from mullion._program.host import Host
from mullion._program.jobs import Job
from mullion._program.part_names import Named
from mullion._program.report import Part, Report, table
from mullion._program.runner import Running, drain, serve
from mullion.errors import InvalidArgumentError, UnsupportedError

log = logging.getLogger("mullion")


class App(Host, abc.ABC):
    """The base of the Apps of all APIs; each defines its parts with :meth:`_jobs` and :meth:`_parts`.

    - ``name``: of the program; letters, digits, '.', '_' and '-'.
    - ``broker``: of its topics, ``"dir:PATH"`` or ``"kafka://host:port"``.
    - ``checkpoint``: of its state. By default next to the topics of a ``dir:`` broker, in ``PATH/_apps/NAME``, and in
      ``.mullion/NAME`` for Kafka.
    - ``clock``: the machine's by default, and a ``ManualClock`` in tests.
    - ``spark``: the session; the active one by default, or else a new one on demand.
    """

    api: ClassVar[str]
    """The package of Mullion that the App is one of, such as ``turbine``."""

    def run(self, until: Literal["drained"] | None = None) -> None:
        """Runs until it is stopped, by SIGINT or SIGTERM: running batches end first.

        With ``until="drained"`` it processes all existing rows, and those that its parts publish for one another, and
        returns. Windows close by their clock; the others stay open. Another run continues from there.

        Raises the error of the first query that fails, when all others have stopped; :class:`InvalidArgumentError` for
        another ``until``.
        """
        if until not in (None, "drained"):
            raise InvalidArgumentError(f"until={until!r} is not an end. Write run(until='drained'), or run() for none.")
        jobs = self._checked_jobs()
        if until == "drained":
            drain(self, jobs)
        else:
            serve(self, jobs)

    def start(self) -> Running:
        """Starts all queries and returns: for tests and notebooks, which control the clock and the end."""
        return Running(self, self._checked_jobs())

    def explain(self) -> Report:
        """The parts that run in the JVM and those that run in Python, and the reasons, with their lines."""
        return Report(tuple(self._parts()))

    def plan_change(self) -> Sequence[Change]:
        """The effect of starting the program unchanged on the state in :attr:`checkpoint`; nothing is written.

        It can start if nothing is ``refused``. Raises :class:`UnsupportedError` for an App without this report.
        """
        raise UnsupportedError(
            f"The effect of a start on the state of {self.name!r} is unknown: mullion.{self.api} does not compare it. "
            "A start that fails changes nothing."
        )

    def windows(self) -> str:
        """The named parts, as an aligned table: their kind, name and line, and their content."""
        lines = [("kind", "name", "state", "defined at")]
        lines += [(p.kind, p.name, self._state_of(p), p.where) for p in (*self.names.all(), *self._found_parts())]
        lines += [(part.kind, part.name, "kept, for it was removed", part.where) for part in self.removed_parts()]
        return table(lines)

    def _found_parts(self) -> Sequence[Named]:
        """Parts that the program created while it ran."""
        return ()

    def _state_of(self, part: Named) -> str:
        """A short description of a part's content."""
        return "kept" if (self.checkpoint / (part.folder or "")).exists() else "none yet"

    def removed_parts(self) -> list[Named]:
        """Parts that the program no longer has and whose state is kept."""
        return self.names.removed_parts(self.checkpoint)

    def drop(self, name: str) -> None:
        """Deletes the state of a part that the program no longer has.

        Raises :class:`InvalidArgumentError` for an existing part, and for one without state.
        """
        self.names.drop(self.checkpoint, name)

    def _rid_of(self, name: str) -> str:
        """The instruction to delete the state of a part that the program no longer has."""
        return f"drop({name!r}) deletes it."

    @abc.abstractmethod
    def _jobs(self) -> Sequence[Job]:
        """The queries of the program."""

    @abc.abstractmethod
    def _parts(self) -> Sequence[Part]:
        """The parts that :meth:`explain` shows."""

    def _warnings(self) -> Iterable[str]:
        """Warnings about the program, before it runs."""
        return ()

    def _checked_jobs(self) -> Sequence[Job]:
        for warning in self._warnings():
            log.warning("%s", warning)
        jobs = self._jobs()
        if not jobs:
            raise InvalidArgumentError(f"The App {self.name!r} has nothing to run: nothing in it reads a topic.")
        self.names.remember(self.checkpoint)
        for part in self.removed_parts():
            log.warning(
                "The %s %r is no longer in %s. Its state is kept in %s. %s",
                part.kind,
                part.name,
                self.name,
                self.checkpoint,
                self._rid_of(part.name),
            )
        return jobs
