"""Windows in Spark's declarative pipelines, as ``spark-pipelines run`` runs them: docs/platforms/pipelines.md."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from mullion._util import jars
from tests.support import connect_server
from tests.support.killing import environment

pytestmark = pytest.mark.slow

SPEC = """
name: visits
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""
IMPORTS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import mullion
from mullion import Session, Tumbling, together, windowed

spark = SparkSession.active()
"""
CLICKS = """
@dp.table
def clicks():
    return spark.readStream.schema("at timestamp, user string, v int").json({folder!r})


def stream():
    return spark.readStream.table("clicks").withWatermark("at", "5 minutes")
"""
ROWS = [
    ("2024-01-01 10:05:00", "ann", 1),
    ("2024-01-01 10:40:00", "ann", 2),
    ("2024-01-01 11:10:00", "bob", 3),
    ("2024-01-01 13:00:00", "bob", 4),
]

SECOND_ROWS = [
    ("2024-01-01 10:50:00", "ann", 100),
    ("2024-01-01 13:30:00", "bob", 10),
    ("2024-01-01 15:00:00", "bob", 5),
]


class Project:
    """A pipeline in a folder, and the tables that it wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ended = 0
        self.source = folder / "in"
        for inner in (self.source, folder / "transformations"):
            inner.mkdir(parents=True)
        (folder / "spark-pipeline.yml").write_text(SPEC.format(storage=(folder / "storage").as_uri()))

    def define(self, code: str, name: str = "tables.py") -> None:
        if name.endswith(".py"):
            code = IMPORTS + CLICKS.format(folder=str(self.source)) + code
        (self.folder / "transformations" / name).write_text(code)

    def add(self, rows: Iterable[tuple[str, str, int]]) -> None:
        lines = [json.dumps({"at": at, "user": user, "v": v}) for at, user, v in rows]
        (self.source / f"{len(list(self.source.iterdir()))}.json").write_text("\n".join(lines))

    def run(self, command: str = "run", *, server: str | None = None, jar: bool = True) -> str:
        """The output of ``spark-pipelines``, with its own server or the one at an address."""
        program = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
        settings: dict[str, object] = {
            "spark.sql.warehouse.dir": self.folder / "warehouse",
            "spark.sql.shuffle.partitions": 2,
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
        }
        ours = []
        if jar:
            ours = ["--jars", str(jars.carried(jars.running_line()))]
            settings["spark.sql.extensions"] = "dev.mullion.MullionExtensions"
        words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        done = subprocess.run(
            [
                *("bash", str(program), *(() if server is None else ("--remote", server))),
                *(command, "--spec", str(self.folder / "spark-pipeline.yml")),
            ],
            env={
                **environment(),
                "PYSPARK_PYTHON": sys.executable,
                "PYSPARK_SUBMIT_ARGS": " ".join([*ours, *words, "pyspark-shell"]),
                # Its own server takes a port that is free.
                "SPARK_TESTING": "1",
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        self.ended = done.returncode
        return done.stdout + done.stderr

    def table(self, spark: SparkSession, name: str) -> list[tuple[object, ...]]:
        rows = spark.read.parquet(str(self.folder / "warehouse" / name))
        return sorted(map(tuple, rows.collect()), key=repr)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project_ = Project(tmp_path / "project")
    project_.add(ROWS)
    return project_


HOURS = """
@dp.table
def hours():
    panes = windowed(stream(), Tumbling("1 hour"), by="user", time="at", late="emit").agg(F.sum("v").alias("s"))
    return panes.select("user", F.date_format("window.start", "HH:mm").alias("start"), "pane.firing", "s")
"""

ALL_HOURS = """
@dp.materialized_view
def all_hours():
    panes = windowed(spark.read.table("clicks"), Tumbling("1 hour"), by="user", time="at").agg(F.sum("v").alias("s"))
    return panes.select("user", F.date_format("window.start", "HH:mm").alias("start"), "pane.firing", "s")
"""


def test_windows_are_tables_of_a_pipeline(spark: SparkSession, project: Project) -> None:
    project.define(
        HOURS
        + ALL_HOURS
        + """

@dp.table
def both():
    hours = windowed(stream(), Tumbling("1 hour"), by="user", time="at").agg(F.sum("v").alias("s"))
    visits = windowed(stream(), Session("45 minutes"), by="user", time="at").agg(F.count("*").alias("n"))
    panes = together(hours=hours, visits=visits)
    return panes.select("window_name", "user", F.date_format("window.start", "HH:mm").alias("start"), "s", "n")
"""
    )
    project.define(
        "CREATE MATERIALIZED VIEW longest AS SELECT user, n FROM mullion_windowed(TABLE(SELECT * FROM clicks), "
        "window => 'session', gap => '45 minutes', by => 'user', time => 'at', aggregates => 'count(*) AS n');\n",
        "longest.sql",
    )
    output = project.run()
    assert project.ended == 0, output
    closed = [("ann", "10:00", "close", 3), ("bob", "11:00", "close", 3)]
    assert project.table(spark, "hours") == closed
    assert project.table(spark, "all_hours") == [*closed, ("bob", "13:00", "close", 4)]
    assert project.table(spark, "longest") == [("ann", 2), ("bob", 1), ("bob", 1)]
    assert project.table(spark, "both") == [
        ("hours", "ann", "10:00", 3, None),
        ("hours", "bob", "11:00", 3, None),
        ("visits", "ann", "10:05", None, 2),
        ("visits", "bob", "11:10", None, 1),
    ]


def test_a_second_run_continues_with_the_tables_and_the_open_panes(project: Project, server: SparkSession) -> None:
    """The tables are in the catalog of a running server, which keeps them between the runs."""
    warehouse = project.folder / "warehouse"
    server.sql(f"CREATE DATABASE visits LOCATION '{warehouse.as_uri()}'")
    try:
        with (project.folder / "spark-pipeline.yml").open("a") as spec:
            spec.write("database: visits\n")
        project.define(HOURS + ALL_HOURS)
        tables = []
        for rows in ([], SECOND_ROWS, []):
            if rows:
                project.add(rows)
            output = project.run(server=connect_server.address(server))
            assert project.ended == 0, output
            tables.append((project.table(server, "hours"), project.table(server, "all_hours")))
    finally:
        server.sql("DROP DATABASE visits CASCADE")
    closed = [("ann", "10:00", "close", 3), ("bob", "11:00", "close", 3)]
    first, second, third = tables
    assert first == (closed, [*closed, ("bob", "13:00", "close", 4)])
    # The open pane of the first run has its row, and a row for a closed pane is late.
    assert second == (
        [*closed[:1], ("ann", None, "late", None), *closed[1:], ("bob", "13:00", "close", 14)],
        [("ann", "10:00", "close", 103), *closed[1:], ("bob", "13:00", "close", 14), ("bob", "15:00", "close", 5)],
    )
    # A run without new rows changes nothing.
    assert third == second


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (HOURS.replace('by="user"', 'by="usr"'), "by='usr': the input has no column 'usr'. Did you mean 'user'?"),
        (
            HOURS.replace('F.sum("v")', 'F.expr("count(DISTINCT parse_json(user))")'),
            "whose values Spark cannot compare",
        ),
        (HOURS.replace("stream()", 'spark.readStream.table("clicks")'), "the stream has no watermark"),
        (HOURS.replace("return panes", "return mullion.flat(panes)"), "flat() needs the columns of the panes"),
        (HOURS.replace("panes =", "mullion.read_panes('/checkpoint')\n    panes ="), "lets nobody ask the server"),
    ],
    ids=["column", "aggregate", "watermark", "flat", "read_panes"],
)
def test_invalid_windows_are_rejected_before_a_table_is_written(
    project: Project, server: SparkSession, code: str, message: str
) -> None:
    project.define(code)
    output = project.run("dry-run", server=connect_server.address(server))
    assert project.ended != 0
    assert message in output, output


def test_a_pipeline_without_mullion_writes_no_rows_in_the_place_of_panes(project: Project) -> None:
    project.define(HOURS)
    output = project.run(jar=False)
    assert project.ended != 0
    assert "mullion_extension_is_not_in_this_session" in output, output
