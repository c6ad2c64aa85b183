"""The JARs in the wheel: one for each Spark version."""

from __future__ import annotations

import shlex
from importlib import resources
from pathlib import Path

import pyspark

from mullion._version import __version__
from mullion.errors import MullionError, VersionMismatchError

_PREFIX = "mullion-spark-"


def running_line() -> str:
    """The ``major.minor`` of the installed PySpark."""
    return ".".join(pyspark.__version__.split(".")[:2])


def carried(line: str) -> Path:
    """The JAR for a Spark version.

    Raises :class:`VersionMismatchError` if this wheel has none for it, and :class:`MullionError` if there is no JAR at
    all, as in a source tree.
    """
    folder = resources.files("mullion") / "jars"
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".jar")) if folder.is_dir() else []
    if not names:
        raise MullionError(
            f"This installation of mullion-spark {__version__} carries no JAR: it is not the wheel. Install the wheel "
            "(in a source tree: make wheel), or add the JAR to Spark yourself and leave configure() out."
        )
    wanted = f"{_PREFIX}{line}_"
    for name in names:
        jar = folder / name
        if name.startswith(wanted):
            if not isinstance(jar, Path):
                raise MullionError(
                    f"The JAR {name} is in a zipped package, where the JVM cannot read it. Install mullion-spark with "
                    "pip."
                )
            return jar
    lines = ", ".join(name.removeprefix(_PREFIX).split("_")[0] for name in names)
    raise VersionMismatchError(
        f"mullion-spark {__version__} carries a JAR for Spark {lines}, and this is Spark {line}. Install PySpark "
        f"{lines}, or a version of mullion-spark that supports this one."
    )


def submit_option(line: str | None = None) -> str:
    """The option of spark-submit that adds the JAR, as text for messages."""
    line = line or running_line()
    packages = f"--packages dev.mullion:mullion-spark-{line}_2.13:{__version__}"
    try:
        return f"--jars {shlex.quote(str(carried(line)))} or {packages}"
    except MullionError:
        return packages


def file_name(jar: str) -> str:
    """The last part of a path or URL."""
    return jar.rsplit("/", 1)[-1]


def is_ours(jar: str) -> bool:
    """True for the path or URL of a JAR of Mullion, of any version."""
    # With --packages, the group precedes the name.
    return file_name(jar).removeprefix("dev.mullion_").startswith(_PREFIX)
