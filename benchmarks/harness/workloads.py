"""What is asked: windows over streams of rows, and how far each system goes through them.

A stream is files of Parquet, a micro-batch each. Times are seconds of event time unless a name says otherwise. A
workload's rows come from a seed, and are the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

CORES = 2

# How many rows a batch has that is there to let the JVM settle, and the folder beside a workload's rows with such.
SETTLING_ROWS = 1_000
SETTLING = "settling"


@dataclass(frozen=True, slots=True)
class Workload:
    """A stream, a question to it, and who answers.

    - ``kind``: ``tumbling``, ``sliding`` or ``session`` over the keys ``k``; or a query of Nexmark, ``q5`` and so on.
    - ``size``, ``slide``: of a window; for sessions ``size`` is the gap.
    - ``keys``, ``rows``, ``batches``, ``span``: how many keys there are, how many rows a batch has, how many batches
      there are, and how much event time each spans.
    - ``rows_of``: how the rows are made (see ``rows.py``): ``keys`` at random, ``visits`` of many keys that come and
      go, ``bursts`` of a few that stay long, ``open`` panes that nothing happens to, or ``nexmark``.
    - ``form``: the form in which rows are written, of those in ``forms.py``.
    - ``asks``: the aggregates: ``plain`` for count, sum, min and max of longs, or ``ordinary`` for mean, standard
      deviation, maximum of texts, approximate distinct count and ``max_by``.
    - ``settling``: how many batches of a thousand rows systems on Spark take before all others, in one turn. They
      count in nothing, answers included. The JVM goes on making machine code for hundreds of batches, and on two
      cores it takes up to one of them from what is measured: a stream that has run for some minutes has that behind it.
    - ``warm``: how many first batches no median counts, of a system that goes through all: the JVM is still making
      machine code of what they run, mostly ours, for Spark's windows take as long over fewer batches. Of those that
      take fewer rows at most half.
    - ``late``: the share of rows that come up to ``lateness`` after the watermark has passed them.
    - ``early``: how often open panes fire before they close; 0 for not.
    - ``cores``: how many the systems may use.
    - ``partitions``: Spark's setting of shuffle partitions, which is how many parts state has.
    - ``heap``: the most memory that a JVM may have for its objects, in GB: what Spark gives a driver or an executor
      unless told, and more where panes are many. What peaks are is for its collector to say wherever there is more than
      it needs, so all have the same.
    - ``cache``: the most memory for Mullion's cached state, in MB (``stateStore.mullion.hotBytes``); 0 for its default.
    - ``ends``: whether a last row closes all panes; not where that would be all that is measured.
    - ``takes``: for each system the rows that it goes through, from the first on: all, or as many as it can in half
      a minute. Its answers are compared with those to the same rows. ``more`` has those of the full benchmark.
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

        Fewer rows of panes that stay open would be fewer panes, and of small batches, none.
        """
        part = share if self.rows_of != "open" and self.rows > 100 else 1.0
        takes, more = ({name: int(rows * part) for name, rows in each.items()} for each in (self.takes, self.more))
        return replace(self, rows=int(self.rows * part), takes=takes, more=more)

    @property
    def overlaps(self) -> int:
        """In how many windows a row is."""
        return self.size // self.slide if self.slide else 1


def everyone(rows: int, *names: str) -> dict[str, int]:
    return dict.fromkeys(names, rows)


# As many as it takes for the compiler to come near to rest.
SETTLED = 200
# Batches of few rows settle by themselves.
FEW = 300

M = 1_000_000

TUMBLING_1K = Workload(
    "tumbling 10 s, 1k keys",
    "tumbling",
    10,
    {**everyone(14 * M, "mullion", "duckdb"), "pandas": 2 * M, "bytewax": 400_000, "quix": 100_000},
    {**everyone(14 * M, "ceiling"), **everyone(8 * M, "spark", "pyflink"), "pathway": M},
)
TUMBLING_100K = Workload(
    "tumbling 10 s, 100k keys",
    "tumbling",
    10,
    {**everyone(14 * M, "mullion", "ceiling", "duckdb"), "spark": 4 * M},
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
    {**everyone(14 * M, "mullion", "ceiling", "duckdb"), "spark": 2 * M, "bytewax": 40_000},
    {"spark": 3 * M, "pyflink": 4 * M},
    slide=1,
    span=100,
)
HOUR_1K = Workload(
    "sliding 1 h / 1 s, 1k keys",
    "sliding",
    3600,
    {"mullion": 14 * M},
    # Spark makes 3,600 rows of each: a batch of 2,000 took it 81 seconds, one of 10,000 154.
    {"spark": 4_000},
    slide=1,
    span=5,
    # A plan with 3,600 windows takes more than one.
    heap=2,
)
VISITS = Workload(
    "sessions, many short",
    "session",
    10,
    {**everyone(14 * M, "mullion", "ceiling", "duckdb"), "spark": 3 * M},
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
    everyone(100 * FEW, "ceiling", "spark"),
    keys=100,
    rows=100,
    batches=FEW,
    span=1,
    warm=FEW * 2 // 3,
)
# What is advised for streams of few rows. Each file is one partition, as a topic with one partition is.
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
    {**everyone(12 * M, "mullion", "ceiling", "duckdb"), **everyone(8 * M, "spark", "spark hdfs")},
    keys=3_000_000,
    rows=500_000,
    batches=24,
    span=60,
    settling=SETTLED,
    warm=10,
    heap=8,
)
# All these panes need 21 MB in memory.
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
    takes={**everyone(8 * M, "mullion", "ceiling"), "spark": 5 * M},
    more={},
    keys=100_000,
    rows=500_000,
    batches=16,
    span=10,
    settling=SETTLED,
    # Panes of a minute close from the seventh on.
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
    {**everyone(14 * M, "mullion", "ceiling", "duckdb"), **everyone(8 * M, "spark", "spark hdfs")},
    keys=100,
    span=20,
    rows_of="bursts",
)
NOTHING = {
    panes: Workload(
        f"a batch without rows, {said} open panes",
        "tumbling",
        10,
        everyone(panes, "mullion", "spark"),
        keys=panes,
        rows=panes,
        # The rows come in the first batch, and the JVM makes machine code of what it ran for a dozen batches more.
        batches=32,
        warm=16,
        rows_of="open",
        heap=8,
    )
    for panes, said in ((10_000, "10k"), (100_000, "100k"), (300_000, "300k"), (M, "1M"), (10 * M, "10M"))
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

# How many batches of so many rows say what a batch costs and what a row adds to it.
SIZES = {100: FEW, 100_000: 24, M: 16, 5 * M: 14}
KEYS = {1_000: "1k", 100_000: "100k"}


def sized(keys: int, rows: int) -> Workload:
    """Tumbling windows over batches of so many rows."""
    batches = SIZES[rows]
    judge = ["duckdb"] if rows == max(SIZES) else []
    return Workload(
        f"{rows:,} rows a batch, {KEYS[keys]} keys",
        "tumbling",
        10,
        everyone(rows * batches, "mullion", "spark", "ceiling", *judge),
        keys=keys,
        rows=rows,
        batches=batches,
        settling=SETTLED if rows > 100 else 0,
        warm=batches - 8 if rows > 100 else batches * 2 // 3,
        # What Spark gives an executor that has five million rows to aggregate at once.
        heap=2,
    )


SIZED = {keys: {rows: sized(keys, rows) for rows in SIZES} for keys in KEYS}


def ordinary(name: str, *, spark: int = 5 * M, **different: Any) -> Workload:
    """A workload over rows as people have them: 100,000 keys, tumbling windows of 10 s unless said otherwise."""
    workload = Workload(
        name,
        "tumbling",
        10,
        everyone(10 * M, "mullion", "ceiling") | ({"spark": spark} if spark else {}),
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
    # Spark makes 60 rows of each.
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
    """A workload by some of its systems."""
    everybody = workload.takes | workload.more
    return replace(workload, takes={name: everybody[name] for name in names}, more={})


# What says whether the goals of speed and memory are reached, in three quarters of an hour.
GOALS = (
    SIZED[100_000][5 * M],
    SIZED[1_000][5 * M],
    of(FEW_ROWS, "mullion", "spark", "ceiling"),
    of(FEW_ROWS_AT_ONE, "mullion", "spark", "ceiling"),
    of(SLIDING_100K, "mullion", "ceiling"),
    of(EARLY, "mullion"),
    of(NOT_EARLY, "mullion"),
    replace(
        of(VISITS, "mullion", "ceiling", "spark"), takes={**everyone(14 * M, "mullion", "ceiling"), "spark": 3 * M}
    ),
    replace(
        of(TUMBLING_100K, "mullion", "ceiling", "spark"),
        takes={**everyone(14 * M, "mullion", "ceiling"), "spark": 4 * M},
    ),
    replace(
        of(SLIDING_1K, "mullion", "ceiling", "spark"), takes=everyone(14 * M, "mullion", "ceiling") | {"spark": 2 * M}
    ),
    of(TUMBLING_3M, "mullion", "spark"),
)


def selected(asked: Iterable[Workload], only: Sequence[str], share: float) -> list[Workload]:
    """The workloads in whose names a pattern is found, or all without patterns, with a share of their rows."""
    named = (each for each in asked if not only or any(re.search(pattern, each.name) for pattern in only))
    return [workload.with_share(share) for workload in named]
