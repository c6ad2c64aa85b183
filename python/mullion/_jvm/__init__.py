"""The border to the JVM: the only package that touches py4j.

Everything that Python asks of the JAR goes through its ``Facade``; every error that the JAR raises, at once or later
inside a streaming query, comes back as one of :mod:`mullion.errors`.

::

    windows   columns   stateful   queries   storage      one call of the Facade each, by what it is about
    entry                                                 the Facade of a session; whether a JVM runs
    errors                                                errors of the JVM as ours
    objects                                               PySpark's objects and the JVM's behind them

Other packages use what is named here, as ``_jvm.windowed(...)``. A call that is new goes into the file that it is about
and into the list below; a name of the JVM stays in this package.
"""

from __future__ import annotations

from mullion._jvm.columns import (
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
from mullion._jvm.entry import facade, is_running, running_conf
from mullion._jvm.errors import BridgeError, error_in, traced
from mullion._jvm.objects import require_classic
from mullion._jvm.queries import (
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
from mullion._jvm.stateful import Stateful, flow_entries, flow_inputs, flow_lines, read_state
from mullion._jvm.storage import (
    newest_version,
    note_table,
    read_jdbc,
    remove_versions_before,
    table_note,
    topic_path,
    upsert_jdbc,
    version_folder,
)
from mullion._jvm.windows import (
    check_window,
    compare,
    dropped_before,
    open_panes,
    pane_keys,
    read_panes,
    together,
    windowed,
)

__all__ = [
    "BridgeError",
    "Counter",
    "Stateful",
    "active",
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
    "upsert_jdbc",
    "version_folder",
    "windowed",
]
