"""The options of a Kafka cluster, such as security, by the names of Kafka's clients. Their values are never shown.

Two clients connect: librdkafka in this process, and Spark's connector in the JVM. An option is written once, by
librdkafka's name, and converted for each::

    security.protocol, sasl.mechanism     both by this name
    sasl.username, sasl.password          the connector: in sasl.jaas.config
    ssl.ca.location                       the connector: a truststore of the type PEM
    kafka.NAME                            Spark's connector alone, by NAME
    librdkafka.NAME                       librdkafka alone, by NAME
    failOnDataLoss                        Spark's source alone, by the same name
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, final

from mullion._util.checks import did_you_mean
from mullion.errors import InvalidArgumentError

CONNECTOR: Final = "kafka."
CLIENT: Final = "librdkafka."

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_LOGINS: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
"""The login modules in Java of mechanisms with a name and a password."""

_BOTH: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.kerberos.service.name",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.password",
    }
)
_TRANSLATED: Final = frozenset(
    {"sasl.username", "sasl.password", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location"}
)
_OF_JAVA: Final = {
    "sasl.jaas.config": "sasl.username and sasl.password serve both clients",
    "ssl.truststore.location": "ssl.ca.location, a file of PEM, serves both clients",
    "ssl.truststore.password": "ssl.ca.location, a file of PEM, serves both clients",
    "ssl.truststore.type": "ssl.ca.location, a file of PEM, serves both clients",
}

_DELIVERY: Final = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.idempotence",
        "enable.partition.eof",
        "isolation.level",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "metadata.broker.list",
        "partitioner",
        "request.required.acks",
        "transactional.id",
    }
)
"""Options of librdkafka for delivery once and in order. With other values rows may be lost."""

DATA_LOSS: Final = "failOnDataLoss"
"""The option that lets a query continue after Kafka has deleted rows that it has not read; by default it fails."""

KNOWN: Final = (*sorted(_BOTH | _TRANSLATED), DATA_LOSS)


@final
class KafkaOptions(Mapping[str, str]):
    """Options of one cluster, by name. Comparable; its text omits the values, because some are secrets.

    Raises :class:`InvalidArgumentError` for unknown options, and for missing ones that another requires.
    """

    __slots__ = ("_options",)

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        if not isinstance(options, (Mapping, type(None))):
            raise InvalidArgumentError(
                f"options is of the type {type(options).__name__}. Write a dict, such as "
                "{'security.protocol': 'SASL_SSL', 'sasl.mechanism': 'PLAIN', 'sasl.username': ..., ...}."
            )
        self._options = {_name(name): _text(name, value) for name, value in (options or {}).items()}
        self._require_whole()

    def __getitem__(self, name: str) -> str:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __eq__(self, other: object) -> bool:
        return self._options == (other._options if isinstance(other, KafkaOptions) else other)

    def __hash__(self) -> int:
        return hash(frozenset(self._options.items()))

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: ..." for name in self._options) + "}"

    def client(self) -> dict[str, str]:
        """The options of librdkafka."""
        not_its_own = (CONNECTOR, CLIENT, DATA_LOSS)
        own = {name: value for name, value in self._options.items() if not name.startswith(not_its_own)}
        return own | self._beginning_with(CLIENT)

    def source(self) -> dict[str, str]:
        """The options of Spark's source of streams."""
        return {name: value for name, value in self._options.items() if name == DATA_LOSS} | self.connector()

    def connector(self) -> dict[str, str]:
        """The options of Spark's connector, for reading and writing."""
        options = self._options
        shared = {name: value for name, value in options.items() if name in _BOTH}
        if shared.get("ssl.endpoint.identification.algorithm") == "none":
            shared["ssl.endpoint.identification.algorithm"] = ""
        if "sasl.username" in options:
            login = _LOGINS[options["sasl.mechanism"]]
            name, password = (_quoted(options[option]) for option in ("sasl.username", "sasl.password"))
            shared["sasl.jaas.config"] = f"{login} required username={name} password={password};"
        if "ssl.ca.location" in options:
            shared |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": options["ssl.ca.location"]}
        if "ssl.keystore.location" in options:
            shared["ssl.keystore.type"] = "PKCS12"
        if "ssl.key.location" in options:
            shared |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": options["ssl.key.location"]}
        shared |= self._beginning_with(CONNECTOR)
        return {f"{CONNECTOR}{name}": value for name, value in shared.items()}

    def hidden_in(self, text: str) -> str:
        """A text without the values of options that may be secret."""
        for name, value in self._options.items():
            if value and name.removeprefix(CONNECTOR).removeprefix(CLIENT) not in _SHOWN:
                text = text.replace(value, "***")
        return text

    def _beginning_with(self, prefix: str) -> dict[str, str]:
        return {name[len(prefix) :]: value for name, value in self._options.items() if name.startswith(prefix)}

    def _require_whole(self) -> None:
        options = self._options
        protocol = options.get("security.protocol", "PLAINTEXT")
        if protocol not in PROTOCOLS:
            raise InvalidArgumentError(f"security.protocol is not one of {', '.join(PROTOCOLS)}.")
        sasl = sorted(name for name in options if name.startswith("sasl."))
        if sasl and not protocol.startswith("SASL"):
            raise InvalidArgumentError(
                f"{sasl[0]} is given, and security.protocol is {protocol}, which asks nobody for a name. Add "
                "'security.protocol': 'SASL_SSL', or 'SASL_PLAINTEXT' in a network that is trusted."
            )
        ssl = sorted(name for name in options if name.startswith("ssl."))
        if ssl and not protocol.endswith("SSL"):
            raise InvalidArgumentError(
                f"{ssl[0]} is given, and security.protocol is {protocol}, which encrypts nothing. Add "
                "'security.protocol': 'SSL' or 'SASL_SSL'."
            )
        if protocol.startswith("SASL"):
            self._require_login()
        self._require_files()

    def _require_login(self) -> None:
        options = self._options
        mechanism = options.get("sasl.mechanism")
        if mechanism is None:
            raise InvalidArgumentError(
                "sasl.mechanism is missing, and the two clients have other defaults. Add, for instance, "
                "'sasl.mechanism': 'PLAIN'."
            )
        if mechanism in _LOGINS:
            for name in ("sasl.username", "sasl.password"):
                if name not in options:
                    raise InvalidArgumentError(f"{name} is missing, which sasl.mechanism {mechanism} needs. Add it.")
        elif "sasl.username" in options or "sasl.password" in options:
            raise InvalidArgumentError(
                f"sasl.username and sasl.password are of the mechanisms {', '.join(_LOGINS)}, and sasl.mechanism is "
                "another. Leave them out."
            )
        elif mechanism != "GSSAPI" and f"{CONNECTOR}sasl.jaas.config" not in options:
            raise InvalidArgumentError(
                f"Mullion does not know how Spark's connector logs in with this sasl.mechanism. Add "
                f"'{CONNECTOR}sasl.jaas.config', and what librdkafka needs as '{CLIENT}NAME'."
            )

    def _require_files(self) -> None:
        options = self._options
        for name in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location"):
            if name in options and not Path(options[name]).is_file():
                raise InvalidArgumentError(
                    f"{name} is {options[name]!r}, where no file is. It must be there on each machine of the cluster."
                )
        if options.get("ssl.certificate.location") != options.get("ssl.key.location"):
            raise InvalidArgumentError(
                "ssl.certificate.location and ssl.key.location must be one file, for Java reads both from one: cat "
                "key.pem certificate.pem > client.pem, with the key as PKCS 8. Or give ssl.keystore.location."
            )
        if "ssl.key.location" in options and "ssl.keystore.location" in options:
            raise InvalidArgumentError("ssl.key.location and ssl.keystore.location are both given. Leave out one.")


