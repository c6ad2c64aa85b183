"""The systems of the benchmark: their names, scripts and environments.

Each system that does not run on Spark has an environment under ``.build/bench``. It is created at the first use, from
the ``[dependency-groups]`` of ``pyproject.toml``, which pin all versions.
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
    """An environment cannot be created here; the message has the reason."""


@dataclass(frozen=True, slots=True)
class System:
    """A system. ``group`` names its dependencies; without a group it runs in the project's own environment."""

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
        pinned_text = "\n".join(requirements(self.group))
        done = home / "requirements.txt"
        if not done.exists() or done.read_text() != pinned_text:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
            pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            installation = subprocess.run(
                [*pip, *requirements(self.group)], capture_output=True, text=True, check=False
            )
            if installation.returncode:
                raise Unavailable(f"{self.title} does not install here: {installation.stderr.strip().splitlines()[-1]}")
            done.write_text(pinned_text)
        return home / "bin" / "python"

    def version(self) -> str:
        return requirements(self.group)[0].split("==")[1] if self.group else ""


def check_installed() -> None:
    """Raises ``SystemExit`` if the installed package differs from the sources or the JAR of this folder.

    Systems import the installed package, which does not change with the sources.
    """
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-P", "-c", "import mullion; print(mullion.__file__)"]
    imported = subprocess.run(command, capture_output=True, text=True, check=True, env=alone)
    file = differing_file(Path(imported.stdout.strip()).parent)
    if file is not None:
        raise SystemExit(
            f"{file} differs from this folder, so another version would be measured. Run `make venv` first."
        )


def differing_file(installed: Path) -> Path | None:
    """The first file of an installed package that differs from this folder, if any."""
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
    "baseline": System("stateless baseline"),
    "stateless": System("stateless query"),
    "pandas": System("transformWithStateInPandas"),
    "bytewax": System("Bytewax", "bytewax_fold.py", "bench-bytewax"),
    "quix": System("Quix Streams", "quix_windows.py", "bench-quix"),
    "pathway": System("Pathway", "pathway_windows.py", "bench-pathway"),
    "pyflink": System("PyFlink", "pyflink_sql.py", "bench-pyflink"),
    "duckdb": System("DuckDB", "duckdb_sql.py", "bench-duckdb"),
}
