"""The systems: their names, what runs them, and an environment for each that is not on Spark.

Environments are made under ``.build/bench`` when they are first needed, from the ``[dependency-groups]`` of
``pyproject.toml``, which pin all versions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Unavailable(Exception):  # noqa: N818
    """An environment cannot be made here; the message says why."""


@dataclass(frozen=True, slots=True)
class System:
    """``group`` names its dependencies: none is the project's own environment."""

    title: str
    script: str = "spark_batches.py"
    group: str = ""

    @property
    def is_on_spark(self) -> bool:
        return not self.group

    def python(self) -> Path:
        if not self.group:
            return Path(sys.executable)
        home = ROOT / ".build" / "bench" / self.group
        wanted = "\n".join(requirements(self.group))
        done = home / "requirements.txt"
        if not done.exists() or done.read_text() != wanted:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
            pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            made = subprocess.run([*pip, *requirements(self.group)], capture_output=True, text=True, check=False)
            if made.returncode:
                raise Unavailable(f"{self.title} does not install here: {made.stderr.strip().splitlines()[-1]}")
            done.write_text(wanted)
        return home / "bin" / "python"

    def version(self) -> str:
        return requirements(self.group)[0].split("==")[1] if self.group else ""


def check_installed() -> None:
    """Raises ``SystemExit`` where the package that systems import is not the one of this folder.

    It is installed, and stays as it was when sources or the JAR beside them change.
    """
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    asked = [sys.executable, "-P", "-c", "import mullion; print(mullion.__file__)"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True, env=alone)
    other = other_than_here(Path(said.stdout.strip()).parent)
    if other is not None:
        raise SystemExit(f"{other} is not what is here: another version would be measured. Run `make venv` first.")


def other_than_here(installed: Path) -> Path | None:
    """A file of an installed package that is not as it is in this folder, if there is one."""
    package = ROOT / "python" / "mullion"
    pairs = [(here, installed / here.relative_to(package)) for here in package.rglob("*.py")]
    for jar in (installed / "jars").glob("*.jar"):
        pairs += [(built, jar) for built in (ROOT / "jvm" / "target").rglob(jar.name)]
    differ = (there for here, there in pairs if not there.exists() or here.read_bytes() != there.read_bytes())
    return next(differ, None)


def requirements(group: str) -> list[str]:
    pinned: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"][group]
    return pinned


SYSTEMS = {
    "mullion": System("Mullion"),
    "spark": System("Spark"),
    "spark hdfs": System("Spark, HDFS-backed"),
    "ceiling": System("stateless baseline"),
    "stateless": System("stateless query"),
    "pandas": System("transformWithStateInPandas"),
    "bytewax": System("Bytewax", "bytewax_fold.py", "bench-bytewax"),
    "quix": System("Quix Streams", "quix_windows.py", "bench-quix"),
    "pathway": System("Pathway", "pathway_windows.py", "bench-pathway"),
    "pyflink": System("PyFlink", "pyflink_sql.py", "bench-pyflink"),
    "duckdb": System("DuckDB", "duckdb_sql.py", "bench-duckdb"),
}
