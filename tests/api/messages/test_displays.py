"""Results in notebooks: tables in HTML, with escaped names, and without colours of their own."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Tumbling, compare, open_panes, windowed
from mullion._program.report import Part, Report
from mullion._util import html
from tests.support.clocked import ClockedQuery

EVIL = "<script>alert(1)</script>"


class Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def rows_of(text: str) -> list[list[str]]:
    cells = Cells()
    cells.feed(text)
    assert "script" not in cells.tags
    return cells.rows


def test_a_table_escapes_cells_and_has_the_colours_of_the_page() -> None:
    text = html.table([[EVIL, None, 3]], ["a & b", "c", "d"], title=EVIL, notes=[EVIL])
    assert rows_of(text)[:2] == [["a & b", "c", "d"], [EVIL, "", "3" + EVIL]]
    assert text.count("&lt;script&gt;") == 3
    # Only the line between rows has a colour: a grey that is visible on white and on black.
    assert set(re.findall(r"#[0-9a-f]{3,6}|rgba?\([^)]*\)", text)) == {"rgba(128, 128, 128, 0.35)"}


def test_windowed_shows_its_window_and_options(spark: SparkSession) -> None:
    events = spark.readStream.format("rate").load().withColumnRenamed("value", EVIL)
    hours = windowed(events, Tumbling("1 hour"), by=f"`{EVIL}`", time="timestamp", late="emit", ids=True)
    rows = rows_of(hours._repr_html_())
    assert rows[1:5] == [
        ["window", "Tumbling('1 hour')"],
        ["by", f"`{EVIL}`"],
        ["time", "'timestamp'"],
        ["ids", "True"],
    ]
    assert rows[5][:1] == ["late"]
    assert "call .agg(...)" in hours._repr_html_()


def test_a_report_of_explain_shows_its_parts() -> None:
    report: Any = Report((Part(EVIL, "JVM", "it only updates windows", "app.py:12"),), ("partitions=8",))
    rows = rows_of(report._repr_html_())
    assert rows[0] == ["part", "runs", "why", "decided at"]
    assert rows[1][:3] == [EVIL, "JVM", "it only updates windows"]
    assert "Taken, and not used: partitions=8." in report._repr_html_()


def test_open_panes_and_a_comparison_show_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([("2024-01-01 10:05:00", EVIL), ("2024-01-01 10:07:00", None)], "at string, k string")
    rows.write.json(str(tmp_path / "rows"))
    stream = spark.readStream.schema("at timestamp, k string").json(str(tmp_path / "rows"))
    panes = windowed(stream.withWatermark("at", "1 minute"), Tumbling("1 hour"), by="k", time="at").agg(
        F.count("*").alias("n")
    )
    checkpoint = tmp_path / "checkpoint"
    with ClockedQuery(panes, checkpoint=checkpoint) as query:
        query.settle()
        texts: list[Any] = [open_panes(query), open_panes(checkpoint)]
        for shown in texts:
            header, *body = rows_of(shown._repr_html_())
            assert header[:3] == ["k", "window", "closes_at"]
            assert sorted(row[0] for row in body) == ["", EVIL]
            assert {row[1] for row in body} == {"2024-01-01 10:00:00 to 2024-01-01 11:00:00"}
        # A DataFrame made of it is Spark's own.
        assert "_repr_html_" not in vars(texts[0].where("k IS NULL"))
        compared: Any = compare(panes, checkpoint)
        header, *body = rows_of(compared._repr_html_())
        assert header == ["operator", "window", "verdict", "what"]
        assert [row[2] for row in body] == [row.verdict for row in compared.collect()]


def test_more_than_a_hundred_rows_are_cut(spark: SparkSession) -> None:
    from mullion._native.displays import displayed

    shown: Any = displayed(spark.range(101).repartition(2).orderBy("id"), "Numbers")
    assert [row[0] for row in rows_of(shown._repr_html_())][:101] == [
        "id",
        *map(str, range(99)),
        "99only the first 100 rows",
    ]
    none: Any = displayed(spark.range(0), "Numbers")
    assert "no rows" in none._repr_html_()
