"""What the queries of pipelines know of their program, beside what those of every API do."""

from __future__ import annotations

import abc

import pyarrow as pa

from mullion._programs.host import Host
from mullion.kx._operators import Node
from mullion.topics import DirBroker


class PipelinesHost(Host, abc.ABC):
    """The program of some pipelines."""

    variables: dict[str, pa.Table]
    """What ``to_variable`` keeps, by the names of the variables."""

    @property
    @abc.abstractmethod
    def closes(self) -> bool:
        """Whether windows close where the input ends."""

    @property
    def between(self) -> DirBroker:
        """Where the records are that one query of this program brings to a window of another."""
        return DirBroker(self.checkpoint / "_between")

    @abc.abstractmethod
    def forget(self) -> None:
        """Deletes files that every query has processed: of batches for callbacks, and of records between queries."""

    @abc.abstractmethod
    def topic_read_by(self, node: Node) -> str | None:
        """The topic of this program that a reader reads, or a window whose records another query brings."""
