"""Publishers of Kafka whose process or broker is killed publish each row once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mullion.topics._kafka.transactions import Transactions
from tests.support.kafka.kafka_server import KafkaServer
from tests.support.kafka.published import numbers, of_batch, records_by_partition
from tests.support.killing import environment
from tests.support.seeds import SEED

# One worker of pytest runs all of these tests, with one broker.
pytestmark = pytest.mark.xdist_group("kafka")


@pytest.mark.slow
def test_a_publisher_that_is_killed_at_any_call_of_kafkas_client_and_started_again_publishes_each_row_once(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    lives = list(range(1, 15))
    random.Random(SEED).shuffle(lives)
    process = subprocess.run(
        [sys.executable, __file__, kafka.servers, str(tmp_path), *map(str, [*lives, 0])],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, f"MULLION_SEED={SEED}: {process.stderr}"
    batches = int((tmp_path / "committed").read_text())
    assert batches > 8
    assert numbers(kafka, "killed") == list(range(4 * batches)), f"MULLION_SEED={SEED}, {lives}"
    for _, ones in records_by_partition(kafka, "killed"):
        assert ones == sorted(ones), "in order"


def test_a_batch_continues_after_the_broker_was_killed_during_it(kafka: KafkaServer) -> None:
    ours = Transactions(kafka.servers, "cut off")
    ours.open()

    def cut_off() -> Any:
        for row in of_batch("cut-off", 1):
            yield row
            ours._producer.flush(30)
            if b'"n": 5' in row.value:
                kafka.kill()
                kafka.start()

    ours.publish(0, "", of_batch("cut-off", 0))
    ours.publish(1, "", cut_off())
    ours.publish(2, "", of_batch("cut-off", 2))
    assert numbers(kafka, "cut-off") == list(range(12))
    after = Transactions(kafka.servers, "cut off")
    after.open()
    assert after.last == 2


class Mortal:
    """A producer of Kafka whose process is killed at its n-th call, or in the middle of that call if it commits."""

    def __init__(self, producer: Any, calls: int) -> None:
        self._producer = producer
        self._calls_left = calls

    def __len__(self) -> int:
        return len(self._producer)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self._calls_left -= 1
            if self._calls_left == 0:
                if name == "commit_transaction":
                    threading.Timer(random.random() / 50, os.kill, (os.getpid(), signal.SIGKILL)).start()
                else:
                    os.kill(os.getpid(), signal.SIGKILL)
            return getattr(self._producer, name)(*arguments, **named)

        return call


def life(servers: str, home: Path, calls: int) -> None:
    """Publishes four more batches, or is killed at the n-th call of Kafka's client."""
    note = home / "committed"
    done = int(note.read_text()) if note.exists() else 0
    ours = Transactions(servers, f"killed in {home}")
    import confluent_kafka

    producer = confluent_kafka.Producer
    confluent_kafka.Producer = lambda *arguments: Mortal(producer(*arguments), calls)  # type: ignore[assignment, misc]
    ours.open()
    for batch in range(done, done + 4):
        if batch > ours.last:
            ours.publish(batch, f"plan {batch}", of_batch("killed", batch))
        hidden = note.with_suffix(".new")
        hidden.write_text(str(batch + 1))
        hidden.rename(note)


if __name__ == "__main__":
    servers, folder, *numbers_of_calls = sys.argv[1:]
    for calls in map(int, numbers_of_calls):
        child = os.fork()
        if child == 0:
            life(servers, Path(folder), calls)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status in (0, signal.SIGKILL), f"life {calls} ended with {status}"
