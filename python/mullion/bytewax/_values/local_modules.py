"""Finds modules of the program that workers cannot import.

Workers have the module search path of a new interpreter, and the files of ``SparkContext.addPyFile``. A program may
import from other folders: pytest adds the folders of test modules to ``sys.path``. Functions and classes of such
modules are sent by value, like functions and classes of a script.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import sysconfig
from types import ModuleType

from pyspark import SparkFiles, cloudpickle


def send_by_value() -> None:
    """Configures cloudpickle to send functions and classes by value if workers cannot import their module."""
    registered = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    for name, module in list(sys.modules.items()):
        if "." not in name and name not in registered and name != "__main__" and not _is_found_by_workers(module):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _is_found_by_workers(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if not file:
        return True
    folder = os.path.realpath(os.path.dirname(file))  # noqa: PTH120
    if hasattr(module, "__path__"):
        folder = os.path.dirname(folder)  # noqa: PTH120
    if folder in _installed() or folder not in _folders(sys.path):
        # Modules of an editable installation are in no folder of the path.
        return True
    sent_by_spark = os.path.realpath(SparkFiles.getRootDirectory())
    return folder.startswith(sent_by_spark) or folder in _of_new_interpreter()


@functools.cache
def _installed() -> frozenset[str]:
    return _folders(list(sysconfig.get_paths().values()))


def _folders(path: list[str]) -> frozenset[str]:
    return frozenset(os.path.realpath(entry or os.getcwd()) for entry in path)  # noqa: PTH109


@functools.cache
def _of_new_interpreter() -> frozenset[str]:
    code = "import json, sys; print(json.dumps(sys.path))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)  # noqa: S603
    return _folders(json.loads(process.stdout))
