"""Modules of Faust that are not separate modules here, such as ``faust.types.streams`` and ``faust.sensors.monitor``.

Their names are those of this package, or placeholders that raise an error with the alternative once they are called.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final, final

from mullion.faust._public_names.unsupported import placeholder

_PACKAGE: Final = "mullion.faust"
_SUBMODULES: Final = {
    "agents": "actor agent manager models replies",
    "app": "base router",
    "assignor": "client_assignment cluster_assignment copartitioned_assignor leader_assignor partition_assignor",
    "auth": "",
    "cli": "agents base clean_versions completion faust livecheck model models params reset send tables worker",
    "contrib": "asgi fastapi opentelemetry sentry",
    "events": "",
    "fixups": "base django",
    "joins": "",
    "livecheck": "app case exceptions locals models patches runners signals",
    "models": "base fields record tags",
    "sensors": "base datadog distributed_tracing metrics monitor otel prometheus statsd",
    "serializers": "avro codecs registry schemas",
    "stores": "aerospike base memory rocksdb",
    "tables": "base globaltable manager objects recovery wrappers",
    "topics": "",
    "transport": "base conductor consumer drivers producer utils",
    "types": (
        "agents app assignor auth channels codecs core enums events fixups joins models router sensors serializers "
        "settings stores streams tables topics transports tuples web windows"
    ),
    "utils": ("agent_stopper codegen cron functional iso8601 json optin platforms terminal tracing urls venusian"),
    "web": "apps base blueprints cache drivers exceptions views",
    "worker": "",
}
MODULES: Final = frozenset(
    name for root, names in _SUBMODULES.items() for name in (root, *(f"{root}.{one}" for one in names.split()))
)
"""The modules of faust-streaming 0.15, without private ones and ``models.typing``.

An imported module becomes an attribute of its parent, so no name here may be a global of the parent module.
"""

_SOURCES: Final = ("", ".types", ".exceptions", ".web", ".cli")
"""The modules with the counterparts of Faust's names, in the order of the search."""


@final
class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of Faust that are not here. It is the last finder, so it hides none."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        name = fullname.removeprefix(f"{_PACKAGE}.")
        if name == fullname or name not in MODULES:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        """Fills a module with Faust's names."""
        name = module.__name__.removeprefix(f"{_PACKAGE}.")
        module.__doc__ = f"The names of faust.{name}."
        module.__getattr__ = lambda attribute: named(name, attribute)  # type: ignore[method-assign]


def named(module: str, name: str) -> Any:
    """A name in a module of Faust: its counterpart here, or a placeholder."""
    if name.startswith("_"):
        raise AttributeError(f"module 'faust.{module}' has no attribute {name!r}")
    if f"{module}.{name}" in MODULES:
        return importlib.import_module(f"{_PACKAGE}.{module}.{name}")
    for source in _SOURCES:
        source_module = importlib.import_module(f"{_PACKAGE}{source}")
        if name in source_module.__all__:
            return getattr(source_module, name)
    return placeholder(f"{module}.{name}")


def install() -> None:
    """Makes the modules importable. A second call does nothing."""
    if not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.append(_Finder())
