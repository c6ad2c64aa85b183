"""Configuration of a session with Mullion, without starting one."""

import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
from pyspark.sql import SparkSession

from mullion import InvalidArgumentError, UnsupportedError, VersionMismatchError, __version__, configure
from mullion._bridge import jvm
from mullion._bridge.jvm import entry
from mullion._native import configure as configure_module
from mullion._util import jars as mullion_jars
from mullion._util.jars import running_line
from tests.support.fakes import of_connect

OURS = "dev.mullion.MullionExtensions"


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a fresh process: what other tests started, and what this machine sets, is not seen."""
    monkeypatch.setattr(jvm, "is_running", lambda: False)
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_HOME", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


def configured(builder: SparkSession.Builder, key: str) -> list[str]:
    return str(configure(builder)._options[key]).split(",")


def builder(**options: str) -> SparkSession.Builder:
    return SparkSession.builder.config(map={f"spark.{name.replace('_', '.')}": text for name, text in options.items()})


def test_the_jar_of_the_wheel_and_the_extension_are_added() -> None:
    (jar,) = configured(builder(), "spark.jars")
    path = Path(unquote(urlparse(jar).path))
    assert path.is_file()
    assert path.name == f"mullion-spark-{running_line()}_2.13-{__version__}.jar"
    assert configured(builder(), "spark.sql.extensions") == [OURS]


def test_what_the_builder_has_stays() -> None:
    with_settings = builder(jars="/one.jar, /two.jar", sql_extensions="org.example.Theirs")
    assert configured(with_settings, "spark.jars")[:2] == ["/one.jar", "/two.jar"]
    assert configured(with_settings, "spark.sql.extensions") == ["org.example.Theirs", OURS]


def test_configuring_twice_is_configuring_once() -> None:
    once = configure(builder())
    assert configured(once, "spark.jars") == configured(configure(once), "spark.jars")
    assert configured(once, "spark.sql.extensions") == [OURS]


def test_a_jar_of_ours_that_is_there_is_not_joined_by_another() -> None:
    jar = "/opt/mullion-spark-4.2_2.13-0.0.1.jar"
    assert configured(builder(jars=jar), "spark.jars") == [jar]


def test_the_same_builder_comes_back() -> None:
    session_builder = builder()
    assert configure(session_builder) is session_builder


def test_what_the_defaults_file_has_stays(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.jars /comment.jar\nspark.jars   /default.jar\nspark.sql.extensions=org.example.Theirs\n"
    )
    assert configured(builder(), "spark.jars")[0] == "/default.jar"
    assert configured(builder(), "spark.sql.extensions") == ["org.example.Theirs", OURS]


def test_what_the_submit_arguments_have_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.sql.extensions=org.example.Theirs pyspark-shell")
    assert configured(builder(), "spark.sql.extensions") == ["org.example.Theirs", OURS]


def test_submit_arguments_with_jars_must_have_ours_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars /theirs.jar pyspark-shell")
    with pytest.raises(InvalidArgumentError, match=rf"--jars /theirs\.jar,/.*mullion-spark-{running_line()}_"):
        configure(builder())
    jars = "/theirs.jar,/opt/dev.mullion_mullion-spark-4.2_2.13-0.1.0.jar"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--jars {jars} pyspark-shell")
    assert ",".join(configured(builder(), "spark.jars")) == jars


def test_what_a_running_jvm_was_started_with_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "is_running", lambda: True)
    monkeypatch.setattr(jvm, "running_conf", {"spark.jars": "/running.jar"}.get)
    assert configured(builder(), "spark.jars")[0] == "/running.jar"
    assert configured(builder(), "spark.sql.extensions") == [OURS]


def test_a_spark_connect_builder_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    remote = builder(remote="sc://host")
    before = dict(remote._options)
    assert configure(remote) is remote
    assert remote._options == before
    other: Any = of_connect("Session")
    assert configure(other) is other
    with pytest.raises(UnsupportedError, match=r"local_files=True.* whose server writes the checkpoints"):
        configure(remote, local_files=True)
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    assert "spark.jars" not in configure(SparkSession.builder)._options
    monkeypatch.delenv("SPARK_REMOTE")
    # pyspark-client has no JVM, whatever the builder.
    monkeypatch.setattr(configure_module, "is_remote_only", lambda: True)
    assert "spark.jars" not in configure(SparkSession.builder)._options


def test_an_object_that_is_no_builder_is_rejected() -> None:
    with pytest.raises(InvalidArgumentError, match=r"configure\(SparkSession\.builder\)"):
        configure("local[2]")  # type: ignore[arg-type]


def test_a_spark_that_the_wheel_has_no_jar_for_is_rejected_with_those_it_has() -> None:
    with pytest.raises(VersionMismatchError, match=rf"carries a JAR for Spark .*{running_line()}.* this is Spark 3\.5"):
        mullion_jars.carried("3.5")


def test_another_version_of_the_jar_is_rejected_with_both_versions() -> None:
    with pytest.raises(
        VersionMismatchError,
        match=rf"Mullion 9\.9\.9.*{__version__}.*pip install 'mullion_spark-9\.9\.9-py3-none-any\.whl'",
    ):
        entry._check_versions("9.9.9", "4.2", "4.2.0")


def test_a_jar_for_another_spark_is_rejected_with_both_versions() -> None:
    with pytest.raises(VersionMismatchError, match=r"built for Spark 4\.1, and this is Spark 4\.2\.0"):
        entry._check_versions(__version__, "4.1", "4.2.0")
    entry._check_versions(__version__, "4.2", "4.2.1-SNAPSHOT")


def test_generated_code_of_many_queries_is_cached_unless_the_user_sets_the_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "spark.sql.codegen.cache.maxEntries"
    assert configured(builder(), key) == ["1000"]
    assert configured(SparkSession.builder.config(key, "50"), key) == ["50"]
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--conf {key}=60 pyspark-shell")
    assert key not in configure(builder())._options


@pytest.mark.parametrize("options", [{}, {"master": "local[2]"}, {"master": "local-cluster[1,1,1024]"}])
def test_workers_of_a_local_session_run_the_python_of_this_process(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    # monkeypatch restores the variable that configure() sets.
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.delenv("PYSPARK_PYTHON")
    configure(builder(**options))
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize("options", [{"master": "yarn"}, {"pyspark_python": "/opt/python"}])
def test_workers_elsewhere_and_a_python_of_the_user_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.delenv("PYSPARK_PYTHON")
    configure(builder(**options))
    assert "PYSPARK_PYTHON" not in os.environ

    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master yarn pyspark-shell")
    configure(builder())
    assert "PYSPARK_PYTHON" not in os.environ

    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3.12")
    configure(builder())
    assert os.environ["PYSPARK_PYTHON"] == "/usr/bin/python3.12"


def test_local_files_are_written_by_java_on_one_machine() -> None:
    options = configure(builder(master="local[4]", driver_extraClassPath="/theirs.jar"), local_files=True)._options
    assert options["spark.driver.extraClassPath"] == f"/theirs.jar:{mullion_jars.carried(running_line())}"
    assert options["spark.hadoop.fs.file.impl"] == "dev.mullion.files.LocalFiles"
    assert options["spark.hadoop.fs.AbstractFileSystem.file.impl"] == "dev.mullion.files.LocalFilesContext"
    twice = configure(configure(builder(), local_files=True), local_files=True)._options
    assert twice["spark.driver.extraClassPath"] == str(mullion_jars.carried(running_line()))
    assert "spark.driver.extraClassPath" not in configure(builder())._options


def test_local_files_are_rejected_on_a_cluster_and_in_a_jvm_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedError, match=r"the master is 'yarn'.*Leave local_files out"):
        configure(builder(master="yarn"), local_files=True)
    with pytest.raises(InvalidArgumentError, match="local_files"):
        configure(builder(), local_files="yes")  # type: ignore[arg-type]
    monkeypatch.setattr(jvm, "is_running", lambda: True)
    with pytest.raises(UnsupportedError, match=r"already runs.*before the first session"):
        configure(builder(), local_files=True)
