"""The command that installs the Python package, as messages name it."""

from __future__ import annotations

from mullion._version import __version__

# Until PyPI has the package, messages name the wheel's file.
PUBLISHED = False


def pip_install(extra: str = "", version: str = __version__) -> str:
    """The command for a version of the package, with one of its extras."""
    extras = f"[{extra}]" if extra else ""
    if PUBLISHED:
        return f"pip install 'mullion-spark{extras}=={version}'"
    return f"pip install 'mullion_spark-{version}-py3-none-any.whl{extras}'"
