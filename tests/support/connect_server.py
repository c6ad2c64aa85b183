"""A server of Spark Connect in the JVM of the suite's session, and clients of it in the process of the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

_REMOTE = "SPARK_CONNECT_MODE_ENABLED"


def start(spark: SparkSession) -> None:
    """Starts it on a port that is free; again does nothing."""
    if not _service(spark).started():
        _service(spark).start(spark.sparkContext._jsc.sc())


def address(spark: SparkSession) -> str:
    return f"sc://localhost:{_service(spark).localPort()}"


def _service(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return getattr(getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"), "MODULE$")


@contextmanager
def remote_functions() -> Iterator[None]:
    """``F.col`` and its like make columns of Spark Connect meanwhile, as they do in a process of a client."""
    before = os.environ.get(_REMOTE)
    os.environ[_REMOTE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_REMOTE]


@contextmanager
def remote(server: SparkSession) -> Iterator[SparkSession]:
    """A session of a client, for as long as it lasts the only one that PySpark's functions know."""
    with remote_functions():
        # PySpark's own session module may be imported where its packages are, which not every environment has.
        from pyspark.sql.connect.session import SparkSession as Remote

        session: Any = Remote.builder.remote(address(server)).create()
        try:
            yield session
        finally:
            session.stop()


def on_the_server(server: SparkSession, session: Any, frame: DataFrame) -> DataFrame:
    """A client's DataFrame as the server has it, for the driver of the suite to run."""
    with remote_functions():
        frame.createOrReplaceTempView("of_a_client")
    client = session.client
    holder = _service(server).getOrCreateIsolatedSession(client._user_id or "", client._session_id)
    theirs = SparkSession(server.sparkContext, holder.session())
    return theirs.table("of_a_client")
