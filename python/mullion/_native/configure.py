"""The configuration of a Spark session for Mullion."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from pyspark.util import is_remote_only

from mullion._bridge import jvm
from mullion._bridge.connect import is_remote
from mullion._util import jars as mullion_jars
from mullion._util.checks import require_bool
from mullion.errors import InvalidArgumentError, UnsupportedError

EXTENSIONS = "dev.mullion.MullionExtensions"

_GENERATED_CODE = "spark.sql.codegen.cache.maxEntries"
_CLASS_PATH = "spark.driver.extraClassPath"
_LOCAL_FILES: dict[str, bool | float | int | str | None] = {
    "spark.hadoop.fs.file.impl": "dev.mullion.files.LocalFiles",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "dev.mullion.files.LocalFilesContext",
}


def configure(builder: SparkSession.Builder, *, local_files: bool = False) -> SparkSession.Builder:
    """Adds Mullion to a session builder, and returns the builder.

    It adds the JAR of the wheel to ``spark.jars``, and Mullion's extensions to ``spark.sql.extensions``.
    Values that are set there already, on the builder or in Spark's defaults, stay.

    It sets ``spark.sql.codegen.cache.maxEntries`` to 1000, unless you have set it. A window has about 25 pieces of
    generated code, and Spark caches 100. With four or more concurrent queries, each batch would compile its code again.

    If the master is local, Spark starts Python workers with the Python of this process, unless you have set
    ``PYSPARK_PYTHON`` or ``spark.pyspark.python``. Otherwise Spark takes the first ``python3`` of the ``PATH``, which
    lacks the packages of an environment that is not activated.

    >>> from pyspark.sql import SparkSession
    >>> spark = configure(SparkSession.builder.appName("panes")).getOrCreate()  # doctest: +SKIP

    ``local_files=True`` is for a session on one machine whose checkpoints are on its disk. Without Hadoop's native
    library, Spark starts a process for each small file that it writes there, a dozen in each batch. With this option,
    Java writes them. Files and their names are the same. It sets ``spark.driver.extraClassPath`` and the two settings
    of Hadoop's local file system (docs/reference/settings.md). For Linux and macOS.

    A running JVM cannot add a JAR. Under ``spark-submit`` or in a notebook, pass it with ``--jars`` or
    ``--packages``, or as a library of the cluster. You need not call this function then; the call has no effect.

    For a session of Spark Connect it changes nothing: the server has the JAR (docs/platforms/connect.md). That is a
    builder with ``.remote(...)``, the environment variable ``SPARK_REMOTE``, and any builder of ``pyspark-client``.

    Raises :class:`UnsupportedError` for ``local_files=True`` if the JVM already runs, or if the session is not one of
    this machine; :class:`InvalidArgumentError` for an argument that is not a builder, or when
    ``PYSPARK_SUBMIT_ARGS`` has ``--jars`` without Mullion's JAR; and :class:`VersionMismatchError` when the wheel has
    no JAR for the installed PySpark.
    """
    require_bool("local_files", local_files)
    if _is_of_connect(builder):
        _require_no_local_files(local_files)
        return builder
    if local_files:
        _write_local_files(builder)
    if _is_local(builder) and _setting(builder, "spark.pyspark.python") is None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Errors of SQL functions may come before the first call of this package.
    jvm.translate_errors()
    jars = _listed(builder, "spark.jars")
    if not any(map(mullion_jars.is_ours, jars)):
        jars.append(_carried_url())
    extensions = _listed(builder, "spark.sql.extensions")
    if EXTENSIONS not in extensions:
        extensions.append(EXTENSIONS)
    # An existing session would ignore the setting and warn about it.
    if not jvm.is_running() and _setting(builder, _GENERATED_CODE) is None:
        builder = builder.config(_GENERATED_CODE, "1000")
    return builder.config("spark.jars", ",".join(jars)).config("spark.sql.extensions", ",".join(extensions))


def _is_local(builder: SparkSession.Builder) -> bool:
    master = _setting(builder, "spark.master")
    return master is None or master.startswith("local")


def _write_local_files(builder: SparkSession.Builder) -> None:
    if jvm.is_running():
        raise UnsupportedError(
            "configure(local_files=True) comes too late: Spark's JVM already runs, and its file system is chosen when "
            "it starts. Call it before the first session of the process, or leave local_files out."
        )
    if not _is_local(builder):
        master = _setting(builder, "spark.master")
        raise UnsupportedError(
            f"configure(local_files=True) is for a session on one machine, and the master is {master!r}: executors "
            "would not find the class. Leave local_files out, or set spark.master to local[*]."
        )
    jar = str(_carried())
    paths = [path for path in (_setting(builder, _CLASS_PATH) or "").split(os.pathsep) if path]
    if jar not in paths:
        paths.append(jar)
    builder.config(_CLASS_PATH, os.pathsep.join(paths)).config(map=_LOCAL_FILES)


def _carried_url() -> str:
    # A URL, because a path may contain spaces.
    return _carried().as_uri()


def _carried() -> Path:
    jar = mullion_jars.carried(mullion_jars.running_line())
    if "," in str(jar):
        raise UnsupportedError(
            "Mullion is installed in a folder with a comma in its name, and Spark splits lists of JARs at commas, even "
            f"quoted ones: {jar}. Install it in another folder."
        )
    return jar


def _is_of_connect(builder: object) -> bool:
    """True if the builder creates a session of Spark Connect."""
    if is_remote(builder) or is_remote_only():
        return True
    if not isinstance(builder, SparkSession.Builder):
        raise InvalidArgumentError(
            f"configure({builder!r}) takes a session builder. Write configure(SparkSession.builder).getOrCreate()."
        )
    return bool(builder._options.get("spark.remote") or os.environ.get("SPARK_REMOTE"))


def _require_no_local_files(local_files: bool) -> None:
    if local_files:
        raise UnsupportedError(
            "configure(local_files=True) is for a session on one machine, and this builder creates a session of Spark "
            "Connect, whose server writes the checkpoints. Leave local_files out."
        )


def _listed(builder: SparkSession.Builder, key: str) -> list[str]:
    """The items of a setting that is a list: the builder's, or otherwise those that the builder's would override."""
    return [item.strip() for item in (_setting(builder, key) or "").split(",") if item.strip()]


def _setting(builder: SparkSession.Builder, key: str) -> str | None:
    """The builder's value of a setting, or otherwise the value that it would override."""
    value: str | None = builder._options.get(key)
    if value is not None:
        return value
    return jvm.running_conf(key) if jvm.is_running() else _to_be_launched_with(key)


