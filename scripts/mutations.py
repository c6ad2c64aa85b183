"""Breaks rules of the pane contract, one at a time, and reports the tests that detect each.

    python scripts/mutations.py        in a copy of the tree; two or three minutes

The exit code is 1 if all tests of `make test` pass with a broken rule. One sbt process compiles each change and runs
the suites without Spark. If these pass, it runs the test cases, up to the first failure.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

WINDOWS = Path("jvm/windows/src/main/scala/dev/mullion/windows")
PURE = "dev.mullion.*"
SCENARIOS = "*TranscriptSuite"


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
        "closedBefore >= due && before",
        "closedBefore > due && before",
    ),
    Mutation(
        "an idle stream does not hold the clock back",
        "clock/StreamClock.scala",
        "nowMs - since.sinceMs >= after",
        "nowMs - since.sinceMs > after",
    ),
    Mutation(
        "a pane fires early when its clock has moved by the interval",
        "rules/EarlyFiring.scala",
        "clock.now >= eventDue(eventReading, clock)",
        "clock.now > eventDue(eventReading, clock)",
    ),
    Mutation(
        "a pane fires early after a number of rows",
        "rules/PaneRules.scala",
        "refinements.count.exists(rows >= _)",
        "refinements.count.exists(rows > _)",
    ),
    Mutation(
        "a pane that keeps its rows fires with the row that completes the count",
        "key/AlignedPanesOfKey.scala",
        "firings.rowsSince(pane.id) >= n",
        "firings.rowsSince(pane.id) > n",
    ),
    Mutation(
        "a pane accepts rows until the lateness has passed",
        "rules/PaneRules.scala",
        "closeDue(window.end(window.lastStart(ts)))",
        "window.end(window.lastStart(ts))",
    ),
    Mutation(
        "a row is in time for a session that would close later",
        "rules/PaneRules.scala",
        "clock >= closeDue(TimeMath.plus(ts, gap))",
        "clock > closeDue(TimeMath.plus(ts, gap))",
    ),
    Mutation(
        "a row exactly at the gap joins the session",
        "key/session/OpenSessions.scala",
        "sessions.get(to).first <= end)",
        "sessions.get(to).first < end)",
    ),
    Mutation(
        "a row at the longest length of a session begins the next one",
        "rules/PaneRules.scala",
        "window.maxLength.forall(ts < TimeMath.plus(first, _))",
        "window.maxLength.forall(ts <= TimeMath.plus(first, _))",
    ),
    Mutation(
        "a row at the time of the row that ended a session begins the next one",
        "rules/PaneRules.scala",
        "if (isEnded) ts < last",
        "if (isEnded) ts <= last",
    ),
    Mutation(
        "the earliest of merged sessions survives",
        "key/session/OpenSessions.scala",
        "touched.stream.filter(_.isOld).findFirst.orElse(touched.get(0))",
        "touched.get(touched.size - 1)",
    ),
    Mutation(
        "a session that has grown is on time again at its new end",
        "key/session/OpenSessions.scala",
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


class Sbt:
    """An sbt process for several commands."""

    def __init__(self, tree: Path) -> None:
        launcher = next(tree.glob(".build/sbt-launch-*.jar"))
        options = ["-Xmx2g", "-Dsbt.color=false", "-Dsbt.supershell=false", "-Dsbt.server.autostart=false"]
        self._process = subprocess.Popen(
            ["java", *options, "-jar", str(launcher)],
            cwd=tree,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Its tests run in a separate process, which ends with it.
            process_group=0,
        )

    def failures(self, suites: str) -> Iterator[str]:
        """Runs suites, and yields each failed test immediately."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"jvm/testOnly {suites}\n")
        self._process.stdin.flush()
        output = []
        failed = passed = False
        for line in self._process.stdout:
            text = re.sub(r"\x1b\[\d*m", "", line)
            output.append(text)
            if failure := re.search(r"==> X \S*?(\w+Suite)\.(.*?)\s+[\d.]+s", text):
                failed = True
                yield f"{failure[1]}: {failure[2]}"
            passed |= "Passed: Total" in text
            if "Total time:" in text:
                break
        if not failed and not passed:
            sys.exit(f"The tests did not run:\n{''.join(output[-40:])}")

    def stop(self) -> None:
        """Kills the process."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def sbt(tree: Path) -> Iterator[Sbt]:
    """A context with an sbt process."""
    running = Sbt(tree)
    try:
        yield running
    finally:
        running.stop()


def first_of_scenarios(tree: Path) -> str | None:
    """The first failed test case, without waiting for the others."""
    with sbt(tree) as own:
        return next(own.failures(SCENARIOS), None)


def copied(tree: Path) -> None:
    """Copies the sources and the compiled classes of sbt."""
    files = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    for file in [*files, *map(str, Path(".build").glob("sbt-launch-*.jar"))]:
        if Path(file).is_file():
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, tree / file)
    if Path("jvm/target").is_dir():
        shutil.copytree("jvm/target", tree / "jvm/target", ignore=shutil.ignore_patterns("*.jar", "test-reports"))


def misplaced() -> list[str]:
    """Mutations whose line does not occur exactly once in its file."""
    counts = {mutation: (WINDOWS / mutation.file).read_text().count(mutation.line) for mutation in MUTATIONS}
    return [f"{m.file} has {m.line!r} {count} times instead of once." for m, count in counts.items() if count != 1]


def main() -> None:
    if wrong := misplaced():
        sys.exit("\n".join(wrong))
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copied(tree)
        with sbt(tree) as shared:
            if failing := list(shared.failures(PURE)):
                sys.exit(f"Tests fail with no rule broken: {', '.join(failing)}")
            for mutation in MUTATIONS:
                source = tree / WINDOWS / mutation.file
                text = source.read_text()
                source.write_text(text.replace(mutation.line, mutation.broken))
                tests = list(shared.failures(PURE))
                scenario = None if tests else first_of_scenarios(tree)
                source.write_text(text)
                detected = f"{len(tests)} tests, first {tests[0]}" if tests else scenario or "DETECTED BY NONE"
                print(f"{mutation.rule}: {detected}", flush=True)
                missed += [] if tests or scenario else [mutation.rule]
    sys.exit(f"{len(missed)} of {len(MUTATIONS)} detected by no test" if missed else 0)


if __name__ == "__main__":
    main()
