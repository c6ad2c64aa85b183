"""The README says what the code does: its snippets are run in order, and must print what stands below them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Snippet(NamedTuple):
    line: int
    code: str
    printed: str | None


def snippets(text: str) -> list[Snippet]:
    """The python blocks; a text block that comes next, with nothing between, is what the snippet prints."""
    found: list[Snippet] = []
    last = None
    for block in BLOCK.finditer(text):
        if block[1] == "python":
            found.append(Snippet(text.count("\n", 0, block.start()) + 2, block[2], None))
        elif block[1] == "text" and last and last[1] == "python" and not text[last.end() : block.start()].strip():
            found[-1] = found[-1]._replace(printed=block[2])
        last = block
    return found


@pytest.mark.usefixtures("spark")
def test_every_snippet_of_the_readme_runs_and_prints_what_stands_below_it() -> None:
    found = snippets(README.read_text(encoding="utf-8"))
    assert found, "the README has no snippet"
    names: dict[str, Any] = {"__name__": "readme"}
    for snippet in found:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * (snippet.line - 1) + snippet.code, str(README), "exec"), names)
        if snippet.printed is not None:
            assert out.getvalue().strip() == snippet.printed.strip(), f"{README.name}, line {snippet.line}"
    # The snippet's own session is the suite's, which goes on.
    assert isinstance(names["spark"], SparkSession)
