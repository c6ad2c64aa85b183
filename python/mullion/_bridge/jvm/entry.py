"""The entry point of the JAR for a session, and the settings of a running JVM."""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from mullion._bridge.jvm.errors import translate_errors
from mullion._bridge.jvm.objects import internal, require_classic
from mullion._util import jars
from mullion._util.install import pip_install
from mullion._version import __version__
from mullion.errors import MullionError, VersionMismatchError

FACADE = "dev.mullion.Facade"

_facades: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()


def facade(spark: SparkSession) -> Any:
    """The JAR's entry point: checks its version and installs its planner rules, once per session.

    Raises :class:`UnsupportedError` under Spark Connect, :class:`MullionError` if the JAR is not on the class path and
    :class:`VersionMismatchError` if it does not match this package or this Spark.
    """
    require_classic(spark, "this Spark session")
    entry_point = _facades.get(spark)
    if entry_point is None:
        entry_point = _find_entry_point(spark)
        _check_versions(entry_point.version(), entry_point.sparkLine(), spark.version)
        translate_errors()
        _ship_jars(spark)
        entry_point.install(internal(spark, "_jsparkSession"))
        _facades[spark] = entry_point
    return entry_point


def running_conf(key: str) -> str | None:
    """A setting of the JVM of this process; ``None`` if none runs or it is not set."""
    from pyspark import SparkConf, SparkContext

    if "PYSPARK_GATEWAY_PORT" not in os.environ and SparkContext._gateway is None:
        return None
    SparkContext._ensure_initialized()
    return SparkConf().get(key)


def is_running() -> bool:
    """True if this process has a JVM, so that its class path is fixed."""
    from pyspark import SparkContext

    return "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None


def _find_entry_point(spark: SparkSession) -> Any:
    from py4j.java_gateway import JavaClass

    probe = getattr(spark._jvm, FACADE)
    if isinstance(probe, JavaClass):
        return probe
    raise MullionError(
        f"Mullion's JAR is not on the class path of this Spark {spark.version} application. Add it before Spark "
        "starts, in one of two ways: where Python starts Spark, mullion.configure(SparkSession.builder).getOrCreate(); "
        "where something else does (spark-submit, a notebook, a cluster), as a library of the cluster or with "
        f"{jars.submit_option()}. A session that was running before configure() keeps its class path: stop it, and "
        "start Python again."
    )


def _check_versions(jar: str, line: str, running: str) -> None:
    if jar != __version__:
        raise VersionMismatchError(
            f"The JAR on Spark's class path is Mullion {jar}, and the Python package is {__version__}. They must be "
            f"the same: {pip_install(version=jar)}, or replace the JAR with {jars.submit_option()}."
        )
    if running.split(".")[:2] != line.split("."):
        raise VersionMismatchError(
            f"The Mullion JAR on Spark's class path is built for Spark {line}, and this is Spark {running}. "
            f"Run it on Spark {line}, or take the JAR for this Spark, if this version of Mullion has one: "
            f"{jars.submit_option('.'.join(running.split('.')[:2]))}."
        )


def _ship_jars(spark: SparkSession) -> None:
    """Distributes the JARs of ``spark.jars.packages`` to executors.

    spark-submit merges them into ``spark.jars`` of the JVM. A builder that sets ``spark.jars`` too, such as that of
    :func:`mullion.configure`, hides that list from the SparkContext: the driver would have those JARs, but executors
    would not.
    """
    context = internal(spark.sparkContext, "_jsc").sc()
    if context.isLocal():
        return
    shipped = {jars.file_name(jar) for jar in context.listJars().mkString(",").split(",")}
    launched = getattr(spark._jvm, "java.lang.System").getProperty("spark.jars") or ""
    for jar in filter(None, launched.split(",")):
        if jars.file_name(jar) not in shipped:
            context.addJar(jar)
