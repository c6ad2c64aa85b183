"""The JAR from a Maven repository with ``--packages``, without the JAR of the wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

import mullion
from mullion._util.jars import running_line
from tests.support.killing import environment

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2] / ".build" / "maven"
ARTIFACT = f"mullion-spark-{running_line()}_2.13"

PROGRAM = """
from pyspark.sql import SparkSession, functions as F
from mullion import Tumbling, windowed

spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 1).getOrCreate()
rows = spark.sql("SELECT timestamp_seconds(id) AS ts FROM range(120)")
panes = windowed(rows, Tumbling("1 minute"), time="ts").agg(F.count("*").alias("n"))
print("panes:", sorted(row.n for row in panes.collect()))
print("jars:", spark.sparkContext.getConf().get("spark.jars"))
"""


def test_spark_submit_gets_the_jar_from_a_repository_and_windows_run(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [
        *("bash", str(submit), "--master", "local[1]", "--conf", "spark.ui.enabled=false"),
        *("--conf", f"spark.jars.ivy={tmp_path / 'ivy'}", "--repositories", REPOSITORY.as_uri()),
        *("--conf", "spark.sql.extensions=dev.mullion.MullionExtensions"),
        *("--packages", f"dev.mullion:{ARTIFACT}:{mullion.__version__}", str(program)),
    ]
    done = subprocess.run(
        command, env={**environment(), "PYSPARK_PYTHON": sys.executable}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "panes: [60, 60]" in done.stdout
    assert f"dev.mullion_{ARTIFACT}-{mullion.__version__}.jar" in done.stdout


def test_the_published_files_have_a_licence_sources_and_documentation() -> None:
    folder = REPOSITORY / "dev" / "mullion" / ARTIFACT / mullion.__version__
    (jar,) = folder.glob(f"*{mullion.__version__}.jar")
    with zipfile.ZipFile(jar) as archive:
        assert {"META-INF/LICENSE", "META-INF/NOTICE", "dev/mullion/Facade.class"} <= set(archive.namelist())
    for kind in ("sources", "javadoc"):
        assert list(folder.glob(f"*-{kind}.jar")), kind
    (pom,) = folder.glob("*.pom")
    # Spark has all dependencies, so nothing else is downloaded.
    assert "<scope>compile</scope>" not in pom.read_text()
    assert "scala-library" in pom.read_text()
