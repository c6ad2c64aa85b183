"""The line of the user's code that messages name, for an error and for the text of its traceback."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from mullion._util.codec.values import encode
from mullion._util.tracebacks import raised_in_worker
from mullion._util.user_code import failed_at, failed_line


def raised(function: Callable[[], Any]) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


def in_a_library() -> Any:
    return json.loads("{")


def in_mullion() -> Any:
    return encode(object(), "The state")


@pytest.mark.parametrize("function", [in_a_library, in_mullion])
def test_an_error_of_a_library_is_at_the_line_that_called_it(function: Callable[[], Any]) -> None:
    error = raised(function)
    at = f"{__file__}:{function.__code__.co_firstlineno + 1}"
    assert failed_at(error, function) == failed_at(error) == at
    text = "".join(traceback.format_exception(error))
    assert (raised_in_worker(text) or "").endswith(f", at {at}")


def test_a_line_of_the_functions_own_file_comes_first_and_the_function_if_there_is_none(tmp_path: Any) -> None:
    other: dict[str, Any] = {}
    exec(compile("def fail():\n    1 / 0\n", tmp_path / "other.py", "exec"), other)
    error = raised(lambda: other["fail"]())
    assert failed_at(error) == f"{tmp_path / 'other.py'}:2"
    line = failed_line(error, raised)
    assert line is not None
    assert line.filename == __file__
    never = ValueError("never raised")
    assert failed_at(never, in_mullion) == f"{__file__}:{in_mullion.__code__.co_firstlineno}"
    assert (failed_line(never), failed_at(never)) == (None, "an unknown line")
