"""The interface between a running program and its App."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from mullion._program.host import Host
from mullion.errors import InvalidArgumentError
from mullion.faust._context import Sent
from mullion.faust._program.program import Program

JOB: Final = "agents"
"""The name of the query."""


class HostedProgram(Program, Host):
    """A program with its topics, its state and its clock."""

    compiled: bool
    """True if agents run in the JVM where possible."""

    @property
    def records_folder(self) -> Path:
        """The folder of the query's records of tables."""
        return self.folder_of(JOB).absolute() / "query"

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """The records of all tables as of the last batch; none before the first batch."""
        from mullion._keyed.api import read_state

        try:
            rows = read_state(self.records_folder, spark=self.spark).collect()
        except InvalidArgumentError:
            return
        for row in rows:
            yield bytes(row.key), bytes(row.value)

    def publish(self, sent: Sequence[Sent]) -> None:
        """Publishes messages in order; consecutive messages of one topic form one batch."""
        now = self.clock.time_us() / 1_000_000
        for (to, is_raw), alike in itertools.groupby(sent, lambda one: (one.to, one.is_raw)):
            messages = list(alike)
            self.broker.produce_json(
                to,
                [one.value for one in messages],
                [now if one.timestamp is None else one.timestamp for one in messages],
                [one.key if one.key is None or isinstance(one.key, str) else json.dumps(one.key) for one in messages],
                raw=is_raw,
                headers=[one.headers for one in messages] if any(one.headers for one in messages) else None,
            )
