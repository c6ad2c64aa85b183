"""The program of docs/guides/kafka.md with a broker: panes by key, two topics of rejects, and the table."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mullion import ParquetTable, topics
from mullion.topics._kafka import client
from tests.support.kafka.kafka_server import KafkaServer

pytestmark = pytest.mark.xdist_group("kafka")

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "kafka.md"
TITLED = re.compile(r'^```python title="(.*?)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def order(shop: str, at: str, amount: str) -> dict[str, Any]:
    return {"shop": shop, "amount": amount, "at": f"2024-05-01T{at}:00Z"}


def test_the_program_publishes_panes_and_dead_letters_and_maintains_a_table(
    kafka: KafkaServer, spark: SparkSession, tmp_path: Path
) -> None:
    blocks = dict(TITLED.findall(PAGE.read_text("utf-8")))
    source = blocks["The source"].replace("kafka-1:9092,kafka-2:9092", kafka.servers)
    blocks["The source"] = source.replace("/data/checkpoints", str(tmp_path))
    # Each run reads the available rows and ends. The session of the tests has no Delta Lake.
    for name in ("The sinks", "The table"):
        blocks[name] = re.sub(r"processingTime=\".*?\"", "availableNow=True", blocks[name])
    target = ParquetTable(str(tmp_path / "table"))
    blocks["The table"] = blocks["The table"].replace('DeltaTable("lake.orders_per_hour")', "target")
    assert "into=target" in blocks["The table"]
    program: dict[str, Any] = {"spark": spark, "target": target}
    for name in ("orders", "orders-per-hour", "orders-late"):
        client.make(kafka.servers, name, partitions=1)

    def run(*names: str) -> None:
        for name in names:
            exec(compile(blocks[name], f"{PAGE.name}: {name}", "exec"), program)
        for query in (program.get("query"), program.get("table")):
            if query is not None:
                query.awaitTermination()

    topics.produce(
        kafka.url, "orders", [order("a", "10:05", "1.50"), order("a", "10:20", "2"), order("b", "10:30", "7")]
    )
    run("The source", "Orders and unreadable messages", "The windows", "The sinks", "The table")
    topics.produce(kafka.url, "orders", [order("a", "12:30", "9")])
    run("The sinks", "The table")
    topics.produce(kafka.url, "orders", [order("a", "10:40", "4")])
    topics.produce(kafka.url, "orders", ["no order"])
    run("The sinks", "The table")

    closed = {}
    for record in client.read(kafka.servers, "orders-per-hour"):
        key, pane = str(record.key), json.loads(record.value or b"")
        if pane["firing"] == "close":
            assert key not in closed
            closed[key] = (pane["shop"], pane["window"]["start"][:16], pane["orders"], pane["amount"])
    assert sorted(closed.values()) == [("a", "2024-05-01T10:00", 2, 3.5), ("b", "2024-05-01T10:00", 1, 7.0)]
    dead = [record.value or b"" for record in client.read(kafka.servers, "orders-late")]
    assert sorted(dead) == [b'"no order"', json.dumps(order("a", "10:40", "4")).encode()]
    table = target.read(spark)
    assert table is not None
    rows = table.where("pane_firing = 'close'").select("shop", "orders").collect()
    assert sorted(map(tuple, rows)) == [("a", 2), ("b", 1)]
