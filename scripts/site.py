"""Hooks of mkdocs: pages and files of the site from outside of ``docs``, and links to them.

The README is the home page, CHANGELOG.md the changelog; transcripts, notebooks and the benchmarks' pictures are files.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from markdown import Extension, Markdown
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

# Pages of the site by their files in the project.
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "tests/transcripts/README.md": "scenarios.md"}
FOLDERS = (
    "tests/transcripts/*.yaml",
    "tests/transcripts/*/*",
    "benchmarks/results/*.png",
    "examples/notebooks/*.ipynb",
)
# Files without a page on the site; links to them become plain text.
IN_THE_PROJECT = ("CONTRIBUTING.md", "SECURITY.md", "LICENSE", "benchmarks/NOTES.md")

# Roles of docstrings in the generated HTML.
ROLE = re.compile(r":(?:class|func|meth|mod|attr):<code>([\w.]+)</code>")

LINK = re.compile(r"(!?\[[^\]]*\]\()([^)#\s]+)(#[^)]*)?(\))")


class Examples:
    """Shows the examples of docstrings as code, without the options of doctest."""

    def run(self, lines: list[str]) -> list[str]:
        shown: list[str] = []
        is_open = False
        for line in lines:
            if line.startswith(">>> ") and not is_open:
                shown.append("```pycon")
                is_open = True
            elif is_open and not line.strip():
                shown.append("```")
                is_open = False
            text = line.partition("  # doctest:")[0]
            # A docstring has two colons before a block of code.
            shown.append(text.removesuffix(":") if text.endswith("::") else text)
        return [*shown, "```"] if is_open else shown


class ExamplesExtension(Extension):  # type: ignore[misc]
    def extendMarkdown(self, md: Markdown) -> None:
        # Before the processor of fences (25).
        md.preprocessors.register(Examples(), "examples", 28)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the extension for examples in docstrings."""
    config.markdown_extensions.append(ExamplesExtension())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the files from outside of ``docs``."""
    for source, page in PAGES.items():
        if page != "scenarios.md":
            files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for pattern in FOLDERS:
        for file in sorted(ROOT.glob(pattern)):
            name = file.relative_to(ROOT).as_posix()
            files.append(File.generated(config, f"files/{name}", abs_src_path=str(file)))
    files.append(File.generated(config, "scenarios.md", abs_src_path=str(ROOT / "tests/transcripts/README.md")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapts links to the location of a file on the site."""
    here = next((Path(source) for source, name in PAGES.items() if name == page.file.src_uri), None)
    folder = (here or Path("docs") / page.file.src_uri).parent

    def moved(link: re.Match[str]) -> str:
        before, target, anchor, after = link.groups()
        if "://" in target:
            return link[0]
        file = (ROOT / folder / target).resolve().relative_to(ROOT).as_posix()
        if file in IN_THE_PROJECT:
            return link[0][1 : link[0].index("]")]
        if file in PAGES:
            to = PAGES[file]
        elif file.startswith("docs/"):
            to = file.removeprefix("docs/")
        else:
            to = f"files/{file}"
        # A link is relative to the folder of its page.
        to = posixpath.relpath(to, posixpath.dirname(page.file.src_uri) or ".")
        return f"{before}{to}{anchor or ''}{after}"

    return LINK.sub(moved, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links the names in docstrings to their descriptions on the page."""

    def linked(role: re.Match[str]) -> str:
        name = role[1].removeprefix("mullion.")
        described = (f"mullion.{name}", f"mullion.errors.{name}")
        where = next((anchor for anchor in described if f'id="{anchor}"' in html), None)
        return f'<a href="#{where}"><code>{role[1]}</code></a>' if where else f"<code>{role[1]}</code>"

    return ROLE.sub(linked, html)
