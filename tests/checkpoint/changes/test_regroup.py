"""Several windows in one query over a checkpoint of other windows: renamed, new, removed and rejected ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mullion import Early, IncompatibleStateError, Upgrade, open_panes, savepoint, together
from mullion.windows import Session, Sliding, Tumbling, Window
from tests.support.change_runs import Runs, verdicts
from tests.support.clocked import ClockedQuery

TENS, TWENTIES, VISITS = Tumbling("10 seconds"), Tumbling("20 seconds"), Session("5 seconds")
PLAIN: dict[str, Any] = {"upgrade": Upgrade()}
Asked = Window | tuple[Window, Mapping[str, Any]]


class Grouped:
    """One checkpoint, and a query of several windows over it, or of one window without a name."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.runs = Runs(spark, folder, TENS)

    def over(self, alone: Asked | None = None, **windows: Asked) -> DataFrame:
        def panes(of: Asked) -> DataFrame:
            window, options = of if isinstance(of, tuple) else (of, {})
            return self.runs.panes(options.get("asked", ["n"]), window=window, **{**PLAIN, **without(options, "asked")})

        return together(**{name: panes(of) for name, of in windows.items()}) if alone is None else panes(alone)

    def run(self, panes: DataFrame, *rows: tuple[int, str, int]) -> list[tuple[Any, ...]]:
        with ClockedQuery(panes, checkpoint=self.runs.checkpoint) as query:
            self.runs.write(rows)
            return rows_of(query.settle())

    def open(self) -> list[tuple[Any, ...]]:
        return rows_of(self.runs.open())

    def verdicts(self, panes: DataFrame) -> set[tuple[str, str]]:
        return verdicts(panes, self.runs)

    def refused(self, panes: DataFrame) -> str:
        """The error of a query in `compare` and at its start, which must not write state."""
        (why,) = (what for verdict, what in self.verdicts(panes) if verdict == "refused")
        before = state_files(self.runs)
        with pytest.raises(IncompatibleStateError) as refused:
            self.run(panes)
        assert why in str(refused.value)
        assert state_files(self.runs) == before
        return why


