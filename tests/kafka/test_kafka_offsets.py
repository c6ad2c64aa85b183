"""The ends of Kafka's partitions, while a partition has no leader."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from mullion.topics._kafka import client


class Admin:
    """An admin client whose first responses are errors."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)

    def list_offsets(self, partitions: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        response: Future[Any] = Future()
        if self.errors:
            response.set_exception(KafkaException(KafkaError(self.errors.pop(0))))
        else:
            response.set_result(SimpleNamespace(offset=7))
        return dict.fromkeys(partitions, response)


PARTITIONS = [TopicPartition("revenue", 0), TopicPartition("revenue", 1)]


def test_ends_are_read_again_until_each_partition_has_a_leader() -> None:
    admin = Admin(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)
    assert client._ends(admin, PARTITIONS, committed=False) == [7, 7]
    assert admin.errors == []


def test_another_error_of_kafka_is_raised_at_once() -> None:
    admin = Admin(KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.NOT_LEADER_FOR_PARTITION)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        client._ends(admin, PARTITIONS, committed=True)
    assert admin.errors == [KafkaError.NOT_LEADER_FOR_PARTITION]
