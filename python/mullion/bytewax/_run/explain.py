"""Says where each step of a dataflow runs, and why."""

from __future__ import annotations

from mullion._programs.report import Part, Report
from mullion.bytewax._run.plan import Plan
from mullion.bytewax.dataflow import Dataflow

_WHY = {
    "input": "sources are read by the program itself, into the log of inputs",
    "output": "sinks are written by the program itself",
    "inspect": "inspectors are called by the program itself",
    "window": "its clock and its functions are Python's: in Spark's workers, after a shuffle by key",
    "stateful": "its logic is Python's: in Spark's workers, after a shuffle by key",
}
_STATELESS = "its function is Python's: in Spark's workers, with the step that it comes after"


def explain(flow: Dataflow) -> Report:
    """Where each step of a dataflow runs, why, and the line that made it.

    Raises :class:`mullion.errors.InvalidArgumentError` for a dataflow that cannot run.
    """
    Plan.of(flow)
    parts = []
    for step in flow._steps:
        if step.kind in ("merge", "redistribute"):
            continue
        name = step.step_id.removeprefix(f"{flow.flow_id}.")
        parts.append(Part(name, "Python", _WHY.get(step.kind, _STATELESS), step.operator.where))
    return Report(tuple(parts))
