"""The discovery of agents in other modules: ``App(autodiscover=True, origin="site")``."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable
from typing import Final

from mullion.errors import InvalidArgumentError
from mullion.faust._settings import Settings

_LEFT_OUT: Final = re.compile(r"(^|\.)(__main__|conftest|tests?|test_[^.]*|setup)(\.|$)")


def packages_of(conf: Settings) -> list[str]:
    """Returns the packages to search, from the settings."""
    packages = conf.autodiscover() if callable(conf.autodiscover) else conf.autodiscover
    if not packages:
        return []
    if packages is not True:
        return [packages] if isinstance(packages, str) else list(packages)
    if not conf.origin:
        raise InvalidArgumentError(
            f"autodiscover=True of the App {conf.id!r} needs to know where its modules are. Write origin='package', or "
            "autodiscover=['package.agents']."
        )
    return [conf.origin]


def import_all(packages: Iterable[str]) -> None:
    """Imports packages and all their modules except tests. Errors raised by a module are passed on unchanged."""
    for name in packages:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}."):
            if not _LEFT_OUT.search(module.name):
                importlib.import_module(module.name)