def _to_be_launched_with(key: str) -> str | None:
    """A setting from outside of a JVM that has not started: ``PYSPARK_SUBMIT_ARGS``, then the defaults file."""
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    setting = None
    for option, value in itertools.pairwise(arguments):
        if option == "--jars" and key == "spark.jars":
            _require_ours_among(value)
            return value
        if option == "--master" and key == "spark.master":
            return value
        if option == "--conf" and value.startswith(f"{key}="):
            setting = value.removeprefix(f"{key}=")
    return setting if setting is not None else _default_of(key)


def _require_ours_among(jars: str) -> None:
    """With ``--jars``, spark-submit ignores ``spark.jars``, so Mullion's JAR must be in that list."""
    if not any(map(mullion_jars.is_ours, jars.split(","))):
        raise InvalidArgumentError(
            f"PYSPARK_SUBMIT_ARGS has --jars {jars}, which would keep the JARs of the builder from the class path. Add "
            f"Mullion's to that list: --jars {jars},{mullion_jars.carried(mullion_jars.running_line())}"
        )


def _default_of(key: str) -> str | None:
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    file = Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf"), "spark-defaults.conf")
    if not file.is_file():
        return None
    setting = None
    for line in file.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(rf"\s*{re.escape(key)}(?:\s*[=:]\s*|\s+)(\S.*?)\s*", line)
        if match:
            setting = match[1]
    return setting
