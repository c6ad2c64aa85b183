"""Tests of the benchmark: its rows, its answers, its turns and its reports."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import run
from harness import curves, environments, nexmark, report, rows, workloads
from harness.forms import FORMS
from harness.goals import COMPARISONS, Comparison
from harness.measured import Figures, Process, Running
from harness.workloads import Workload
from systems import answers, spark_batches

SMALL = replace(workloads.TUMBLING_1K, rows=1_000, batches=3)


def times_and_keys(folder: Path) -> list[tuple[int, int]]:
    tables = [pq.read_table(file) for file in sorted(folder.iterdir())[:-1]]
    columns = [(table["ts"].cast("int64").to_pylist(), table["k"].to_pylist()) for table in tables]
    return [row for times, keys in columns for row in zip(times, keys, strict=True)]


def test_a_system_with_fewer_rows_gets_the_first_of_all_rows(tmp_path: Path) -> None:
    for count in (3_000, 2_000, 400):
        rows.write(SMALL, count, tmp_path / str(count))
    every_row = times_and_keys(tmp_path / "3000")
    assert len(every_row) == 3_000
    assert times_and_keys(tmp_path / "2000") == every_row[:2_000]
    assert times_and_keys(tmp_path / "400") == every_row[:400]
    assert len(list((tmp_path / "400").iterdir())) == 5, "four batches, and the row that closes all panes"


def test_the_batches_that_let_a_process_settle_are_small_and_end_before_the_first(tmp_path: Path) -> None:
    settling = replace(workloads.LATE, rows=5_000, settling=3)
    rows.write_settling(settling, tmp_path / workloads.SETTLING)
    tables = [pq.read_table(file) for file in sorted((tmp_path / workloads.SETTLING).iterdir())]
    assert [len(table) for table in tables] == [workloads.SETTLING_ROWS] * 3
    last = max(time for table in tables for time in table["ts"].cast("int64").to_pylist())
    assert rows.BASE - rows.DISORDER - rows.SECOND < last < rows.BASE


def test_each_process_gets_every_field_of_its_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments.System, "python", lambda _: Path(sys.executable))
    for name in environments.SYSTEMS:
        command = Running(name, workloads.TUMBLING_1K, 1_000, tmp_path).command(Path("script.py"))
        assert json.loads(command[3]) == asdict(workloads.TUMBLING_1K)


@pytest.mark.parametrize("form", [form for form in FORMS if form != "published"])
def test_each_form_has_the_rows_of_the_published_one(form: str, tmp_path: Path, spark: SparkSession) -> None:
    small = replace(workloads.TUMBLING_1K, rows=200, batches=2, keys=20)
    rows.write(small, 400, tmp_path / "published")
    rows.write(replace(small, form=form), 400, tmp_path / form)
    plain = spark.read.parquet(str(tmp_path / "published")).collect()
    rows_of_form = spark_batches.rows_of(spark.read, replace(small, form=form), tmp_path / form).collect()
    expected_rows = [row for row in plain if form != "filter" or row.v < 500]
    assert sorted((row.ts, row.v) for row in rows_of_form) == sorted((row.ts, row.v) for row in expected_rows)
    keys = FORMS[form].keys
    pairs = {(row.ts, row.v): row.k for row in expected_rows}
    names = {(pairs[row.ts, row.v], tuple(row[key] for key in keys)) for row in rows_of_form}
    assert len(names) == len({k for k, _ in names}) == len({key for _, key in names}), "a key has one name"


def test_rows_are_late_for_no_more_than_the_lateness_allows() -> None:
    late = replace(workloads.LATE, rows=10_000)
    clock, behind = 0, 0
    for table in rows.tables(late):
        times = np.array(table["ts"].cast("int64").to_pylist())
        ends = times // (late.size * rows.SECOND) * late.size * rows.SECOND + late.size * rows.SECOND
        assert clock < ends.min() + late.lateness * rows.SECOND, "its pane is still open"
        behind += int((ends <= clock).sum())
        clock = max(clock, int(times.max()) - late.delay * rows.SECOND)
    assert behind > 0.02 * late.all_rows


def test_all_rows_of_a_visit_are_one_session_and_those_of_the_next_another() -> None:
    visits = replace(workloads.VISITS, rows=1_000, batches=3, keys=100)
    times_by_key: dict[int, list[int]] = {}
    for table in rows.tables(visits):
        for time, key in zip(table["ts"].cast("int64").to_pylist(), table["k"].to_pylist(), strict=True):
            times_by_key.setdefault(key, []).append(time)
    gaps = [later - time for times in times_by_key.values() for time, later in pairwise(sorted(times))]
    sessions = len(times_by_key) + sum(gap > visits.size * rows.SECOND for gap in gaps)
    assert len(times_by_key) < sessions <= 3 * 200


def test_events_of_nexmark_are_distributed_as_published() -> None:
    (table,) = nexmark.tables(200_000, 1, rows.BASE)
    kind = table["kind"].to_numpy()
    counts = {each: int((kind == each).sum()) for each in (nexmark.PERSON, nexmark.AUCTION, nexmark.BID)}
    assert counts == {nexmark.PERSON: 4_000, nexmark.AUCTION: 12_000, nexmark.BID: 184_000}
    person, auction = table["person"].to_numpy(), table["auction"].to_numpy()
    assert (np.diff(person[kind == nexmark.PERSON]) == 1).all()
    assert (np.diff(auction[kind == nexmark.AUCTION]) == 1).all()
    bids = kind == nexmark.BID
    hot_auctions = (auction[bids] - nexmark.FIRST_AUCTION) % nexmark.HOT == 0
    assert hot_auctions.mean() == pytest.approx(0.5, abs=0.02)
    hot_bidders = (person[bids] - nexmark.FIRST_PERSON) % nexmark.HOT == 1
    assert hot_bidders.mean() == pytest.approx(0.75, abs=0.02)
    prices = table["price"].to_numpy()[bids]
    assert prices.min() >= 100
    assert np.median(prices) == pytest.approx(100_000, rel=0.1)


def test_panes_have_one_checksum_in_sql_and_in_python(spark: SparkSession) -> None:
    panes = [(7, 1_700_000_000_000, 1_700_000_010_000, 3, 600, 100, 300), (10**9, 0, 3_600_000, 10**6, 10**9, 0, 999)]
    names = ["k", "start_ms", "end_ms", "n", "total", "least", "most"]
    rows_found = spark.createDataFrame(panes, [*names]).selectExpr(*answers.COLUMNS).collect()
    expected = answers.Answer()
    for pane in reversed(panes):
        expected.add(*pane)
    assert [row.asDict() for row in rows_found] == [expected.values()]
    swapped = answers.Answer()
    swapped.add(*panes[0][:3], *panes[1][3:])
    swapped.add(*panes[1][:3], *panes[0][3:])
    assert swapped.values() != expected.values(), "panes that swapped their rows"


def test_goals_are_lower_bounds_for_rates_and_upper_bounds_for_time_and_memory() -> None:
    faster = Comparison(SMALL, "spark", 2)
    assert (faster.is_met(2.1), faster.is_met(1.9), faster.goal_text()) == (True, False, ">= 2")
    shorter = Comparison(SMALL, "spark", 1.2, unit="ms")
    assert (shorter.is_met(1.1), shorter.is_met(1.3), shorter.goal_text()) == (True, False, "<= 1.2")
    assert (Comparison(SMALL, "spark").is_met(1.0), Comparison(SMALL, "spark").goal_text()) == (None, None)


PROGRAM = """
from harness.turns import Turns
turns = Turns()
for batch in range(3):
    turns.wait()
