"""Runs the snippets of the README and of the pages of docs in order, and compares outputs with the text below them."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Snippet(NamedTuple):
    line: int
    code: str
    printed: str | None


def snippets(text: str) -> list[Snippet]:
    """The python blocks. A text block directly below is the expected output of the snippet."""
    blocks: list[Snippet] = []
    last = None
    for block in BLOCK.finditer(text):
        if block[1] == "python":
            blocks.append(Snippet(text.count("\n", 0, block.start()) + 2, block[2], None))
        elif block[1] == "text" and last and last[1] == "python" and not text[last.end() : block.start()].strip():
            blocks[-1] = blocks[-1]._replace(printed=block[2])
        last = block
    return blocks


def source_of_page(page: Path) -> None:
    """Compiles snippets at their lines of the page, so that Python finds the source of their functions."""
    lines: list[str] = []
    for snippet in snippets(page.read_text("utf-8")):
        lines += ["\n"] * (snippet.line - 1 - len(lines)) + snippet.code.splitlines(keepends=True)
    linecache.cache[str(page)] = (sum(map(len, lines)), None, lines, str(page))


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=pytest.mark.always if page.name == "README.md" else ())
        for page in PAGES
        if snippets(page.read_text("utf-8"))
    ],
)
def test_every_snippet_of_the_page_runs_and_prints_the_text_below_it(page: Path) -> None:
    # The page's session is the suite's, which must not stop.
    names: dict[str, Any] = {"__name__": "page"}
    source_of_page(page)
    for snippet in snippets(page.read_text("utf-8")):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * (snippet.line - 1) + snippet.code, str(page), "exec"), names)
        if snippet.printed is not None:
            assert out.getvalue().strip() == snippet.printed.strip(), f"{page.name}, line {snippet.line}"
    assert isinstance(names["spark"], SparkSession)


def test_the_readme_has_snippets() -> None:
    assert snippets(PAGES[0].read_text("utf-8"))
