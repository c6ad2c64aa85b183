"""A pipeline of ``mullion.kx`` between two topics of Kafka."""

from pyspark.sql import SparkSession

from mullion import topics
from mullion.kx import sp
from tests.support.kafka.kafka_server import KafkaServer


def test_a_pipeline_goes_from_kafka_to_kafka(spark: SparkSession, kafka: KafkaServer) -> None:
    broker = f"kafka://{kafka.servers}"
    trades = [{"sym": "a", "price": 1.5}, {"sym": "b", "price": 2.5}, {"sym": "a", "price": 3.0}]
    # Records of one key are in one partition, and only there in an order.
    topics.produce(broker, "kx-trades", trades, keys=["k", "k", "k"])
    line = (
        sp.read.from_kafka("kx-trades", kafka.servers)
        | sp.window.count(2)
        | sp.write.to_kafka("kx-pairs", kafka.servers)
    )
    sp.run(line, spark=spark, until="drained")
    assert sorted(topics.read(broker, "kx-pairs")["price"].to_pylist()) == [1.5, 2.5]
