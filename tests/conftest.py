"""One Spark session for the suite: small, in UTC, and configured like a user's session with Mullion."""

import gc
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
import pyspark
import pytest
from _pytest.junitxml import xml_key
from pyspark.sql import SparkSession

import mullion
from mullion._native.configure import _LOCAL_FILES
from mullion._util import jars
from tests.support import cache_sizes, connect_server
from tests.support.campaigns.standalone import java
from tests.support.kafka import kafka_server
from tests.support.kafka.kafka_connector import connector_jars
from tests.support.sampled import mark_the_rest_slow
from tests.support.seeds import SEED

# These modules contain assertions, whose messages pytest is to rewrite.
pytest.register_assert_rewrite(
    "tests.support.checked",
    "tests.support.stores",
    "tests.support.transcripts.scenario",
    "tests.support.transcripts.scenario_run",
    "tests.support.transcripts.firings",
)

# Python workers and other processes import the modules of the tests.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))

# Tests against the released package of Bytewax, if it has no wheel for this Python.
THEIRS = re.compile(r"^(from|import) (bytewax\.|tests\.support\.bytewax\.bytewax_(random|traced))", re.MULTILINE)
collect_ignore = [
    str(file.relative_to(Path(__file__).parent))
    for file in Path(__file__).parent.rglob("test_bytewax*.py")
    if find_spec("bytewax") is None and THEIRS.search(file.read_text("utf-8"))
]

# The time of an example depends on the machine's load. Stored examples of earlier failures would make runs differ.
hypothesis.settings.register_profile("suite", deadline=None, database=None)
hypothesis.settings.load_profile("suite")

# Spark's JVMs run for seconds or minutes, also in processes that tests start. Simple compilation halves the work, and
# so does a collector that runs only on demand. Java ignores the class archive of make test if its own version or
# Spark's JARs have changed. The launcher that builds the command of Spark's JVM is a JVM too.
CLASSES = Path(__file__).parents[1] / ".build" / f"spark-classes-{jars.running_line()}.jsa"
ARCHIVED = f"-XX:SharedArchiveFile={CLASSES} -Xlog:cds*=off" if CLASSES.exists() else ""
# Borrowed rows of state are overwritten at the next call: see ExpiringPartition.
EXPIRING = "-Dmullion.expireRows=true"
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {EXPIRING} {ARCHIVED}".rstrip())
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1")


def pytest_collection_finish() -> None:
    # All present objects stay to the end, so Python's collector can skip them.
    gc.freeze()


def pytest_report_header() -> str:
    return f"MULLION_SEED={SEED}"


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    # The option --hypothesis-seed takes precedence.
    config.option.hypothesis_seed = config.option.hypothesis_seed or SEED


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    note_versions(config)
    # make test names files for another Spark version, and pytest collects named files despite collect_ignore.
    config.args[:] = [path for path in config.args if Path(path).name not in map(os.path.basename, collect_ignore)]
    # Before 4.2, PySpark leaves the socket of each collect() to the garbage collector, which warns.
    if tuple(map(int, jars.running_line().split("."))) < (4, 2):
        config.addinivalue_line(
            "filterwarnings", "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
        )


