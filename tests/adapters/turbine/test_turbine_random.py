"""Random programs of Turbine: in the JVM, in Python and with state they publish what pandas computes.

``MULLION_SEED`` repeats a failed run. ``MULLION_TEST_ROUNDS`` is the number of programs.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mullion import turbine
from mullion.turbine import testing
from tests.support.cache_sizes import draw_size
from tests.support.checked import of_a_user
from tests.support.seeds import SEED
from tests.support.turbine.turbine_programs import LAST_ROW, Program, expected, line

ROUNDS = int(os.environ.get("MULLION_TEST_ROUNDS", "3"))
SUBSCRIPTIONS = ("plain", "body", "kept")


@pytest.mark.parametrize("number", [pytest.param(n, marks=pytest.mark.slow if n else ()) for n in range(ROUNDS)])
def test_a_random_program_publishes_what_pandas_computes(spark: SparkSession, tmp_path: Path, number: int) -> None:
    seeded = SEED
    program = Program(f"{seeded} {number}")
    # Every other one has a user's settings, and not those of the suite.
    session = of_a_user(spark, program.rng.choice("12")) if number % 2 else spark
    context = f"MULLION_SEED={seeded}, program {number}, {draw_size(session, program.rng)}"
    print(context)
    module = program.module(tmp_path, f"program_{number}")
    try:
        app = turbine.App(f"random-{number}", spark=session)
        module.define(app)
        runs = {part.name: part.runs for part in app.explain().parts}
        assert [runs[f"{name}.process"] for name in SUBSCRIPTIONS] == ["JVM", "Python", "Python"]
        batches: list[list[dict[str, Any]]] = []
        clocks: list[int] = []
        with testing.run(app, start_ms=5_000) as t:
            now, around = 5_000, 2_000
            for size in (80, 60, None):
                batches.append([LAST_ROW] if size is None else program.rows(size, 100 * len(batches), around))
                t.feed("rows", batches[-1])
                t.settle()
                clocks.append(now)
                around += program.rng.randrange(1, 3 * max(window.size for window in program.windows))
                if not program.event_time:
                    step = 10**9 if size is None else program.rng.randrange(1, max(w.size for w in program.windows))
                    t.advance(step)
                    t.settle()
                    now += step
                if size is not None and program.rng.random() < 0.2:
                    t.restart()
            clocks.append(now)
            outputs = {name: published(t.outputs(name)) for name in SUBSCRIPTIONS}
        for name in SUBSCRIPTIONS:
            should = expected(program, name, batches, clocks)
            missing, instead = sorted((should - outputs[name]).elements()), sorted((outputs[name] - should).elements())
            assert outputs[name] == should, f"{context}, {name}: {instead[:4]} for {missing[:4]} in\n{program.text()}"
            assert should
    finally:
        del sys.modules[module.__name__]


def published(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(
        line(row["window"], row["start"], row["end"], json.loads(row["group"]), json.loads(row["values"]))
        for row in rows
    )
