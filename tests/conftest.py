"""One Spark session for the suite: small, in UTC, and with Mullion added as a user adds it."""

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

# They look at what came out, and say what they saw as a test does.
pytest.register_assert_rewrite(
    "tests.support.checked",
    "tests.support.stores",
    "tests.support.transcripts.story",
    "tests.support.transcripts.story_run",
    "tests.support.transcripts.told",
)

# Python workers, and the processes that tests start, import the modules of the tests.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))

# What is compared with the released package of Bytewax, where Python has no wheel of it.
THEIRS = re.compile(r"^(from|import) (bytewax\.|tests\.support\.bytewax\.bytewax_(random|traced))", re.MULTILINE)
collect_ignore = [
    str(file.relative_to(Path(__file__).parent))
    for file in Path(__file__).parent.rglob("test_bytewax*.py")
    if find_spec("bytewax") is None and THEIRS.search(file.read_text("utf-8"))
]

# How long an example takes depends on the load of the machine. Examples of earlier failures would make runs differ.
hypothesis.settings.register_profile("suite", deadline=None, database=None)
hypothesis.settings.load_profile("suite")

# The JVMs of Spark, also in processes that tests start, live for seconds or minutes: compiling without much ado is half
# of the work, and so is a collector that works when it is needed. Classes that make test had archived: Java reads them
# as ever if its version or Spark's JARs are others by now. What builds the command of Spark's JVM is a JVM too, for a
# moment.
CLASSES = Path(__file__).parents[1] / ".build" / f"spark-classes-{jars.running_line()}.jsa"
ARCHIVED = f"-XX:SharedArchiveFile={CLASSES} -Xlog:cds*=off" if CLASSES.exists() else ""
# Borrowed rows of state are overwritten at the next call: see ExpiringPartition.
EXPIRING = "-Dmullion.expireRows=true"
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {EXPIRING} {ARCHIVED}".rstrip())
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1")


def pytest_collection_finish() -> None:
    # What there is now stays to the end: Python's collector need not look at all tests again and again.
    gc.freeze()


def pytest_report_header() -> str:
    return f"MULLION_SEED={SEED}"


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    # As --hypothesis-seed does, which wins.
    config.option.hypothesis_seed = config.option.hypothesis_seed or SEED


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    note_versions(config)
    # As make test names files for another line: what is named would be collected all the same.
    config.args[:] = [given for given in config.args if Path(given).name not in map(os.path.basename, collect_ignore)]
    # PySpark before 4.2 leaves the socket of each collect() to the garbage collector, which says so.
    if tuple(map(int, jars.running_line().split("."))) < (4, 2):
        config.addinivalue_line(
            "filterwarnings", "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
        )


def note_versions(config: pytest.Config) -> None:
    """Has the report of a run say with what it ran, for the table of docs/lines.md."""
    report = config.stash.get(xml_key, None)
    if report is not None:
        said = subprocess.run([java(), "-version"], capture_output=True, text=True, check=False).stderr
        (version,) = re.findall(r'version "([^"]+)"', said)
        report.add_global_property("spark", pyspark.__version__)
        report.add_global_property("python", platform.python_version())
        report.add_global_property("java", version)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs Spark by its fixtures, and what a run leaves out of many cases."""
    for item in items:
        if {"spark", "server", "kafka"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("spark")
    mark_the_rest_slow(items)


def session() -> SparkSession:
    """The session of the suite."""
    # Python workers have the packages that the tests have.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("mullion-tests")
        .config("spark.ui.enabled", "false")
        # A server of Spark Connect, which tests start in here, takes a port that is free.
        .config("spark.connect.grpc.binding.port", "0")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stopTimeout", "30s")
        # A query without rows asks its source that often, and one of files lists its folder each time.
        .config("spark.sql.streaming.pollingDelay", "100ms")
        # For its UI Spark would write each plan of each batch as a text twice as long.
        .config("spark.sql.ui.explainMode", "simple")
        # Else each session has a class loader of its own in the tasks, and Spark compiles its code once for each.
        .config("spark.sql.artifact.isolation.enabled", "false")
        # Hundreds of small queries: what they cost is compiling, of their code by Spark and of that by the JVM.
        .config("spark.sql.codegen.cache.maxEntries", "5000")
        # Code that does not compile is a failure, and nothing to work round in silence.
        .config("spark.sql.codegen.fallback", "false")
        # Where all is compiled without much ado, the JVM reserves little room: full after a few minutes, code would be
        # compiled again and again. A collector with little room for what dies at once takes the tests' time.
        .config(
            "spark.driver.extraJavaOptions",
            "-XX:ReservedCodeCacheSize=512m -XX:MetaspaceSize=512m -Xmn768m",
        )
        .config("spark.driver.memory", "2g")
        # So that what a query left in memory can be looked at, and it can go on, after any batch.
        # The cheaper way; tests that look into files of RocksDB have it write snapshots.
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    )
    # Spark's connector to Kafka, which make kafka gets.
    connector = ",".join(jar.as_uri() for jar in connector_jars())
    builder = builder.config("spark.jars", connector) if connector else builder
    # Files are written as with local_files=True, which would have Mullion's JAR before Spark's: Java takes archived
    # classes only where what was archived comes first.
    with behind_sparks_jars(jars.carried(jars.running_line())):
        found = mullion.configure(builder.config(map=_LOCAL_FILES)).getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    delete_without_processes(found)
    return found


@contextmanager
def behind_sparks_jars(jar: Path) -> Iterator[None]:
    """A JVM that starts here has the JAR at the end of its class path; those of tests' own processes have not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_DIST_CLASSPATH", str(jar))
        yield


def delete_without_processes(spark: SparkSession) -> None:
    """Each store of RocksDB deletes some folders with each batch, and Spark would start a process for each of them."""
    jvm: Any = spark.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for field in loader.loadClass("org.apache.spark.network.util.JavaUtils").getFields():
        if field.getName() == "isUnix" and not jvm.java.lang.reflect.Modifier.isFinal(field.getModifiers()):
            field.setBoolean(None, False)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    found = session()
    yield found
    found.stop()


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
    """The suite's session as a server of Spark Connect; ``connect_server.remote`` gives clients of it."""
    connect_server.start(spark)
    return spark


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka_server.KafkaServer]:
    """Kafka, started when the first test asks for it. Its topics are the suite's: each test has names of its own."""
    server = kafka_server.KafkaServer(tmp_path_factory.mktemp("kafka"))
    try:
        server.start()
        yield server
    finally:
        server.kill()
