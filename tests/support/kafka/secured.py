"""Programs of every adapter over a Kafka that requires a login, with all their output and logs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Tumbling, bytewax, faust, topics, turbine, windowed
from mullion.bytewax import operators as op
from mullion.bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.recovery import RecoveryConfig
from mullion.bytewax.testing import run_main
from mullion.kx import sp
from tests.support.kafka.kafka_connector import connector_jars
from tests.support.killing import session_of_its_own


def sent(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sends each row to the topic of the native program."""
    for batch in batches:
        encoded = topics.encoded(pa.RecordBatch.from_arrays([batch["n"]], names=["n"]))
        yield pa.RecordBatch.from_pydict({"topic": ["native"], "key": [None], "batch": [encoded]})


def native(spark: SparkSession, broker: topics.Broker, home: Path) -> None:
    """Windows of the API without an adapter."""
    rows = broker.stream(spark, "secured", "n bigint")
    timed = rows.withWatermark("_timestamp", "1 second")
    panes = windowed(timed, Tumbling("1 second"), by="n", time="_timestamp").agg(F.count("*").alias("count"))
    panes.explain(extended=True)
    print(panes._jdf.queryExecution().toString())
    publisher = broker.publisher()
    writer = rows.select("n").mapInArrow(sent, topics.OUTPUTS).writeStream.foreachBatch(publisher.publish)
    place = str(home / "native")
    query = writer.option("checkpointLocation", place).trigger(availableNow=True).start()
    query.awaitTermination()
    query.explain(extended=True)
    print(json.dumps([json.loads(progress.json) for progress in query.recentProgress]), query.status, query)
    counting = panes.writeStream.format("noop").outputMode("append")
    counted = counting.option("checkpointLocation", str(home / "panes")).trigger(availableNow=True).start()
    counted.awaitTermination()
    counted.explain(extended=True)
    publisher.close()


def of_turbine(spark: SparkSession, broker: topics.Broker, home: Path) -> None:
    """A subscription."""
    app = turbine.App("of-turbine", broker=broker, checkpoint=home / "turbine", spark=spark)

    @app.subscribe("secured", publish_to="turbine")
    class Same:
        def process(self, batch: pa.RecordBatch, state: turbine.TurbineState) -> pa.RecordBatch:
            return batch.select(["n"])

    print(app.explain(), app)
    app.run(until="drained")


def of_faust(spark: SparkSession, broker: topics.Broker, home: Path) -> None:
    """An agent."""
    app = faust.App("of-faust", broker=broker, checkpoint=home / "faust", spark=spark)

    @app.agent(app.topic("secured"), sink=[app.topic("faust")])
    async def same(rows: Any) -> Any:
        async for row in rows:
            yield {"n": row["n"]}

    print(app.explain(), app, app.conf)
    app.run(until="drained")


def of_kx(spark: SparkSession, servers: str, login: dict[str, str], home: Path) -> None:
    """A pipeline."""
    line = sp.read.from_kafka("secured", servers, options=login) | sp.write.to_kafka("kx", servers, options=login)
    print(sp.explain(line), line)
    sp.run(line, spark=spark, until="drained", checkpoint=home / "kx")


def of_bytewax(spark: SparkSession, servers: str, login: dict[str, str], home: Path) -> None:
    """A dataflow."""
    flow = Dataflow("secured")
    read = op.input("in", flow, KafkaSource([servers], ["secured"], tail=False, add_config=login))
    messages = op.map("same", read, lambda message: KafkaSinkMessage(None, message.value))
    op.output("out", messages, KafkaSink([servers], "bytewax", add_config=login))
    print(bytewax.explain(flow), flow)
    (home / "bytewax").mkdir()
    run_main(flow, recovery_config=RecoveryConfig(home / "bytewax"), spark=spark)


def main() -> None:
    """Runs all programs. The standard input contains the login."""
    home, servers = Path(sys.argv[1]), sys.argv[2]
    login = json.load(sys.stdin)
    events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": (home / "events").as_uri()}
    (home / "events").mkdir()
    spark = session_of_its_own(home, "local[2]", connector_jars(), events)
    spark.sparkContext.setLogLevel("INFO")
    broker = topics.broker(f"kafka://{servers}", login)
    topics.produce(broker, "secured", [{"n": 1}, {"n": 2}], keys=["k", "k"])
    native(spark, broker, home)
    of_turbine(spark, broker, home)
    of_faust(spark, broker, home)
    of_kx(spark, servers, login, home)
    of_bytewax(spark, servers, login, home)
    print(broker, topics.broker(broker).topics())
    spark.stop()


if __name__ == "__main__":
    main()