def without(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {option: value for option, value in options.items() if option != name}


def state_files(runs: Runs) -> set[str]:
    return {name for name in runs.files() if "/state/" in name}


def rows_of(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """The name of the window if it has one, the key, the window's start, and the number of rows."""
    start = [int(row.window.start.timestamp()) for row in rows]
    named = [(row.window_name,) if "window_name" in row else () for row in rows]
    return sorted((*name, row.k, at, row.n) for name, row, at in zip(named, rows, start, strict=True))


DROP: dict[str, Any] = {"upgrade": Upgrade(window="drop")}


def test_compare_shows_new_removed_and_renamed_windows(spark: SparkSession, tmp_path: Path) -> None:
    query = Grouped(spark, tmp_path)
    query.run(query.over(tens=TENS, visits=VISITS), (1, "a", 1))
    new = "(tumbling 20 seconds) is new: it holds the rows from now on"
    assert query.verdicts(query.over(all=TWENTIES, tens=TENS, visits=VISITS)) == {
        ("goes on", f"the window 'all' {new}")
    }
    assert query.verdicts(query.over(ten=TENS, visits=VISITS)) == {("goes on", "the window 'tens' is now 'ten'")}
    gone = "the window 'visits' (session with a gap of 5 seconds) is gone"
    dropped = f"{gone}: its open panes are dropped, without a firing"
    more = query.over(all=(TWENTIES, DROP), tens=TENS)
    assert query.verdicts(more) == {("drops", dropped), ("goes on", f"the window 'all' {new}")}
    assert query.verdicts(query.over((TENS, DROP))) == {
        ("drops", dropped),
        ("goes on", "the window 'tens' is now the only one"),
    }
    assert "with upgrade=Upgrade(window='drop')" in query.refused(query.over(all=TWENTIES, tens=TENS))
    one = Grouped(spark, tmp_path / "one")
    one.run(one.over(TENS), (1, "a", 1))
    assert one.verdicts(one.over(all=TWENTIES, tens=TENS)) == {
        ("goes on", f"the window 'all' {new}"),
        ("goes on", "the one window is now 'tens'"),
    }


def test_a_window_that_has_the_first_place_may_go_and_a_savepoint_puts_each_in_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = Grouped(spark, tmp_path)
    begun = query.over(all=TWENTIES, tens=(TENS, {"early": None}), visits=VISITS)
    query.run(begun, *((time, key, 1) for time in (1, 2) for key in "abcdef"))
    tens = [("a", 0, 3), *((key, 0, 2) for key in "bcdef")]
    query.run(query.over(by_ten=(TENS, DROP), visits=VISITS), (3, "a", 1))
    assert query.open() == sorted(
        [("by_ten", *pane) for pane in tens] + [("visits", "a", 1, 3), *(("visits", key, 1, 2) for key in "bcdef")]
    )
    query.run(query.over((TENS, DROP)), (4, "g", 1))
    assert query.open() == [*tens, ("g", 0, 1)]
    assert len(open_panes(query.runs.checkpoint, spark=spark).collect()) == 7
    assert "window_name" not in open_panes(query.runs.checkpoint, spark=spark).columns
    to = tmp_path / "savepoint"
    savepoint(query.runs.checkpoint, to, partitions=3, spark=spark)
    for checkpoint in (to, query.runs.checkpoint):
        query.runs.checkpoint = checkpoint
        assert query.open() == [*tens, ("g", 0, 1)]
        assert query.run(query.over(TENS), (15, "z", 1)) == [*tens, ("g", 0, 1)]


def test_one_window_of_several_changes_alone_once_it_is_alone(spark: SparkSession, tmp_path: Path) -> None:
    """The window drains while its records are still in the state that it shared with others."""
    query = Grouped(spark, tmp_path)
    query.run(query.over(all=TWENTIES, tens=TENS), (1, "a", 1))
    query.run(query.over((TENS, DROP)), (2, "a", 1))
    longer = (TENS, {"early": None, "allowed_lateness": "5 seconds"})
    query.run(query.over(longer), (11, "a", 1))
    # A window whose lateness has changed cannot drain before the clock has passed the windows that had closed.
    query.run(query.over(longer), (12, "a", 1))
    assert query.open() == [("a", 0, 2), ("a", 10, 2)]
    drains = (VISITS, {"upgrade": Upgrade(window="drain")})
    assert query.run(query.over(drains), (18, "a", 1), (24, "a", 1)) == [("a", 0, 2)]
    assert query.open() == [("a", 10, 3), ("a", 24, 1)]
    assert query.run(query.over(drains), (40, "b", 1)) == [("a", 10, 3), ("a", 24, 1)]
    query.run(query.over(drains), (41, "b", 1))
    assert query.open() == [("b", 40, 2)]
    assert query.run(query.over(later=VISITS, tens=TENS), (60, "c", 1)) == [("later", "b", 40, 2)]


def test_the_name_that_a_window_had_may_be_that_of_a_new_one(spark: SparkSession, tmp_path: Path) -> None:
    query = Grouped(spark, tmp_path)
    query.run(query.over(tens=TENS, visits=VISITS), (1, "a", 1))
    query.run(query.over(ten=TENS, visits=VISITS), (2, "a", 1))
    query.run(query.over(ten=TENS, tens=TWENTIES, visits=VISITS), (3, "a", 1))
    assert query.open() == [("ten", "a", 0, 3), ("tens", "a", 0, 1), ("visits", "a", 1, 3)]
    query.run(query.over(ten=TENS, tens=TWENTIES, visits=VISITS), (4, "a", 1))
    query.run(query.over(ten=(TENS, DROP), visits=VISITS), (4, "a", 1))
    query.run(query.over(a=TWENTIES, ten=TENS, tens=TWENTIES, visits=VISITS), (5, "b", 1))
    assert query.open() == [
        *(("a", "b", 0, 1), ("ten", "a", 0, 5), ("ten", "b", 0, 1), ("tens", "b", 0, 1)),
        *(("visits", "a", 1, 5), ("visits", "b", 5, 1)),
    ]


def test_a_window_with_ids_keeps_its_name_for_tables_have_its_rows_under_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    ids = {"ids": True}
    query = Grouped(spark, tmp_path)
    query.run(query.over(tens=(TENS, ids), visits=(VISITS, ids)), (1, "a", 1))
    why = query.refused(query.over(ten=(TENS, ids), visits=(VISITS, ids)))
    assert why.startswith("the window 'tens' is now 'ten': with ids=True a table has rows of its open panes")
    why = query.refused(query.over((TENS, {**ids, **DROP})))
    assert why.startswith("the window 'tens' is now the only one: with ids=True")


def test_a_window_that_has_the_name_of_one_that_was_dropped_has_other_ids(spark: SparkSession, tmp_path: Path) -> None:
    ids: dict[str, Any] = {"ids": True, "early": Early(count=1)}
    query = Grouped(spark, tmp_path)
    query.run(query.over(tens=(TENS, ids), visits=(VISITS, ids)), (1, "a", 1))
    query.run(query.over(all=(TWENTIES, ids), visits=(VISITS, {**ids, **DROP})), (2, "a", 1))
    both = query.over(all=(TWENTIES, ids), tens=(TENS, ids), visits=(VISITS, ids))
    query.run(both, (3, "a", 1))
    query.run(both, (3, "a", 1))
    assert sorted((row.window_name, row.pane.id) for row in query.runs.open()) == [
        ("all", "0#1"),
        ("tens", "0#2"),
        ("visits", "1000000"),
    ]


def test_the_query_of_before_is_rejected_and_a_name_may_be_taken_back(spark: SparkSession, tmp_path: Path) -> None:
    query = Grouped(spark, tmp_path)
    before = query.over(tens=TENS, visits=VISITS)
    query.run(before, (1, "a", 1))
    query.run(query.over(a=TENS, visits=VISITS), (2, "a", 1))
    query.runs.crash()
    query.run(before, (3, "a", 1))
    assert query.open() == [("tens", "a", 0, 3), ("visits", "a", 1, 3)]
    query.run(query.over(a=TENS, visits=VISITS), (3, "a", 1))
    query.run(before, (4, "a", 1))
    assert query.open() == [("tens", "a", 0, 5), ("visits", "a", 1, 5)]
    query.run(query.over(visits=(VISITS, DROP), z=TWENTIES), (4, "a", 1))
    assert "the window 'z' (tumbling 20 seconds) is gone" in " ".join(
        what for verdict, what in query.verdicts(before) if verdict == "refused"
    )


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (
            {"tens": TENS, "visits": VISITS},
            {"a": TENS, "b": TENS, "visits": VISITS},
            "the window 'tens' is gone, and it is not clear whose panes are those of the window 'a' and the window 'b'",
        ),
        (
            {"a": TENS, "b": TENS, "visits": VISITS},
            {"tens": (TENS, DROP), "visits": VISITS},
            "'a' and the window 'b' are gone, and it is not clear whose panes are those of the window 'tens'",
        ),
        ({"tens": TENS, "visits": VISITS}, {"ten": (TENS, {"asked": ["total"]}), "visits": VISITS}, "'tens' (tumbling"),
        ({"tens": TENS, "visits": VISITS}, {"tens": TWENTIES, "visits": VISITS}, "window was [tumbling 10 seconds]"),
        (
            {"tens": TENS, "visits": VISITS},
            {"tens": TENS, "visits": VISITS, "values": (TENS, {"by": "v"})},
            "since not all have the same keys",
        ),
        ({"alone": TENS}, {"a": TWENTIES, "visits": VISITS}, "the one window (tumbling 10 seconds) is gone"),
        ({"alone": TENS}, {"a": TENS, "b": TENS}, "it is not clear whose panes are those of the window 'a'"),
    ],
    ids=["two of one", "one of two", "other aggregates", "other window", "other keys", "none", "two of alone"],
)
def test_ambiguous_and_lossy_changes_are_rejected(
    spark: SparkSession, tmp_path: Path, before: dict[str, Asked], after: dict[str, Asked], why: str
) -> None:
    query = Grouped(spark, tmp_path)
    query.run(query.over(**before), (1, "a", 1))
    assert why in query.refused(query.over(**after))


