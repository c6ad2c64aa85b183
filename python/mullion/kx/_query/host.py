"""The program of pipelines, as their queries see it."""

from __future__ import annotations

import abc

import pyarrow as pa

from mullion._program.host import Host
from mullion.kx._operators import Node
from mullion.topics import DirBroker


class PipelinesHost(Host, abc.ABC):
    """The program of some pipelines."""

    variables: dict[str, pa.Table]
    """The contents of ``to_variable``, by the names of the variables."""

    @property
    @abc.abstractmethod
    def closes(self) -> bool:
        """True if windows close at the end of the input."""

    @property
    def between(self) -> DirBroker:
        """The broker for records that one query of this program passes to a window of another."""
        return DirBroker(self.checkpoint / "_between")

    @abc.abstractmethod
    def forget(self) -> None:
        """Deletes files that every query has processed: of batches for callbacks, and of records between queries."""

    @abc.abstractmethod
    def topic_read_by(self, node: Node) -> str | None:
        """The topic of this program that a reader reads, or that has the records of a cut window."""
