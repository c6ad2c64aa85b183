"""The implementation of ``faust.App``: a program over topics, run by Spark."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pyspark.sql import SparkSession

from mullion._program.app import App as SharedApp
from mullion._program.compare import Change
from mullion._program.host import DEFAULT_BROKER, beside
from mullion._program.jobs import Job
from mullion._program.part_names import Named
from mullion._program.report import Part, Report
from mullion._program.runner import Running, Signals
from mullion._util.clock import Clock, system
from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.faust._agent_run.background import Background
from mullion.faust._agent_run.query import AgentsQuery
from mullion.faust._agent_run.runtime_app import HostedProgram
from mullion.faust._context import line_of_user
from mullion.faust._program import signals
from mullion.faust._program.broker_url import broker_named
from mullion.faust._program.command_line import run_command
from mullion.faust._program.discovery import import_all, packages_of
from mullion.faust._program.program import Program
from mullion.faust._program.signals import Signal
from mullion.faust._settings import Settings
from mullion.faust._values.times import Seconds, length_us
from mullion.faust.channels import Topic
from mullion.faust.tables.reader import TableReader
from mullion.topics import Broker, KafkaBroker

log = logging.getLogger("mullion")


class App(HostedProgram, SharedApp):
    """A program: tables, topics, agents, timers and tasks, over a broker.

    - ``id``: the program's id; letters, digits, '.', '_' and '-'.
    - ``broker``: the place of its topics: ``"dir:PATH"``, a folder, or ``"kafka://host:port"``.
    - ``checkpoint``, ``clock``, ``spark``: see :class:`mullion.turbine.App`; each has a default.
    - ``compiled``: True if agents that are folds over tables run in the JVM. With ``False`` all run in Python, with the
      same results; a program may change it between runs.
    - ``settings``: all settings of Faust, by name, as in :attr:`conf`. ``value_serializer``, ``key_serializer``,
      ``autodiscover``, ``origin`` and ``timezone`` have the effect that they have in Faust. State is always exactly
      once and in Spark's state store, whatever ``processing_guarantee`` and ``store`` are. :meth:`explain` lists
      settings without effect.

    All agents run in one query, with all tables in its state: in the JVM as listed by :meth:`explain`, otherwise in
    Python workers. An agent's messages are published when the batch is done. Events that do not fit their topic's type,
    and those that an agent sets aside, are published to ``{id}-dead-letters``.
    """

    api: ClassVar[str] = "faust"

    def __init__(
        self,
        id: str,  # noqa: A002
        *,
        broker: str | Broker | Sequence[str] = DEFAULT_BROKER,
        checkpoint: str | os.PathLike[str] | None = None,
        clock: Clock | None = None,
        spark: SparkSession | None = None,
        compiled: bool = True,
        **settings: Any,
    ) -> None:
        self._own_checkpoint = checkpoint is not None
        SharedApp.__init__(self, id, broker=broker_named(broker), checkpoint=checkpoint, clock=clock, spark=spark)
        self.compiled = compiled
        self._beside: Background | None = None
        self._is_configured = False
        Program.__init__(self, id, Settings(id, {**settings, "broker": self.broker.url}, self._set))
        self._require_no_credentials()

    def _set(self, setting: str, value: Any) -> None:
        """Applies a setting that changes after the App was created."""
        if setting == "broker":
            self.broker = broker_named(value)
            if not self._own_checkpoint:
                self.checkpoint = beside(self.broker, self.name)
        self._require_no_credentials()

    def _require_no_credentials(self) -> None:
        if isinstance(self.broker, KafkaBroker) and (self.conf.broker_credentials or self.conf.ssl_context):
            raise UnsupportedError(
                f"broker_credentials= and ssl_context= of {self.name!r} are not supported: Spark's connection to "
                "Kafka takes no objects of Python. Write broker=topics.KafkaBroker('host:9093', "
                "{'security.protocol': 'SASL_SSL', 'sasl.mechanism': 'PLAIN', 'sasl.username': ..., "
                "'sasl.password': ...})."
            )

    def topic(self, *names: str, **options: Any) -> Topic:
        """Returns a topic by name. See :meth:`Program.topic`."""
        return Program.topic(self, *names, **options)

    def _topic(self, name: str, *about: Any) -> Topic:
        self.broker.require_topic(name)
        return Program._topic(self, name, *about)

    def _table(self, kind: type[Any], name: str, about: dict[str, Any], accepted: dict[str, Any]) -> Any:
        table = Program._table(self, kind, name, about, accepted)
        self.names.register(Named("table", name, line_of_user()))
        return table

    def table(self, name: str) -> TableReader:
        """Returns a reader of a table as a DataFrame: ``app.table("views").read()``."""
        if name not in self.tables:
            names = ", ".join(sorted(self.tables)) or "none"
            raise InvalidArgumentError(f"{self.name!r} has no table {name!r}. Its tables are: {names}.")
        return TableReader(self.tables[name], self.records_folder, lambda: self.spark)

    def plan_change(self) -> Sequence[Change]:
        """Returns the effects on the tables in :attr:`checkpoint` if the program were started now.

        It can start if no change is ``refused``. Nothing is changed.
        """
        self.discover()
        self._find_topics()
        return AgentsQuery(self).changes()

    def drop(self, name: str) -> None:
        """Raises :class:`UnsupportedError`: the records of all tables are in the state of one query."""
        if name in self.tables or name not in {part.name for part in self.removed_parts()}:
            SharedApp.drop(self, name)
        raise UnsupportedError(f"The records of the table {name!r} cannot be deleted. {self._rid_of(name)}")

    def _rid_of(self, name: str) -> str:
        return (
            "It is in one state with the other tables, which goes with that folder; a table of another name begins "
            "with nothing."
        )

    def run(self, until: Literal["drained"] | None = None) -> None:
        """Runs the agents and the tasks: see :meth:`mullion._program.app.App.run`.

        With ``until="drained"`` it returns once all tasks have ended or wait for time, and their messages are
        processed.
        """
        self._configure()
        with Background(self, self._beginning()) as beside:
            self._beside = beside
            beside.settle()
            if until is None:
                self._serve(beside)
            else:
                self._drain(beside, until)
        if beside.error is not None:
            raise beside.error
        for call in self.on_before_shutdown.calls(self):
            self.call(call)

    def _drain(self, beside: Background, until: Literal["drained"]) -> None:
        while True:
            before = beside.published
            if self._jobs() or not self.tasks:
                SharedApp.run(self, until)
            beside.settle()
            if beside.published == before:
                return

    def _serve(self, beside: Background) -> None:
        if not self._jobs() and self.tasks:
            with Signals() as stop_signals:
                beside.wait(stop_signals.to_stop)
            return
        jobs = self._checked_jobs()
        # Before the signal handlers, because a starting session installs its own handler of SIGINT.
        _ = self.spark
        with Signals() as stop_signals, Running(self, jobs) as running:
            running.wait(lambda: stop_signals.to_stop() or beside.error is not None)

    def discover(self, *packages: str) -> None:
        """Imports packages with modules that define agents; the default is those of ``autodiscover`` and ``origin``.

        Raises :class:`InvalidArgumentError` for ``autodiscover=True`` without ``origin``.
        """
        import_all(packages or packages_of(self.conf))

    def explain(self) -> Report:
        """Reports the place of each part, JVM or Python, with the reason, and arguments without effect."""
        self._configure()
        return replace(SharedApp.explain(self), notes=tuple(self.notes()))

    def stream(self, job: Any, topic: Any = None, *arguments: Any, **more: Any) -> Any:
        """Returns a topic's events for an agent. With a job, returns the stream that Apps of every API provide."""
        if topic is not None:
            return SharedApp.stream(self, job, topic, *arguments, **more)
        channel = self.topic(job) if isinstance(job, str) else job
        if not isinstance(channel, Topic):
            raise UnsupportedError(f"app.stream({channel!r}) is not supported. Write an agent: @app.agent(topic).")
        return channel.stream(**more)

    def start(self) -> Running:
        """Starts the query and returns: see :meth:`mullion._program.app.App.start`."""
        self._configure()
        return SharedApp.start(self)

    def main(self) -> None:
        """Runs the command of the command line, for a module that runs as a script: ``python site.py worker``.

        The command is ``worker`` (the default), which runs until it is stopped, or a command of the program.
        """
        code = self.command_line(sys.argv[1:])
        if code:
            sys.exit(code)

    def command_line(self, arguments: Sequence[str]) -> int:
        """Runs ``worker`` or a command of the program, by its arguments; returns the exit status."""
        return run_command(self, arguments)

    def _jobs(self) -> Sequence[Job]:
        return AgentsQuery(self).jobs()

    def _parts(self) -> Sequence[Part]:
        return AgentsQuery(self).parts()

    # -- next to the query

    @property
    def should_stop(self) -> bool:
        """True once the program ends: for tasks that run as long as the program."""
        return self._beside is not None and self._beside.should_stop

    async def sleep(self, length: Seconds) -> None:
        """Waits for a length of time; returns early if the program ends."""
        until = asyncio.get_running_loop().time() + length_us(length, "sleep") / 1_000_000
        while not self.should_stop and (remaining := until - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(remaining, 1.0))

    def call(self, function: Callable[[], Any]) -> None:
        """Calls a function of the program in this process, next to its query, and publishes its messages."""
        Background(self, [function]).run()

    def _beginning(self) -> list[Callable[[], Any]]:
        """Returns the functions to call when the program starts."""
        arguments: dict[str, tuple[Any, ...]] = {"on_partitions_assigned": (set(),)}
        calls = [
            call for name in signals.BEGINNING for call in getattr(self, name).calls(self, *arguments.get(name, ()))
        ]
        return [*calls, *(call for table in self.tables.values() for call in table.on_recovered), *self.tasks]

    def _find_topics(self) -> None:
        """Adds to agents the topics that their patterns match: those of the query's first start, or all."""
        if not self.by_pattern:
            return
        began = AgentsQuery(self).began_with
        for topic in self.broker.topics():
            if began is None or topic in began:
                self.add_topic(topic)
            elif self.matching(topic):
                log.warning(
                    "%s: the topic %r came after the query began, which has the topics of then. An App with another id "
                    "reads it.",
                    self.name,
                    topic,
                )
        without = [one for one in self.by_pattern if not any(name.startswith(f"{one.name}@") for name in self.agents)]
        for agent in without:
            raise InvalidArgumentError(
                f"No topic of {self.broker.url} matches the pattern {agent.channel.name!r} of the agent "
                f"{agent.name!r}. Write to one first, or name it: app.topic('events') has columns once a message comes."
            )

    def _configure(self) -> None:
        """Imports other modules and finds the topics of patterns; the first time also reports unused settings."""
        self.discover()
        self._find_topics()
        if not self._is_configured:
            self._is_configured = True
            for name in signals.CONFIGURING:
                for call in getattr(self, name).calls(self, *((self.conf,) if name == "on_configured" else ())):
                    self.call(call)
            for note in self.notes():
                log.info("%s: taken, and not used: %s.", self.name, note)

    def __getstate__(self) -> dict[str, Any]:
        # An agent that uses the App is pickled with it. Workers have no session, and use the clock of the batch.
        here = {name: value for name, value in self.__dict__.items() if not isinstance(value, Signal)}
        return {**here, "_spark": None, "clock": system(), "commands": {}, "_beside": None, "queries": {}}


__all__ = ["App"]


# Faust's module is a package, whose modules :mod:`mullion.faust._public_names.modules` finds.
__path__: list[str] = []


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Names of Faust's module that are elsewhere here. Type checkers see the real names only.
        from mullion.faust._public_names.modules import named

        return named("app", name)
