"""The programs of Faust's documentation, unchanged. Each is a function of an App.

The argument replaces the documentation's ``app = faust.App(...)``. Definitions that an incomplete program lacks are
added above it.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any, List, Optional, Protocol, Tuple, runtime_checkable  # noqa: UP035

import mullion.faust as faust
from mullion.faust import HoppingWindow, Record, SlidingWindow, TumblingWindow


@runtime_checkable
class WindowT(Protocol):
    """Type interface for Window."""

    expires: Optional[float]  # noqa: UP045
    ident: str

    def ranges(self, timestamp: float) -> List[Tuple[float, float]]: ...  # noqa: UP006
    def stale(self, timestamp: float, latest_timestamp: float) -> bool: ...
    def current(self, timestamp: float) -> Tuple[float, float]: ...  # noqa: UP006


@runtime_checkable
class TumblingWindowT(WindowT, Protocol):
    """Type interface for TumblingWindow."""

    size: float


@runtime_checkable
class HoppingWindowT(WindowT, Protocol):
    """Type interface for HoppingWindow."""

    size: float
    step: float


@runtime_checkable
class SlidingWindowT(WindowT, Protocol):
    """Type interface for SlidingWindow."""

    before: float
    after: float
    total_size: float


class Withdrawal(Record):
    user: str
    country: str
    amount: float
    account: str = ""


class Account(Record):
    name: str
    date_created: datetime


def tumbling_counts(app: Any) -> None:
    # 5-minute tumbling windows for counting events
    event_counts = app.Table(
        "event-counts",
        default=int,
        window=TumblingWindow(300),  # 5 minutes
    )

    events_topic = app.topic("events", value_type=dict)

    @app.agent(events_topic)
    async def count_events(events):  # type: ignore[no-untyped-def]
        async for event in events:
            # Count events per category in 5-minute windows
            category = event["category"]
            event_counts[category] += 1

    @app.timer(interval=60.0)
    async def print_window_stats():  # type: ignore[no-untyped-def]
        # Print counts for current windows
        current_time = time.time()
        for category, count in event_counts.items():
            window_start = (current_time // 300) * 300
            print(f"Category {category}: {count} events in window {window_start}")


def hopping_averages(app: Any) -> None:
    # 10-minute windows advancing every 5 minutes
    sliding_averages = app.Table(
        "sliding-averages",
        default=lambda: {"sum": 0, "count": 0},
        window=HoppingWindow(size=600, step=300),
    )

    metrics_topic = app.topic("metrics", value_type=dict)

    @app.agent(metrics_topic)
    async def compute_sliding_average(metrics):  # type: ignore[no-untyped-def]
        async for metric in metrics:
            metric_name = metric["name"]
            value = metric["value"]

            # Update sliding average for overlapping windows
            stats = sliding_averages[metric_name]
            stats["sum"] += value
            stats["count"] += 1
            sliding_averages[metric_name] = stats

    @app.timer(interval=300.0)  # Every 5 minutes (step size)
    async def report_sliding_averages():  # type: ignore[no-untyped-def]
        for metric_name, stats in sliding_averages.items():
            if stats["count"] > 0:
                avg = stats["sum"] / stats["count"]
                print(f"Sliding average for {metric_name}: {avg}")


def sessions(app: Any) -> None:
    # Session tracking with 30-minute timeout
    user_sessions = app.Table(
        "user-sessions",
        default=lambda: {"start_time": None, "last_activity": None, "events": []},
        window=SlidingWindow(before=1800, after=0),  # 30 minutes before
    )

    activity_topic = app.topic("user-activity", value_type=dict)

    @app.agent(activity_topic)
    async def track_sessions(activities):  # type: ignore[no-untyped-def]
        async for activity in activities:
            user_id = activity["user_id"]
            timestamp = activity["timestamp"]

            # Get session data
            session = user_sessions[user_id]

            # Check if this continues existing session or starts new one
            if (
                session["last_activity"] is None or timestamp - session["last_activity"] > 1800  # 30 min timeout
            ):
                # New session
                session["start_time"] = timestamp
                session["events"] = []

            # Update session
            session["last_activity"] = timestamp
            session["events"].append(activity)

            user_sessions[user_id] = session


class BusinessHoursWindow(faust.Window):
    """Custom window that only includes business hours."""

    def __init__(self, *, start_hour=9, end_hour=17, timezone="UTC"):  # type: ignore[no-untyped-def]
        super().__init__()
        self.start_hour = start_hour
        self.end_hour = end_hour
        self.timezone = timezone

    def ranges(self, timestamp):  # type: ignore[no-untyped-def]
        from datetime import datetime

        import pytz  # type: ignore[import-untyped]

        tz = pytz.timezone(self.timezone)
        dt = datetime.fromtimestamp(timestamp, tz)

        # Check if timestamp is within business hours
        if self.start_hour <= dt.hour < self.end_hour:
            # Return daily business hours window
            day_start = dt.replace(hour=self.start_hour, minute=0, second=0, microsecond=0)
            day_end = dt.replace(hour=self.end_hour, minute=0, second=0, microsecond=0)
            return [(day_start.timestamp(), day_end.timestamp())]
        else:
            return []  # Outside business hours


def business_hours(app: Any) -> None:
    # Use custom window
    business_metrics = app.Table(
        "business-metrics",
        default=int,
        window=BusinessHoursWindow(start_hour=9, end_hour=17, timezone="US/Eastern"),  # type: ignore[no-untyped-call]
    )

    @app.agent(app.topic("metrics", value_type=dict))
    async def count_metrics(metrics):  # type: ignore[no-untyped-def]
        async for metric in metrics:
            business_metrics[metric["name"]] += metric["value"]


def expiring(app: Any) -> None:
    # Configure window expiration
    hourly_stats = app.Table(
        "hourly-stats",
        default=int,
        window=TumblingWindow(
            size=3600,  # 1 hour windows
            expires=7200,  # Keep windows for 2 hours
        ),
    )

    @app.agent(app.topic("events", value_type=dict))
    async def count_events(events):  # type: ignore[no-untyped-def]
        async for event in events:
            hourly_stats[event["category"]] += 1

    @app.timer(interval=300.0)  # Every 5 minutes
    async def cleanup_expired_windows():  # type: ignore[no-untyped-def]
        """Clean up expired windows to manage memory."""
        current_time = time.time()

        # Force window expiration check
        if hasattr(hourly_stats, "expire_windows"):
            expired_count = hourly_stats.expire_windows(current_time)
            if expired_count > 0:
                print(f"Expired {expired_count} old windows")


def multi_window(app: Any) -> None:
    # Multiple window sizes for different analysis
    minute_counts = app.Table("minute-counts", default=int, window=TumblingWindow(60))
    hour_counts = app.Table("hour-counts", default=int, window=TumblingWindow(3600))
    sliding_counts = app.Table("sliding-counts", default=int, window=HoppingWindow(size=600, step=60))

    @app.agent()
    async def multi_window_analysis(events):  # type: ignore[no-untyped-def]
        async for event in events:
            event_type = event["type"]

            # Update all window types simultaneously
            minute_counts[event_type] += 1
            hour_counts[event_type] += 1
            sliding_counts[event_type] += 1

    @app.timer(interval=60.0)
    async def report_multi_window_stats():  # type: ignore[no-untyped-def]
        print("=== Multi-Window Analysis ===")
        for event_type in set(minute_counts.keys()) | set(hour_counts.keys()):
            minute_count = minute_counts.get(event_type, 0)
            hour_count = hour_counts.get(event_type, 0)
            sliding_count = sliding_counts.get(event_type, 0)

            print(f"{event_type}:")
            print(f"  Last minute: {minute_count}")
            print(f"  Last hour: {hour_count}")
            print(f"  Sliding 10min: {sliding_count}")


def by_country(app: Any) -> None:
    withdrawals_topic = app.topic("withdrawals", value_type=Withdrawal)
    assert withdrawals_topic is not None

    country_to_total = app.Table("country_to_total", default=int).tumbling(10.0, expires=10.0)

    withdrawals_stream = app.topic("withdrawals", value_type=Withdrawal).stream()
    withdrawals_by_country = withdrawals_stream.group_by(Withdrawal.country)
    assert withdrawals_by_country is not None

    @app.agent
    async def process_withdrawal(withdrawals):  # type: ignore[no-untyped-def]
        async for withdrawal in withdrawals.group_by(Withdrawal.country):
            country_to_total[withdrawal.country] += withdrawal.amount


def wrongly_sharded(app: Any) -> None:
    withdrawals_topic = app.topic("withdrawals", key_type=str, value_type=Withdrawal)

    user_to_total = app.Table("user_to_total", default=int)
    country_to_total = app.Table("country_to_total", default=int).tumbling(10.0, expires=10.0)

    @app.agent(withdrawals_topic)
    async def process_withdrawal(withdrawals):  # type: ignore[no-untyped-def]
        async for withdrawal in withdrawals:
            user_to_total[withdrawal.user] += withdrawal.amount
            country_to_total[withdrawal.country] += withdrawal.amount


def rightly_sharded(app: Any) -> None:
    withdrawals_topic = app.topic("withdrawals", value_type=Withdrawal)

    user_to_total = app.Table("user_to_total", default=int)
    country_to_total = app.Table("country_to_total", default=int).tumbling(10.0, expires=10.0)

    @app.agent(withdrawals_topic)
    async def find_large_user_withdrawals(withdrawals):  # type: ignore[no-untyped-def]
        async for withdrawal in withdrawals:
            user_to_total[withdrawal.user] += withdrawal.amount

    @app.agent(withdrawals_topic)
    async def find_large_country_withdrawals(withdrawals):  # type: ignore[no-untyped-def]
        async for withdrawal in withdrawals.group_by(Withdrawal.country):
            country_to_total[withdrawal.country] += withdrawal.amount


def written_back(app: Any) -> None:
    user_withdrawals = app.Table("user_withdrawals", default=list)
    topic = app.topic("withdrawals", value_type=Withdrawal)

    @app.agent(topic)
    async def collect(stream):  # type: ignore[no-untyped-def]
        async for event in stream:
            # get value for key in table
            withdrawals = user_withdrawals[event.account]
            # modify the value
            withdrawals.append(event.amount)
            # write it back to the table (also updating changelog):
            user_withdrawals[event.account] = withdrawals


def not_written_back(app: Any) -> None:
    user_withdrawals = app.Table("user_withdrawals", default=list)
    topic = app.topic("withdrawals", value_type=Withdrawal)

    @app.agent(topic)
    async def collect(stream):  # type: ignore[no-untyped-def]
        async for event in stream:
            withdrawals = user_withdrawals[event.account]
            withdrawals.append(event.amount)
            # OOPS! Did not update the table with the new value


def page_views(app: Any) -> None:
    views = app.Table("views", default=int).tumbling(
        timedelta(minutes=1),
        expires=timedelta(hours=1),
    )

    page_views_topic = app.topic("page_views", value_type=str)

    @app.agent(page_views_topic)
    async def aggregate_page_views(pages):  # type: ignore[no-untyped-def]
        # values in this streams are URLs as strings.
        async for page_url in pages:
            # increment one to all windows this page URL fall into.
            views[page_url] += 1

            if views[page_url].now() >= 10000:
                # Page is trending for current processing time window
                print("Trending now")

            if views[page_url].current() >= 10000:
                # Page would be trending in the current event's time window
                print("Trending when event happened")

            if views[page_url].value() >= 10000:
                # Page would be trending in the current event's time window
                # according to the relative time set when creating the
                # table.
                print("Trending when event happened")

            if views[page_url].delta(timedelta(minutes=30)) > views[page_url].now():
                print("Less popular compared to 30 minutes back")


def relative_times(app: Any) -> None:
    views = app.Table("views", default=int).tumbling(60).relative_to_stream()
    now = app.Table("now", default=int).tumbling(60).relative_to_now()
    table = app.Table("by_field", default=int).tumbling(60).relative_to_field(Account.date_created)
    topic = app.topic("accounts", value_type=Account)

    @app.agent(topic)
    async def process(stream):  # type: ignore[no-untyped-def]
        async for event in stream:
            key = event.name
            for one in (views, now, table):
                one[key] += 1

            # Get latest value for key', based on the tables default
            # relative to option.
            print(table[key].value())

            # You can bypass the default relative to option, and
            # get the value closest to the event timestamp
            print(table[key].current())

            # You can bypass the default relative to option, and
            # get the value closest to the current local time
            print(table[key].now())

            # Or get the value for a delta, e.g. 30 seconds ago, relative
            # to the event timestamp
            print(table[key].delta(30))


def iterated(app: Any) -> None:
    windowed_table = app.Table(
        "name",
        default=int,
    ).hopping(10, 5, expires=timedelta(minutes=10), key_index=True)

    @app.agent(app.topic("pages", value_type=str))
    async def show(pages):  # type: ignore[no-untyped-def]
        async for page in pages:
            windowed_table[page] += 1

            # Show keys present relative to time of current event in stream:
            print(list(windowed_table.keys()))

            # Show items present relative to time of current event in stream:
            print(list(windowed_table.items()))

            # Show values present relative to time of current event in stream:
            print(list(windowed_table.values()))

            # Change time-relativity to current wall-clock time,
            # and show a list of items present in that window.
            print(list(windowed_table.relative_to_now().items()))

            # Get items present 30 seconds ago:
            print(list(windowed_table.relative_to_now().items().delta(30.0)))
