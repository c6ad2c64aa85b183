"""Panes in the notation of scenarios, and their differences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tests.support.transcripts.scenario import Firing, Spec, seconds


def shown(panes: DataFrame, spec: Spec) -> DataFrame:
    columns = [*spec.keys, "window", "pane", *spec.holds]
    assert panes.columns == (columns if spec.late != "emit" else [*columns, "late_row"])
    return as_json(panes, spec, pane=True)


def as_json(panes: DataFrame, spec: Spec, *, pane: bool) -> DataFrame:
    """Panes as JSON, with times as microseconds: the same in every language, over the whole range of time."""
    bounds = "unix_micros(window.start), unix_micros(window.end)"
    if spec.is_numbered:
        # Scenarios write row numbers in the place of seconds.
        bounds = "window.start * 1000000, window.end * 1000000"
    window = f"if(window IS NULL, NULL, array({bounds})) AS window"
    values = [f"`{name}`" for name in spec.holds]
    if spec.collect is not None:
        row: Any = panes.schema["rows"].dataType
        fields = ["unix_micros(r.ts) AS ts", *(f"r.`{name}`" for name in row.elementType.names[1:])]
        values = [f"transform(rows, r -> struct({', '.join(fields)})) AS rows"]
    columns = [*(f"`{key}`" for key in spec.keys), window, *values]
    if pane:
        columns += ["pane.firing", "pane.seq"]
    if spec.ids:
        # A pane without merged panes shows its id only.
        columns += ["pane.id", "if(size(pane.merged) = 0, NULL, pane.merged) AS merged"]
    if pane and spec.late == "emit":
        late: Any = panes.schema["late_row"].dataType
        late_fields = ["unix_micros(late_row.ts) AS ts", *(f"late_row.`{name}`" for name in late.names[1:])]
        columns.append(f"if(late_row IS NULL, NULL, struct({', '.join(late_fields)})) AS late_row")
    return panes.select(F.to_json(F.struct(*map(F.expr, columns))).alias("firing"))


def firings_of(rows: Iterable[Row], names: Sequence[str]) -> list[Firing]:
    """Firings as in scenarios: ``{close: 0, k: a, window: [0, 10], n: 1}``, ``{late: [3, a, 9], k: a}``."""
    return [firing_of(json.loads(row[0], parse_float=Decimal), names) for row in rows]


def firing_of(values: Firing, names: Sequence[str]) -> Firing:
    if "window" in values:
        values["window"] = [seconds(us) for us in values["window"]]
    if isinstance(values.get("rows"), list):
        values["rows"] = [row_of(row, names) for row in values["rows"]]
    firing, seq = values.pop("firing", None), values.pop("seq", None)
    if firing not in ("late", "ahead"):
        return values if firing is None else {firing: seq, **values}
    assert seq is None
    return {firing: row_of(values.pop("late_row"), names), **values}


def row_of(row: dict[str, Any], names: Sequence[str]) -> list[Any]:
    """A row in the notation of scenarios."""
    time = seconds(row["ts"]) if "ts" in row else None
    return [time, *(row.get(name) for name in names[1:])]


def pane_of(firing: Firing, spec: Spec) -> str:
    return plain({name: firing.get(name) for name in [*spec.keys, "window"]})


def plain(value: Any) -> str:
    """A text that is the same for equal firings: numbers by value, without null fields."""

    def of(value: Any) -> Any:
        match value:
            case bool() | None:
                return value
            case int() | Decimal() | float():
                return f"number {Decimal(str(value)).normalize():f}"
            case Mapping():
                return {str(k): of(v) for k, v in value.items() if v is not None}
            case list():
                return [of(v) for v in value]
        return value

    return json.dumps(of(value), sort_keys=True)


def same(actual: Sequence[Firing], expected: Sequence[Firing], spec: Spec, at: str) -> None:
    """Fails unless the firings are equal. Only firings of one pane have an order."""

    def panes(firings: Sequence[Firing]) -> dict[str, list[str]]:
        of: dict[str, list[str]] = {}
        for firing in firings:
            of.setdefault(pane_of(firing, spec), []).append(plain(firing))
        return {pane: sorted(of[pane]) if '"window"' not in pane else of[pane] for pane in of}

    if panes(actual) != panes(expected):
        pytest.fail(f"{at}:\n{difference(actual, expected)}", pytrace=False)


def same_batches(actual: Sequence[list[Firing]], expected: Sequence[list[Firing]], spec: Spec, at: str) -> None:
    for number, (batch, wanted) in enumerate(zip(actual, expected, strict=False)):
        same(batch, wanted, spec, f"{at}, batch {number}")
    assert len(actual) == len(expected), f"{at}: batches that ran"


def difference(actual: Sequence[Firing], expected: Sequence[Firing]) -> str:
    actual_, expected_ = Counter(map(plain, actual)), Counter(map(plain, expected))
    missing = [f"  missing: {line}" for line in (expected_ - actual_).elements()]
    more = [f"  instead: {line}" for line in (actual_ - expected_).elements()]
    return "\n".join(missing + more) or "  the firings of a pane in another order"
