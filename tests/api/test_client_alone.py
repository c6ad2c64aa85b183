"""A client of Spark Connect without a JDK: ``pyspark-client`` and the wheel, in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.docs.test_readme import ROOT, snippets
from tests.support import connect_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that was made as in docs/platforms/connect.md."""
    folder = tmp_path_factory.mktemp("client")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, f"pyspark-client=={pyspark.__version__}", str(wheel)], check=True)
    return python


def test_the_table_of_the_readme_comes_from_a_server(python: Path, server: SparkSession, tmp_path: Path) -> None:
    first = next(snippet for snippet in snippets((ROOT / "README.md").read_text("utf-8")) if snippet.printed)
    here = "configure(SparkSession.builder.config(map=options)).getOrCreate()"
    assert here in first.code
    remote = f"SparkSession.builder.remote({connect_server.address(server)!r})"
    there = f"configure({remote}.config(map=options)).getOrCreate()"
    program = tmp_path / "program.py"
    program.write_text(first.code.replace(here, there))

    # All that the shell and Python need is there, and no Java.
    tools = tmp_path / "bin"
    tools.mkdir()
    assert shutil.which("java", path=str(tools)) is None
    hidden = {"PATH", "JAVA_HOME", "SPARK_HOME", "PYTHONPATH", "PYSPARK_PYTHON"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [str(python), str(program)],
        env={**environment, "PATH": str(tools)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert first.printed is not None
    assert done.stdout.strip() == first.printed.strip()
