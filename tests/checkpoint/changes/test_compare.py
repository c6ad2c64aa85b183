"""`compare` and `plan-change` report the effect of a change without starting the query."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Early,
    InvalidArgumentError,
    Upgrade,
    compare,
    windowed,
)
from mullion._program.cli import main
from mullion.windows import Tumbling
from tests.support.change_runs import Runs, verdicts

LATE_ENOUGH: dict[str, Any] = {"allowed_lateness": "100 seconds"}


def test_compare_reports_the_changes_that_continue_and_those_that_are_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    plain: dict[str, Any] = {**LATE_ENOUGH, "upgrade": Upgrade()}
    runs.run(["n", "total"], [(1, "a", 1)], **plain)
    assert verdicts(runs.panes(["n", "total"], **plain), runs) == {("goes on", "the state means what it meant")}
    renamed: list[str | Column] = [F.expr("count(*)").alias("rows"), "total"]
    assert verdicts(runs.panes(renamed, **plain), runs) == {("goes on", "aggregates have other names")}
    assert verdicts(runs.panes(["total"]), runs) == {
        ("goes on", "aggregates are gone: [count(1) BIGINT]"),
        ("goes on", "allowed lateness was [1 minute 40 seconds] and is now [0 seconds]"),
        ("goes on", "new aggregates was [reject] and is now [from now]"),
    }
    twice = verdicts(runs.panes(["most", "n"], window=Tumbling("20 seconds"), **plain), runs)
    drain = "(with upgrade=Upgrade(window='drain') its panes stay open until they close, next to the new window)"
    assert ("refused", f"window was [tumbling 10 seconds] and is now [tumbling 20 seconds] {drain}") in twice
    assert any(verdict == "refused" and "new_aggregates='from now'" in what for verdict, what in twice)
    fires = verdicts(runs.panes(["n", "total"], **plain, early=Early("5 seconds")), runs)
    assert {verdict for verdict, _ in fires} == {"goes on"}
    assert any("open panes follow it from the first batch on" in what for _, what in fires)
    twice_read = runs.feed.stream(spark).union(runs.feed.stream(spark))
    sources = windowed(twice_read, Tumbling("10 seconds"), by="k", time="ts", **plain).agg(
        F.expr("count(*)").alias("n")
    )
    assert any("had 1 sources and has 2" in what for _, what in verdicts(sources, runs))
    with pytest.raises(InvalidArgumentError, match="not a result of windowed"):
        compare(runs.feed.stream(spark), runs.checkpoint)
    with pytest.raises(InvalidArgumentError, match="There is no state"):
        compare(runs.panes(["n"]), tmp_path)


QUERY = """
from pathlib import Path
from pyspark.sql import functions as F
from tests.support.streams import Feed
from mullion import Sliding, Tumbling, windowed

def over(window, spark):
    rows = Feed(Path({feed!r}), "k string, v int").stream(spark)
    return windowed(rows, window, by="k", time="ts").agg(F.expr("sum(v)").alias("total"))

def same(spark): return over(Tumbling("10 seconds"), spark)
def other(spark): return over(Sliding("10 seconds", "5 seconds"), spark)
number = 5
"""


def test_the_command_plan_change_reports_the_effect_on_a_checkpoint(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    runs.run(["n", "total"], [(1, "a", 1)], upgrade=Upgrade())
    name = f"query_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(QUERY.format(feed=str(runs.feed.folder)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    before = runs.files()
    arguments = ["plan-change", str(runs.checkpoint)]
    assert main.main([*arguments, f"{name}:same"]) == 0
    assert capsys.readouterr().out == f"{'goes on'}  tumbling 10 seconds: aggregates are gone: [count(1) BIGINT]\n"
    assert main.main([*arguments, f"{name}:other"]) == main.FAILED
    output = capsys.readouterr()
    assert f"{'refused'}  tumbling 10 seconds: window was [tumbling 10 seconds] and is now [sliding" in output.out
    assert f"The query would not start over {runs.checkpoint}" in output.err
    assert main.main([*arguments, f"{name}:number"]) == main.FAILED
    assert "(int), not a DataFrame" in capsys.readouterr().err
    assert main.main([*arguments, f"{name}:nothing"]) == main.REFUSED
    assert "has no 'nothing'. The DataFrames in it: none." in capsys.readouterr().err
    assert runs.files() == before, "nothing was written"
