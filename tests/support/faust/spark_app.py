"""Programs on Spark over topics in a folder: the App, its events and the contents of its tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mullion.faust as faust
from mullion import topics


def app_in(folder: Path, **settings: Any) -> faust.App:
    return faust.App("shop", broker=f"dir:{folder}/topics", processing_guarantee="exactly_once", **settings)


def table_of(app: faust.App, table: str) -> Any:
    """The values of a table by key, or by key and the start of the range."""
    rows = app.table(table).read().collect()
    if app.tables[table].window is None:
        return {json.loads(row.key): json.loads(row.value) for row in rows}
    return {(json.loads(row.key), row.window.start.timestamp()): json.loads(row.value) for row in rows}


def put(app: faust.App, topic: str, *events: tuple[Any, float]) -> None:
    topics.produce(app.broker, topic, [value for value, _ in events], timestamps=[at for _, at in events])
