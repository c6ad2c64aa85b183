"""Finds names of files, packages and classes that were renamed: old_names.py [FILE...]. The default is all sources."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]

# Each with the present name. English words are not in the list.
CLASSES: Final = {
    "StatefulFunctionExec": "KeyedFunctionExec",
    "StatefulProgram": "KeyedFunctionProgram",
    "StatefulHeader": "KeyedFunctionHeader",
    "StatefulBuilder": "KeyedFunctionBuilder",
    "StatefulStages": "KeyedFunctionStages",
    "StatefulStrategy": "KeyedFunctionStrategy",
    "HotMemory": "CacheMemory",
    "HotPartition": "CachedPartition",
    "HotRecords": "CachedRecords",
    "HotFamily": "CachedFamily",
    "HotRocksDbProvider": "CachedRocksDbProvider",
    "HotRocksDbStore": "CachedRocksDbStore",
    "SortedRecords": "VersionedBTree",
    "ToldKeys": "ImplicitKeys",
    "RowsAhead": "PrefetchedRows",
    "RowsSorted": "SortedPrefetch",
    "RowsOut": "CountedRows",
    "SparkLine": "SparkVersion",
    "SparkLineShim": "SparkVersionShim",
    "PythonOfLine": "PythonOfVersion",
    "QueriesOfLine": "QueriesOfVersion",
    "SpillsOfLine": "SpillsOfVersion",
    "StateOfLine": "StateOfVersion",
    "StateLine": "StateSparkVersion",
}
SCALA_PACKAGES: Final = {
    "calls": "request",
    "builders": "plan.build",
    "exec": "operator",
    "exec.assign": "operator.assign",
    "exec.batch": "operator.bounded",
    "exec.metrics": "operator.metrics",
    "exec.partial": "operator.partial",
    "exec.programs": "operator.program",
    "exec.scan": "operator.scan",
    "exec.simulation": "operator.simulation",
    "exec.panes": "operator.engine",
    "exec.panes.arrival": "operator.engine.rowwise",
    "exec.panes.firings": "operator.engine.output",
    "exec.panes.grid": "operator.engine.aligned",
    "exec.panes.keys": "operator.engine.timers",
    "exec.panes.sessions": "operator.engine.session",
    "exec.panes.sums": "operator.engine.accumulators",
    "functions": "sqlfunctions",
    "state.records": "state.record",
    "state.memory": "state.btree",
    "state.attempts": "state.attempt",
    "state.segments": "state.packed",
    "state.store": "state.rocksdb",
    "python": "pyfunction.keyed",
    "python.state": "pyfunction.state",
    "python.folds": "pyfunction.agents",
    "python.flows": "pyfunction.dataflow",
}
MODULES: Final = {
    "_calendar": "_util.calendars",
    "_calls": "_util.signatures",
    "_checkpoints": "_util.checkpoints",
    "_checks": "_util.checks",
    "_clock": "_util.clock",
    "_codec": "_util.codec",
    "_durations": "_util.durations",
    "_files": "_util.files",
    "_jars": "_util.jars",
    "_lines": "_util.spark_versions",
    "_tracebacks": "_util.tracebacks",
    "_columns": "_bridge.columns",
    "_connect": "_bridge.connect",
    "_described": "_bridge.request",
    "_engine": "_bridge.dispatch",
    "_jvm": "_bridge.jvm",
    "_options": "_bridge.options",
    "_pipelines": "_bridge.pipelines",
    "_query_errors": "_bridge.query_errors",
    "_ranges": "_bridge.custom_ranges",
    "_splits": "_bridge.global_splits",
    "_changes": "_native.compare",
    "_configure": "_native.configure",
    "_flat": "_native.flat",
    "_panes": "_native.panes",
    "_recovery": "_native.recovery",
    "_savepoints": "_native.savepoint",
    "_together": "_native.together",
    "_upsert": "_native.upsert",
    "_windowed": "_native.windowed",
    "_code": "_pyfunction",
    "_stateful": "_keyed",
    "_programs": "_program",
    "turbine._aggregate_json": "turbine._process.aggregate_json",
    "turbine._callback_schemas": "turbine._process.callback_schemas",
    "turbine._callbacks": "turbine._process.callbacks",
    "turbine._dynamic_windows": "turbine._process.dynamic_windows",
    "turbine._process_source": "turbine._process.source",
    "turbine._subscription": "turbine._process.subscription",
    "turbine._window_rows": "turbine._process.window_rows",
    "turbine._window_spec": "turbine._process.stored_window",
    "turbine._worker": "turbine._process.worker",
    "turbine._schema_probe": "turbine._plans.schema_probe",
    "turbine._topic_rows": "turbine._plans.topic_rows",
    "turbine._plans.plan": "turbine._plans.window_plan",
    "turbine._plans.returns": "turbine._plans.return_schemas",
    "kx._batches": "kx._query.batches",
    "kx._host": "kx._query.host",
    "kx._plan": "kx._query.pipeline_plan",
    "kx._schemas": "kx._query.schemas",
    "kx._sinks": "kx._query.sinks",
    "kx._sources": "kx._query.sources",
    "kx._windows": "kx._query.window_requests",
    "kx._worker": "kx._query.worker",
    "bytewax._run": "bytewax._query",
    "bytewax._windows": "bytewax._key_windows",
    "faust._ask": "faust._request_reply",
    "faust._code": "faust._agent_code",
    "faust._run": "faust._agent_run",
    "faust._sharding.spoils": "faust._sharding.blockers",
    "faust.tables.drawn": "faust.tables.ansi_table",
    "_aggregates": "_native.aggregates",
    "_pane_functions": "_native.pane_functions",
    "_user_code": "_util.user_code",
    "kx._kx_table": "kx._query.kx_table",
}
FOLDERS: Final = {"jvm/src": "jvm/windows/src or jvm/spark/src", "tests/python": "tests"}

SPARK: Final = "org.apache.spark.sql.mullion"
PATTERNS: Final = {
    **{rf"\b{old}\b": new for old, new in CLASSES.items()},
    **{rf"\b{re.escape(f'{SPARK}.{old}')}\b(?!\.\w*\.?{old})": new for old, new in SCALA_PACKAGES.items()},
    **{rf"\b{re.escape(f'mullion.{old}')}\b": new for old, new in MODULES.items()},
    **{rf"\bmullion/{re.escape(old.replace('.', '/'))}(?:\.py|/)": new for old, new in MODULES.items()},
    **{rf"\b{re.escape(old)}\b": new for old, new in FOLDERS.items()},
}
SUFFIXES: Final = {".py", ".scala", ".md", ".yml", ".yaml", ".toml", ".sbt", ""}
SOURCES: Final = (
    *("benchmarks", "docs", "examples", "jvm", "project", "python/mullion", "scripts", "tests", ".github"),
    *("CONTRIBUTING.md", "Makefile", "README.md", "build.sbt", "mkdocs.yml", "pyproject.toml"),
)
LEFT_OUT: Final = {"target", "jars", "__pycache__", "checkpoints", "results", "old_names.py", "test_old_names.py"}


def files(places: Iterable[str]) -> list[Path]:
    roots = [ROOT / place for place in places]
    paths = [path for place in roots for path in ([place] if place.is_file() else sorted(place.rglob("*")))]
    return [p for p in paths if p.is_file() and p.suffix in SUFFIXES and not LEFT_OUT & set(p.parts)]


def main(*places: str) -> int:
    exit_status = 0
    any_of = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS))
    for file in files(places or SOURCES):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            if match := any_of.search(line):
                exit_status = 1
                new = next(new for pattern, new in PATTERNS.items() if re.search(pattern, line))
                print(f"{file.relative_to(ROOT)}:{number}: '{match[0]}' is now {new}")
    return exit_status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