def without_secrets(url: object) -> object:
    """A broker's URL without a password that it may contain."""
    return re.sub(r"(?s)(?<=//).*@|^(?!.*//).*@|\?.*", "", url) if isinstance(url, str) else url


_SHOWN: Final = (_BOTH | _TRANSLATED | {DATA_LOSS}) - {"sasl.password", "ssl.key.password", "ssl.keystore.password"}


def _name(option: Any) -> str:
    if not isinstance(option, str):
        raise InvalidArgumentError(f"options has a name of the type {type(option).__name__}. Names are texts.")
    name: str = "sasl.mechanism" if option == "sasl.mechanisms" else option
    if name in KNOWN:
        return name
    if name.startswith(CLIENT) and name.removeprefix(CLIENT) in _DELIVERY:
        raise InvalidArgumentError(
            f"options has {name!r}, which Mullion sets, so that each row is there once and in order. Leave it out."
        )
    for prefix in (CONNECTOR, CLIENT):
        if name.startswith(prefix) and name != prefix:
            return name
    if name in _OF_JAVA:
        raise InvalidArgumentError(
            f"options has {name!r}, which is Java's alone: {_OF_JAVA[name]}. As {CONNECTOR + name!r} Spark's connector "
            "gets it, and nobody else."
        )
    raise InvalidArgumentError(
        f"options has {name!r}, which is not known.{did_you_mean(name, KNOWN)} These serve both clients: "
        f"{', '.join(KNOWN[:-1])}. Spark's source of streams has {DATA_LOSS!r}. Spark's connector alone gets "
        f"'{CONNECTOR}{name}', librdkafka alone '{CLIENT}{name}'."
    )


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int)):
        # Without the value, which may be a secret in another form.
        raise InvalidArgumentError(f"options has {name!r} of the type {type(value).__name__}. Write a text.")
    text = str(value)
    if name == DATA_LOSS and text.lower() not in ("true", "false"):
        raise InvalidArgumentError(f"options has {name!r}: {text!r}. Write 'true' or 'false'.")
    if "\0" in text:
        raise InvalidArgumentError(f"options has {name!r} with a zero character, which no client takes.")
    if name in ("security.protocol", "sasl.mechanism", "sasl.mechanisms"):
        return text.upper()
    return text


def _quoted(text: str) -> str:
    """A quoted text in Java's login configuration."""
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, escaped)
    return f'"{text}"'
