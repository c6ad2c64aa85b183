"""The App of a Turbine program: its subscriptions, and their plans."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pyspark.sql import DataFrame, SparkSession

from mullion._keyed.api import read_state
from mullion._native.compare import compare
from mullion._native.panes import read_panes
from mullion._program.app import App as _App
from mullion._program.compare import REFUSED, Change
from mullion._program.host import DEFAULT_BROKER
from mullion._program.jobs import Job
from mullion._program.part_names import Named, folder_name
from mullion._program.report import Part, where_of
from mullion._util.clock import Clock
from mullion.errors import IncompatibleStateError, InvalidArgumentError, UnsupportedError
from mullion.topics import Broker
from mullion.turbine import _window_notes
from mullion.turbine._explained import parts_of, warnings_of, why_so
from mullion.turbine._plans import schema_probe
from mullion.turbine._plans.batches import has_run, publish
from mullion.turbine._plans.panes import in_words
from mullion.turbine._plans.process import ProcessPlan
from mullion.turbine._plans.sessions import session_of
from mullion.turbine._plans.shard import ShardPlan, panes_of_made
from mullion.turbine._plans.together import TogetherPlan, shared_by, shared_with
from mullion.turbine._plans.window import WindowPlan
from mullion.turbine._plans.window_plan import Plan
from mullion.turbine._process.stored_window import WindowSpec, specs_of
from mullion.turbine._process.subscription import Subscription, named_topics, options_of
from mullion.windows import Upgrade

Kind = TypeVar("Kind", bound=type)


class App(_App):
    """A Turbine program: :meth:`subscribe` adds subscriptions, and :meth:`run` runs them.

    - ``name``: the program's name; letters, digits, '.', '_' and '-'.
    - ``broker``: the location of its topics, ``"dir:PATH"`` or ``"kafka://host:port"``.
    - ``checkpoint``: the folder of its state. The default is ``PATH/_apps/NAME``, next to the topics of a ``dir:``
      broker, and ``.mullion/NAME`` for Kafka.
    - ``clock``: the source of the time; by default the machine's clock.
    - ``spark``: the session; by default the active one, or a new one when it is needed.
    - ``upgrade``: the treatment of open panes when the program has changed: a :class:`mullion.Upgrade`. By default the
      program does not start. With ``new_aggregates="from now"`` a new aggregate of an open pane covers the rows from
      then on, and is ``None`` before the first of them. ``window="drain"`` is for windows with a query of their own:
      the old window's open panes continue until they close, and rows from a boundary on enter the new window.
      ``window="drop"`` is for windows that share a query (``together=True``): open panes of windows that are no longer
      in the program are dropped, without a call of ``on_close``. It does not apply to windows in the query of a state.
    """

    api: ClassVar[str] = "turbine"

    def __init__(
        self,
        name: str,
        *,
        broker: str | Broker = DEFAULT_BROKER,
        checkpoint: str | os.PathLike[str] | None = None,
        clock: Clock | None = None,
        spark: SparkSession | None = None,
        upgrade: Upgrade = Upgrade(),  # noqa: B008
    ) -> None:
        super().__init__(name, broker=broker, checkpoint=checkpoint, clock=clock, spark=spark)
        if not isinstance(upgrade, Upgrade):
            raise InvalidArgumentError(
                f"upgrade={upgrade!r} ({type(upgrade).__name__}) is not an Upgrade. Write, for instance, "
                "upgrade=Upgrade(new_aggregates='from now')."
            )
        self.upgrade = upgrade
        self.subscriptions: list[Subscription] = []
        self._plans: dict[str, Plan] = {}

    def subscribe(
        self,
        topic: str,
        *,
        publish_to: str | Mapping[str, str] | None = None,
        partition_key: str | None = None,
        parallelism: int | None = None,
        with_kafka_timestamp: bool = False,
        schema: Any = None,
        on_error: str = "stop",
        dead_letter: str | None = None,
        together: bool = False,
    ) -> Callable[[Kind], Kind]:
        """Decorates a class with ``__init__(self)``, which makes windows, and ``process(self, batch, state)``.

        - ``topic``: the topic that it reads.
        - ``publish_to``: the topic for results of ``process`` and the callbacks, or a dict of topics. Its keys are
          ``"process"``, ``"early"``, ``"close"`` and names of windows; a window's own topic is that of both its
          callbacks. A returned batch without a topic is an error.
        - ``partition_key``: the column by which rows are sharded. The key of every window contains it. Without it there
          is one shard: a callback that accepts a table gets all panes of a tick.
        - ``parallelism``: the number of shards; by default the session's ``spark.sql.shuffle.partitions``. A
          checkpoint keeps the number with which it began.
        - ``with_kafka_timestamp``: adds the Int64 column ``_kafka_ts_ms`` to every batch: the time when a row
          reached the topic, in milliseconds since the epoch; in a ``dir:`` topic its timestamp in ``produce``.
        - ``schema``: of the topic's values, as DDL, a ``StructType`` or a ``pyarrow.Schema``. The default is the
          topic's own schema; the topic must then have rows when the program first runs.
        - ``on_error``: ``"stop"`` fails the query when a callback or ``process`` raises an error: nothing of the batch
          is published, and after a fix the query resumes with that batch. ``"skip"`` leaves out the input of the failed
          call, and counts it: a pane, all panes of the tick in the batch form, a batch of ``process``.
        - ``dead_letter``: a topic for records of the calls that ``"skip"`` leaves out: ``callback``, ``error`` and
          ``panes``.
        - ``together``: windows with one ``time_column`` and one store share a query: they read the topic, run
          ``process`` and shuffle once, and have one event clock, which covers the rows of all of them. Their state is
          in one checkpoint. Windows of the same key may be added and renamed, and removed with
          ``App(upgrade=Upgrade(window="drop"))``, as long as there are two. ``explain()`` lists the windows that share.

        The decorator creates the object once, so that its windows are checked immediately. Workers get copies of it.

        Raises :class:`InvalidArgumentError` for invalid arguments, here or in the windows.
        """
        options = options_of(
            topic, publish_to, partition_key, parallelism, with_kafka_timestamp, schema, on_error, dead_letter, together
        )
        for parameter, name in named_topics(publish_to, dead_letter):
            self.broker.require_topic(name, parameter)

        def subscribed(kind: Kind) -> Kind:
            if not isinstance(kind, type):
                raise InvalidArgumentError(
                    f"@app.subscribe({topic!r}) is for a class with __init__ and process, and {kind!r} is none."
                )
            where = where_of(kind)
            subscription = Subscription(options, kind)
            parts = [Named("window", name, where, _folder_of(subscription, name)) for name in subscription.windows]
            parts += [Named("windows", each.name, where, folder_name(each.name)) for each in shared_by(subscription)]
            if subscription.state is not None or subscription.is_published:
                parts.append(Named("process", subscription.job, where, folder_name(subscription.job)))
            for part in parts:
                self.names.register(part)
            self.subscriptions.append(subscription)
            return kind

        return subscribed

    def window(self, name: str) -> WindowHandle:
        """A window by its name, for inspection. Windows made from data exist once their batch is committed.

        Raises :class:`InvalidArgumentError` if no window has this name.
        """
        for subscription in self.subscriptions:
            if name in subscription.windows:
                window = subscription.windows[name]
                return WindowHandle(self, subscription, name, WindowSpec.of(window.spec), repr(window))
        dynamic = {spec.name: (each, spec) for each in self.subscriptions for spec in self._dynamic_specs(each)}
        if name in dynamic:
            return WindowHandle(
                self, *dynamic[name][:1], name, dynamic[name][1], repr(dynamic[name][1]), is_dynamic=True
            )
        names = ", ".join(sorted(map(repr, [*(w for s in self.subscriptions for w in s.windows), *dynamic]))) or "none"
        raise InvalidArgumentError(f"There is no window {name!r} in {self.name}. Its windows are: {names}.")

    def _warnings(self) -> Iterator[str]:
        for subscription in self.subscriptions:
            yield from warnings_of(subscription)

    def _jobs(self) -> Sequence[Job]:
        jobs = []
        self._plans.clear()
        for subscription in self.subscriptions:
            for plan in _plans_of(self, subscription):
                self._plans |= dict.fromkeys([*plan.windows, plan.name], plan)
                jobs.append(self._job(plan))
        return jobs

    def _job(self, plan: Plan) -> Job:
        options = plan.subscription.options
        topics = sorted({*options.publish_to.values(), *filter(None, [options.dead_letter])})

        def built(spark: SparkSession) -> DataFrame:
            self._require_same_query(plan)
            self._require_windows(plan)
            _window_notes.note(self.checkpoint, plan.name, plan.specs)
            _window_notes.note_topic(self.checkpoint, plan.name, options.topic, has_run=self._has_run(plan.name))
            with session_of(spark, plan.subscription, plan.settings) as session:
                return plan.rows(session)

        publishing = partial(publish, plan)
        return Job(plan.name, (options.topic,), tuple(topics), built, publishing, plan.mend)

    def plan_change(self) -> Sequence[Change]:
        """Lists the effects of starting the program on the panes and the state in :attr:`checkpoint`.

        The program can start if nothing is ``refused``. The call itself changes nothing.
        """
        changes = [
            change for each in self.subscriptions for plan in _plans_of(self, each) for change in self._change_of(plan)
        ]
        gone = "it is no longer in the program, and its state is kept"
        return changes + [Change(part.name, "goes on", gone) for part in self.removed_parts()]

    def _change_of(self, plan: Plan) -> list[Change]:
        try:
            self._require_same_query(plan)
            if not self._has_run(plan.name):
                return [Change(plan.name, "goes on", "it is new, and begins with nothing")]
            if isinstance(plan, ProcessPlan):
                return [Change(plan.name, "goes on", "it has its place in the topic, and no state")]
            with session_of(self.spark, plan.subscription, plan.settings) as session:
                rows = compare(plan.rows(session), self.checkpoint_of(plan.name)).collect()
        except IncompatibleStateError as refused:
            return [Change(plan.name, "refused", str(refused))]
        changes = [Change(plan.name, row.verdict, f"{row.window}: {row.what}") for row in rows]
        if isinstance(plan, TogetherPlan):
            return [replace(change, what=plan.in_words(change.what)) for change in changes]
        return changes

    def _require_windows(self, plan: Plan) -> None:
        """Records the windows that share a query; raises an error if their state does not allow the change."""
        if not isinstance(plan, TogetherPlan):
            return
        if self._has_run(plan.name) and plan.has_other_windows:
            refused = next((each for each in self._change_of(plan) if each.verdict == REFUSED), None)
            if refused is not None:
                raise IncompatibleStateError(
                    f"The windows of {plan.subscription.name} share a query, which cannot continue from "
                    f"{self.checkpoint_of(plan.name)}. {refused.what}. Nothing was overwritten. Without together=True "
                    "each window has a query of its own, and can be changed alone."
                )
        plan.note()

    def _require_same_query(self, plan: Plan) -> None:
        """Raises an error if the code moves state or topic offsets to another query."""
        subscription, why = plan.subscription, why_so(plan.subscription)
        for other in (f"{subscription.name}.process", f"{subscription.name}.state"):
            if plan.name == subscription.job != other and self._has_run(other):
                raise _window_notes.moved(f"process of {subscription.name}", other, plan.name, why)
        _window_notes.require_same(self.checkpoint, plan.name, why, plan.specs, self._has_run)
        if self._has_run(plan.name):
            _window_notes.require_same_topic(self.checkpoint, plan.name, subscription.options.topic)
            if isinstance(plan, TogetherPlan):
                plan.require_same_keys()

    def _has_run(self, query: str) -> bool:
        return has_run(self.checkpoint_of(query))

    def removed_parts(self) -> list[Named]:
        """The parts that are no longer in the program, but have state.

        State of removed windows in a shared query is excluded: that query drops it.
        """
        running = {each.name for subscription in self.subscriptions for each in shared_by(subscription)}
        return [
            each
            for each in super().removed_parts()
            if _window_notes.query_of(self.checkpoint, each.name) not in running
        ]

    def drop(self, name: str) -> None:
        """Deletes the state of a part that is no longer in the program, or a moved window's state in its old query.

        Raises :class:`InvalidArgumentError` for a part that is in use, and for a part that has no state.
        """
        now = next((_query_of(each, name) for each in self.subscriptions if name in each.windows), name)
        if now != name and _window_notes.query_of(self.checkpoint, name) == name:
            shutil.rmtree(self.folder_of(name), ignore_errors=True)
            return
        super().drop(name)
        _window_notes.forget(self.checkpoint, name)
        schema_probe.forget(self.checkpoint, name)

    def checkpoint_of(self, name: str) -> Path:
        """The checkpoint of the query of a window, or of a ``process``."""
        return self.folder_of(name).absolute() / "query"

    def _state_of(self, part: Named) -> str:
        if part.kind != "window":
            return super()._state_of(part)
        try:
            count = self.window(part.name).read().count()
        except InvalidArgumentError:
            return "none yet"
        return f"{count} open pane{'s' if count != 1 else ''}"

    def _found_parts(self) -> Sequence[Named]:
        parts = []
        for subscription in self.subscriptions:
            where = where_of(subscription.function)
            parts += [Named("window", spec.name, where) for spec in self._dynamic_specs(subscription)]
        return parts

    def _dynamic_specs(self, subscription: Subscription) -> list[WindowSpec]:
        """The specs of the windows that ``process`` of a subscription made."""
        checkpoint = self.checkpoint_of(subscription.job)
        if not subscription.makes_windows or not has_run(checkpoint):
            return []
        rows = read_state(checkpoint, spark=self._spark).select("key", "value").collect()
        return list(specs_of((bytes(row.key), bytes(row.value)) for row in rows).values())

    def _parts(self) -> Sequence[Part]:
        return [part for subscription in self.subscriptions for part in parts_of(subscription)]

    def __reduce__(self) -> tuple[Any, ...]:
        # A class that refers to its App is sent to workers, which do not use the App.
        return _AppOfWorker, (self.name,)


class WindowHandle:
    """A window of a program, for inspection; made by :meth:`App.window`."""

    def __init__(
        self, app: App, subscription: Subscription, name: str, spec: WindowSpec, shown: str, *, is_dynamic: bool = False
    ) -> None:
        self._app = app
        self._subscription = subscription
        self._name = name
        self._spec = spec
        self._shown = shown
        self._is_dynamic = is_dynamic

    def read(self) -> DataFrame:
        """The open panes: the key, ``window_start_ms``, ``window_end_ms``, and the values so far.

        They are those of the last committed batch; the program may be running.

        Raises :class:`InvalidArgumentError` for a window that has not run yet.
        """
        subscription = self._subscription
        alone = subscription.state is None
        shared = shared_with(subscription, self.name)
        checkpoint = self._app.checkpoint_of(_query_of(subscription, self.name))
        if not has_run(checkpoint):
            raise InvalidArgumentError(
                f"The window {self.name!r} has not run yet: there is nothing in {checkpoint}. Run the App first."
            )
        with session_of(self._app.spark) as spark:
            if alone:
                panes = read_panes(checkpoint, spark=spark)
                if shared is not None:
                    panes = shared.as_begun(self._app.folder_of(shared.name)).panes_of(self.name, panes)
            elif not self._is_dynamic:
                panes = read_panes(checkpoint, window=self.name, spark=spark)
            else:
                panes = panes_of_made(self._app.folder_of(subscription.job), checkpoint, self._spec, spark)
            return in_words(panes, self._spec)

    @property
    def skipped(self) -> int:
        """The number of rows left out because their batch lacked a column, since the program was started here.

        Rows are counted when they are read, before their batch is committed: rows that a repeated stage or batch reads
        again are counted again.
        """
        return 0 if self._plan is None else self._plan.skipped(self.name)

    @property
    def failed(self) -> int:
        """The number of panes that ``on_error="skip"`` left out, since the program was started here.

        If ``process`` itself failed, the number of its failed calls.
        """
        return 0 if self._plan is None else self._plan.failed(self.name)

    @property
    def _plan(self) -> Plan | None:
        return self._app._plans.get(self._subscription.job if self._is_dynamic else self.name)

    @property
    def name(self) -> str:
        """The name of the window."""
        return self._name

    def __repr__(self) -> str:
        return self._shown


class _AppOfWorker:
    """A placeholder for an App in a worker."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        raise UnsupportedError(f"The App is not there in process and the callbacks, which run in workers: app.{name}.")


def _plans_of(app: App, subscription: Subscription) -> Iterator[Plan]:
    if subscription.state is not None:
        yield ShardPlan(app, subscription, subscription.job)
        return
    for shared in shared_by(subscription):
        yield TogetherPlan(app, subscription, shared, app.upgrade)
    for window in subscription.windows.values():
        if shared_with(subscription, window.name) is not None:
            continue
        if subscription.process.python is not None or window.name in subscription.process.updates:
            yield WindowPlan(app, subscription, window, app.upgrade)
    if subscription.is_published:
        yield ProcessPlan(app, subscription, subscription.job)


def _query_of(subscription: Subscription, window: str) -> str:
    """The name of the query in which a window runs."""
    if subscription.state is not None:
        return subscription.job
    shared = shared_with(subscription, window)
    return window if shared is None else shared.name


def _folder_of(subscription: Subscription, window: str) -> str | None:
    """The folder of the state that is deleted with a window; ``None`` if the window shares its state."""
    if shared_with(subscription, window) is not None:
        return None
    if subscription.state is None:
        return folder_name(window)
    # It is next to the other windows of the subscription's operator.
    return f"{folder_name(subscription.job)}/query/state/0/_windows/{folder_name(window)}"
