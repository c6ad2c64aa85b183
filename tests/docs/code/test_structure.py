"""Packages, files and folders: the drawing has all packages, imports only point downwards, and sizes are bounded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "contributing" / "structure.md").read_text("utf-8")
SPARK = "org.apache.spark.sql.mullion"
NAMES = r"(?:org\.apache\.spark\.sql\.mullion|dev\.mullion)(?:\.[a-z]\w*)*"


def packages(language: str) -> list[str]:
    """The packages of a language, from the highest to the lowest."""
    (text,) = re.findall(rf"^{language}\n((?:  .*\n)+)", PAGE, re.MULTILINE)
    rows = [re.split(r" {2,}", row.partition("|")[2].strip())[0] for row in text.splitlines()]
    return [name for row in rows for name in re.split(r",\s*", row)]


def group_of(package: str) -> str | None:
    """The package in the drawing that contains a Scala package."""
    if package.startswith("dev.mullion.windows"):
        return "windows"
    if package.startswith(f"{SPARK}."):
        return package.removeprefix(f"{SPARK}.").partition(".")[0]
    return "dev.mullion" if package == "dev.mullion" else None


def scala_imports() -> Iterator[tuple[Path, str, str]]:
    for file in sorted((ROOT / "jvm").rglob("src/main/**/*.scala")):
        text = file.read_text("utf-8")
        declared = re.findall(r"^package (\S+)$", text, re.MULTILINE)
        own = group_of(declared[0]) if declared else None
        for imported in re.findall(rf"^\s*import ({NAMES})\.(?!MullionException\b)[{{\w]", text, re.MULTILINE):
            used = group_of(imported)
            if own is not None and used is not None:
                yield file.relative_to(ROOT), own, used


def test_the_drawing_has_each_scala_package() -> None:
    groups = {group for _, own, used in scala_imports() for group in (own, used)}
    assert groups == set(packages("Scala"))


def test_no_scala_import_goes_up() -> None:
    order = packages("Scala")
    # All packages use the error of dev.mullion, which imports nothing.
    assert not [
        f"{file}: {own} uses {used}"
        for file, own, used in scala_imports()
        if order.index(used) < order.index(own) and not str(file).endswith("MullionException.scala")
    ]


def test_the_drawing_has_each_python_package() -> None:
    package = ROOT / "python" / "mullion"
    parts = {part.stem for part in package.iterdir() if part.suffix == ".py" or (part / "__init__.py").is_file()}
    assert set(packages("Python")) == parts - {"__init__", "_version"}


def test_no_python_import_goes_up() -> None:
    order = packages("Python")
    package = ROOT / "python" / "mullion"
    wrong = []
    for file in sorted(package.rglob("*.py")):
        own = file.relative_to(package).parts[0].removesuffix(".py")
        for module in re.findall(r"^\s*(?:from|import) mullion\.(\w+)", file.read_text("utf-8"), re.MULTILINE):
            if own in order and module in order and order.index(module) < order.index(own):
                wrong.append(f"{file}: {own} uses {module}")
    assert not wrong


@pytest.mark.parametrize("adapter", ["kx", "turbine"])
def test_an_adapter_calls_functions_in_workers_on_the_shared_path(adapter: str) -> None:
    files = sorted((ROOT / "python" / "mullion" / adapter).rglob("*.py"))
    texts = {file.name: file.read_text("utf-8") for file in files}
    # calls.py translates all errors of functions; _util.codec and reading.py have the layouts of Arrow data.
    own = re.compile(r"mullion\._util\.user_code|\btraceback\b|\bpa\.ipc\b|\bSystemExit\b")
    assert not [f"{name}: {line}" for name, text in texts.items() for line in text.splitlines() if own.search(line)]
    for text in texts.values():
        assert text.count("except FAILURES") == text.count("raise failed_call") - text.count("except WrongResultError")


@pytest.mark.parametrize("language", ["Scala", "Python"])
def test_a_package_is_drawn_once(language: str) -> None:
    order = packages(language)
    assert len(set(order)) == len(order) > 10


def sources(*folders: str) -> list[Path]:
    """The source files in these folders of the project."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))]
    files = [path for path in paths if path.suffix in {".py", ".scala", ".java"}]
    assert len(files) > 100
    return [file.relative_to(ROOT) for file in files]


def test_a_source_file_has_at_most_500_lines() -> None:
    files = sources("python/mullion", "jvm/windows/src", "jvm/spark/src", "benchmarks", "scripts", "examples", "tests")
    lines = {str(file): (ROOT / file).read_bytes().count(b"\n") for file in files}
    assert {file: count for file, count in lines.items() if count > 500} == {}


def test_a_folder_has_at_most_15_source_files() -> None:
    files = sources("python/mullion", "jvm/windows/src", "jvm/spark/src", "benchmarks", "examples", "tests")
    folders = Counter(str(file.parent) for file in files)
    assert {folder: count for folder, count in folders.items() if count > 15} == {}
