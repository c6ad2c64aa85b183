"""Programs of every adapter over a Kafka that requires a password, which must not occur in their files and output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mullion import topics
from tests.support.kafka import secured
from tests.support.kafka.kafka_server import SECRET, KafkaServer
from tests.support.killing import environment


@pytest.mark.slow
@pytest.mark.xdist_group("kafka")
def test_every_adapter_works_with_a_password_and_writes_it_nowhere(kafka: KafkaServer, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, secured.__file__, str(tmp_path), kafka.with_login],
        input=json.dumps(kafka.login),
        env=environment(),
        capture_output=True,
        text=True,
    )
    output = run.stdout + run.stderr
    assert run.returncode == 0, output[-6000:]
    for door in ("native", "turbine", "faust", "kx", "bytewax"):
        assert sorted(topics.read(kafka.url, door)["n"].to_pylist()) == [1, 2], door
    # The output includes the connector's own description of its settings.
    assert "sasl.jaas.config" in output
    assert "Physical Plan" in output
    at = output.find(SECRET)
    assert at < 0, output[max(0, at - 1500) : at + 500]
    files = [file for file in tmp_path.rglob("*") if file.is_file() and file.suffix not in (".jar", ".so")]
    assert any("events" in file.parts for file in files)
    assert any("offsets" in file.parts for file in files)
    files_with_secret = [str(file) for file in files if SECRET.encode() in file.read_bytes()]
    assert files_with_secret == []
