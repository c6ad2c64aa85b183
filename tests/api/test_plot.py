"""Pictures of panes: what they show is read from the drawing, by its bars, marks and words."""

from __future__ import annotations

import io
import itertools
import sys
from typing import Any

import numpy as np
import pytest
from matplotlib import dates
from matplotlib import image as mpl_image
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from pyspark.sql import DataFrame, SparkSession

from mullion import InvalidArgumentError, UnknownColumnError, UnsupportedError, plot


@pytest.fixture
def panes(spark: SparkSession) -> DataFrame:
    """Of ``a`` a pane that fired four times and one that is open, and a late row; of ``b`` one pane."""
    firings = [("early", 0, 1), ("on_time", 1, 2), ("update", 2, 3), ("close", 3, 4)]
    rows: list[Any] = [("a", ("10:00", "11:00"), firing, None) for firing in firings]
    rows += [("a", ("11:00", "12:00"), ("early", 0, 7), None), ("b", ("10:30", "11:30"), ("close", 0, 9), None)]
    # In no order.
    rows = [(*rows[n], None) for n in (3, 0, 2, 1, 5, 4)]
    literals = [
        f"('{k}', named_struct('start', timestamp'2024-01-01 {start}:00', 'end', timestamp'2024-01-01 {end}:00'), "
        f"named_struct('firing', '{kind}', 'seq', {seq}), {n}L, cast(null as struct<k: string, ts: timestamp>))"
        for k, (start, end), (kind, seq, n), *_ in rows
    ]
    literals.append("('a', null, null, null, named_struct('k', 'a', 'ts', timestamp'2024-01-01 10:15:00'))")
    return spark.sql(f"SELECT * FROM VALUES {', '.join(literals)} AS t(k, window, pane, n, late_row)")


def bars(axes: Axes) -> set[tuple[str, str, bool]]:
    """Of each bar from when to when it is, and whether it is drawn as one that has closed."""

    def clock(x: float) -> str:
        return f"{dates.num2date(x):%H:%M}"  # type: ignore[no-untyped-call]

    patches = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return {
        (clock(b.get_x()), clock(b.get_x() + b.get_width()), to_hex(b.get_facecolor()) == "#8fc1e3") for b in patches
    }


def words(axes: Axes) -> list[str]:
    return sorted(text.get_text() for text in axes.texts)


def test_a_pane_is_a_bar_with_what_it_fired_last(panes: DataFrame) -> None:
    axes = plot.timeline(panes, by="k", value="n", time="ts")
    assert bars(axes) == {("10:00", "11:00", True), ("11:00", "12:00", False), ("10:30", "11:30", True)}
    assert words(axes) == ["4", "7", "9"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "fires early",
        "fires on time",
        "fires again, for late rows",
        "closed",
        "still open",
        "row that came too late",
    ]
    marks = [line.get_marker() for line in axes.lines if line.get_marker() in {">", "D", "^"}]
    assert sorted(map(str, marks)) == [">", ">", "D", "^"]


def test_a_session_that_became_part_of_another_is_not_drawn(spark: SparkSession) -> None:
    panes = spark.sql(
        "SELECT k, named_struct('start', start, 'end', stop) AS window, "
        "named_struct('firing', 'early', 'seq', seq, 'id', id, 'merged', merged) AS pane FROM VALUES "
        "('a', timestamp'2024-01-01 10:00:00', timestamp'2024-01-01 10:30:00', 0, '1', array()), "
        "('a', timestamp'2024-01-01 10:45:00', timestamp'2024-01-01 11:15:00', 0, '2', array()), "
        "('a', timestamp'2024-01-01 10:00:00', timestamp'2024-01-01 11:15:00', 1, '1', array('2')), "
        # Another key has the same id.
        "('b', timestamp'2024-01-01 10:45:00', timestamp'2024-01-01 11:20:00', 0, '2', array()) "
        "AS t(k, start, stop, seq, id, merged)"
    )
    assert bars(plot.timeline(panes, by="k")) == {("10:00", "11:15", False), ("10:45", "11:20", False)}


def test_an_open_pane_that_never_fired_is_drawn_with_its_contents(spark: SparkSession, panes: DataFrame) -> None:
    window = "named_struct('start', timestamp'2024-01-01 {0}:00', 'end', timestamp'2024-01-01 {1}:00')".format
    still_open = spark.sql(
        f"SELECT * FROM VALUES ('a', {window('11:00', '12:00')}, 8L), ('b', {window('11:30', '12:30')}, 2L), "
        # The pane of this window that closed is another one.
        f"('b', {window('10:30', '11:30')}, 5L) AS t(k, window, n)"
    )
    axes = plot.timeline(panes, by="k", value="n", open_panes=still_open)
    assert bars(axes) == {
        ("10:00", "11:00", True),
        ("11:00", "12:00", False),
        ("10:30", "11:30", True),
        ("10:30", "11:30", False),
        ("11:30", "12:30", False),
    }
    assert words(axes) == ["2", "4", "5", "8", "9"]
    # open_panes(query) has no aggregates: the bar keeps the value of the last firing.
    assert words(plot.timeline(panes, by="k", value="n", open_panes=still_open.drop("n"))) == ["", "", "4", "7", "9"]


