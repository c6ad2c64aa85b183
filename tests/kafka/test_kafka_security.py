"""Security options of a Kafka cluster: passed by name to each client, and never shown."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from mullion import faust, topics, turbine
from mullion.errors import InvalidArgumentError, MullionError
from mullion.kx import sp
from mullion.topics._kafka import client as _kafka_client
from mullion.topics._kafka.options import KafkaOptions
from tests.support.kafka.kafka_server import SECRET, KafkaServer

LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": SECRET}
JAAS = f'org.apache.kafka.common.security.%s required username="me" password="{SECRET}";'


@pytest.fixture
def pem(tmp_path: Path) -> str:
    file = tmp_path / "some.pem"
    file.write_text("-----BEGIN CERTIFICATE-----")
    return str(file)


def test_options_are_given_to_both_clients_by_the_names_that_each_has(pem: str) -> None:
    cases: list[tuple[dict[str, Any], dict[str, str], dict[str, str]]] = [
        ({"security.protocol": "ssl"}, {"security.protocol": "SSL"}, {"kafka.security.protocol": "SSL"}),
        (
            LOGIN,
            LOGIN,
            {
                "kafka.security.protocol": "SASL_SSL",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": JAAS % "plain.PlainLoginModule",
            },
        ),
        (
            LOGIN | {"sasl.mechanisms": "scram-sha-512"},
            LOGIN | {"sasl.mechanism": "SCRAM-SHA-512"},
            {
                "kafka.security.protocol": "SASL_SSL",
                "kafka.sasl.mechanism": "SCRAM-SHA-512",
                "kafka.sasl.jaas.config": JAAS % "scram.ScramLoginModule",
            },
        ),
        (
            {"security.protocol": "SSL", "ssl.ca.location": pem, "ssl.endpoint.identification.algorithm": "none"},
            {"security.protocol": "SSL", "ssl.ca.location": pem, "ssl.endpoint.identification.algorithm": "none"},
            {
                "kafka.security.protocol": "SSL",
                "kafka.ssl.truststore.type": "PEM",
                "kafka.ssl.truststore.location": pem,
                "kafka.ssl.endpoint.identification.algorithm": "",
            },
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.certificate.location": pem,
                "ssl.key.location": pem,
                "ssl.key.password": SECRET,
            },
            {
                "security.protocol": "SSL",
                "ssl.certificate.location": pem,
                "ssl.key.location": pem,
                "ssl.key.password": SECRET,
            },
            {
                "kafka.security.protocol": "SSL",
                "kafka.ssl.keystore.type": "PEM",
                "kafka.ssl.keystore.location": pem,
                "kafka.ssl.key.password": SECRET,
            },
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": pem, "ssl.keystore.password": SECRET},
            {"security.protocol": "SSL", "ssl.keystore.location": pem, "ssl.keystore.password": SECRET},
            {
                "kafka.security.protocol": "SSL",
                "kafka.ssl.keystore.type": "PKCS12",
                "kafka.ssl.keystore.location": pem,
                "kafka.ssl.keystore.password": SECRET,
            },
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "kafka.sasl.jaas.config": "some.Module required;",
                "librdkafka.sasl.oauthbearer.method": "oidc",
                "librdkafka.enable.sasl.oauthbearer.unsecure.jwt": True,
            },
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
            },
            {
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "OAUTHBEARER",
                "kafka.sasl.jaas.config": "some.Module required;",
            },
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"},
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"},
            {
                "kafka.security.protocol": "SASL_SSL",
                "kafka.sasl.mechanism": "GSSAPI",
                "kafka.sasl.kerberos.service.name": "kafka",
            },
        ),
    ]
    for options_given, client, connector in cases:
        options = KafkaOptions(options_given)
        assert options.client() == client
        assert options.connector() == connector
        assert options.source() == connector


def test_the_option_of_lost_data_is_that_of_the_source_of_streams_alone() -> None:
    options = KafkaOptions({"failOnDataLoss": False})
    assert options.source() == {"failOnDataLoss": "false"}
    assert options.client() == options.connector() == {}
    with pytest.raises(InvalidArgumentError, match=r"'failOnDataLoss': 'never'. Write 'true' or 'false'"):
        KafkaOptions({"failOnDataLoss": "never"})


def test_unknown_and_missing_options_are_rejected_without_their_values(pem: str) -> None:
    cases: list[tuple[Any, str]] = [
        ({"sasl.pasword": SECRET}, r"'sasl.pasword', which is not known\. Did you mean 'sasl.password'\?"),
        ({"sasl.jaas.config": SECRET}, r"which is Java's alone: sasl.username and sasl.password serve both"),
        ({"group.id": SECRET}, r"'kafka.group.id', librdkafka alone 'librdkafka.group.id'"),
        ({"librdkafka.max.in.flight": SECRET}, r"'librdkafka.max.in.flight', which Mullion sets, .* Leave it out"),
        ({"librdkafka.isolation.level": SECRET}, r"'librdkafka.isolation.level', which Mullion sets"),
        ({"security.protocol": SECRET}, r"security.protocol is not one of PLAINTEXT, SSL,"),
        ({"sasl.password": SECRET}, r"sasl.password is given, and security.protocol is PLAINTEXT"),
        ({"ssl.key.password": SECRET}, r"ssl.key.password is given, and security.protocol is PLAINTEXT"),
        ({"security.protocol": "SASL_SSL"}, r"sasl.mechanism is missing"),
        ({k: v for k, v in LOGIN.items() if k != "sasl.password"}, r"sasl.password is missing"),
        (LOGIN | {"sasl.mechanism": "GSSAPI"}, r"are of the mechanisms PLAIN, SCRAM-SHA-256"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, r"Add 'kafka.sasl.jaas.config'"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/not/there"}, r"'/not/there', where no file is"),
        ({"security.protocol": "SSL", "ssl.key.location": pem}, r"must be one file, .* cat key.pem"),
        (LOGIN | {"sasl.password": SECRET.encode()}, r"'sasl.password' of the type bytes\. Write a text"),
        (LOGIN | {"sasl.password": SECRET + "\0"}, r"'sasl.password' with a zero character"),
        ({7: SECRET}, r"a name of the type int"),
        (SECRET, r"options is of the type str\. Write a dict"),
    ]
    for options, says in cases:
        with pytest.raises(InvalidArgumentError, match=says) as refused:
            topics.broker("kafka://localhost:9092", options)
        assert SECRET not in str(refused.value)
    with pytest.raises(InvalidArgumentError, match=r"Leave them out for any other"):
        topics.broker("dir:topics", LOGIN)


def test_a_password_in_a_url_is_rejected_and_not_said() -> None:
    for url in (
        f"kafka://me:{SECRET}@host:9092",
        f"kafka://host:9092?sasl.password={SECRET}",
        f"me:{SECRET}@host:9092",
        f"amqp://me:{SECRET}@host:9092",
    ):
        for read in (
            topics.broker,
            lambda url: faust.App("app", broker=url),
            lambda url: turbine.App("app", broker=url),
        ):
            with pytest.raises(InvalidArgumentError) as refused:
                read(url)
            assert SECRET not in str(refused.value)
            assert SECRET not in repr(refused.value.__cause__)


def test_a_broker_with_options_is_a_value_that_does_not_show_them(tmp_path: Path) -> None:
    broker = topics.broker("kafka://host:9092", LOGIN)
    assert broker == topics.KafkaBroker("host:9092", dict(reversed(LOGIN.items())))
    assert hash(broker) == hash(topics.KafkaBroker("host:9092", LOGIN))
    assert broker != topics.broker("kafka://host:9092")
    assert pickle.loads(pickle.dumps(broker)) == broker
    app = faust.App("app", broker=broker, checkpoint=tmp_path)
    line = sp.read.from_kafka("a", "host:9092", options=LOGIN) | sp.write.to_kafka("b", "host:9092", options=LOGIN)
    shown = [broker, broker.url, broker.cluster, app, app.conf.broker, line, turbine.App("app", broker=broker)]
    assert not [each for each in shown if SECRET in f"{each} {each!r}"]
    assert "'sasl.password': ..." in repr(broker)


def test_an_option_that_the_client_does_not_take_is_an_error_without_its_values() -> None:
    for more, says in (
        ({"librdkafka.sasl.pasword": SECRET}, 'No such configuration property: "sasl.pasword"'),
        ({"librdkafka.socket.timeout.ms": SECRET}, "socket.timeout.ms"),
    ):
        broker = topics.broker("kafka://localhost:1", LOGIN | more)
        for use in (
            topics.read,
            lambda broker, _: broker.topics(),
            lambda broker, topic: topics.produce(broker, topic, [1]),
        ):
            with pytest.raises(InvalidArgumentError, match=says) as refused:
                use(broker, "rows")
            assert SECRET not in str(refused.value)


@pytest.mark.xdist_group("kafka")
def test_kafka_is_read_and_written_with_a_name_and_a_password_and_not_with_another(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = topics.broker(f"kafka://{kafka.with_login}", kafka.login)
    topics.produce(broker, "logged-in", [{"n": 1}])
    assert topics.read(broker, "logged-in")["n"].to_pylist() == [1]
    assert "logged-in" in broker.topics()
    monkeypatch.setattr(_kafka_client, "WAIT_SECONDS", 2.0)
    wrong = topics.broker(f"kafka://{kafka.with_login}", kafka.login | {"sasl.password": SECRET})
    with pytest.raises(
        MullionError, match=r"rejects this program: .*[Aa]uthentication failed.*\. Check the options"
    ) as refused:
        topics.read(wrong, "logged-in")
    assert SECRET not in str(refused.value)
