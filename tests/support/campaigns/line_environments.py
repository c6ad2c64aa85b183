"""Environments of each Spark version, for tests that need several: their Python, and the package with all JARs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]

LINES: list[str] = re.findall(r'SparkVersion\("([\d.]+)"', (ROOT / "project" / "SparkVersion.scala").read_text("utf-8"))
"""The Spark versions of ``project/SparkVersion.scala``, in ascending order."""


def python_of(line: str) -> Path:
    """The Python of an environment with a version's PySpark, which ``make`` or this function has created."""
    own = ROOT / ".build" / "lines" / line
    for home in (ROOT / f".venv-{line}", ROOT / ".venv", own):
        python = home / "bin" / "python"
        if list(home.glob(f"lib/python3*/site-packages/pyspark-{line}.*.dist-info")):
            return python
    venv.create(own, with_pip=True)
    needed = [pinned(f"spark-{line}", "pyspark"), pinned("dev", "pyarrow")]
    subprocess.run([str(own / "bin" / "python"), "-m", "pip", "install", "--quiet", *needed], check=True)
    return own / "bin" / "python"


def pinned(group: str, name: str) -> str:
    """A requirement in a dependency group of pyproject.toml."""
    groups: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    (requirement,) = [line for line in groups[group] if line.startswith(f"{name}==")]
    return str(requirement)


def unpacked_wheel(folder: Path) -> Path:
    """Unpacks the wheel of ``make wheel`` into a folder for ``PYTHONPATH``."""
    wheels = list((ROOT / "dist").glob("mullion_spark-*.whl"))
    assert len(wheels) == 1, f"make wheel makes one wheel in dist; there are {len(wheels)}"
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder)
    return folder


def run_on(line: str, package: Path, *command: str, cwd: Path | None = None) -> str:
    """Runs a Python program on a Spark version, with the package and the modules of the tests. Returns its output."""
    python = python_of(line)
    # The suite's settings would let Spark use the JARs and the classes of another version.
    of_the_suite = ("SPARK_HOME", "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_CONNECT_MODE_ENABLED")
    environment = {name: value for name, value in os.environ.items() if name not in of_the_suite}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (package, ROOT)))
    environment["PYSPARK_PYTHON"] = str(python)
    done = subprocess.run(
        [str(python), *command], env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        print(done.stdout[-3000:], done.stderr[-6000:], sep="\n", file=sys.stderr)
        raise AssertionError(f"Spark {line}: {' '.join(command)} ended with {done.returncode}")
    return done.stdout
