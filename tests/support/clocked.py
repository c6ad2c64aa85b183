"""``ClockedQuery`` with a clock that starts in 1970, so that results with wall time are the same in every run."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame

from mullion import testing


class ClockedQuery(testing.ClockedQuery):
    def __init__(
        self,
        panes: DataFrame,
        *,
        checkpoint: str | os.PathLike[str],
        output_mode: str = "append",
        start_ms: int = 0,
        drain: bool = False,
    ) -> None:
        super().__init__(panes, checkpoint=checkpoint, output_mode=output_mode, start_ms=start_ms, drain=drain)
