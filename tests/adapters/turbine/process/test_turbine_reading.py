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
    def passed(*arguments: Any) -> Any:
        return inner(*arguments)

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


def test_a_decorator_with_wraps_around_process_runs_in_python() -> None:
    assert read(Plain(), Plain().process).python is None
    for one, line in ((Filtered(), "return inner(self, batch.filter"), (Passed(), "return inner(*arguments)")):
        reading = read(one, one.process)
        assert reading.updates == ()
        assert reading.returns
        assert reading.python is not None
        assert line in reading.python.says
        # Code within it may read the state.
        assert reading.state is not None
        assert reads(one.process, 1) is not None
