"""``InMemory*`` windows with a user's settings, a snapshot every 10 batches: what is published once is not again."""

# Programs are written as users write them.
# ruff: noqa: N801
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from checked import settings
from mullion import _jvm, topics, turbine
from mullion._clock import ManualClock
from mullion.errors import FunctionError
from mullion.turbine import aggregates as agg
from mullion.turbine import windowing as win

SNAPSHOTS = "spark.sql.streaming.stateStore.mullion.snapshotEvery"


@pytest.fixture
def users(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with the settings of a user who made none."""
    with settings(spark, {SNAPSHOTS: "10"}):
        yield spark


def program(
    broker: str,
    spark: SparkSession,
    kind: str,
    *,
    clock: ManualClock | None = None,
    quick: bool = False,
    early: bool = False,
    fails: int | None = None,
) -> turbine.App:
    """Tumbling windows in memory or not, with early firings or not; ``quick`` ones on processing time too.

    ``fails`` has the pane fail that begins then.
    """
    app = turbine.App("shop", broker=broker, spark=spark, clock=clock)
    firings: Any = {"early_fire_interval_ms": 3_000} if early else {}

    @app.subscribe("orders", publish_to={"early": "live", "close": "revenue"})
    class revenue:
        def __init__(self) -> None:
            make = getattr(win, kind)
            self._win = make(
                self,
                name="revenue",
                size_ms=10_000,
                key=["region"],
                value=agg.Sum("amount"),
                time_column="ts",
                allowed_lateness_ms=2_000,
                on_close_each=self._over,
                **(firings | {"on_early_fire_each": self._over} if firings else {}),
            )
            if quick:
                self._quick = make(
                    self, name="quick", size_ms=5_000, key=["region"], value=agg.Sum("amount"), on_close_each=self._over
                )

        def _over(self, state, window, value):
            if window.start_ms == fails:
                raise ValueError("the shop is closed")
            return pa.RecordBatch.from_pylist([{**window.group, "start": window.start_ms, "amount": value}])

        def process(self, batch, state):
            self._win.update(batch, state)
            if hasattr(self, "_quick"):
                self._quick.update(batch, state)

    return app


def rows(number: int) -> list[dict[str, Any]]:
    """Those of a call: some of the window before, which is open still, and one that is late."""
    times = [3_000 * number + back for back in (0, 1_000, 2_900, -3_500)] + [-20_000]
    return [{"region": "ab"[i % 2], "amount": 10**number + i, "ts": 10**12 + t} for i, t in enumerate(times)]


def published(broker: str, *names: str) -> dict[str, Counter[str]]:
    """What there is in each topic, whatever the order in which shards came."""
    found = {}
    for topic in names:
        table = topics.read(broker, topic).drop_columns(["_key", "_timestamp"])
        found[topic] = Counter(map(repr, table.to_pylist()))
    return found


def last_batch(broker: str) -> int:
    commits = Path(broker.removeprefix("dir:")) / "_apps" / "shop" / "revenue" / "query" / "commits"
    return max(int(note.name) for note in commits.glob("[0-9]*"))


def test_windows_in_memory_that_are_drained_again_and_again_publish_each_pane_once(
    users: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_again: list[int] = []
    written: list[bool] = []
    begin, keep = _jvm.begin_redo, _jvm.keep_state

    def counted(*given: Any) -> int:
        made_again.append(begin(*given))
        return made_again[-1]

    def noted(*given: Any) -> bool:
        written.append(keep(*given))
        return written[-1]

    monkeypatch.setattr(_jvm, "begin_redo", counted)
    monkeypatch.setattr(_jvm, "keep_state", noted)
    brokers = {kind: f"dir:{tmp_path / kind}" for kind in ("PersistentTumbling", "InMemoryTumbling")}
    for number in range(4):
        for kind, broker in brokers.items():
            topics.produce(broker, "orders", rows(number * 3))
            program(broker, users, kind, early=True).run(until="drained")
    persistent, in_memory = (published(broker, "live", "revenue") for broker in brokers.values())
    assert in_memory == persistent
    assert len(in_memory["revenue"]) >= 6
    # Spark's maintenance, once a minute, may be there first. Then a batch is done again.
    assert [lost == 0 for lost in made_again] == written[:3], "what was written down at an end is not made again"
    assert any(written)


@pytest.mark.slow
def test_state_in_memory_that_is_lost_is_made_again_from_the_batches_as_they_were_and_nothing_is_published_twice(
    users: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, lost = (f"dir:{tmp_path / name}" for name in ("kept", "lost"))
    keep, following = _jvm.keep_state, _jvm.next_redo
    number = 0

    def run(batches: int) -> None:
        nonlocal number
        for broker in (kept, lost):
            # As when it is killed.
            monkeypatch.setattr(_jvm, "keep_state", keep if broker == kept else lambda *_: False)
            topics.produce(broker, "orders", rows(number))
            with program(
                broker, users, "InMemoryTumbling", clock=ManualClock(4_000 * number), quick=True
            ).start() as running:
                running.settle()
                for i in range(1, batches):
                    running.advance("4 seconds")
                    running.settle()
                    topics.produce(broker, "orders", rows(number + i))
                    running.settle()
        number += batches

    run(3)
    run(3)
    assert published(lost, "revenue") == published(kept, "revenue")

    # Killed while it makes again what was lost.
    calls = iter(range(1))

    def killed(*given: Any) -> bool:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return following(*given)

    monkeypatch.setattr(_jvm, "next_redo", killed)
    with pytest.raises(KeyboardInterrupt):
        program(lost, users, "InMemoryTumbling", clock=ManualClock(4_000 * number), quick=True).start()
    monkeypatch.setattr(_jvm, "next_redo", following)
    before = last_batch(lost)
    run(1)
    assert published(lost, "revenue") == published(kept, "revenue")
    assert last_batch(lost) > before

    # Fails in a batch, and goes on from there once it is mended; the windows on the wall clock are no part of it.
    monkeypatch.setattr(_jvm, "keep_state", keep)
    for broker in (kept, lost):
        topics.produce(broker, "orders", rows(number + 9))
    clock = ManualClock(4_000 * number)
    for _ in range(2):
        with pytest.raises(FunctionError, match="the shop is closed"):
            program(lost, users, "InMemoryTumbling", clock=clock, fails=10**12 + 10_000).run(until="drained")
    for broker in (kept, lost):
        program(broker, users, "InMemoryTumbling", clock=clock).run(until="drained")
    assert published(lost, "revenue") == published(kept, "revenue")


def test_early_firings_of_state_that_was_lost_are_published_once_like_closes(
    users: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, lost = (f"dir:{tmp_path / name}" for name in ("kept", "lost"))
    keep = _jvm.keep_state
    number = 0
    for batches in (3, 2, 1):
        for broker in (kept, lost):
            # As when it is killed: nothing is written down at the end.
            monkeypatch.setattr(_jvm, "keep_state", keep if broker == kept else lambda *_: False)
            topics.produce(broker, "orders", rows(number))
            clock = ManualClock(4_000 * number)
            with program(broker, users, "InMemoryTumbling", clock=clock, early=True).start() as running:
                running.settle()
                for i in range(1, batches):
                    running.advance("4 seconds")
                    running.settle()
                    topics.produce(broker, "orders", rows(number + i))
                    running.settle()
        number += batches
        assert published(lost, "live", "revenue") == published(kept, "live", "revenue")
    assert len(published(lost, "live")["live"]) >= 6
