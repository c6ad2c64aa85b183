"""Writes the counts of the last test runs into the table of docs/platforms/lines.md.

    python scripts/lines.py [REPORTS...]

A row is a Spark version with a Python and a Java. The JUnit reports of ``make test SPARK=`` and
``make test-slow SPARK=`` are in this folder; other folders or files may be arguments. Rows and counts without a report
are unchanged. Versions that only the workflow ``test`` has run are marked.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import yaml

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "platforms" / "lines.md"
WORKFLOW = ROOT / ".github" / "workflows" / "test.yml"
SCALA_LINES = (ROOT / "project" / "SparkVersion.scala").read_text("utf-8")
LINES: Final[list[str]] = re.findall(r'SparkVersion\("([\d.]+)"', SCALA_LINES)
DEFAULT: Final[str] = re.findall(r'val default = "([\d.]+)"', SCALA_LINES)[0]
SPARKS: Final[dict[str, str]] = dict(re.findall(r'SparkVersion\("([\d.]+)", spark = "([\d.]+)"', SCALA_LINES))

KINDS: Final = {
    "test cases": r"TranscriptSuite|test_transcripts",
    "adapters": r"test_(turbine|faust|bytewax|kx)",
    "Connect": r"test_connect",
    "cluster": r"test_cluster|test_packages",
    "all else": r"",
}
"""Columns, and the patterns of their suites and files of tests. The first match counts."""

ONLY_IN_WORKFLOW: Final = "only in the workflow"

TABLE: Final = re.compile(r"(?<=<!-- begin: as tested -->\n).*(?=<!-- end: as tested -->)", re.S)


class Place(NamedTuple):
    """The versions of a test run: major and minor."""

    spark: str
    python: str
    java: str

    @property
    def order(self) -> list[int]:
        return [int(number) for version in self for number in version.split(".")]


class Test(NamedTuple):
    of: str
    name: str


class Report(NamedTuple):
    versions: tuple[str, str, str]
    passed: Mapping[Test, bool]


def short(versions: Iterable[str]) -> Place:
    spark, python, java = versions
    return Place(_two_parts(spark), _two_parts(python), java.partition(".")[0])


def _two_parts(version: str) -> str:
    return ".".join(version.split(".")[:2])


def read(file: Path) -> Report:
    """The report in one file. Scala reports have no Python version."""
    root = ET.parse(file).getroot()
    properties = {of.get("name"): of.get("value") or "" for of in root.iter("property")}
    spark = properties.get("spark") or SPARKS[properties.get("spark.line") or DEFAULT]
    java = properties.get("java") or properties["java.version"]
    passed = {
        Test((case.get("classname") or "").rpartition(".")[2], case.get("name") or ""): not any(
            case.find(wrong) is not None for wrong in ("failure", "error")
        )
        for case in root.iter("testcase")
        if case.find("skipped") is None
    }
    return Report((spark, properties.get("python") or "", java), passed)


def promised() -> dict[str, Place]:
    """The supported Python and Java of each Spark version."""
    return {place.spark: place for place, tried in reversed(matrix()) if not tried}


def matrix() -> list[tuple[Place, bool]]:
    """The entries of the workflow, each with its trial flag."""
    entries = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["test"]["strategy"]["matrix"]["include"]
    return [(Place(entry["spark"], entry["python"], entry["java"]), entry["tried"]) for entry in entries]


def rows(reports: Iterable[Report]) -> dict[Place, str]:
    """The rows of reports, by place.

    Scala's have the Python version of the tests with the same Spark and Java. If that is not unique, it is the
    supported one.
    """
    all_of_them = list(reports)
    tested = {short(report.versions) for report in all_of_them if report.versions[1]}
    passed: dict[Place, dict[Test, bool]] = defaultdict(dict)
    versions: dict[Place, list[str]] = {}
    for report in all_of_them:
        spark, python, java = report.versions
        if not python:
            pythons = [place.python for place in tested if place == short((spark, place.python, java))]
            python = pythons[0] if len(pythons) == 1 else promised()[_two_parts(spark)].python
        place = short((spark, python, java))
        passed[place].update(report.passed)
        exact = versions.setdefault(place, list(place))
        exact[:] = [new if new.startswith(old) else old for new, old in zip(report.versions, exact, strict=True)]
    return {place: row([*versions[place], *counts(of)]) for place, of in passed.items()}


def counts(passed: Mapping[Test, bool]) -> list[str]:
    of_kind: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    for test, good in passed.items():
        of_kind[next(kind for kind, files in KINDS.items() if re.match(files, test.of))].append(good)
    return [count(of) for of in of_kind.values()]


def count(passed: list[bool]) -> str:
    if not passed:
        return "-"
    return str(len(passed)) if all(passed) else f"{sum(passed)} of {len(passed)}"


def row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def filled_in(page: str, reports: Iterable[Report]) -> str:
    """The page with the rows of the reports, its other rows, and those of the workflow."""
    old = TABLE.search(page)
    assert old is not None
    table_rows = {place: row([*place, ONLY_IN_WORKFLOW, *[""] * (len(KINDS) - 1)]) for place, _ in matrix()}
    for line in old[0].splitlines(keepends=True):
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if re.match(r"\d", cells[0]) and ONLY_IN_WORKFLOW not in line:
            table_rows[short(cells[:3])] = line
    for place, new in rows(reports).items():
        table_rows[place] = with_counts_of(table_rows[place], new) if place in table_rows else new
    head = ["Spark", "Python", "Java", *KINDS]
    table = (
        row(head) + row(["---"] * len(head)) + "".join(table_rows[place] for place in sorted(table_rows, key=by_order))
    )
    return TABLE.sub(lambda _: table, page)


def with_counts_of(old: str, new: str) -> str:
    """A row, completed with the counts of an older row of the same versions."""
    before, cells = old.strip("| \n").split(" | "), new.strip("| \n").split(" | ")
    if before[:3] != cells[:3]:
        return new
    return row(old if new == "-" else new for old, new in zip(before, cells, strict=True))


def by_order(place: Place) -> list[int]:
    return place.order


def files_in(places: Iterable[Path]) -> list[Path]:
    return [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*.xml")))]


def main(*arguments: str) -> None:
    places = [Path(place) for place in arguments] or [
        ROOT / ".build" / "reports",
        *sorted((ROOT / "jvm" / "target").glob("**/test-reports")),
    ]
    page = filled_in(PAGE.read_text("utf-8"), map(read, files_in(places)))
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
