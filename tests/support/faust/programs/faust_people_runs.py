# mypy: disable-error-code="untyped-decorator, import-untyped, attr-defined, arg-type"
"""Programs of ``faust_people``, run in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mullion.faust as faust
from tests.support.faust.local_run import LocalRun


class Clock:
    us = 0

    def time_us(self) -> int:
        return self.us


def run_of(part: Callable[[Any], None], **options: Any) -> tuple[faust.App, LocalRun]:
    app = faust.App("people", broker="dir:/nowhere", **options)
    part(app)
    return app, LocalRun(app, Clock())


def published(run: LocalRun, topic: str) -> list[Any]:
    return [message.value for message in run.published.get(topic, [])]


def items(app: faust.App, run: LocalRun, table: str) -> dict[Any, Any]:
    return dict(run.read(app.tables[table].items)[0])
