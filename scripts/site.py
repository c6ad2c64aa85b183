"""Hooks of mkdocs: what the site shows that lies beside ``docs``, and links to it.

The README is the home page, CHANGELOG.md the changelog; transcripts and the benchmarks' pictures come along as files.
"""

from __future__ import annotations

import re
from pathlib import Path

from markdown import Extension, Markdown
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

# Where a page of the site is, by where the file is in the project.
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "tests/transcripts/README.md": "stories.md"}
FOLDERS = ("tests/transcripts/*.yaml", "benchmarks/results/*.png")
# They are read where the project is.
IN_THE_PROJECT = ("CONTRIBUTING.md", "SECURITY.md", "LICENSE", "benchmarks/NOTES.md")

# How docstrings name what they speak of, in the HTML that comes of them.
ROLE = re.compile(r":(?:class|func|meth|mod|attr):<code>([\w.]+)</code>")

LINK = re.compile(r"(!?\[[^\]]*\]\()([^)#\s]+)(#[^)]*)?(\))")


class Examples:
    """Has the examples of docstrings shown as code, without what only doctest reads."""

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
        # Before fences are looked for (25).
        md.preprocessors.register(Examples(), "examples", 28)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Has the Markdown of docstrings understand examples."""
    config.markdown_extensions.append(ExamplesExtension())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds what lies beside ``docs``."""
    for source, page in PAGES.items():
        if page != "stories.md":
            files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for pattern in FOLDERS:
        for file in sorted(ROOT.glob(pattern)):
            name = file.relative_to(ROOT).as_posix()
            files.append(File.generated(config, f"files/{name}", abs_src_path=str(file)))
    files.append(File.generated(config, "stories.md", abs_src_path=str(ROOT / "tests/transcripts/README.md")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Has links go to where a file is on the site."""
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
        return f"{before}{to}{anchor or ''}{after}"

    return LINK.sub(moved, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Has the names in docstrings lead to where the page describes them."""

    def linked(role: re.Match[str]) -> str:
        name = role[1].removeprefix("mullion.")
        described = (f"mullion.{name}", f"mullion.errors.{name}")
        where = next((anchor for anchor in described if f'id="{anchor}"' in html), None)
        return f'<a href="#{where}"><code>{role[1]}</code></a>' if where else f"<code>{role[1]}</code>"

    return ROLE.sub(linked, html)
