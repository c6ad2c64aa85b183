"""A fresh clone of the repository: ``make wheel`` builds the wheel, and the README's first program runs with it."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.docs.test_readme import snippets
from tests.support.campaigns.line_environments import LINES, ROOT, pinned

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("clone")]

KEPT = ("PATH", "HOME", "JAVA_HOME", "LANG", "http_proxy", "https_proxy", "no_proxy")
"""Variables of the environment that the commands get, and those of pip: a setting of the tests must not help them."""


def run(*command: str, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("PIP_")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def wheel(clone: Path, *arguments: str) -> Path:
    """Clones the last commit into `clone`, and builds a wheel there."""
    run("git", "clone", "--quiet", str(ROOT), str(clone), cwd=ROOT)
    run("make", "wheel", *arguments, cwd=clone)
    (built,) = (clone / "dist").glob("mullion_spark-*.whl")
    return built


def spark_versions(built: Path) -> list[str]:
    with zipfile.ZipFile(built) as files:
        jars = sorted(name for name in files.namelist() if name.endswith(".jar"))
    return [jar.removeprefix("mullion/jars/mullion-spark-").partition("_")[0] for jar in jars]


def test_the_wheel_of_one_spark_version_runs_the_program_of_the_readme(tmp_path: Path) -> None:
    built = wheel(tmp_path / "clone", "SPARK=4.2")
    assert spark_versions(built) == ["4.2"]
    # PySpark is large: a build that downloads it takes much longer.
    assert not list((tmp_path / "clone").glob(".venv*/lib/python3*/site-packages/pyspark"))

    run("python3", "-m", "venv", str(tmp_path / "venv"), cwd=tmp_path)
    python = str(tmp_path / "venv" / "bin" / "python")
    run(python, "-m", "pip", "install", "--quiet", str(built), pinned("spark-4.2", "pyspark"), cwd=tmp_path)
    first, *_ = snippets((ROOT / "README.md").read_text("utf-8"))
    (tmp_path / "program.py").write_text(first.code, "utf-8")
    assert first.printed is not None
    assert run(python, "program.py", cwd=tmp_path).strip() == first.printed.strip()


def test_the_wheel_of_a_release_has_a_jar_for_each_spark_version(tmp_path: Path) -> None:
    assert spark_versions(wheel(tmp_path / "clone")) == LINES
