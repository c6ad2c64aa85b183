"""The contents of :meth:`App.explain` for a subscription, and warnings about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from mullion._program.outside_state import lost_changes
from mullion._program.report import Part, shown, where_of
from mullion._pyfunction.functions import plain
from mullion._pyfunction.methods import Place
from mullion.turbine._plans.together import why_alone_or_not
from mullion.turbine._process.subscription import Subscription


def why_so(subscription: Subscription) -> str:
    """The reason why a subscription's windows run in their queries."""
    if subscription.makes_windows:
        return "process may make windows, and all is in one query with them"
    if subscription.state is not None:
        reader, place = subscription.state
        return f"{reader} uses the state ({_where(place)}: {place.says}), and all is in one query with it"
    if subscription.options.together:
        return "with together=True windows share one, and nothing uses the state"
    return "each window has one of its own, for nothing uses the state and together=True is not there"


def parts_of(subscription: Subscription) -> Iterable[Part]:
    name, process, state = subscription.name, subscription.process, subscription.state
    where = where_of(subscription.function)
    if state is not None:
        reader, place = state
        key = subscription.partition_key
        shards = "one shard, because there is no partition_key" if key is None else f"shards by {key}"
        why = "it may make windows" if subscription.makes_windows else f"{reader} uses the state: {place.says}"
        why = _noting(subscription, subscription.function, f"{why}; {shards}")
        yield Part(f"{name}.process", "Python", why, _where(place))
        if subscription.makes_windows:
            makes = "makes windows again that process made from data; their panes are in the JVM, in RocksDB"
            yield Part(f"{name}.on_recover", "Python", makes, _where(place))
    elif not _runs(subscription):
        yield Part(f"{name}.process", "Python", f"it is not called: {_NOTHING}", where)
    elif process.python is None:
        yield Part(f"{name}.process", "JVM", "it only updates windows, and is not called", where)
    else:
        why = f"over Arrow batches: {process.python.says}"
        yield Part(
            f"{name}.process", "Python", _noting(subscription, subscription.function, why), _where(process.python)
        )
    for window in subscription.windows.values():
        spec = window.spec
        clock = f"event time {spec.time_column}" if spec.time_column is not None else "processing time"
        store = "RocksDB" if state is None else "RocksDB, in the task of the state"
        idle = ""
        if spec.time_column is None and spec.allowed_lateness_ms:
            idle = "; no row is late on processing time, so allowed_lateness_ms does nothing"
        if not _is_updated(subscription, window.name):
            idle = "; process never updates it, so it does not run"
        elif subscription.options.together and state is None:
            idle += f"; {why_alone_or_not(subscription, window)}"
        yield Part(window.name, "JVM", f"{spec.kind} on {clock}, panes in {store}{idle}", where_of(subscription.kind))
        callbacks = spec.callbacks
        shard = "" if subscription.partition_key is None else " and shard"
        form = "called for each pane" if callbacks.each else f"called once for all panes of a tick{shard}"
        for kind, function in (("early", callbacks.early), ("close", callbacks.close)):
            if function is not None:
                why = _noting(subscription, function, f"over Arrow: {form}")
                yield Part(f"{window.name}.{kind}", "Python", why, where_of(function))


_NOTHING: Final = "it updates no window, returns nothing and uses no state, so that nothing would come of it"


def _runs(subscription: Subscription) -> bool:
    process = subscription.process
    updated = any(_is_updated(subscription, name) for name in subscription.windows)
    return subscription.state is not None or process.returns or updated


def _is_updated(subscription: Subscription, window: str) -> bool:
    """Returns True if ``process`` may pass rows to a window."""
    process = subscription.process
    return subscription.state is not None or process.python is not None or window in process.updates


def _noting(subscription: Subscription, function: Callable[..., Any], why: str) -> str:
    changed = subscription.changes_of(function)
    return f"{why}; {changed}" if changed else why


def warnings_of(subscription: Subscription) -> Iterator[str]:
    """Warnings about a subscription, before it runs."""
    name, place = subscription.name, where_of(subscription.function)
    if not _runs(subscription):
        topic = subscription.options.topic
        yield f"process of {name} ({place}) has no query, and reads nothing of {topic!r}: {_NOTHING}."
    for window in subscription.windows:
        if not _is_updated(subscription, window):
            yield f"process of {name} ({place}) never updates the window {window!r}, which does not run."
    called = [("process", subscription.function)] if subscription.process.python or subscription.state else []
    for window, callbacks in ((each.name, each.spec.callbacks) for each in subscription.windows.values()):
        called += [(f"a callback of {window!r}", each) for each in (callbacks.early, callbacks.close) if each]
    for changed, what in {subscription.changes_of(function): what for what, function in reversed(called)}.items():
        if changed:
            yield f"{what} in {name}: {changed}."
    for what, function in called:
        yield from lost_changes(f"{what} in {name}", [plain(function) or function], "Keep such values in state.")


def _where(place: Place) -> str:
    return f"{shown(place.file)}:{place.line}" if place.line else place.file
