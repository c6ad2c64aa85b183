"""The snippets of docs/guides/upsert.md that need Delta Lake, in the page's session."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.killing import environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "upsert.md"
JARS = ROOT / ".build" / "delta" / "delta"
PACKAGES = re.compile(r'builder = builder\.config\("spark\.jars\.packages", .*\n')
TITLED = re.compile(r'^```python title="With Delta Lake(.*?)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def test_the_snippets_with_delta_lake_run_and_print_the_text_below_them(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    (before, begins), (after, keeps) = TITLED.findall(page)
    assert (before, after) == (", before Spark starts", "")
    (stream, _, _) = page.partition("```python\n")[2].partition("firings = ")
    # The JARs of make delta, in place of those that Spark would download.
    jars = ",".join(jar.as_uri() for jar in sorted(JARS.glob("*.jar")))
    assert jars, "make delta gets them"
    begins, replaced = PACKAGES.subn(f'builder = builder.config("spark.jars", {jars!r})\n', begins)
    assert replaced == 1
    imports = "from pyspark.sql import SparkSession\nfrom mullion import configure\n"
    settings = "builder = builder.master('local[2]').config('spark.ui.enabled', 'false')\n"
    begins = begins.replace("spark = configure", f"{settings}spark = configure")
    program = tmp_path / "program.py"
    program.write_text(f"{imports}{begins}{stream}{keeps}")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shown = page.partition(keeps)[2].partition("```text\n")[2].partition("```")[0]
    assert shown.strip() in done.stdout
