"""A Kafka with TLS: programs of every adapter, and clients that present or trust the wrong certificate."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mullion import topics
from mullion.errors import MullionError
from tests.support.kafka import secured
from tests.support.kafka.kafka_server import SECRET, KafkaServer, Keys
from tests.support.killing import environment

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("kafka")]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory, keys: Keys) -> Iterator[KafkaServer]:
    server = KafkaServer(tmp_path_factory.mktemp("encrypted"), keys)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def shown(keys: Keys) -> dict[str, str]:
    """The certificate that a client presents, and the one that it trusts."""
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(keys.ca),
        "ssl.keystore.location": str(keys.client),
        "ssl.keystore.password": keys.password,
    }


def test_every_adapter_works_with_its_own_certificate_and_writes_its_password_nowhere(
    encrypted: KafkaServer, keys: Keys, tmp_path: Path
) -> None:
    run = subprocess.run(
        [sys.executable, secured.__file__, str(tmp_path), encrypted.with_tls],
        input=json.dumps(shown(keys)),
        env=environment(),
        capture_output=True,
        text=True,
    )
    output = run.stdout + run.stderr
    assert run.returncode == 0, output[-6000:]
    for door in ("native", "turbine", "faust", "kx", "bytewax"):
        assert sorted(topics.read(encrypted.url, door)["n"].to_pylist()) == [1, 2], door
    at = output.find(SECRET)
    assert at < 0, output[max(0, at - 1500) : at + 500]
    files = [file for file in tmp_path.rglob("*") if file.is_file() and file.suffix not in (".jar", ".so")]
    assert [str(file) for file in files if SECRET.encode() in file.read_bytes()] == []


def test_a_name_and_a_password_go_over_tls(encrypted: KafkaServer, keys: Keys) -> None:
    login = encrypted.login | {"security.protocol": "SASL_SSL", "ssl.ca.location": str(keys.ca)}
    broker = topics.broker(f"kafka://{encrypted.with_login_and_tls}", login)
    topics.produce(broker, "over-tls", [{"n": 1}])
    assert topics.read(broker, "over-tls")["n"].to_pylist() == [1]


def test_who_trusts_another_broker_shows_nothing_or_encrypts_nothing_is_rejected(
    encrypted: KafkaServer, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mullion.topics._kafka.client.WAIT_SECONDS", 4.0)
    complete = shown(keys)
    stranger = complete | {"ssl.ca.location": str(keys.stranger)}
    nothing = {name: value for name, value in complete.items() if "keystore" not in name}
    for options in (stranger, nothing, {}, complete | {"ssl.keystore.password": "another"}):
        with pytest.raises(MullionError) as refused:
            topics.read(topics.broker(f"kafka://{encrypted.with_tls}", options), "secured")
        print(refused.value)
        assert SECRET not in str(refused.value)
