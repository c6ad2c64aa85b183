"""Mullion in an environment without PySpark."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITHOUT = """
import sys
sys.modules["pyspark"] = None
try:
    import mullion
except ImportError as error:
    print(error)
"""


def test_the_import_names_the_line_to_run() -> None:
    # An import of None in sys.modules raises a ModuleNotFoundError with the name, as that of a missing package does.
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    message = done.stdout.strip()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (pyspark,) = project["optional-dependencies"]["pyspark"]
    assert f"pip install '{pyspark}'" in message
    assert "pip install pyspark-client" in message
    assert len(message.splitlines()) == 1


def test_pyspark_is_no_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert not [one for one in project["dependencies"] if one.startswith("pyspark")]
