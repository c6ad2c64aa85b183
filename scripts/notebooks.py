"""Runs the notebooks of examples/notebooks and stores their outputs: notebooks.py [NAME...].

It needs no Jupyter. As Jupyter does, it runs the cells of a notebook in order, and shows the result of a cell's last
line as HTML or as a picture if the object can be shown so.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import linecache
import sys
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "examples" / "notebooks"
NOTEBOOKS: Final = sorted(FOLDER.glob("*.ipynb"))


def executed(notebook: dict[str, Any], name: str) -> dict[str, Any]:
    """The notebook with the outputs of this run."""
    names: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    cells: list[dict[str, Any]] = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            outputs = outputs_of("".join(cell["source"]), f"{name}[{number}]", names, number)
            cells.append({**cell, "execution_count": number, "outputs": outputs})
        else:
            cells.append(cell)
    return {**notebook, "cells": cells}


def outputs_of(source: str, file: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Runs a cell. Its functions can read their source, as those of a file can."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    body = ast.parse(source, file)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    printed, result = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(body, file, "exec"), names)
        if isinstance(last, ast.Expr):
            result = eval(compile(ast.Expression(last.value), file, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if result is not None:
        data = shown(result)
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def shown(result: Any) -> dict[str, Any]:
    """The forms in which a notebook can show an object."""
    data: dict[str, Any] = {"text/plain": lines(repr(result))}
    html = getattr(result, "_repr_html_", lambda: None)()
    if html is not None:
        data["text/html"] = lines(html)
    png = getattr(result, "_repr_png_", lambda: None)()
    if png is not None:
        data["image/png"] = base64.b64encode(png).decode()
    return data


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def text_of(notebook: dict[str, Any]) -> str:
    """The text of its file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def main() -> None:
    chosen = [file for file in NOTEBOOKS if not sys.argv[1:] or file.stem in sys.argv[1:]]
    for file in chosen:
        file.write_text(text_of(executed(json.loads(file.read_text("utf-8")), file.stem)), "utf-8")
        print(file)


if __name__ == "__main__":
    main()
