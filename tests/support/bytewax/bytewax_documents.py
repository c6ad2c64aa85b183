"""The programs of the documents on Bytewax's windows, as they stand there, over events that are made up."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import mullion.bytewax.operators as op
import mullion.bytewax.operators.windowing as win
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.testing import TestingSink, TestingSource

START = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass
class Event:
    """An event that has the time and the values under every name that the documents use."""

    timestamp: datetime
    amount: int = 1
    value: float = 1.0
    created_at: datetime = START
    event_time: datetime = START
    metadata: Any = field(default=None)

    def __post_init__(self) -> None:
        self.created_at = self.event_time = self.timestamp
        self.metadata = SimpleNamespace(timestamp=self.timestamp.isoformat())


def after(minutes: float, amount: int = 1) -> Event:
    return Event(START + timedelta(minutes=minutes), amount, float(amount))


EVENTS = [("a", after(0, 1)), ("a", after(3, 2)), ("b", after(4, 5)), ("a", after(20, 3)), ("a", after(70, 4))]


def flow_of(out: dict[str, list[Any]]) -> Dataflow:
    """All blocks in one dataflow; ``out`` gets what each gives."""
    flow = Dataflow("documents")
    keyed_events: Any = op.input("events", flow, TestingSource(EVENTS))
    keyed_transactions = user_actions = user_profiles = keyed_events
    sensor_data = stock_prices = user_events = events = keyed_events

    # Collect events into 5-minute tumbling windows
    windowed_events = win.collect_window(
        "5min_windows",
        keyed_events,
        win.EventClock(lambda e: e.timestamp),
        win.TumblingWindower(timedelta(minutes=5)),
    )

    # Calculate running totals in sliding windows
    def create_total() -> int:
        return 0

    def add_to_total(total: int, event: Event) -> int:
        return total + event.amount

    sliding_totals = win.fold_window(
        "sliding_totals",
        keyed_transactions,
        win.EventClock(lambda t: t.timestamp),
        win.SlidingWindower(timedelta(hours=1), timedelta(minutes=15)),
        create_total,
        add_to_total,
    )

    # Join user actions with user profiles within 1-hour windows
    user_activity = win.join_window(
        "activity_join",
        user_actions,
        user_profiles,
        clock=win.EventClock(lambda e: e.timestamp),
        windower=win.TumblingWindower(timedelta(hours=1)),
        emit_mode="complete",
    )

    # Extract timestamp from event field
    event_clock: Any = win.EventClock(lambda event: event.created_at)
    # Extract from nested structure with late event tolerance
    complex_clock: Any = win.EventClock(
        lambda msg: datetime.fromisoformat(msg.metadata.timestamp),
        wait_for_system_duration=timedelta(seconds=30),
    )
    # Use system time (processing time)
    system_clock = win.SystemClock()

    # 15-minute tumbling windows (no overlap)
    tumbling = win.TumblingWindower(timedelta(minutes=15))
    # 1-hour windows sliding every 15 minutes (overlap)
    sliding = win.SlidingWindower(
        length=timedelta(hours=1),
        offset=timedelta(minutes=15),
    )
    # Session windows with 30-minute timeout
    sessions = win.SessionWindower(timedelta(minutes=30))

    # Non-overlapping 5-minute windows for real-time metrics
    metrics: Any = win.fold_window(
        "realtime_metrics",
        sensor_data,
        win.EventClock(lambda reading: reading.timestamp),
        win.TumblingWindower(timedelta(minutes=5)),
        lambda: {"sum": 0, "count": 0, "min": float("inf"), "max": float("-inf")},
        lambda acc, reading: {
            "sum": acc["sum"] + reading.value,
            "count": acc["count"] + 1,
            "min": min(acc["min"], reading.value),
            "max": max(acc["max"], reading.value),
        },
    )

    # Overlapping windows for trend analysis
    trends = win.collect_window(
        "trend_analysis",
        stock_prices,
        win.EventClock(lambda price: price.timestamp),
        win.SlidingWindower(
            length=timedelta(hours=4),  # 4-hour windows
            offset=timedelta(hours=1),  # New window every hour
        ),
    )

    # Group user interactions into sessions
    user_sessions = win.collect_window(
        "user_sessions",
        user_events,
        win.EventClock(lambda event: event.timestamp),
        win.SessionWindower(timedelta(minutes=30)),  # 30-minute session timeout
    )

    # Handle events arriving up to 1 minute late
    tolerant_clock: Any = win.EventClock(
        lambda event: event.event_time,
        wait_for_system_duration=timedelta(minutes=1),
    )
    late_tolerant_windows = win.collect_window(
        "late_tolerant",
        events,
        tolerant_clock,
        win.TumblingWindower(timedelta(minutes=5)),
    )

    # The clocks and windowers that the documents only make, and operators that they only name.
    counted = win.count_window("counted", events, complex_clock_of_pairs(complex_clock), tumbling, lambda pair: pair[0])
    largest = win.max_window("largest", events, event_clock, sliding, lambda event: event.amount)
    smallest = win.min_window("smallest", events, win.WindowConfig(event_clock, sessions), lambda event: event.amount)
    reduced = win.reduce_window("reduced", events, system_clock, tumbling, lambda one, other: max_of(one, other))
    for name, stream in {
        "windowed_events": windowed_events,
        "sliding_totals": sliding_totals,
        "user_activity": user_activity,
        "metrics": metrics,
        "trends": trends,
        "user_sessions": user_sessions,
        "late_tolerant_windows": late_tolerant_windows,
        "counted": counted,
        "largest": largest,
        "smallest": smallest,
        "reduced": reduced,
    }.items():
        op.output(f"{name}_out", stream, TestingSink(out.setdefault(name, [])))
    return flow


def complex_clock_of_pairs(clock: win.EventClock[Any]) -> win.EventClock[Any]:
    """The clock for items that still have their keys."""
    return win.EventClock(lambda pair: clock.ts_getter(pair[1]), clock.wait_for_system_duration)


def max_of(one: Event, other: Event) -> Event:
    return one if one.amount >= other.amount else other
