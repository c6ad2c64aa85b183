"""The common parts of Apps: folders, the run loop, names, the clock, the report."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mullion import topics
from mullion._program.part_names import Named
from mullion._program.report import Part, Report, where_of
from mullion._util.clock import ManualClock
from mullion.errors import InvalidArgumentError, MullionError, QueryFailedError, UnsupportedError
from tests.support.kafka.relay import Relay, Rows
from tests.support.killing import committed


def double(rows: Rows) -> dict[str, Rows]:
    return {"doubled": [{"n": 2 * row["n"]} for row in rows]}


def total(rows: Rows) -> dict[str, Rows]:
    return {"totals": [{"total": sum(row["n"] for row in rows)}]}


def halve(rows: Rows) -> dict[str, Rows]:
    """Goes round: it publishes to the topic that it reads."""
    halves = [{"n": row["n"] // 2} for row in rows if row["n"] > 1]
    return {"numbers": halves} if halves else {}


def fail_at_13(rows: Rows) -> dict[str, Rows]:
    if any(row["n"] == 13 for row in rows):
        raise ValueError("13 is not welcome")
    return {"fine": rows_without_times(rows)}


def refuse(rows: Rows) -> dict[str, Rows]:
    raise InvalidArgumentError(f"{rows[0]['n']} is too large. Send less.")


def rows_without_times(rows: Rows) -> Rows:
    return [{"n": row["n"]} for row in rows]


def column(app: Relay, topic: str, name: str) -> list[Any]:
    table = topics.read(app.broker, topic)
    return table[name].to_pylist() if table.num_rows else []


def relay_in(folder: Path, **options: Any) -> Relay:
    return Relay("relay", broker=f"dir:{folder}/topics", **options)


@pytest.mark.usefixtures("spark")
def test_a_drained_program_has_processed_its_input_and_continues_after_it(tmp_path: Path) -> None:
    app = relay_in(tmp_path)
    # In the wrong order: the second publishes what the first reads.
    app.relay("doubled", ["totals"], total, schema="n bigint")
    app.relay("numbers", ["doubled"], double)
    topics.produce(app.broker, "numbers", [{"n": 1}, {"n": 2}])
    topics.produce(app.broker, "numbers", [{"n": 3}])

    app.run(until="drained")
    assert column(app, "doubled", "n") == [2, 4, 6]
    assert column(app, "totals", "total") == [6, 6]
    assert app.checkpoint == tmp_path / "topics" / "_apps" / "relay"

    topics.produce(app.broker, "numbers", [{"n": 5}])
    app.run(until="drained")
    assert column(app, "totals", "total") == [6, 6, 10]


@pytest.mark.usefixtures("spark")
def test_a_program_that_another_process_runs_is_rejected_before_it_plans_a_batch(tmp_path: Path) -> None:
    app = relay_in(tmp_path)
    app.relay("numbers", ["doubled"], double)
    topics.produce(app.broker, "numbers", [{"n": 1}])
    lease = app.checkpoint / "_running" / "double.lock"
    lease.parent.mkdir(parents=True)
    # For the system a file that is opened again is as one of another process.
    with lease.open("a+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(MullionError, match=r"The query relay\.double is run by another process already, "):
            app.run(until="drained")
        assert not (app.folder_of("double") / "query").exists()
    app.run(until="drained")
    assert column(app, "doubled", "n") == [2]
    with lease.open("a+") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.usefixtures("spark")
def test_a_program_that_reads_what_it_publishes_goes_round_until_nothing_is_new(tmp_path: Path) -> None:
    app = relay_in(tmp_path)
    app.relay("numbers", ["numbers"], halve)
    topics.produce(app.broker, "numbers", [{"n": 20}])

    app.run(until="drained")
    assert column(app, "numbers", "n") == [20, 10, 5, 2, 1]


@pytest.mark.usefixtures("spark")
def test_on_a_clock_that_a_test_moves_outputs_and_batches_have_its_time(tmp_path: Path) -> None:
    app = relay_in(tmp_path, clock=ManualClock(start_ms=3000))
    app.relay("numbers", ["doubled"], double, schema="n bigint")
    app.relay("doubled", ["totals"], total, schema="n bigint")
    with app.start() as running:
        running.settle()
        topics.produce(app.broker, "numbers", [{"n": 1}], clock=app.clock)
        running.settle()
        running.advance("1 hour")
        topics.produce(app.broker, "numbers", [{"n": 2}], clock=app.clock)
        running.settle()

        assert column(app, "totals", "total") == [2, 4]
        assert column(app, "totals", "_timestamp") == [3.0, 3603.0]
        progress = [query.progress for query in running.queries]
    assert {report["timestamp"] for reports in progress for report in reports} <= {
        "1970-01-01T00:00:03.000Z",
        "1970-01-01T01:00:03.000Z",
    }
    topics.produce(app.broker, "numbers", [{"n": 4}], clock=app.clock)
    app.run(until="drained")
    assert column(app, "totals", "_timestamp")[-1] == 3603.0

    other = relay_in(tmp_path)
    other.relay("numbers", [], rows_of_nothing)
    with other.start() as running, pytest.raises(InvalidArgumentError, match=r"Give it clock=ManualClock\(\)"):
        running.advance("1 second")


def rows_of_nothing(_rows: Rows) -> dict[str, Rows]:
    return {}


@pytest.mark.usefixtures("spark")
def test_a_failed_query_stops_all_names_the_error_and_continues_after_the_fix(tmp_path: Path) -> None:
    app = relay_in(tmp_path)
    app.relay("numbers", ["fine"], fail_at_13)
    app.relay("numbers", ["doubled"], double)
    for n in (12, 13):
        topics.produce(app.broker, "numbers", [{"n": n}])
    with pytest.raises(
        QueryFailedError,
        match=r"'fail_at_13' failed\. Run it again: .* ValueError: 13 is not welcome, at .*/test_app.py:\d+$",
    ) as failed:
        app.run()
    assert failed.value.__cause__ is None, "what a worker raised is said in the message"
    assert "13 is not welcome" in (failed.value.jvm_trace or "")
    assert app.spark.streams.active == []
    assert column(app, "fine", "n") == [12]

    mended = relay_in(tmp_path)
    fixed = rename(rows_to_fine, "fail_at_13")
    mended.relay("numbers", ["fine"], fixed)
    mended.run(until="drained")
    assert column(app, "fine", "n") == [12, 13]


def rows_to_fine(rows: Rows) -> dict[str, Rows]:
    return {"fine": rows_without_times(rows)}


def rename(function: Any, name: str) -> Any:
    def renamed(rows: Rows) -> dict[str, Rows]:
        return function(rows)  # type: ignore[no-any-return]

    renamed.__name__ = name
    return renamed


@pytest.mark.usefixtures("spark")
def test_an_error_of_ours_in_a_worker_is_raised_unchanged(tmp_path: Path) -> None:
    app = relay_in(tmp_path, clock=ManualClock())
    app.relay("numbers", [], refuse)
    topics.produce(app.broker, "numbers", [{"n": 7}])
    with pytest.raises(InvalidArgumentError, match=r"^7 is too large. Send less.$"):
        app.run(until="drained")
    running = app.start()
    with pytest.raises(InvalidArgumentError, match=r"^7 is too large. Send less.$"):
        running.settle()


@pytest.mark.usefixtures("spark")
def test_a_topic_whose_column_becomes_wider_while_a_program_runs_fails_it_with_what_to_do(tmp_path: Path) -> None:
    app = relay_in(tmp_path, clock=ManualClock())
    app.relay("numbers", ["doubled"], double)
    topics.produce(app.broker, "numbers", [{"n": 1}])
    with app.start() as running:
        running.settle()
        topics.produce(app.broker, "numbers", [{"n": 1.5}])
        with pytest.raises(UnsupportedError, match=r"^Topic 'numbers': a column became wider .* with schema=\.$"):
            running.settle()
    assert column(app, "doubled", "n") == [2]


@pytest.mark.usefixtures("spark")
def test_a_part_that_is_removed_is_reported_and_keeps_its_state_until_it_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both = relay_in(tmp_path)
    both.relay("numbers", ["doubled"], double)
    both.relay("numbers", ["totals"], total)
    topics.produce(both.broker, "numbers", [{"n": 1}])
    both.run(until="drained")
    with pytest.raises(InvalidArgumentError, match=r"'total' is in use: the handler at .*test_app.py:"):
        both.drop("total")

    one = relay_in(tmp_path)
    one.relay("numbers", ["doubled"], double)
    with caplog.at_level(logging.WARNING, logger="mullion"):
        one.run(until="drained")
    assert "The handler 'total' is no longer in relay. Its state is kept" in caplog.text
    assert [part.name for part in one.removed_parts()] == ["total"]
    assert "kept, for it was removed" in one.windows()
    assert one.folder_of("total").exists()
    one.drop("total")
    assert one.removed_parts() == []
    assert not one.folder_of("total").exists()
    with pytest.raises(InvalidArgumentError, match=r"no state of 'total' to drop. Parts whose state is kept: none"):
        one.drop("total")

    swapped = relay_in(tmp_path)
    swapped.relay("numbers", ["totals"], total)
    swapped.relay("numbers", ["doubled"], double)
    swapped.run(until="drained")
    assert column(one, "doubled", "n") == [2], "order means nothing"
    assert column(one, "totals", "total") == [1, 1], "dropped state begins anew"


def test_two_parts_of_one_name_are_rejected_with_both_lines() -> None:
    app = Relay("relay", broker="dir:/nowhere")
    app.names.register(Named("window", "sums", "a.py:1"))
    with pytest.raises(InvalidArgumentError, match=r"name 'sums': the window at a.py:1 and the table at b.py:2"):
        app.names.register(Named("table", "sums", "b.py:2"))
    with pytest.raises(InvalidArgumentError, match=r"There is no part 'sum'. The named parts are: sums"):
        app.names["sum"]
    assert app.names["sums"].kind == "window"
    assert "sums" in app.names


@pytest.mark.parametrize("name", ["", "a/b", "..", "_x", "a b\n", None, 5])
def test_an_invalid_name_of_an_app_is_rejected(name: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="is not the name of an App"):
        Relay(name)


def test_an_app_without_jobs_or_with_an_unknown_end_raises_an_error(tmp_path: Path) -> None:
    app = relay_in(tmp_path)
    with pytest.raises(InvalidArgumentError, match="nothing to run"):
        app.run()
    with pytest.raises(InvalidArgumentError, match=r"until='end' is not an end. Write run\(until='drained'\)"):
        app.run(until="end")  # type: ignore[arg-type]
    assert Relay("a").broker == topics.broker("dir:.mullion/topics")
    assert Relay("a", checkpoint=tmp_path).checkpoint == tmp_path


def test_a_report_is_an_aligned_table() -> None:
    report = Report((Part("a.process", "JVM", "short", "x.py:1"), Part("b", "Python", "a longer reason")))
    assert str(report).splitlines() == [
        "part       runs    why              decided at",
        "a.process  JVM     short            x.py:1",
        "b          Python  a longer reason",
    ]
    line = double.__code__.co_firstlineno
    assert where_of(double) == where_of(rename.__get__(1)).rsplit(":", 1)[0] + f":{line}"
    assert where_of(Relay).rpartition(":")[0].endswith("relay.py")
    assert where_of(len) == ""


def test_a_stopped_program_ends_its_batch_and_continues_later(spark: SparkSession, tmp_path: Path) -> None:
    app = relay_in(tmp_path)
    app.relay("numbers", ["doubled"], double)
    for n in range(6):
        topics.produce(app.broker, "numbers", [{"n": n}])
    path = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        [sys.executable, __file__, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    checkpoint = app.folder_of("double") / "query"
    while process.poll() is None and committed(checkpoint) < 2:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=120)
    assert process.returncode == 0, complaints
    assert "Traceback" not in complaints

    assert app.spark is spark
    app.run(until="drained")
    assert column(app, "doubled", "n") == [0, 2, 4, 6, 8, 10]


if __name__ == "__main__":
    home = Path(sys.argv[1])
    # The session is the App's own.
    program = relay_in(home)
    program.relay("numbers", ["doubled"], double)
    program.run()
