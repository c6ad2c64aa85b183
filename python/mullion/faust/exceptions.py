"""Faust's exceptions under their names, for the ``except`` and ``raise`` statements of programs."""

from __future__ import annotations

from mullion.errors import InvalidArgumentError, MullionError
from mullion.faust._values.fields import ValidationError
from mullion.faust.streams import Skip

FaustError = MullionError
ImproperlyConfigured = InvalidArgumentError
DecodeError = KeyDecodeError = ValueDecodeError = ValidationError


class FaustWarning(UserWarning):
    """The base of Faust's warnings. Never raised here."""


class AlreadyConfiguredWarning(FaustWarning):
    """Faust's warning for settings that change after the start. Never raised here."""


class SecurityError(MullionError):
    """Faust's error for messages with a wrong signature. Never raised here."""


class NotReady(MullionError):  # noqa: N818
    """Faust's error for a service that has not started. Never raised here."""


class ConsumerNotStarted(NotReady):
    """Faust's error for a consumer that has not started. Never raised here."""


class PartitionsMismatch(MullionError):  # noqa: N818
    """Faust's error for topics with different numbers of partitions. Never raised here."""


class ConsistencyError(MullionError):
    """Faust's error for a changelog that does not fit its table. Never raised here."""


class ProducerSendError(MullionError):
    """Faust's error for a message that could not be sent. Never raised here."""


class SameNode(MullionError):  # noqa: N818
    """Faust's error for a request that a worker would send to itself. Never raised here."""


__all__ = [
    "AlreadyConfiguredWarning",
    "ConsistencyError",
    "ConsumerNotStarted",
    "DecodeError",
    "FaustError",
    "FaustWarning",
    "ImproperlyConfigured",
    "KeyDecodeError",
    "NotReady",
    "PartitionsMismatch",
    "ProducerSendError",
    "SameNode",
    "SecurityError",
    "Skip",
    "ValidationError",
    "ValueDecodeError",
]
