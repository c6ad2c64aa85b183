"""A query and its model: both receive the same rows, and they must agree whenever the query settles."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F

from mullion import Around, Cumulate, Custom, Early, Session, Sliding, Tumbling, Watermark, read_panes, windowed
from mullion import functions as MF
from mullion.windows import RangesOf, Window
from tests.support.clocked import ClockedQuery
from tests.support.models.custom_model import CustomRules
from tests.support.models.model import SECOND, AroundRules, Batch, CumulativeRules, Firing, Row, Rules
from tests.support.models.random_steps import Step
from tests.support.models.session_model import SessionRules, model_of
from tests.support.stores import TOTALS, records
from tests.support.streams import FLOOD, Feed, batches_of

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
SESSION_STATE_IN_ROCKSDB = {PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
SNAPSHOTS = {CHANGELOGS: "false"}
"""Settings with which a snapshot contains the whole state of RocksDB, for tests that read it."""


def with_the_jar_alone(spark: SparkSession) -> SparkSession:
    """A session of the same application without Mullion's extension."""
    jvm: Any = spark._jvm
    own: Any = spark._jsparkSession
    none = jvm.scala.Option.empty()
    options, tags = own.initialSessionOptions(), jvm.PythonUtils.toScalaMap({})
    extensions = jvm.org.apache.spark.sql.SparkSessionExtensions()
    session = jvm.org.apache.spark.sql.classic.SparkSession(
        own.sparkContext(), jvm.scala.Some(own.sharedState()), none, extensions, options, tags
    )
    return SparkSession(spark.sparkContext, session)


USERS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.codegen.fallback": "true",
    "spark.sql.shuffle.partitions": "7",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
}


def of_a_user(spark: SparkSession, checkpoints: str) -> SparkSession:
    """A session without Mullion's settings, whose checkpoints have a format."""
    session = with_the_jar_alone(spark)
    settings = {**USERS, "spark.sql.streaming.stateStore.checkpointFormatVersion": checkpoints}
    if checkpoints == "2":
        # The format requires it.
        settings["spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"] = "true"
        settings["spark.sql.streaming.stateStore.providerClass"] = (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        )
    for name, value in settings.items():
        session.conf.set(name, value)
    return session


