"""PySpark's log of errors that Mullion translates."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.logger import PySparkLogger

_current = threading.local()


def _is_wanted(record: logging.LogRecord) -> bool:
    return not getattr(_current, "is_quiet", False)


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps PySpark from logging errors of this thread.

    PySpark logs each error about a column when it creates the exception, with the frames of the JVM. The error that
    Mullion raises instead has them in ``jvm_trace``.
    """
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        # A logger has each filter once.
        PySparkLogger.getLogger(name).addFilter(_is_wanted)
    before = getattr(_current, "is_quiet", False)
    _current.is_quiet = True
    try:
        yield
    finally:
        _current.is_quiet = before
