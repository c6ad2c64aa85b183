"""The examples in docstrings."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "mullion",
        "mullion.windows",
        "mullion._configure",
        "mullion._windowed",
        "mullion.topics",
        "mullion.topics._brokers",
        "mullion.topics._dir_broker",
        "mullion.topics._kafka_broker",
        "mullion._app.report",
        "mullion.faust",
        "mullion.faust.windows",
        "mullion.faust.models",
    ],
)
def test_the_examples_of_a_module_give_what_they_show(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0