@dataclass(frozen=True)
class Case:
    """A query: the rules of its panes, and its settings.

    ``aggregates`` identify a pane's rows: a list of all ids, stored as an object; figures of fixed width, updated in
    place; or distinct values, in accumulators and in separate records, and the largest ids. With
    ``keys="of one hash"`` each key shares its hash with another one: see ``columns_of_key``.
    """

    name: str
    rules: Rules | SessionRules | AroundRules | CustomRules
    aggregates: str = "list"
    keys: str = "of one hash"
    output_mode: str = "append"
    restart_after: int | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    has_text: ClassVar[bool] = True
    """True if the text of the aggregates is enough to build them again."""

    def panes(self, stream: DataFrame) -> DataFrame:
        """The query over rows with time ``ts``, key ``k`` and ``id``, with the columns that ``shown_row`` reads."""
        columns, k = columns_of_key() if self.keys == "of one hash" else ({"k": F.col("k")}, F.col("k"))
        panes = windowed(
            stream.withColumn("square", F.col("id") * F.col("id")).withColumns(columns),
            self._window(),
            by=list(columns),
            time=None if self.rules.processing else "ts",
            allowed_lateness=length(self.rules.lateness),
            early=self._early(),
            on_time=self.rules.on_time,
            accumulate=self.rules.accumulate,
            late=self.rules.late,
            empty="emit" if self.rules.empty else "skip",
            clock=Watermark(None if self.rules.idle_after is None else length(self.rules.idle_after)),
            **self._more_options(),
        ).agg(*(column.alias(name) for name, column in self._aggregates().items()))
        late_id = F.col("late_row.id") if self.rules.late == "emit" else F.lit(None)
        return panes.select(
            k.alias("k"),
            *bounds_of("window"),
            "pane",
            F.struct(*self._aggregates()).alias("made"),
            late_id.alias("late_id"),
        )

    def _more_options(self) -> dict[str, Any]:
        """The options that the rules of the model lack."""
        return {}

    def _early(self) -> Early | None:
        rules = self.rules
        if rules.early is None:
            return None if rules.count is None else Early(count=rules.count)
        return Early(length(rules.early), unchanged=rules.unchanged, count=rules.count)

    def _window(self) -> Window:
        match self.rules:
            case SessionRules(gap=gap, gaps=()):
                return Session(length(gap))
            case SessionRules(gaps=gaps):
                # A row's id selects its gap.
                lengths = F.array(*(F.lit(None if gap is None else length(gap)) for gap in gaps))
                return Session(F.get(lengths, (F.col("id") % len(gaps)).cast("int")))
            case CustomRules(in_python=True) as rules:
                return Custom(_in_python(rules))
            case CustomRules() as rules:
                return Custom(_in_sql(rules))
            case AroundRules(before=before, after=after):
                return Around(length(before), length(after))
            case CumulativeRules(size=size, slide=step, offset=offset):
                return Cumulate(length(size), length(step), length(offset))
            case Rules(size=size, slide=slide, offset=offset) if size == slide:
                return Tumbling(length(size), length(offset))
            case Rules(size=size, slide=slide, offset=offset):
                return Sliding(length(size), length(slide), length(offset), gaps=True)

    def _aggregates(self) -> dict[str, Column]:
        if self.aggregates == "list":
            return {"ids": F.sort_array(F.collect_list("id"))}
        if self.aggregates == "distinct":
            # The texts are long enough for a record per value.
            wide = F.repeat((F.col("id") % 11).cast("string"), 1200)
            return {
                "values": F.count_distinct(F.col("id") % 5),
                "sum": F.sum_distinct(F.col("id") % 7),
                "wide": F.count_distinct(wide),
                "texts": F.size(F.expr("collect_list(DISTINCT repeat(id % 3, 1200))")),
                "top": MF.top_n(2, F.col("id") % 5, "id"),
            }
        return {"n": F.count("*"), "sum": F.sum("id"), "squares": F.sum("square")}

    def results(self, ids: Sequence[int]) -> tuple[Any, ...]:
        """The results of the aggregates over the rows with these ids."""
        if self.aggregates == "list":
            return (list(ids),)
        if self.aggregates == "distinct":
            sevens, top = {i % 7 for i in ids}, sorted(ids, key=lambda i: (-(i % 5), i))[:2]
            texts = len({i % 3 for i in ids})
            return (len({i % 5 for i in ids}), sum(sevens) if ids else None, len({i % 11 for i in ids}), texts, top)
        return (len(ids), sum(ids), sum(i * i for i in ids)) if ids else (0, None, None)

    def nothing_made(self) -> tuple[None, ...]:
        return (None,) * {"list": 1, "figures": 3, "distinct": 5}[self.aggregates]


def _in_python(rules: CustomRules) -> RangesOf:
    unit, lists = rules.unit, rules.lists
    epoch = datetime(1970, 1, 1, tzinfo=UTC)

    def ranges(time: datetime) -> list[tuple[datetime, datetime]] | None:
        base = (time - epoch) // timedelta(microseconds=unit)
        pairs = lists[base % len(lists)]
        if pairs is None:
            return None
        at = epoch + base * timedelta(microseconds=unit)
        return [(at + timedelta(microseconds=start), at + timedelta(microseconds=end)) for start, end in pairs]

    return ranges


