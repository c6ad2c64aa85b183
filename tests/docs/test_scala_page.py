"""A Scala suite compiles and runs the code of the page about Scala."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

HERE = Path(__file__).parents[2]
SUITE = HERE / "jvm/spark/src/test/scala/dev/mullion/ScalaApiSuite.scala"


def test_each_snippet_of_the_page_is_between_marks_of_the_suite() -> None:
    shown = re.findall(r"```scala\n(.*?)```", (HERE / "docs/reference/scala.md").read_text(encoding="utf-8"), re.DOTALL)
    marked = re.findall(r"// docs: \w+\n(.*?)\n *// end", SUITE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(shown) == 3
    assert shown == [textwrap.dedent(one).strip("\n") + "\n" for one in marked]
