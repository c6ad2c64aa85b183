"""The published wheel: it has the JAR of each Spark version, and runs the README's program on each."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from mullion import __version__
from tests.docs.test_readme import snippets
from tests.support.campaigns.line_environments import LINES, ROOT, run_on, unpacked_wheel

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lines")]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked_wheel(tmp_path_factory.mktemp("package"))


def test_it_has_a_jar_for_each_line_and_none_besides(package: Path) -> None:
    jars = sorted(jar.name for jar in (package / "mullion" / "jars").glob("*"))
    assert jars == [f"mullion-spark-{line}_2.13-{__version__}.jar" for line in LINES]
    for line, jar in zip(LINES, jars, strict=True):
        with zipfile.ZipFile(package / "mullion" / "jars" / jar) as archive:
            properties = archive.read("dev/mullion/build.properties").decode()
        assert properties.split() == [f"version={__version__}", f"spark={line}"]


@pytest.mark.parametrize("line", LINES)
def test_the_program_of_the_readme_runs_on_a_line(tmp_path: Path, package: Path, line: str) -> None:
    shown = next(snippet for snippet in snippets((ROOT / "README.md").read_text("utf-8")) if snippet.printed)
    program = tmp_path / "program.py"
    program.write_text(shown.code, "utf-8")
    printed = run_on(line, package, str(program), cwd=tmp_path)
    assert shown.printed is not None
    assert printed.strip() == shown.printed.strip()