def _in_sql(rules: CustomRules) -> Column:
    """The ranges of a row, which follow from its time."""
    us, unit = F.unix_micros("ts"), F.lit(rules.unit)
    start = us - F.pmod(us, unit)
    which = F.pmod(start / unit, F.lit(len(rules.lists))).cast("int")
    lists = F.from_json(F.lit(json.dumps(rules.lists)), "array<array<array<bigint>>>")

    def moved(ranges: Column) -> Column:
        bounds = [F.timestamp_micros(start + ranges[i]).alias(name) for i, name in enumerate(("start", "end"))]
        return F.struct(*bounds)

    return F.transform(F.get(lists, which), moved)


def columns_of_key() -> tuple[dict[str, Column], Column]:
    """Columns that distinguish keys although pairs of keys have the same hash, because Spark's hash skips nulls; and
    the key again, built from them.

    ``key 6`` is ``("key 6", null, null)`` and ``key 7`` is ``(null, "key 6", null)``; the null key is
    ``(null, null, null)``, and ``""`` is ``(null, null, [null])``.
    """
    number = F.expr("try_cast(substring(k, 5) AS int)")
    is_odd = F.coalesce(F.pmod(number, F.lit(2)) == 1, F.lit(False))
    nothing = F.lit(None).cast("string")
    columns = {
        "k_left": F.when(~is_odd & (F.col("k") != ""), F.col("k")),
        "k_right": F.when(is_odd, F.concat(F.lit("key "), number - 1)),
        "k_list": F.when(F.col("k") == "", F.array(nothing)),
    }
    odd = F.concat(F.lit("key "), F.substring("k_right", 5, 10).cast("int") + 1)
    return columns, F.coalesce("k_left", odd, F.when(F.col("k_list").isNotNull(), F.lit("")))


def length(us: int) -> timedelta:
    return timedelta(microseconds=us)


def bounds_of(window: str) -> tuple[Column, Column]:
    """A window in microseconds: a Python datetime ends with the year 9999 and depends on the time zone."""
    start, end = F.unix_micros(f"{window}.start"), F.unix_micros(f"{window}.end")
    return start.alias("start"), end.alias("end")


def shown(case: Case, firing: Firing) -> str:
    """A firing of the model in the query's format."""
    if firing.firing == "late":
        return repr((firing.key, None, None, "late", None, case.nothing_made(), firing.ids[0]))
    return repr((*firing[:5], case.results(firing.ids), None))


def shown_row(row: SparkRow) -> str:
    return repr((row.k, row.start, row.end, row.pane.firing, row.pane.seq, tuple(row.made), row.late_id))


def counts(batch: Batch) -> dict[str, int]:
    """The counts of a batch, by the names in a query's progress."""
    return {
        "rowsLate": batch.rows_late,
        "rowsWithoutTime": batch.rows_without_time,
        "rowsInNoWindow": batch.rows_in_no_window,
        "panesOpen": batch.panes_open,
        "firingsEarly": batch.count("early"),
        "firingsOnTime": batch.count("on_time"),
        "firingsUpdate": batch.count("update"),
        "firingsClose": batch.count("close"),
    }