def test_all_windows_may_go_where_their_panes_are_dropped(spark: SparkSession, tmp_path: Path) -> None:
    query = Grouped(spark, tmp_path)
    query.run(query.over(tens=TENS, visits=VISITS), (1, "a", 1))
    assert query.run(query.over((TWENTIES, DROP)), (2, "a", 1)) == []
    assert query.run(query.over((TWENTIES, DROP)), (30, "a", 1)) == [("a", 0, 1)]
    assert query.run(query.over(tens=TENS, twenties=TWENTIES), (40, "a", 1)) == [("twenties", "a", 20, 1)]


def test_a_window_of_functions_that_have_no_text_cannot_be_dropped(spark: SparkSession, tmp_path: Path) -> None:
    query = Grouped(spark, tmp_path)
    same = F.udf(lambda n: n, "bigint")
    query.run(query.over(tens=TENS, zz=(TWENTIES, {"asked": [same(F.count("*")).alias("n")]})), (1, "a", 1))
    why = query.refused(query.over((TENS, DROP)))
    assert "the window 'zz' cannot be dropped: its aggregates (" in why


def test_one_change_comes_after_another(spark: SparkSession, tmp_path: Path) -> None:
    query = Grouped(spark, tmp_path)
    query.run(query.over(TENS), (1, "a", 1), (12, "a", 1))
    query.run(query.over((TWENTIES, {"upgrade": Upgrade(window="drain")})), (13, "a", 1))
    both = query.over(tens=TENS, twenties=TWENTIES)
    assert "one change comes after another" in query.refused(both)
    late = Grouped(spark, tmp_path / "late")
    late.run(late.over(TENS), (1, "a", 1), (15, "a", 1))
    long: dict[str, Any] = {"allowed_lateness": "1 minute"}
    late.run(late.over((TENS, long)), (16, "a", 1))
    several = late.over(tens=(TENS, long), visits=VISITS)
    assert "once the clock has reached 1970-01-01T00:01:15Z" in late.refused(several)
    late.run(late.over((TENS, long)), (80, "a", 1))
    late.run(several, (81, "a", 1))
    assert late.open()[0] == ("tens", "a", 20 * 4, 2)


def test_overlapping_windows_and_lists_are_dropped_whole(spark: SparkSession, tmp_path: Path) -> None:
    query = Grouped(spark, tmp_path)
    lists = (Sliding("20 seconds", "5 seconds"), {"asked": ["n", "everything"]})
    query.run(query.over(many=lists, tens=TENS), *((1, "a", value) for value in range(30)))
    with ClockedQuery(query.over(tens=(TENS, DROP), zz=VISITS), checkpoint=query.runs.checkpoint) as changed:
        query.runs.write([(2, "a", 1)])
        changed.settle()
        metrics = changed.progress[-1]["stateOperators"][0]
        assert metrics["customMetrics"]["panesOpen"] == 2
        assert query.open() == [("tens", "a", 0, 31), ("zz", "a", 2, 1)]
