"""The build uses only options that the tools of macOS have too, as far as they can be found in its text."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = [ROOT / "Makefile", ROOT / "scripts" / "check-tools"]
GNU_ONLY = {
    r"\bpaste -s\S*(?: ';'| -d \S+)?(?= *[);|\n])": "paste requires the operand -",
    r"\bsed (?:-i|-r|-z|--)": "sed -i and -r",
    r"\bgrep (?:-\w*P|--perl)": "grep -P",
    r"\breadlink -f|\brealpath\b": "readlink -f",
    r"\bdate (?:-d|--date|-I)": "date -d",
    r"\bstat (?:-c|--format)": "stat -c",
    r"\bxargs (?:-\w*[rd]\b|--)": "xargs -r",
    r"\b(?:cp|mv) (?:-t|--)": "cp -t",
    r"\bnproc\b": "nproc",
    r"\bsort -\w*V|\bhead -n -|\btouch -d|\bmktemp --": "GNU coreutils",
    r"\bfind (?:-|\()": "find requires a folder",
    r"\[\[|\$'|\bfunction \w+ *\{": "bash",
}


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_a_script_has_no_option_of_gnu_tools(file: Path) -> None:
    lines = [f"{line}\n" for line in file.read_text("utf-8").splitlines() if not line.startswith("#")]
    faults = [f"{tool}: {line}" for pattern, tool in GNU_ONLY.items() for line in lines if re.search(pattern, line)]
    assert faults == []


def test_the_patterns_find_what_they_are_for() -> None:
    for line in ("grep x | paste -sd ';')", "sed -i s/a/b/ x", "readlink -f x", "find -name x", "date -d now"):
        assert any(re.search(pattern, line + "\n") for pattern in GNU_ONLY), line
    assert not any(re.search(pattern, "grep -o 'x' log | paste -sd ';' -)\n") for pattern in GNU_ONLY)


def test_missing_tools_are_named_for_each_system() -> None:
    check = ["sh", str(SCRIPTS[1]), "no-such-python", "no-such-java", "no-such-javac"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("macOS: brew install ") == done.stderr.count("Fedora: dnf install ") == 2
    assert "brew install openjdk@21" in done.stderr
