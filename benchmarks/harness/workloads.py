"""The workloads: windows over streams of rows, and the number of rows that each system processes.

A stream is a folder of Parquet files, one per micro-batch. Times are seconds of event time unless a name has another
unit. The rows of a workload are generated from a seed and are the same for all systems.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

CORES = 2

# The number of rows of a settling batch, and the name of the folder with these batches, next to a workload's rows.
SETTLING_ROWS = 1_000
SETTLING = "settling"


@dataclass(frozen=True, slots=True)
class Workload:
    """A stream, a window over it, and the systems that compute it.

    - ``kind``: ``tumbling``, ``sliding`` or ``session`` over the keys ``k``; or a query of Nexmark, ``q5`` and so on.
    - ``size``, ``slide``: of a window; for sessions ``size`` is the gap.
    - ``keys``, ``rows``, ``batches``, ``span``: how many keys there are, how many rows a batch has, how many batches
      there are, and how much event time each spans.
    - ``rows_of``: the generator of the rows (see ``rows.py``): ``keys`` at random, short ``visits`` of many keys, long
      ``bursts`` of a few keys, ``open`` panes that get no more rows, or ``nexmark``.
    - ``form``: the form in which rows are written, one of those in ``forms.py``.
    - ``asks``: the aggregates: ``plain`` for count, sum, min and max of longs, or ``ordinary`` for mean, standard
      deviation, maximum of texts, approximate distinct count and ``max_by``.
    - ``settling``: the number of batches of a thousand rows that systems on Spark process first, in one turn. They
      count neither for times nor for answers. The JVM compiles for hundreds of batches, and on two cores this uses up
      to one of them; in a stream that has run for some minutes it is over.
    - ``warm``: the number of first batches that medians leave out, for a system that processes all batches: the JVM is
      still compiling. For systems that process fewer rows it is at most half of their batches.
    - ``late``: the share of rows that arrive up to ``lateness`` after the watermark has passed them.
    - ``early``: the interval of early firings; 0 for none.
    - ``cores``: the number of cores that the systems may use.
    - ``partitions``: Spark's setting of shuffle partitions, which is also the number of partitions of state.
    - ``heap``: the maximum heap of a JVM, in GB: Spark's default for a driver or an executor, and more for many panes.
      It is the same for all systems, because the peak of a larger heap depends on its collector.
    - ``cache``: the limit of Mullion's cached state, in MB (``stateStore.mullion.hotBytes``); 0 for its default.
    - ``ends``: True if a last row closes all panes. False where closing them would dominate the time.
    - ``takes``: the number of rows that each system processes, from the first on: all rows, or as many as it can in
      half a minute. Its answers are compared with answers over the same rows. ``more`` is for the full benchmark.
    """

    name: str
    kind: str
    size: int
    takes: dict[str, int]
    more: dict[str, int] = field(default_factory=dict)
    slide: int = 0
    keys: int = 1_000
    rows: int = 1_000_000
    batches: int = 14
    span: int = 10
    delay: int = 5
    settling: int = 0
    warm: int = 7
    rows_of: str = "keys"
    form: str = "published"
    asks: str = "plain"
    late: float = 0.0
    lateness: int = 0
    early: int = 0
    cores: int = CORES
    partitions: int = CORES
    heap: int = 1
    cache: int = 0
    ends: bool = True

    @property
    def all_rows(self) -> int:
        return self.rows * self.batches

    def with_share(self, share: float) -> Workload:
        """The workload with a share of each batch's rows.

        Workloads of open panes, whose number of panes would change, and of small batches keep all rows.
        """
        part = share if self.rows_of != "open" and self.rows > 100 else 1.0
        takes, more = ({name: int(rows * part) for name, rows in each.items()} for each in (self.takes, self.more))
        return replace(self, rows=int(self.rows * part), takes=takes, more=more)

    @property
    def overlaps(self) -> int:
        """The number of windows of a row."""
        return self.size // self.slide if self.slide else 1


def everyone(rows: int, *names: str) -> dict[str, int]:
    return dict.fromkeys(names, rows)


# Enough batches for the compiler to have almost finished.
SETTLED = 200
# The number of small batches, enough to need no settling batches.
FEW = 300

M = 1_000_000

TUMBLING_1K = Workload(
    "tumbling 10 s, 1k keys",
    "tumbling",
    10,
    {**everyone(14 * M, "mullion", "duckdb"), "pandas": 2 * M, "bytewax": 400_000, "quix": 100_000},
    {**everyone(14 * M, "baseline"), **everyone(8 * M, "spark", "pyflink"), "pathway": M},
)
TUMBLING_100K = Workload(
    "tumbling 10 s, 100k keys",
    "tumbling",
    10,
    {**everyone(14 * M, "mullion", "baseline", "duckdb"), "spark": 4 * M},
    {**everyone(8 * M, "spark", "spark hdfs"), "pandas": 20_000},
    keys=100_000,
)
ONE_CORE = replace(
    TUMBLING_100K,
    name="one core, tumbling, 100k keys",
    takes=everyone(10 * M, "mullion"),
    more={},
    cores=1,
)
SLIDING_1K = Workload(
    "sliding 60 s / 1 s, 1k keys",
    "sliding",
    60,
    {**everyone(14 * M, "mullion", "baseline", "duckdb"), "spark": 2 * M, "bytewax": 40_000},
    {"spark": 3 * M, "pyflink": 4 * M},
    slide=1,
    span=100,
)
HOUR_1K = Workload(
    "sliding 1 h / 1 s, 1k keys",
    "sliding",
    3600,
    {"mullion": 14 * M},
    # Spark expands each row into 3,600: a batch of 2,000 rows took 81 seconds, one of 10,000 took 154.
    {"spark": 4_000},
    slide=1,
    span=5,
    # A plan with 3,600 windows needs more than 1 GB.
    heap=2,
)
VISITS = Workload(
    "sessions, many short",
    "session",
    10,
    {**everyone(14 * M, "mullion", "baseline", "duckdb"), "spark": 3 * M},
    everyone(4 * M, "spark", "spark hdfs"),
    keys=300_000,
    settling=SETTLED,
    warm=6,
    span=20,
    rows_of="visits",
)
FEW_ROWS = Workload(
    "micro-batches of 100 rows",
    "tumbling",
    10,
    everyone(100 * FEW, "mullion", "stateless"),
    everyone(100 * FEW, "baseline", "spark"),
    keys=100,
    rows=100,
    batches=FEW,
    span=1,
    warm=FEW * 2 // 3,
)
# The advised setting for streams of few rows. Each file is one partition, like a topic with one partition.
FEW_ROWS_AT_ONE = replace(FEW_ROWS, name="micro-batches of 100 rows, one partition", partitions=1)
EARLY = replace(
    TUMBLING_100K,
    name="tumbling 10 s, 100k keys, early every 2 s",
    takes=everyone(8 * M, "mullion"),
    more={},
    rows=500_000,
    batches=16,
    settling=SETTLED,
    warm=8,
    span=4,
    early=2,
)
LATE = replace(
    TUMBLING_100K,
    name="tumbling 10 s, 100k keys, 5% late within 30 s",
    takes={**everyone(14 * M, "mullion"), "spark": 8 * M},
    more={},
    late=0.05,
    lateness=30,
)
TUMBLING_3M = Workload(
    "tumbling 1 h, 3M keys open",
    "tumbling",
    3600,
    {**everyone(12 * M, "mullion", "baseline", "duckdb"), **everyone(8 * M, "spark", "spark hdfs")},
    keys=3_000_000,
    rows=500_000,
    batches=24,
    span=60,
    settling=SETTLED,
    warm=10,
    heap=8,
)
# The panes need 21 MB in memory.
LARGER_THAN_CACHE = replace(
    TUMBLING_3M,
    name="tumbling 1 h, 220k keys open, a tenth of the state cached",
    takes=everyone(1_600_000, "mullion", "spark"),
    more={},
    keys=220_000,
    rows=100_000,
    batches=16,
    settling=0,
    warm=8,
    heap=1,
    cache=2,
)
SLIDING_100K = replace(
    SLIDING_1K,
    name="sliding 60 s / 1 s, 100k keys",
    takes={**everyone(8 * M, "mullion", "baseline"), "spark": 5 * M},
    more={},
    keys=100_000,
    rows=500_000,
    batches=16,
    span=10,
    settling=SETTLED,
    # Panes of one minute close from the seventh batch on.
    warm=8,
    heap=8,
)
HOUR_100K = replace(
    HOUR_1K,
    name="sliding 1 h / 1 s, 100k keys",
    takes=everyone(14 * M, "mullion"),
    more={},
    keys=100_000,
    heap=8,
    ends=False,
)
BURSTS = Workload(
    "sessions, few long",
    "session",
    10,
    {**everyone(14 * M, "mullion", "baseline", "duckdb"), **everyone(8 * M, "spark", "spark hdfs")},
    keys=100,
    span=20,
    rows_of="bursts",
)
NOTHING = {
    panes: Workload(
        f"a batch without rows, {count} open panes",
        "tumbling",
        10,
        everyone(panes, "mullion", "spark"),
        keys=panes,
        rows=panes,
        # The rows are in the first batch, and the JVM compiles for a dozen batches after it.
        batches=32,
        warm=16,
        rows_of="open",
        heap=8,
    )
    for panes, count in ((10_000, "10k"), (100_000, "100k"), (300_000, "300k"), (M, "1M"), (10 * M, "10M"))
}
NEXMARK = tuple(
    Workload(
        f"Nexmark {query}",
        query,
        size,
        everyone(6 * M, "mullion", "spark", "spark hdfs"),
        slide=slide,
        batches=6,
        span=100,
        delay=4,
        rows_of="nexmark",
        heap=2,
    )
    for query, size, slide in (("q5", 10, 2), ("q7", 10, 0), ("q8", 10, 0), ("q11", 10, 0), ("q12", 10, 0))
)

NOT_EARLY = replace(EARLY, name="tumbling 10 s, 100k keys, 500k rows a batch", early=0)

# The number of batches of each size, from which the costs of a batch and of a row are computed.
SIZES = {100: FEW, 100_000: 24, M: 16, 5 * M: 14}
KEYS = {1_000: "1k", 100_000: "100k"}


def sized(keys: int, rows: int) -> Workload:
    """Tumbling windows over batches of ``rows`` rows."""
    batches = SIZES[rows]
    judge = ["duckdb"] if rows == max(SIZES) else []
    return Workload(
        f"{rows:,} rows a batch, {KEYS[keys]} keys",
        "tumbling",
        10,
        everyone(rows * batches, "mullion", "spark", "baseline", *judge),
        keys=keys,
        rows=rows,
        batches=batches,
        settling=SETTLED if rows > 100 else 0,
        warm=batches - 8 if rows > 100 else batches * 2 // 3,
        # Five million rows are aggregated at once.
        heap=2,
    )


SIZED = {keys: {rows: sized(keys, rows) for rows in SIZES} for keys in KEYS}


def ordinary(name: str, *, spark: int = 5 * M, **different: Any) -> Workload:
    """A workload over ordinary rows: 100,000 keys and, by default, tumbling windows of 10 s."""
    workload = Workload(
        name,
        "tumbling",
        10,
        everyone(10 * M, "mullion", "baseline") | ({"spark": spark} if spark else {}),
        keys=100_000,
        batches=10,
        warm=5,
        settling=SETTLED,
        heap=2,
    )
    return replace(workload, **different)


ORDINARY = (
    ordinary("bigint key"),
    ordinary("bigint key, a filter before the window", form="filter"),
    ordinary("UUID key", form="uuid"),
    ordinary('text key "user-123"', form="user"),
    ordinary("two text keys, device and country", form="device"),
    ordinary("session 10 s, UUID key", kind="session", form="uuid"),
    ordinary("early every 2 s, UUID key", form="uuid", early=2),
    ordinary("JSON files, text key", form="json"),
    ordinary("a value parsed by from_json, UUID key", form="value"),
    # Spark expands each row into 60.
    ordinary("sliding 60 s / 1 s, UUID key", kind="sliding", size=60, slide=1, form="uuid", spark=0, heap=8),
    ordinary("avg, stddev, max of text, approx_count_distinct, max_by", form="measures", asks="ordinary"),
)

BENCH = (TUMBLING_1K, TUMBLING_100K, SLIDING_1K, VISITS, FEW_ROWS, *ORDINARY)
FULL = (
    *BENCH,
    FEW_ROWS_AT_ONE,
    HOUR_1K,
    ONE_CORE,
    TUMBLING_3M,
    LARGER_THAN_CACHE,
    SLIDING_100K,
    HOUR_100K,
    BURSTS,
    *NOTHING.values(),
    EARLY,
    NOT_EARLY,
    LATE,
    *(workload for sizes in SIZED.values() for workload in sizes.values()),
    *NEXMARK,
)


def of(workload: Workload, *names: str) -> Workload:
    """A workload with some of its systems."""
    everybody = workload.takes | workload.more
    return replace(workload, takes={name: everybody[name] for name in names}, more={})


# The workloads of the goals of speed and memory, which run for three quarters of an hour.
GOALS = (
    SIZED[100_000][5 * M],
    SIZED[1_000][5 * M],
    of(FEW_ROWS, "mullion", "spark", "baseline"),
    of(FEW_ROWS_AT_ONE, "mullion", "spark", "baseline"),
    of(SLIDING_100K, "mullion", "baseline"),
    of(EARLY, "mullion"),
    of(NOT_EARLY, "mullion"),
    replace(
        of(VISITS, "mullion", "baseline", "spark"), takes={**everyone(14 * M, "mullion", "baseline"), "spark": 3 * M}
    ),
    replace(
        of(TUMBLING_100K, "mullion", "baseline", "spark"),
        takes={**everyone(14 * M, "mullion", "baseline"), "spark": 4 * M},
    ),
    replace(
        of(SLIDING_1K, "mullion", "baseline", "spark"), takes=everyone(14 * M, "mullion", "baseline") | {"spark": 2 * M}
    ),
    of(TUMBLING_3M, "mullion", "spark"),
)


def selected(candidates: Iterable[Workload], only: Sequence[str], share: float) -> list[Workload]:
    """The workloads whose name matches a pattern, or all without patterns, with a share of their rows."""
    matching = (each for each in candidates if not only or any(re.search(pattern, each.name) for pattern in only))
    return [workload.with_share(share) for workload in matching]
