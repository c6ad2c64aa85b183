"""The examples in docstrings."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "mullion",
        "mullion.windows._custom",
        "mullion.windows._early",
        "mullion.windows._rows",
        "mullion.windows._time",
        "mullion._native.configure",
        "mullion._native.windowed",
        "mullion._native.windowed_rows",
        "mullion.topics",
        "mullion.topics._broker",
        "mullion.topics._folder.broker",
        "mullion.topics._kafka.broker",
        "mullion._program.report",
        "mullion.turbine.aggregates",
        "mullion.turbine.functions",
        "mullion.faust",
        "mullion.faust.windows",
        "mullion.faust.models",
    ],
)
def test_the_examples_of_a_module_give_what_they_show(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0