print("done")
"""


def test_a_process_waits_for_its_turn_after_each_batch(tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    process = Process([sys.executable, "-c", PROGRAM], out, err)
    stopped = 0
    while process.is_waiting():
        stopped += 1
        assert not out.read_text(), "it waits"
        process.resume()
    assert (stopped, process.end(), err.read_text()) == (3, 0, "")
    assert out.read_text() == "done\n"


def test_a_process_that_is_killed_while_it_waits_is_gone(tmp_path: Path) -> None:
    process = Process([sys.executable, "-c", PROGRAM], tmp_path / "out", tmp_path / "err")
    assert process.is_waiting()
    process.kill()
    assert process.child.poll() == -signal.SIGKILL
    assert not (tmp_path / "out").read_text()


def test_systems_on_spark_take_turns_as_many_at_once_as_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def has(gb: int) -> None:
        monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": gb << 18, "SC_PAGE_SIZE": 4096}.__getitem__)

    many = workloads.TUMBLING_3M
    has(24)
    together = ["mullion", "baseline", "spark"]
    assert run.in_turns(many) == [together, ["spark hdfs"], ["duckdb"]]
    assert run.in_turns(replace(many, heap=1)) == [[*together, "spark hdfs"], ["duckdb"]]
    has(4)
    assert run.in_turns(many) == [[name] for name in (*together, "spark hdfs", "duckdb")]


def figures(*ms: float) -> Figures:
    return Figures(list(ms), 1_000, 1.0, 3_000, {}, 0, 1.0, 500, {})


def test_batches_of_two_runs_are_counted_together_and_single_results_stay() -> None:
    both = run.joined_results(
        {"a": {"mullion": figures(1, 2), "spark": figures(9)}, "b": {"mullion": figures(4)}},
        {"a": {"mullion": figures(30, 40)}, "c": {"mullion": figures(5)}},
    )
    assert {name: {who: each.ms for who, each in sides.items()} for name, sides in both.items()} == {
        "a": {"mullion": [1, 2, 30, 40], "spark": [9]},
        "b": {"mullion": [4]},
        "c": {"mullion": [5]},
    }


def test_results_that_a_later_run_of_the_machine_has_for_all_systems_are_removed() -> None:
    a, b = {"mullion": figures(1)}, {"mullion": figures(1), "spark": figures(9)}
    everywhere = {
        "quick": {"a": a, "b": b, "c": a},
        "quick, 2026-01-01": {"a": b, "b": b},
        "slow, 2026-01-02": {"c": a},
        "quick, 2026-01-03": {"a": a, "b": b},
    }
    assert report.without_repeated(everywhere) == {
        "quick": {"c": a},
        "quick, 2026-01-01": {"a": b},
        "slow, 2026-01-02": {"c": a},
        "quick, 2026-01-03": {"a": a, "b": b},
    }


def test_the_ratio_of_rounds_at_unlike_speeds_is_between_theirs() -> None:
    ours = figures(170, 174, 176).joined(figures(150, 152, 160))
    other = figures(118, 120, 130).joined(figures(90, 97, 99))
    assert (ours.of_rounds, other.of_rounds) == ([174, 152], [120, 97])
    assert 97 / 152 < other.median_ms / ours.median_ms < 120 / 174
    assert ours.joined(figures(163)).median_ms == 163


def test_totals_are_those_of_the_run_with_more_rows() -> None:
    full, short = figures(8.0, 9.0), replace(figures(7.0), all_rows=2_000, whole_s=0.5, peak_mb=900, cpu_s=0.5)
    expected = (
        replace(full, ms=[8.0, 9.0, 7.0], medians=[8.5, 7.0]),
        replace(full, ms=[7.0, 8.0, 9.0], medians=[7.0, 8.5]),
    )
    assert (full.joined(short), short.joined(full)) == expected


def test_memory_is_compared_at_the_last_common_batch() -> None:
    ours, other = replace(figures(1), peaks_mb=[400, 600, 700, 900]), replace(figures(1), peaks_mb=[500, 650, 800])
    comparison = next(each for each in COMPARISONS if each.unit == "MB")
    # The last turn of the other side has one row, and that of ours a batch.
    assert comparison.pair(ours, other) == (600, 650)
    assert comparison.pair(other, ours) == (650, 600)
    assert comparison.pair(ours, replace(ours, peaks_mb=[500, 650, 800, 850])) == (900, 850)
    assert comparison.pair(figures(1), other) == (500, 500)
    assert ours.joined(replace(figures(1), peaks_mb=[450, 590, 720])).peaks_mb == [450, 600, 720]


def test_a_comparison_is_of_the_last_run_that_has_both_sides() -> None:
    name = workloads.TUMBLING_100K.name
    everywhere = {
        "quick": {name: {"mullion": figures(10), "baseline": figures(8), "spark": figures(20)}},
        "slow": {name: {"mullion": figures(30), "baseline": figures(15)}},
    }
    last = report.last_compared(everywhere)
    assert {at: {(entry["against"], entry["ratio"]) for _, entry in pairs} for at, pairs in last.items()} == {
        "quick": {("Spark", 2.0), ("Spark", 1.0)},
        "slow": {("stateless baseline", 0.5)},
    }


@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda each: f"{each.workload.name}: {each.other}")
def test_both_sides_of_each_comparison_are_measured(comparison: Comparison) -> None:
    def takes(workload: Workload) -> dict[str, int]:
        assert workload in workloads.FULL
        return {**workload.takes, **workload.more}

    assert "mullion" in takes(comparison.workload)
    assert comparison.other in takes(comparison.other_workload or comparison.workload)


def test_workloads_have_names_of_their_own() -> None:
    names = [workload.name for workload in [*workloads.FULL, *curves.points()]]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("other", ["windows/a.py", "jars/mullion-spark-4.2.jar"])
def test_an_installed_package_is_measured_only_if_it_is_the_one_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    here, installed = tmp_path / "here", tmp_path / "installed"
    files = {"windows/a.py": here / "python/mullion/windows/a.py"}
    files["jars/mullion-spark-4.2.jar"] = here / "jvm/target/scala-2.13/mullion-spark-4.2.jar"
    for name, source in files.items():
        for file in (source, installed / name):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("as it is")
    monkeypatch.setattr(environments, "ROOT", here)
    assert environments.differing_file(installed) is None
    files[other].write_text("as it has become")
    assert environments.differing_file(installed) == installed / other


def test_a_package_that_lacks_a_file_is_not_the_one_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "python" / "mullion" / "new.py"
    source.parent.mkdir(parents=True)
    source.write_text("")
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    assert environments.differing_file(tmp_path / "installed") == tmp_path / "installed" / "new.py"
