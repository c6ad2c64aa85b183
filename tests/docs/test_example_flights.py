"""The main job: its data are departures from New York. The stream processes and checks a few days of them."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import flights
import flights_data
import flights_picture
import flights_report

# The year is computed once.
pytestmark = pytest.mark.xdist_group("flights")

DAY = pd.Timestamp("2013-01-02", tz="UTC")


@pytest.fixture(scope="module")
def year() -> pd.DataFrame:
    return flights_data.load()


@pytest.fixture(scope="module")
def cut() -> pd.DataFrame:
    """Three days of departures, the second in steps of an hour."""
    return flights_data.cut(flights_data.load(days=3), DAY, pd.Timedelta(hours=1), coarse=pd.Timedelta(days=1))


def test_every_flight_of_the_year_is_there_once_in_the_order_of_leaving(year: pd.DataFrame) -> None:
    assert len(year) == 336_776
    assert not year.duplicated(flights_data.FLIGHT_KEY).any()
    assert year["departed"].is_monotonic_increasing


def test_the_timetable_is_in_utc_as_the_data_set_has_it_by_the_hour(year: pd.DataFrame) -> None:
    hours = pd.read_csv(flights_data._file("flights.csv.zip"), usecols=["time_hour"])["time_hour"]
    by_hour = pd.to_datetime(hours).value_counts().sort_index()
    pd.testing.assert_series_equal(
        year["scheduled"].dt.floor("h").value_counts().sort_index(), by_hour, check_names=False, check_index_type=False
    )


def test_a_flight_leaves_its_delay_after_its_schedule_and_a_cancelled_one_enters_at_its_schedule(
    year: pd.DataFrame,
) -> None:
    late_by = (year["departed"] - year["scheduled"]) / pd.Timedelta(minutes=1)
    cancelled = year["delay"].isna()
    assert cancelled.sum() == 8_255
    assert (late_by[cancelled] == 0).all()
    assert (late_by[~cancelled] == year["delay"][~cancelled]).all()
    assert (late_by < 0).any(), "some leave early"


def test_a_file_holds_a_day_and_on_the_fine_day_a_shorter_time(cut: pd.DataFrame) -> None:
    assert cut["batch"].is_monotonic_increasing
    assert set(cut["batch"]) == set(range(cut["batch"].max() + 1))
    assert (cut["departed"] < cut["batch_end"]).all()
    spans = (cut["batch_end"] - cut["departed"]).groupby(flights_data.day_of(cut["departed"])).max()
    assert spans[DAY] <= pd.Timedelta(hours=1)
    assert spans.drop(DAY).min() > pd.Timedelta(hours=12)


@pytest.mark.parametrize("fine_day", range(1, 6))
def test_a_file_of_two_days_ends_where_the_fine_day_begins(fine_day: int) -> None:
    fine = pd.Timestamp(2013, 1, fine_day, tz="UTC")
    five = flights_data.cut(flights_data.load(days=5), fine, pd.Timedelta(hours=1))
    assert five["batch"].is_monotonic_increasing
    assert (five["departed"] < five["batch_end"]).all()
    days = flights_data.day_of(five["departed"])
    assert set(five["batch"][days == fine]).isdisjoint(five["batch"][days != fine])
    batches = days[days != fine].groupby(five["batch"]).nunique()
    assert batches.max() == 2
    assert batches.sum() >= 4


def test_a_row_is_late_when_its_pane_was_closed_before_its_batch() -> None:
    def at(clock: str) -> pd.Timestamp:
        return pd.Timestamp(f"2013-01-01 {clock}", tz="UTC")

    # The clock is an hour behind. A pane of 10:00 to 11:00 closes when the clock is at 13:00, after a row of 14:00.
    times = [(0, "10:00"), (0, "14:00"), (1, "10:59"), (2, "10:59"), (2, "11:00")]
    rows = pd.DataFrame({"batch": [batch for batch, _ in times], "scheduled": [at(clock) for _, clock in times]})
    late = flights_data.late_by_rule(rows, pd.Timedelta(hours=1), pd.Timedelta(hours=2))
    assert list(late) == [False, False, False, True, False]


def test_days_that_are_no_days_of_the_year_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    for days in ("0", "366", "many"):
        with pytest.raises(SystemExit):
            flights.main(["--days", days])
        assert f"'{days}' is not a number of days of 2013" in capsys.readouterr().err


def test_a_few_days_go_through_the_stream_and_every_pane_agrees(
    spark: SparkSession, cut: pd.DataFrame, tmp_path: Path
) -> None:
    source, checkpoint, output = (tmp_path / name for name in ("departures", "checkpoint", "firings.parquet"))
    source.mkdir()
    files = flights_data.write(cut, source)
    printed = Console(file=io.StringIO(), width=110)
    reports: list[dict[str, Any]] = []
    with flights_report.Replaying(printed, len(cut), files) as bar:

        def watch(progress: dict[str, Any]) -> None:
            reports.append(progress)
            bar.update(progress)

        flights.replay(spark, source, checkpoint, output, watch)
    assert sum(progress["numInputRows"] for progress in reports) == len(cut)

    checked = flights.check(spark, cut, source, checkpoint, output)
    assert checked.passed, checked
    assert checked.closed > 500
    assert checked.late > 0
    assert "early" in pq.read_table(output)["pane"].combine_chunks().field("firing").to_pylist()

    story = flights_report.Story.read(cut, output, pd.Timedelta(flights.ALLOWED_LATENESS))
    flights_report.tables(printed, story)
    flights_report.verdict(printed, checked, tmp_path / "panes.png", seconds=1)
    text = printed.file.getvalue()  # type: ignore[attr-defined]
    assert "100%" in text
    assert f"{checked.panes:,} of {checked.panes:,} panes agree" in text
    flights_picture.draw(tmp_path / "panes.png", story, DAY, pd.Timedelta(flights.DELAY))
    assert (tmp_path / "panes.png").stat().st_size > 10_000

    # A pane with a wrong count, one that closes twice, and one that never does.
    closes = pq.read_table(output).filter(pc.equal(pc.field("pane", "firing"), "close"))
    others = pq.read_table(output).filter(pc.not_equal(pc.field("pane", "firing"), "close"))
    counts = closes["flights"].to_pylist()
    wrong = closes.set_column(closes.column_names.index("flights"), "flights", pa.array([counts[0] + 1, *counts[1:]]))
    spoilt = pa.concat_tables([others, wrong.slice(0, 2), wrong.slice(1, 1), wrong.slice(3)])
    pq.write_table(spoilt, tmp_path / "spoilt.parquet")
    checked = flights.check(spark, cut, source, checkpoint, tmp_path / "spoilt.parquet")
    assert checked.agree == checked.panes - 3
    assert len(checked.differing) == 3
    assert not checked.passed
