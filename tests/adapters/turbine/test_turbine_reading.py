"""The source of ``process``: of a function that wraps another one, its own lines."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mullion.turbine._process.source import read, reads


def quiet(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def filtered(self: Any, batch: Any, state: Any) -> Any:
        return inner(self, batch.filter(batch["n"]), state)

    return filtered


def loose(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def passed(*given: Any) -> Any:
        return inner(*given)

    return passed


class Plain:
    def process(self, batch: Any, state: Any) -> Any:
        return None


class Filtered:
    @quiet
    def process(self, batch: Any, state: Any) -> Any:
        return None


class Passed:
    @loose
    def process(self, batch: Any, state: Any) -> Any:
        return None


def test_a_decorator_that_says_it_wraps_process_runs_in_python() -> None:
    assert read(Plain(), Plain().process).python is None
    for one, line in ((Filtered(), "return inner(self, batch.filter"), (Passed(), "return inner(*given)")):
        found = read(one, one.process)
        assert found.updates == ()
        assert found.returns
        assert found.python is not None
        assert line in found.python.says
        # Code within it may read the state.
        assert found.state is not None
        assert reads(one.process, 1) is not None
