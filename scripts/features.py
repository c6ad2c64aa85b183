"""Keeps docs/reference/features.md consistent with the test cases of tests/transcripts.

    python scripts/features.py           fills in the links and the rules of the test cases
    python scripts/features.py --check   only reports errors

A row of the page names test cases, as in ``[late rows come out whole when they are emitted]()``; this script fills in
their files and rules. A test case that no row names is an error.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "features.md"
TRANSCRIPTS = ROOT / "tests" / "transcripts"
LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
FEATURES = "## Feature by feature"


class Case(NamedTuple):
    file: str
    name: str
    rules: frozenset[int]


def read_cases() -> list[Case]:
    cases = []
    for file in sorted(TRANSCRIPTS.rglob("*.yaml")):
        for document in yaml.load_all(file.read_text(encoding="utf-8"), yaml.CSafeLoader):
            rules = document["rule"]
            cases.append(
                Case(
                    file.relative_to(TRANSCRIPTS).as_posix(),
                    document["name"],
                    frozenset(rules if isinstance(rules, list) else [rules]),
                )
            )
    return cases


def filled_in(page: str, cases: list[Case]) -> tuple[str, list[str]]:
    """The corrected page, and the errors that only an author can fix."""
    by_name = {case.name: case for case in cases}
    wrong = [f"two test cases are called '{name}'" for name in by_name if sum(s.name == name for s in cases) > 1]
    named: set[str] = set()
    rules: set[int] = set()
    in_features = False
    lines = []
    for line in page.splitlines():
        in_features = in_features or line == FEATURES
        cells = line.strip("|").split(" | ") if line.startswith("| ") else []
        if len(cells) != 4 or cells[0].strip() in ("rule", "feature"):
            lines.append(line)
            continue
        names = LINK.findall(cells[3])
        wrong += [
            f"no test case is called '{name}', which features.md links to" for name in names if name not in by_name
        ]
        of = [by_name[name] for name in names if name in by_name]
        cells[3] = " <br> ".join(f"[{case.name}](../../tests/transcripts/{case.file})" for case in of) + " "
        if in_features:
            wrong += [f"'{case.name}' is in two rows of features.md" for case in of if case.name in named]
            named.update(case.name for case in of)
            cells[2] = ", ".join(map(str, sorted({rule for case in of for rule in case.rules})))
        else:
            rule = int(cells[0])
            rules.add(rule)
            wrong += [f"'{case.name}' is not of rule {rule}" for case in of if rule not in case.rules]
            files = sorted({case.file for case in cases if rule in case.rules})
            cells[2] = ", ".join(f"[{file.removesuffix('.yaml')}](../../tests/transcripts/{file})" for file in files)
        lines.append(f"|{' | '.join(cells)}|")
    wrong += [
        f"the test case '{case.name}' ({case.file}) is in no row of features.md: put [{case.name}]() into the row "
        f"of its feature, under '{FEATURES}', and run python scripts/features.py"
        for case in cases
        if case.name not in named
    ]
    wrong += [
        f"rule {rule} is in no row of features.md" for rule in sorted({r for s in cases for r in s.rules} - rules)
    ]
    return "\n".join(lines) + "\n", wrong


def main(check: bool) -> int:
    page = PAGE.read_text(encoding="utf-8")
    should, wrong = filled_in(page, read_cases())
    if check and page != should:
        wrong.append("features.md does not match the test cases: run python scripts/features.py")
    elif not check:
        PAGE.write_text(should, encoding="utf-8")
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
