"""Windows for Spark Structured Streaming that fire early, close once, and emit late rows.

>>> from mullion import Tumbling, configure, windowed
>>> spark = configure(SparkSession.builder).getOrCreate()  # doctest: +SKIP
>>> panes = windowed(
...     events.withWatermark("ts", "5 minutes"), Tumbling("1 hour"), by=["carrier"], time="ts"
... ).agg(F.count("*").alias("n"))  # doctest: +SKIP
"""

try:
    import pyspark as _pyspark  # noqa: F401
except ModuleNotFoundError as missing:
    if missing.name != "pyspark":
        raise
    raise ImportError(
        "Mullion needs PySpark, which is not installed in this environment. Run pip install 'pyspark>=4.0,<4.4', in "
        "the version of your cluster if you have one. For a client of Spark Connect, which needs no Java, run pip "
        "install pyspark-client."
    ) from None

from mullion._native.aggregates import PythonAggregate
from mullion._native.compare import compare
from mullion._native.configure import configure
from mullion._native.delay import suggest_delay
from mullion._native.flat import flat
from mullion._native.joins.asof_join import asof_join
from mullion._native.joins.windowed_join import windowed_join
from mullion._native.monitor import monitor
from mullion._native.pane_functions.pane import Pane
from mullion._native.pane_functions.process import PaneProcessor
from mullion._native.panes import open_panes, read_panes
from mullion._native.recovery import recover
from mullion._native.savepoint import savepoint
from mullion._native.together import together
from mullion._native.upsert import changelog, upsert
from mullion._native.windowed import windowed
from mullion._native.windowed_rows import Windowed
from mullion._util.delays import KeyLateness, SuggestedDelay
from mullion._util.durations import Duration
from mullion._version import __version__
from mullion.errors import (
    DamagedStateError,
    DroppedRowsWarning,
    FunctionError,
    IncompatibleStateError,
    InvalidArgumentError,
    MullionError,
    QueryFailedError,
    StateLostError,
    TaskFailedError,
    UnknownColumnError,
    UnsupportedError,
    VersionMismatchError,
)
from mullion.tables import DeltaTable, JdbcTable, ParquetTable
from mullion.windows import (
    Around,
    Count,
    Cumulate,
    Custom,
    Early,
    EmitFor,
    Global,
    PerKey,
    Session,
    Sliding,
    Tumbling,
    Upgrade,
    Watermark,
)

__all__ = [
    "Around",
    "Count",
    "Cumulate",
    "Custom",
    "DamagedStateError",
    "DeltaTable",
    "DroppedRowsWarning",
    "Duration",
    "Early",
    "EmitFor",
    "FunctionError",
    "Global",
    "IncompatibleStateError",
    "InvalidArgumentError",
    "JdbcTable",
    "KeyLateness",
    "MullionError",
    "Pane",
    "PaneProcessor",
    "ParquetTable",
    "PerKey",
    "PythonAggregate",
    "QueryFailedError",
    "Session",
    "Sliding",
    "StateLostError",
    "SuggestedDelay",
    "TaskFailedError",
    "Tumbling",
    "UnknownColumnError",
    "UnsupportedError",
    "Upgrade",
    "VersionMismatchError",
    "Watermark",
    "Windowed",
    "__version__",
    "asof_join",
    "changelog",
    "compare",
    "configure",
    "flat",
    "monitor",
    "open_panes",
    "read_panes",
    "recover",
    "savepoint",
    "suggest_delay",
    "together",
    "upsert",
    "windowed",
    "windowed_join",
]
