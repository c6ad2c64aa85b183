"""Checks prose against the rules of CONTRIBUTING.md: plain_english.py [FILE...]. The default is the list CLEAN."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
CLEAN: Final = (
    *("README.md", "CHANGELOG.md", "SECURITY.md", "docs", "benchmarks", "mkdocs.yml", ".github"),
    *("CONTRIBUTING.md", "Makefile", "examples", "scripts", "build.sbt", "project"),
    *("python/mullion", "jvm/windows/src", "jvm/spark/src", "tests"),
)
# Written by the benchmark; examples of faults.
UNCHECKED: Final = ("docs/reference/results.md", "tests/docs/code/test_plain_english.py")

WORDS: Final = {
    r"refus(?:e|es|ed|al|als)": "raises an error, is rejected, is not supported",
    r"go(?:es)? on": "continues, resumes, stays open",
    r"stands": "is stopped, is at",
    r"mend(?:s|ed)?": "fix",
    r"(?:put|puts|come|comes|came|hand|hands|handed|give|gives) out": "emit, return, output",
    r"doors?": "adapter",
    r"stor(?:y|ies)": "test case",
    r"way round": "workaround",
    r"beside": "next to, in addition to, compared with",
    r"(?:told|says|knows)": "documented in, records, contains",
    r"without a word": "silently",
    r"what (?:is|was|comes|came|goes|went|there)": "a noun",
    r"windows together": "several windows in one query",
    r"odd": "unsupported",
    r"traced": "translated, compiled",
}
WORD_TABLE: Final = [(re.compile(rf"\b{word}\b", re.IGNORECASE), better) for word, better in WORDS.items()]
OPENERS: Final = re.compile(r"(?:What|Whether|Where|How|Which|Who|Why)\b")
BARE_NAMES: Final = re.compile("asked|drawn|found|given|held|kept|known|left|made|said|seen|theirs|told|was|whole")
SUFFIXES: Final = (".md", ".py", ".scala", ".sbt", ".yml", "")

FENCED: Final = re.compile(r"^ *```.*?^ *```[^\n]*$|<!-- begin:.*?<!-- end:[^\n]*-->", re.MULTILINE | re.DOTALL)
# Code, parameters, and the targets of links. A link to a test case shows its name.
NO_PROSE: Final = re.compile(
    r"(?s:\{\{\{.*?\}\}\})|@param \w+|\[\[\w[^\]]*\]\]|``[^`]*``|`[^`]*`|\[[^\[\]]*\]\([^()]*\.yaml\)|(?<=\])\([^()]*\)|https?://\S+"
)
PARAGRAPH: Final = re.compile(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.|\||#) )|\s\|\s|\|\n|<br>")
LINKS: Final = re.compile(r"\bx(?:, x)+")
SENTENCE: Final = re.compile(r"[.!?:;]\s+|[.!?]\*\*\s")
# Comments, texts, and characters, which may be quotes.
SCALA_PROSE: Final = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"\"\"(?P<block>.*?)\"\"\"|\"(?P<text>(?:\\.|[^\"\\\n])*)\"|'(?:\\.|[^'\\])'", re.DOTALL
)
INTERPOLATED: Final = re.compile(r"\$\{[^}]*\}|\$\w+")
SCALA_NAME: Final = re.compile(r"\b(?:val|var|def)\s+(\w+)\b")


class Prose(NamedTuple):
    line: int
    text: str
    is_doc_comment: bool = False


def markdown(source: str) -> Iterator[Prose]:
    text = FENCED.sub(lambda block: "\n" * block[0].count("\n"), source)
    text = NO_PROSE.sub(lambda code: "x" + "\n" * code[0].count("\n"), text)
    line = 1
    for paragraph in PARAGRAPH.split(text):
        start = text.index(paragraph)
        line += text.count("\n", 0, start)
        text = text[start + len(paragraph) :]
        yield Prose(line + len(paragraph) - len(paragraph.lstrip("\n")), paragraph)
        line += paragraph.count("\n")


def python(source: str) -> Iterator[Prose]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield Prose(node.lineno, str(node.value.value), is_doc_comment=True)
        elif isinstance(node, ast.Constant) and str(node.value).count(" ") > 3:
            yield Prose(node.lineno, re.sub('"[^"]*"', "x", str(node.value)))
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield Prose(node.lineno, node.name.replace("_", " "))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Prose(token.start[0], token.string.lstrip("# "))


def scala(source: str) -> Iterator[Prose]:
    for match in SCALA_PROSE.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        if match[0].startswith(("/*", "//")):
            yield Prose(line, match[0].strip("/* \n"), is_doc_comment=match[0].startswith("/**"))
        elif (text := match["block"] or match["text"] or "").count(" ") > 3:
            yield Prose(line, INTERPOLATED.sub("x", text))


def hashed(source: str) -> Iterator[Prose]:
    for number, line in enumerate(source.splitlines(), 1):
        if comment := re.search(r"(?:^|\s)#\s(.*)", line):
            yield Prose(number, comment[1])


def names(file: Path, source: str) -> Iterator[tuple[int, str]]:
    if file.suffix == ".scala":
        yield from ((source.count("\n", 0, name.start()) + 1, name[1]) for name in SCALA_NAME.finditer(source))
    elif file.suffix == ".py":
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.keyword | ast.alias) and not isinstance(getattr(node, "ctx", None), ast.Load):
                named = (getattr(node, field, None) for field in ("id", "attr", "arg", "name"))
                yield from ((getattr(node, "lineno", 0), name.lstrip("_")) for name in named if isinstance(name, str))


def faults(file: Path) -> Iterator[tuple[int, str]]:
    source = file.read_text("utf-8")
    read = {".md": markdown, ".py": python, ".scala": scala, ".sbt": scala}.get(file.suffix, hashed)
    for prose in read(source):
        text = NO_PROSE.sub("x", prose.text)
        for word, better in WORD_TABLE:
            if match := word.search(text):
                yield prose.line + text.count("\n", 0, match.start()), f"'{match[0]}': write {better}"
        if prose.is_doc_comment and (opener := OPENERS.match(prose.text)):
            yield prose.line, f"opens with {opener[0]}: open with a noun phrase or a verb"
        if file.suffix == ".md":
            for sentence in SENTENCE.split(LINKS.sub("x", " ".join(text.split()))):
                if (words := len(sentence.split())) > 30:
                    yield prose.line, f"{words} words: '{sentence[:60]}...'"
    for line, name in names(file, source):
        if BARE_NAMES.fullmatch(name) and not (name == "left" and "right" in source):
            yield line, f"'{name}' is no name: use a noun for a value, a verb for a function"


def main(*places: str) -> int:
    exit_status = 0
    folders = [ROOT / place for place in places or CLEAN if (ROOT / place).exists()]
    files = [file for place in folders for file in ([place] if place.is_file() else sorted(place.rglob("*.*")))]
    for file in (one for one in files if one.suffix in SUFFIXES and str(one.relative_to(ROOT)) not in UNCHECKED):
        for line, fault in faults(file):
            exit_status = 1
            print(f"{file.relative_to(ROOT)}:{line}: {fault}")
    return exit_status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
