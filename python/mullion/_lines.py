"""What differs between the lines of Spark, where Python sees it."""

from __future__ import annotations

import inspect
from typing import Any, Final


def _in_utc() -> dict[str, Any]:
    from pyspark.sql.pandas.types import to_arrow_schema

    return {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


IN_UTC: Final[dict[str, Any]] = _in_utc()
"""Has PySpark make Arrow types whose timestamps are in UTC. Up to Spark 4.1 they are so anyway."""
