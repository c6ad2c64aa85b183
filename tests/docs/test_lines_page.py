"""docs/platforms/lines.md has a row for each Spark version, with the counts of the tests' reports."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import lines  # noqa: E402

PAGE = lines.PAGE.read_text("utf-8")
TABLE = lines.TABLE.search(PAGE)
EMPTY = "<!-- begin: as tested -->\n<!-- end: as tested -->\n"


def cells(page: str) -> list[list[str]]:
    table = lines.TABLE.search(page)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[0].splitlines()[2:]]


def pytest_report(folder: Path, spark: str, java: str, cases: str, python: str = "3.11.7") -> Path:
    file = folder / f"{spark}-{java}.xml"
    versions = {"spark": spark, "python": python, "java": java}
    properties = "".join(f'<property name="{name}" value="{value}"/>' for name, value in versions.items())
    file.write_text(f"<testsuites><testsuite><properties>{properties}</properties>{cases}</testsuite></testsuites>")
    return file


def scala_report(folder: Path, line: str, java: str) -> Path:
    file = folder / "TEST-x.xml"
    file.write_text(
        f'<testsuite><properties><property name="java.version" value="{java}"/>'
        f'<property name="spark.line" value="{line}"/></properties>'
        '<testcase classname="org.apache.spark.sql.mullion.TranscriptSuite" name="a"/></testsuite>'
    )
    return file


def test_each_line_has_a_row_and_none_has_tests_that_failed() -> None:
    rows = cells(PAGE)
    assert {lines.short(row[:3]).spark for row in rows} == set(lines.LINES)
    for row in rows:
        if lines.ONLY_IN_WORKFLOW not in row:
            assert len(row[3:]) == len(lines.KINDS)
            assert all(re.fullmatch(r"\d+|-", number) for number in row[3:]), row


def test_what_the_workflow_runs_is_in_the_table_and_the_table_is_in_order() -> None:
    assert {place for place, _ in lines.matrix()} <= {lines.short(row[:3]) for row in cells(PAGE)}
    assert lines.filled_in(PAGE, []) == PAGE, "run python scripts/lines.py"


def test_checkpoints_are_compared_between_all_lines() -> None:
    begun = re.findall(r"^\| Spark ([\d.]+) \|", PAGE[PAGE.index("| begun on") :], re.MULTILINE)
    assert begun == lines.LINES


def test_tests_are_counted_once_by_kind_and_failures_are_listed(tmp_path: Path) -> None:
    first = pytest_report(
        tmp_path,
        "4.1.4",
        "17.0.3",
        '<testcase classname="tests.python.test_kx_random" name="a"/>'
        '<testcase classname="tests.python.test_turbine" name="a"/>'
        '<testcase classname="tests.python.test_turbine" name="b"><failure/></testcase>'
        '<testcase classname="tests.python.test_split" name="a"><skipped/></testcase>'
        '<testcase classname="tests.python.test_restart" name="a"/>',
    )
    reports = [lines.read(file) for file in (first, first, scala_report(tmp_path, "4.1", "17.0.3"))]
    page = lines.filled_in(EMPTY, reports)
    assert ["4.1.4", "3.11.7", "17.0.3", "1", "2 of 3", "-", "-", "1"] in cells(page)


def test_rows_without_a_report_stay(tmp_path: Path) -> None:
    case = '<testcase classname="tests.python.test_connect" name="a"/>'
    once = lines.filled_in(EMPTY, [lines.read(pytest_report(tmp_path, "4.2.0", "25.0.1", case))])
    again = lines.filled_in(once, [lines.read(pytest_report(tmp_path, "4.0.5", "17.0.3", case))])
    assert [row[:3] for row in cells(again) if "1" in row] == [
        ["4.0.5", "3.11.7", "17.0.3"],
        ["4.2.0", "3.11.7", "25.0.1"],
    ]
    assert lines.filled_in(again, []) == again


def test_counts_without_a_report_stay_in_a_row_of_the_same_versions(tmp_path: Path) -> None:
    case = '<testcase classname="tests.python.test_{}" name="a"/>'
    report = pytest_report(tmp_path, "4.1.4", "17.0.3", case.format("connect") + case.format("restart"))
    page = lines.filled_in(EMPTY, [lines.read(report)])
    slow = lines.read(pytest_report(tmp_path, "4.1.4", "17.0.3", case.format("cluster")))
    assert ["4.1.4", "3.11.7", "17.0.3", "-", "-", "1", "1", "1"] in cells(lines.filled_in(page, [slow]))
    newer = lines.read(pytest_report(tmp_path, "4.1.5", "17.0.3", case.format("cluster")))
    assert ["4.1.5", "3.11.7", "17.0.3", "-", "-", "-", "1", "-"] in cells(lines.filled_in(page, [newer]))


def test_scala_is_counted_with_the_python_of_the_same_run(tmp_path: Path) -> None:
    case = '<testcase classname="tests.python.test_connect" name="a"/>'
    scala = lines.read(scala_report(tmp_path, "4.2", "25.0.1"))
    newer = lines.read(pytest_report(tmp_path, "4.2.0", "25.0.1", case, python="3.13.0"))
    assert ["4.2.0", "3.13.0", "25.0.1", "1", "-", "1", "-", "-"] in cells(lines.filled_in(EMPTY, [newer, scala]))
    # Of several versions, the row has the supported one.
    promised = lines.read(pytest_report(tmp_path, "4.2.0", "25.0.1", case))
    page = lines.filled_in(EMPTY, [newer, promised, scala])
    assert ["4.2.0", "3.11.7", "25.0.1", "1", "-", "1", "-", "-"] in cells(page)
    assert ["4.2.0", "3.13.0", "25.0.1", "-", "-", "1", "-", "-"] in cells(page)
