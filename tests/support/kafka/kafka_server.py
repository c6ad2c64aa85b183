"""A Kafka broker for tests: one process in KRaft mode, from the JARs that ``make kafka`` downloads."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

ROOT = Path(__file__).parents[3]
JARS = ROOT / ".build" / "kafka"

SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:{controller}
listeners=PLAINTEXT://localhost:{port},SASL_PLAINTEXT://localhost:{login},{encrypted}CONTROLLER://localhost:{controller}
advertised.listeners=PLAINTEXT://localhost:{port},{encrypted}SASL_PLAINTEXT://localhost:{login}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
# This listener requires a name and a password.
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config={login_module} required {users};
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={home}/log
num.partitions=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
# Rows here are of 1970.
log.retention.ms=-1
# After a kill it is taken for dead soon, and may come back.
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
"""

ENCRYPTED = """
ssl.keystore.type=PKCS12
ssl.keystore.location={keys.server}
ssl.keystore.password={keys.password}
ssl.truststore.type=PKCS12
ssl.truststore.location={keys.trusted}
ssl.truststore.password={keys.password}
# Who connects there without a password shows a certificate.
listener.name.ssl.ssl.client.auth=required
listener.name.sasl_ssl.plain.sasl.jaas.config={login_module} required {users};
"""


SECRET = "s3cr3t"
"""A part of the password that occurs nowhere else."""

LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"

USER, PASSWORD = "mullion", rf'{SECRET} "kept\to;' + "itself' = 7"
"""The login for listeners that require one."""


def users() -> str:
    """The users as Java's login configuration in a properties file."""
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    return f'user_{USER}="{password}"'.replace("\\", "\\\\")


def program_of_java(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home, "bin", name)) if home else shutil.which(name)
    assert path is not None
    return path


class Keys:
    """A folder with the TLS keys and certificates of a broker and its clients, created by the JDK's ``keytool``."""

    password = SECRET + "-of-keys"

    def __init__(self, home: Path) -> None:
        self._home = home
        self.server, self.client, self.trusted = (home / f"{name}.p12" for name in ("server", "client", "trusted"))
        self.ca = home / "server.pem"
        self.stranger = home / "stranger.pem"
        for name in ("server", "client", "stranger"):
            host = ("-ext", "SAN=dns:localhost")
            options = ("-keyalg", "RSA", "-validity", "2", "-dname", f"CN={name}", *host)
            self._keytool(f"{name}.p12", "-genkeypair", "-alias", name, *options)
            self._keytool(f"{name}.p12", "-exportcert", "-rfc", "-alias", name, "-file", f"{name}.pem")
        self._keytool("trusted.p12", "-importcert", "-noprompt", "-alias", "client", "-file", "client.pem")

    def _keytool(self, store: str, *arguments: str) -> None:
        where = ("-keystore", store, "-storetype", "PKCS12", "-storepass", self.password)
        command = [program_of_java("keytool"), *arguments, *where]
        subprocess.run(command, cwd=self._home, check=True, capture_output=True)


class KafkaServer:
    """A broker in a folder. With ``keys`` it also has a listener for each kind of login under TLS."""

    def __init__(self, home: Path, keys: Keys | None = None) -> None:
        port, controller, login, tls, login_tls = free_ports(5)
        self.servers = f"localhost:{port}"
        self.url = f"kafka://{self.servers}"
        self.with_login = f"localhost:{login}"
        # The client's settings for each listener.
        self.login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        self.with_tls, self.with_login_and_tls = f"localhost:{tls}", f"localhost:{login_tls}"
        encrypted = f"SSL://{self.with_tls},SASL_SSL://{self.with_login_and_tls}," if keys else ""
        self._home = home
        self._settings = home / "server.properties"
        says = SETTINGS + (ENCRYPTED if keys else "")
        self._settings.write_text(
            says.format(
                port=port,
                controller=controller,
                login=login,
                encrypted=encrypted,
                keys=keys,
                home=home,
                users=users(),
                login_module=LOGIN_MODULE,
            )
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts or restarts the broker, and waits until it answers."""
        if not (self._home / "log").exists():
            self._java("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c").wait()
        self._process = self._java("kafka.Kafka")
        quiet: dict[str, Any] = {"bootstrap.servers": self.servers, "log_level": 0, "error_cb": lambda _: None}
        admin = AdminClient(quiet)
        deadline = time.monotonic() + 300
        while True:
            try:
                admin.list_topics(timeout=1)
                return
            except KafkaException:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError((self._home / "out").read_text()[-4000:]) from None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        jars = sorted((JARS / "broker").glob("*.jar"))
        assert jars, "The JARs of Kafka are missing. Download them: make kafka"
        java = program_of_java("java")
        options = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", os.pathsep.join(map(str, jars))]
        with (self._home / "out").open("ab") as out:
            return subprocess.Popen(
                [java, *options, *arguments, str(self._settings)], stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )


def free_ports(many: int = 2) -> list[int]:
    """Free ports below the system's ephemeral range: another process could get an ephemeral port before the broker
    listens, or while it is down."""
    ports = []
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("localhost", port))
            ports.append(port)
        if len(ports) == many:
            return ports
    raise AssertionError("too few ports are free")
