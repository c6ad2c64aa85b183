"""A short campaign of kills, from Kafka to Kafka: ``make faults`` runs a long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.campaigns.fault_campaign import Campaign
from tests.support.kafka.kafka_server import KafkaServer
from tests.support.seeds import SEED

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("kafka")]


def test_queries_that_are_killed_with_their_workers_and_their_broker_publish_each_firing_once_in_order(
    tmp_path: Path,
) -> None:
    # A broker of its own, for it is killed.
    kafka = KafkaServer(tmp_path)
    try:
        kafka.start()
        outcome = Campaign(tmp_path, kafka, batches=8, kills=12, seed=SEED).run()
    finally:
        kafka.kill()
    print(outcome)
    assert (outcome.lost, outcome.repeated, outcome.disordered) == (0, 0, 0), f"MULLION_SEED={SEED}\n{outcome}"
    assert outcome.kills >= 6
    assert outcome.panes > 100
    assert outcome.jumps_ahead + outcome.jumps_back >= 1
    assert outcome.panes_by_clock > 8
