"""Random tests with new seeds for some time, one after the other, in one process at a time.

    make random OF=bytewax MINUTES=60
    make random OF=engine SEED=12     one round with a known seed

Each round prints the test, its seed and the number of cases. The output of a failed round is in ``--into``, with the
command that repeats it. The exit status is 1 if a round failed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tests:
    """Random tests of one file.

    ``only`` selects them by name, as ``pytest -k`` does. ``rounds`` is their number of programs, if the file reads it.
    """

    file: str
    only: str = ""
    rounds: int = 1


SUITES: dict[str, tuple[Tests, ...]] = {
    "engine": (
        Tests("tests/operator/test_differential.py"),
        Tests("tests/operator/test_random_options.py", rounds=10),
        Tests("tests/operator/test_random_results.py", rounds=4),
        Tests("tests/checkpoint/changes/test_cast_columns.py", "random", rounds=2),
        Tests("tests/checkpoint/changes/test_random_changes.py", rounds=8),
        Tests("tests/operator/test_last_close.py", "random", rounds=10),
        Tests("tests/windows/clocks/test_arrival.py"),
    ),
    "bytewax": (
        Tests("tests/adapters/bytewax/test_bytewax.py", "released_package"),
        Tests("tests/adapters/bytewax/test_bytewax_logics.py", "released_package"),
        Tests("tests/adapters/bytewax/test_bytewax_traced.py"),
        Tests("tests/adapters/bytewax/test_bytewax_windows.py", "released_package", rounds=400),
    ),
    "faust": (
        Tests("tests/adapters/faust/agents/test_faust_streams_random.py", rounds=8),
        Tests("tests/adapters/faust/agents/test_faust_python.py"),
        Tests("tests/adapters/faust/agents/test_faust_compiled.py", "random"),
        Tests("tests/adapters/programs/test_variables.py", rounds=1000),
    ),
    "kx": (Tests("tests/adapters/kx/test_kx_random.py", rounds=3),),
    "turbine": (Tests("tests/adapters/turbine/test_turbine_random.py", rounds=10),),
}


def passed(tests: Tests, seed: int, into: Path) -> Counter[str]:
    """Runs the tests with a seed, and keeps the output if one fails. Returns the numbers that pytest prints."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", tests.file]
    if tests.only:
        command += ["-k", tests.only]
    setting = {"MULLION_SEED": str(seed), "MULLION_TEST_ROUNDS": str(tests.rounds)}
    done = subprocess.run(command, env={**os.environ, **setting}, capture_output=True, text=True, check=False)
    counts = Counter({word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout)})
    if done.returncode != 0:
        again = " ".join([*(f"{name}={value}" for name, value in setting.items()), *command])
        into.mkdir(parents=True, exist_ok=True)
        (into / f"{Path(tests.file).stem}-{seed}.txt").write_text(f"{again}\n{done.stdout}{done.stderr}", "utf-8")
        counts["rounds that failed"] += 1
    return counts


def seeds(only: int | None) -> Iterator[int]:
    """The seed ``only``, or new ones."""
    if only is not None:
        yield only
        return
    chance = random.SystemRandom()
    while True:
        yield chance.randrange(10**9)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of", choices=[*SUITES], required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="of a single round of each test")
    parser.add_argument("--into", type=Path, default=Path(".build/random"))
    arguments = parser.parse_args()
    begun, total = time.monotonic(), Counter[str]()
    for seed in seeds(arguments.seed):
        for tests in SUITES[arguments.of]:
            if arguments.seed is None and time.monotonic() - begun > arguments.minutes * 60:
                print(f"{arguments.of}: {dict(total)} in {arguments.minutes:g} minutes", flush=True)
                return 1 if total["rounds that failed"] else 0
            counts = passed(tests, seed, arguments.into)
            total += counts + Counter({f"{Path(tests.file).stem}, {tests.rounds} rounds each": 1})
            minutes = (time.monotonic() - begun) / 60
            print(f"{minutes:6.1f} min  {tests.file} MULLION_SEED={seed}: {dict(counts)}", flush=True)
    return 1 if total["rounds that failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
