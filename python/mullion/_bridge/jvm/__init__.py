"""The interface to the JVM: the only package that uses py4j.

All requests to the JAR use its ``Facade``; every error of the JAR, immediate or later in a streaming query, is raised
as one of :mod:`mullion.errors`.

::

    windows   columns   stateful   queries   storage      calls of the Facade, by subject
    entry                                                 the Facade of a session; whether a JVM runs
    errors                                                conversion of the JVM's errors
    objects                                               PySpark's objects and the JVM's behind them

Other packages use the names exported here, such as ``_jvm.windowed(...)``. A new call belongs into the file of its
subject and into the list below; names of the JVM stay in this package.
"""

from __future__ import annotations

from mullion._bridge.jvm.columns import (
    Counter,
    batch_number,
    in_shard,
    json_decimals,
    json_fit,
    json_shape,
    json_shard,
    per_text,
    row_in_batch,
)
from mullion._bridge.jvm.entry import facade, is_running, running_conf
from mullion._bridge.jvm.errors import BridgeError, error_in, traced, translate_errors
from mullion._bridge.jvm.objects import require_classic
from mullion._bridge.jvm.queries import (
    active,
    checkpoint_of,
    java_query,
    last_batch_of,
    output_since,
    plan_of_batch,
    progress_of,
    recover,
    reports_of,
    savepoint,
    session_with,
    start_clocked,
    start_on_clock,
)
from mullion._bridge.jvm.stateful import Stateful, flow_entries, flow_inputs, flow_lines, read_state
from mullion._bridge.jvm.storage import (
    newest_version,
    note_table,
    read_jdbc,
    remove_versions_before,
    table_note,
    topic_path,
    upsert_jdbc,
    version_folder,
)
from mullion._bridge.jvm.windows import (
    asof_join,
    check_window,
    compare,
    dropped_before,
    open_panes,
    pane_keys,
    read_panes,
    together,
    windowed,
    windowed_join,
)

__all__ = [
    "BridgeError",
    "Counter",
    "Stateful",
    "active",
    "asof_join",
    "batch_number",
    "check_window",
    "checkpoint_of",
    "compare",
    "dropped_before",
    "error_in",
    "facade",
    "flow_entries",
    "flow_inputs",
    "flow_lines",
    "in_shard",
    "is_running",
    "java_query",
    "json_decimals",
    "json_fit",
    "json_shape",
    "json_shard",
    "last_batch_of",
    "newest_version",
    "note_table",
    "open_panes",
    "output_since",
    "pane_keys",
    "per_text",
    "plan_of_batch",
    "progress_of",
    "read_jdbc",
    "read_panes",
    "read_state",
    "recover",
    "remove_versions_before",
    "reports_of",
    "require_classic",
    "row_in_batch",
    "running_conf",
    "savepoint",
    "session_with",
    "start_clocked",
    "start_on_clock",
    "table_note",
    "together",
    "topic_path",
    "traced",
    "translate_errors",
    "upsert_jdbc",
    "version_folder",
    "windowed",
    "windowed_join",
]