@contextmanager
def settings(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Changes settings of the session for the queries that start within."""
    before = {key: spark.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)


class CheckedQuery:
    """A query of a case, and its model. ``settle`` compares their output and counts batch by batch.

    The query starts with the first ``settle``: a query that starts before its rows may run a batch without them.
    """

    def __init__(self, spark: SparkSession, folder: Path, case: Case, context: str = "") -> None:
        self.spark = spark
        self.case = case
        self.context = f"{case.name} {context}"
        self.checkpoint = folder / "checkpoint"
        self.feed = Feed(folder / "in", "k string, id bigint")
        self.model = model_of(case.rules)
        self.wall = 0
        self.last: list[Batch] = []
        self._last_report: dict[str, Any] = {}
        self._pending: tuple[list[Row], int | None] | None = None
        self._query: ClockedQuery | None = None

    def write(self, rows: Sequence[Row], filtered_time: int | None = None) -> None:
        """Writes the rows of a batch. ``filtered_time``: the time of a row that is filtered out after the watermark."""
        written: list[tuple[Any, ...]] = [(row.time, row.key, row.id) for row in rows]
        self.feed.write([*written, (filtered_time, None, None)] if filtered_time is not None else written)
        self._pending = (list(rows), filtered_time)

    def advance(self, us: int) -> None:
        """Advances the wall clock."""
        if self._query is not None:
            self._query.advance(length(us))
        self.wall += us

    def settle(self) -> list[dict[str, Any]]:
        """Runs all due batches and compares them. Returns the query's progress of each."""
        rows, filtered_time = self._pending or (None, None)
        self._pending = None
        # The number of batches must be equal too: each moves the clock by which later rows are late.
        batches = self.model.settle(self.wall, rows, filtered_time)
        return self._compare(batches)

    def perform(self, step: Step) -> None:
        """Performs a step of a random case and settles."""
        if step.restart:
            self.restart()
        if step.advance:
            self.advance(step.advance)
        if step.rows is not None:
            self.write(step.rows)
        self.settle()

    def restart(self) -> None:
        """Stops the query. The next step restarts it from its checkpoint."""
        self.stop()
        self.model.restart()

    def repeat_last_batch(self) -> list[dict[str, Any]]:
        """Stops the query and removes its last commit, so that the batch runs again from the same state."""
        self.stop()
        commits = sorted((self.checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
        commits[-1].unlink()
        (self.checkpoint / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)
        self.model.starts_again = self.case.rules.by_wall_clock
        return self._compare([self.last[-1], *self.model.settle(self.wall)])

    def finish(self) -> None:
        """Closes every pane with a row far in the future. No pane, slice, timer or queue record may remain."""
        if self.case.rules.empty:
            # Known keys stay forever.
            self.stop()
            return
        if self.case.rules.processing:
            self.advance(1_000_000 * SECOND)
        else:
            self.write([], filtered_time=FLOOD)
        self.settle()
        assert self.model.open == {}
        assert self._last_report["numRowsTotal"] == 0, f"records are left: {self.context}"
        self.stop()
        panes = None if self.case.has_text else self.case.panes(self._stream())
        assert read_panes(self.checkpoint, panes=panes, spark=self.spark if panes is None else None).count() == 0
        if self.case.conf.get(CHANGELOGS) != "true":
            assert records(self.spark, self.checkpoint) == TOTALS, self.context

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()
        self._query = None

    @property
    def query(self) -> ClockedQuery:
        """The running query."""
        if self._query is None:
            self._query = self._started()
        return self._query

    def _started(self) -> ClockedQuery:
        self._reported = 0
        with settings(self.spark, {**SNAPSHOTS, **self.case.conf}):
            panes = self.case.panes(self._stream())
            return ClockedQuery(
                panes, checkpoint=self.checkpoint, output_mode=self.case.output_mode, start_ms=self.wall // 1000
            )

    def _stream(self) -> DataFrame:
        return self.feed.stream(self.spark, f"{self.case.rules.delay // 1000} milliseconds")

    def _compare(self, batches: list[Batch]) -> list[dict[str, Any]]:
        query = self.query
        fired = Counter(shown_row(row) for row in query.settle())
        wanted = Counter(shown(self.case, firing) for batch in batches for firing in batch.firings)
        if fired != wanted:
            missing, unexpected = list((wanted - fired).elements()), list((fired - wanted).elements())
            raise AssertionError(
                f"{self.context}: {len(missing)} firings are missing, such as {missing[:5]}; "
                f"{len(unexpected)} are not expected, such as {unexpected[:5]}"
            )
        reports = batches_of(query)[self._reported :]
        self._reported += len(reports)
        expected = [counts(batch) for batch in batches]
        assert [{name: report[name] for name in counts(Batch())} for report in reports] == expected, self.context
        self.last = batches or self.last
        self._last_report = reports[-1] if reports else self._last_report
        return reports

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
