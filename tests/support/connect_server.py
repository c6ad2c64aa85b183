"""A Spark Connect server in the JVM of the suite's session, and its clients in the process of the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

_REMOTE = "SPARK_CONNECT_MODE_ENABLED"


def start(spark: SparkSession) -> None:
    """Starts the server on a free port, unless it runs."""
    if not _service(spark).started():
        _service(spark).start(spark.sparkContext._jsc.sc())


def address(spark: SparkSession) -> str:
    return f"sc://localhost:{_service(spark).localPort()}"


def _service(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return getattr(getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"), "MODULE$")


@contextmanager
def remote_functions() -> Iterator[None]:
    """Makes ``F.col`` and other functions create columns of Spark Connect, as in a client's process."""
    before = os.environ.get(_REMOTE)
    os.environ[_REMOTE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_REMOTE]


@contextmanager
def remote(server: SparkSession) -> Iterator[SparkSession]:
    """A client's session. While it exists, PySpark's functions use it."""
    with remote_functions():
        # PySpark's session module requires packages that some environments lack.
        from pyspark.sql.connect.session import SparkSession as Remote

        session: Any = Remote.builder.remote(address(server)).create()
        try:
            yield session
        finally:
            session.stop()


def on_the_server(server: SparkSession, session: Any, frame: DataFrame) -> DataFrame:
    """The server's DataFrame of a client's DataFrame, which the suite's driver can run."""
    with remote_functions():
        frame.createOrReplaceTempView("of_a_client")
    client = session.client
    holder = _service(server).getOrCreateIsolatedSession(client._user_id or "", client._session_id)
    client_session = SparkSession(server.sparkContext, holder.session())
    return client_session.table("of_a_client")