def note_versions(config: pytest.Config) -> None:
    """Adds the versions of Python, Spark and Java to the report of a run, for the table of docs/platforms/lines.md."""
    report = config.stash.get(xml_key, None)
    if report is not None:
        version_text = subprocess.run([java(), "-version"], capture_output=True, text=True, check=False).stderr
        (version,) = re.findall(r'version "([^"]+)"', version_text)
        report.add_global_property("spark", pyspark.__version__)
        report.add_global_property("python", platform.python_version())
        report.add_global_property("java", version)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that need Spark, by their fixtures, and cases that a run skips."""
    for item in items:
        if {"spark", "server", "kafka"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("spark")
    mark_the_rest_slow(items)


def session() -> SparkSession:
    """Creates the session of the suite."""
    # Python workers have the packages of the tests.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("mullion-tests")
        .config("spark.ui.enabled", "false")
        # A Spark Connect server of this process uses any free port.
        .config("spark.connect.grpc.binding.port", "0")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stopTimeout", "30s")
        # The interval at which idle queries poll their source; a file source lists its folder each time.
        .config("spark.sql.streaming.pollingDelay", "100ms")
        # Spark would format each plan of each batch for its UI at twice the length.
        .config("spark.sql.ui.explainMode", "simple")
        # Otherwise tasks have a class loader per session, and Spark compiles generated code once for each.
        .config("spark.sql.artifact.isolation.enabled", "false")
        # Compilation dominates the cost of hundreds of small queries, in Spark and in the JVM.
        .config("spark.sql.codegen.cache.maxEntries", "5000")
        # Generated code that does not compile must fail the test instead of falling back silently.
        .config("spark.sql.codegen.fallback", "false")
        # With simple compilation the JVM reserves a small code cache. After a few minutes it would be full, and the JVM
        # would compile code repeatedly. A small young generation would make collections frequent.
        .config(
            "spark.driver.extraJavaOptions",
            "-XX:ReservedCodeCacheSize=512m -XX:MetaspaceSize=512m -Xmn768m",
        )
        .config("spark.driver.memory", "2g")
        # Tests read a query's memory after any batch, and then resume the query.
        # The cheaper format. Tests that read files of RocksDB enable snapshots.
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    )
    # Spark's connector to Kafka, which make kafka downloads.
    connector = ",".join(jar.as_uri() for jar in connector_jars())
    builder = builder.config("spark.jars", connector) if connector else builder
    # The settings of local_files=True. The option itself would put Mullion's JAR before Spark's, but Java uses the
    # class archive only if the class path begins with the archived JARs.
    with behind_sparks_jars(jars.carried(jars.running_line())):
        spark_session = mullion.configure(builder.config(map=_LOCAL_FILES)).getOrCreate()
    spark_session.sparkContext.setLogLevel("OFF")
    delete_without_processes(spark_session)
    return spark_session


@contextmanager
def behind_sparks_jars(jar: Path) -> Iterator[None]:
    """Adds the JAR to the end of the class path of this process's JVM, but not to those of other processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_DIST_CLASSPATH", str(jar))
        yield


def delete_without_processes(spark: SparkSession) -> None:
    """Deletes folders without processes: stores delete some per batch, and Spark would start a process for each."""
    jvm: Any = spark.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for field in loader.loadClass("org.apache.spark.network.util.JavaUtils").getFields():
        if field.getName() == "isUnix" and not jvm.java.lang.reflect.Modifier.isFinal(field.getModifiers()):
            field.setBoolean(None, False)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    spark_session = session()
    yield spark_session
    spark_session.stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if cache_sizes.ALL_SIZES and has_cache_size(metafunc.definition):
        metafunc.parametrize("cache_size", list(cache_sizes.SIZES), indirect=True)


def has_cache_size(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("own_cache_size")


@pytest.fixture(autouse=True)
def cache_size(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sets how much state the queries of a test keep in memory: everything, 2 kB or nothing."""
    if not has_cache_size(request.node):
        yield
        return
    session = request.getfixturevalue("spark")
    cache_sizes.set_size(
        session, getattr(request, "param", cache_sizes.size_of(cache_sizes.name_of(request.node.nodeid)))
    )
    yield
    session.conf.unset(cache_sizes.HOT)


@pytest.fixture(scope="session")
def server(spark: SparkSession) -> SparkSession:
    """The suite's session as a Spark Connect server. ``connect_server.remote`` returns its clients."""
    connect_server.start(spark)
    return spark


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka_server.KafkaServer]:
    """Kafka, started for the first test that needs it. All tests share its topics, so each has distinct names."""
    server = kafka_server.KafkaServer(tmp_path_factory.mktemp("kafka"))
    try:
        server.start()
        yield server
    finally:
        server.kill()
