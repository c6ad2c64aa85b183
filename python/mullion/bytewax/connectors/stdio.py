"""Standard output, as in ``bytewax.connectors.stdio``."""

from __future__ import annotations

import sys
from typing import Any

from mullion.bytewax.outputs import DynamicSink, StatelessSinkPartition

__all__ = ["StdOutSink"]


class _Printing(StatelessSinkPartition[Any]):
    def write_batch(self, items: list[Any]) -> None:
        for item in items:
            sys.stdout.write(f"{item}\n")
        sys.stdout.flush()


class StdOutSink(DynamicSink[Any]):
    """Prints each item on the standard output of the driver."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Printing:
        """Opens the part."""
        return _Printing()