def test_a_notebook_shows_the_picture_without_pyplot(panes: DataFrame) -> None:
    axes: Any = plot.timeline(panes, by="k")
    image = mpl_image.imread(io.BytesIO(axes._repr_png_()))
    width, height = axes.figure.get_size_inches() * axes.figure.dpi
    assert image.shape[:2] == (int(height), int(width))


def test_rows_are_dots_in_the_lane_of_their_key(spark: SparkSession, panes: DataFrame) -> None:
    rows = spark.sql("SELECT * FROM VALUES ('b', timestamp'2024-01-01 10:40:00'), ('c', null) AS t(k, ts)").dropna()
    axes = plot.timeline(panes, by=["k"], time="ts", rows=rows)
    came, late = (float(np.asarray(dots.get_offsets())[0, 1]) for dots in axes.collections)
    assert late < came, "a is above b"


def test_windows_that_overlap_stand_above_each_other(panes: DataFrame) -> None:
    axes = plot.timeline(panes)
    boxes = [patch.get_bbox() for patch in axes.patches if isinstance(patch, Rectangle)]
    # The one of b and those of a, which touch.
    assert len(boxes) == 3
    for one, other in itertools.combinations(boxes, 2):
        in_time = min(one.x1, other.x1) - max(one.x0, other.x0)
        in_height = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert in_time < 1e-9 or in_height < 0


def test_times_are_shown_in_the_sessions_time_zone(spark: SparkSession, panes: DataFrame) -> None:
    zoned = spark.newSession()
    panes.createOrReplaceGlobalTempView("test_plot")
    zoned.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    axes = plot.timeline(zoned.table("global_temp.test_plot"))
    assert axes.get_xlabel() == "event time (Asia/Tokyo)"
    # The line of time is the same: an instant is where it was.
    assert ("10:00", "11:00", True) in bars(axes)


def test_a_pane_with_an_id_is_one_bar_as_its_window_grows(spark: SparkSession) -> None:
    panes = spark.sql(
        "SELECT named_struct('start', timestamp'2024-01-01 10:00:00', 'end', stop) AS window, "
        "named_struct('firing', 'early', 'seq', seq, 'id', 'one') AS pane FROM VALUES "
        "(timestamp'2024-01-01 10:30:00', 0), (timestamp'2024-01-01 10:50:00', 1) AS t(stop, seq)"
    )
    assert bars(plot.timeline(panes)) == {("10:00", "10:50", False)}


def test_what_cannot_be_drawn_is_rejected_with_the_way_out(
    spark: SparkSession, panes: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(InvalidArgumentError, match=r"panes is a stream. Write it to a sink"):
        plot.timeline(stream)
    with pytest.raises(UnknownColumnError, match=r"needs the column 'q', and panes has 'k', 'window'"):
        plot.timeline(panes, by="q")
    with pytest.raises(UnknownColumnError, match=r"time='due' is not a column of late_row, which has 'k', 'ts'"):
        plot.timeline(panes, time="due")
    with pytest.raises(InvalidArgumentError, match=r"There are 3 panes, and a picture may have limit=2"):
        plot.timeline(panes, by="k", limit=2)
    with pytest.raises(UnknownColumnError, match=r"needs the column 'k', and open_panes has 'window', 'n'"):
        plot.timeline(panes, by="k", open_panes=panes.select("window", "n"))
    with pytest.raises(InvalidArgumentError, match=r"There are more than 1 open panes"):
        plot.timeline(panes.limit(0), by="k", open_panes=panes.where("window IS NOT NULL"), limit=1)
    with pytest.raises(InvalidArgumentError, match=r"limit=0 is not a number of panes"):
        plot.timeline(panes, limit=0)
    with pytest.raises(InvalidArgumentError, match=r"rows=\.\.\.\) needs time="):
        plot.timeline(panes, rows=panes)
    counted = spark.sql("SELECT named_struct('start', 1L, 'end', 3L) AS window, 1 AS pane")
    with pytest.raises(InvalidArgumentError, match=r"count windows have no place on a time axis"):
        plot.timeline(counted)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'mullion_spark-.*\.whl\[plot\]'"):
        plot.timeline(panes)
