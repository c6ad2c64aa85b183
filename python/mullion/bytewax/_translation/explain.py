"""The report of the place where each step of a dataflow runs, with the reason."""

from __future__ import annotations

from mullion._program.report import Part, Place, Report
from mullion.bytewax._dataflow_plan import STATEFUL, Plan
from mullion.bytewax._log.file_ranges import files_of
from mullion.bytewax._translation.parsing import JSON
from mullion.bytewax._translation.window_steps import NOT_OF_A_FILE, Untraced, stateless, trace, trace_inputs
from mullion.bytewax.dataflow import Dataflow

_WHY = {
    "input": "sources are read by the program itself, into the log of inputs",
    "output": "sinks are written by the program itself",
    "inspect": "inspectors are called by the program itself",
    "window": "in Spark's workers, after a shuffle by key",
    "stateful": "its logic is Python's: in Spark's workers, after a shuffle by key",
}
_FILES = "its lines are read with the steps behind it, on one machine, where both languages surely read the same"
_TRACED = "its functions only compute; what has values that only Python computes with is left to Python"
_STATELESS = "in Spark's workers, with the step that it comes after"


def explain(flow: Dataflow) -> Report:
    """Reports for each step of a dataflow its place, the reason, and the source line that defines it.

    Raises :class:`mullion.errors.InvalidArgumentError` for a dataflow that cannot run.
    """
    plan = Plan.of(flow)
    first, why_not = _before_state(plan), ""
    files = files_of(flow)
    try:
        trace_inputs(plan, files)
    except Untraced as untraced:
        why_not = str(untraced)
    parts = []
    for number, step in enumerate(flow._steps):
        if step.kind in ("merge", "redistribute"):
            continue
        runs: Place = "Python"
        why = _WHY.get(step.kind, _STATELESS)
        if number in files:
            runs, why = ("JVM", _FILES) if not why_not else ("Python", f"{_FILES}; not in the JVM: {why_not}")
        if step.kind == "window":
            try:
                trace(plan, number)
                runs, why = "JVM", _TRACED
            except Untraced as untraced:
                why = f"{untraced}: {why}"
        elif step.kind in ("flat_map_batch", "branch") and number in first:
            if not why_not:
                runs, why = "JVM", _TRACED
            else:
                why = f"{_why_not(plan, number, why_not)}: {why}"
        parts.append(Part(step.step_id.removeprefix(f"{flow.flow_id}."), runs, why, step.operator.where))
    return Report(tuple(parts))


def _why_not(plan: Plan, number: int, why_not: str) -> str:
    """The reason why a step runs in Python, given the reason for the steps behind inputs."""
    try:
        steps = stateless(plan.steps[number])
    except Untraced as untraced:
        return str(untraced)
    return why_not if why_not == NOT_OF_A_FILE and [JSON] in steps else f"beside another step ({why_not})"


def _before_state(plan: Plan) -> set[int]:
    """Numbers of the steps upstream of the first stateful steps."""
    streams: set[str] = set()
    numbers = set()
    for number, step in enumerate(plan.steps):
        if step.kind == "input" or (step.kind not in STATEFUL and streams.issuperset(step.ups)):
            streams.update(step.downs)
            numbers.add(number)
    return numbers
