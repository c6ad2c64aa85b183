"""scripts/plain_english.py finds each kind of fault, and nothing in code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

import plain_english  # noqa: E402


def faults_in(folder: Path, name: str, text: str) -> list[tuple[int, str]]:
    file = folder / name
    file.write_text(text, "utf-8")
    return list(plain_english.faults(file))


@pytest.mark.parametrize(
    ("name", "text", "line", "fault"),
    [
        ("page.md", "A title\n\nA wrong value is\nrefused at the start.\n", 4, "'refused'"),
        ("page.md", "| a | b |\n|---|---|\n| x | the query goes on |\n", 3, "'goes on'"),
        ("page.md", f"{'word ' * 31}end.\n", 1, "32 words"),
        ("code.py", '"""What a pane holds."""\n', 1, "opens with What"),
        ("code.py", "total = 1  # beside the others\n", 1, "'beside'"),
        ("code.py", "x = 1\nfound = 2\n", 2, "'found' is no name"),
        ("code.py", "def kept(value):\n    return value\n", 1, "'kept' is no name"),
        ("code.py", "class Timer:\n    def __init__(self):\n        self._told = 0\n", 3, "'told' is no name"),
        ("code.py", "try:\n    pass\nexcept ValueError as theirs:\n    raise\n", 3, "'theirs' is no name"),
        ("code.py", "def test_a_query_goes_on() -> None:\n    pass\n", 1, "'goes on'"),
        ("Code.scala", "/** Whether a pane is open. */\nval isOpen = true\n", 1, "opens with Whether"),
        ("Code.scala", "private var made = 0\n", 1, "'made' is no name"),
        ("Code.scala", 'fail(\n  s"The query of $name goes on with it."\n)\n', 2, "'goes on'"),
        ("Code.scala", 'val quote = \'"\'\nfail("A wrong value is refused here.")\n', 2, "'refused'"),
        ("Makefile", "all:\n# What goes on here is told elsewhere.\n", 2, "'goes on'"),
    ],
)
def test_a_fault_is_found_with_its_line(tmp_path: Path, name: str, text: str, line: int, fault: str) -> None:
    faults = faults_in(tmp_path, name, text)
    assert any(number == line and message.startswith(fault) for number, message in faults), faults


def test_code_links_and_short_sentences_have_no_faults(tmp_path: Path) -> None:
    page = "# Title\n\n```python\nrefused = 'goes on'\n```\n\nSet `late=\"refuse\"`. See [the page](doors.md#story).\n"
    assert faults_in(tmp_path, "page.md", page + f"\n{'word ' * 29}end.\n") == []
    scala = 'val told = call("what goes on")\nval url = "//doors"\nfail(s"It has ${refused(x)} as a value.")\n'
    assert [message for _, message in faults_in(tmp_path, "Code.scala", scala)] == [
        "'told' is no name: use a noun for a value, a verb for a function"
    ]
    assert (
        faults_in(tmp_path, "code.py", 'refused = "what goes on"\n\n\ndef due(is_open):\n    """The due panes."""\n')
        == []
    )


def test_every_place_of_the_lists_exists() -> None:
    folders = [ROOT / place for place in plain_english.CLEAN]
    assert all(folder.exists() for folder in folders), folders
    files = [f"{file}" for folder in folders for file in (folder, *folder.rglob("*"))]
    for place in plain_english.UNCHECKED:
        assert any(place in file for file in files), place
