"""Breaks rules of the pane contract, one at a time, and says which tests find it.

    python scripts/mutations.py        each in turn, in a copy of the tree; a quarter of an hour

Ends with 1 if a rule can be broken with all tests of `make test` passing. Tests without Spark are asked first, and the
stories only where these find nothing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WINDOWS = Path("jvm/src/main/scala/dev/mullion/windows")
SUITES = ("dev.mullion.*", "*TranscriptSuite")


@dataclass(frozen=True)
class Mutation:
    """A rule of the contract, and a change of one line that breaks it."""

    rule: str
    file: str
    line: str
    broken: str


MUTATIONS = (
    Mutation("a pane closes when the clock is at its end", "clock/BatchClock.scala", "now >= due", "now > due"),
    Mutation(
        "a row is late once its pane has closed",
        "clock/BatchClock.scala",
        "before >= due && before",
        "before > due && before",
    ),
    Mutation(
        "a pane fires early when its clock has moved by the interval",
        "rules/EarlyFiring.scala",
        "clock.now >= eventDue(eventReading)",
        "clock.now > eventDue(eventReading)",
    ),
    Mutation(
        "a pane fires early after so many rows",
        "rules/PaneRules.scala",
        "refinements.count.exists(rows >= _)",
        "refinements.count.exists(rows > _)",
    ),
    Mutation(
        "a pane takes rows until the lateness is over",
        "rules/PaneRules.scala",
        "clock.hadClosed(closeDue(window.end(window.lastStart(ts))))",
        "clock.hadClosed(window.end(window.lastStart(ts)))",
    ),
    Mutation(
        "a row is in time for a session that would close later",
        "rules/PaneRules.scala",
        "clock >= closeDue(TimeMath.plus(ts, gap))",
        "clock > closeDue(TimeMath.plus(ts, gap))",
    ),
    Mutation(
        "a row exactly at the gap joins the session",
        "key/OpenSessions.scala",
        "sessions.get(to).first <= end)",
        "sessions.get(to).first < end)",
    ),
    Mutation(
        "of sessions that become one the earliest goes on",
        "key/OpenSessions.scala",
        "touched.stream.filter(_.isOld).findFirst.orElse(touched.get(0))",
        "touched.get(touched.size - 1)",
    ),
    Mutation(
        "a session that has grown is on time again at its new end",
        "key/OpenSessions.scala",
        "session.wasOnTime &= end <= session.end",
        "session.wasOnTime &= true",
    ),
    Mutation(
        "a pane that was on time fires for its rows, and not at intervals",
        "key/PaneFirings.scala",
        "!pane.wasOnTime && (early.unchanged || pane.rows > 0)",
        "early.unchanged || pane.rows > 0",
    ),
)


def found_by(tree: Path) -> Iterator[str]:
    """The tests that fail, of the first suites that have such."""
    launcher = next(tree.glob(".build/sbt-launch-*.jar"))
    for suites in SUITES:
        command = ["java", "-Xmx2g", "-Dsbt.color=false", "-Dsbt.supershell=false", "-jar", str(launcher)]
        done = subprocess.run(
            [*command, f"jvm/testOnly {suites}"], cwd=tree, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        failed = re.findall(r"==> X \S*?(\w+Suite)\.(.*?)\s+[\d.]+s", re.sub(r"\x1b\[\d+m", "", done.stdout))
        if failed:
            yield from (f"{suite}: {test}" for suite, test in failed)
            return
        if done.returncode:
            sys.exit(f"The tests did not run:\n{done.stdout[-3000:]}")


def main() -> None:
    files = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for file in [*files, *map(str, Path(".build").glob("sbt-launch-*.jar"))]:
            if Path(file).is_file():
                (tree / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, tree / file)
        for mutation in MUTATIONS:
            source = tree / WINDOWS / mutation.file
            text = source.read_text()
            if text.count(mutation.line) != 1:
                sys.exit(f"{mutation.file} has {text.count(mutation.line)} times {mutation.line!r}, and not once.")
            source.write_text(text.replace(mutation.line, mutation.broken))
            tests = list(found_by(tree))
            source.write_text(text)
            print(
                f"{mutation.rule}: {f'{len(tests)} tests, first {tests[0]}' if tests else 'FOUND BY NONE'}", flush=True
            )
            missed += [] if tests else [mutation.rule]
    sys.exit(f"{len(missed)} of {len(MUTATIONS)} found by no test" if missed else 0)


if __name__ == "__main__":
    main()
