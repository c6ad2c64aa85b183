"""Invalid input to ``windowed``: each raises an error that names the value, the cause and the fix."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Around,
    Count,
    Early,
    Global,
    InvalidArgumentError,
    PerKey,
    Session,
    Sliding,
    Tumbling,
    UnknownColumnError,
    UnsupportedError,
    Upgrade,
    Watermark,
    read_panes,
    windowed,
)
from mullion._keyed.api import read_state
from mullion.errors import WrongCallError
from tests.support.fakes import of_connect

HOUR = Tumbling("1 hour")


@pytest.fixture(scope="module")
def flights(spark: SparkSession) -> DataFrame:
    columns = "ts timestamp, carrier string, delay double, day date, local timestamp_ntz, millis bigint, text string"
    return spark.createDataFrame([], f"{columns}, `a.b` int").withColumn("start_end", F.window("ts", "1 hour"))


@pytest.fixture
def make(flights: DataFrame) -> Callable[..., Any]:
    """``windowed`` with everything right but what a test gives."""

    def windowed_with(**options: Any) -> Any:
        return windowed(**{"df": flights, "window": HOUR, "by": "carrier", "time": "ts", **options})

    return windowed_with


Make = Callable[..., Any]


def test_right_arguments_are_accepted_in_each_of_their_forms(make: Make) -> None:
    for by in ("carrier", F.col("carrier"), ["carrier"], ("carrier", F.col("delay")), [], "`a.b`", "CARRIER"):
        make(by=by)
    for time in ("ts", F.col("ts"), "start_end"):
        make(time=time)
    for gap in ("10 minutes", F.expr("make_dt_interval(0, 0, 0, millis / 1000)"), F.col("text"), F.make_interval()):
        make(window=Session(gap))
    make(window=Sliding("1 hour", "5 minutes"), allowed_lateness=timedelta(minutes=10), early=Early("1 minute"))


def test_an_unknown_key_is_rejected_with_the_name_that_is_meant(make: Make) -> None:
    with pytest.raises(
        UnknownColumnError, match=r"by='carier': .* no column 'carier'\. Did you mean 'carrier'\? It has"
    ):
        make(by="carier")
    with pytest.raises(UnknownColumnError, match="Did you mean 'carrier'"):
        make(by=[F.upper("carier")])


def test_an_unknown_time_is_rejected_with_the_columns_there_are(make: Make) -> None:
    with pytest.raises(UnknownColumnError, match=r"time='when': .*It has 'ts', 'carrier', 'delay'"):
        make(time="when")


def test_a_name_with_a_dot_is_rejected_with_its_quoted_form(make: Make) -> None:
    with pytest.raises(UnknownColumnError, match=r"'`a\.b`'"):
        make(by="a.b")


def test_an_unknown_column_in_an_aggregate_is_rejected_with_the_name_that_is_meant(make: Make) -> None:
    with pytest.raises(UnknownColumnError, match=r"no column 'dealy'\. Did you mean 'delay'\?") as refused:
        make().agg(F.avg("dealy"))
    assert "AnalysisException" in (refused.value.jvm_trace or ""), "Spark's own error is kept"


EACH_ROW: dict[str, Any] = {"early": Early(each_row=True)}


@pytest.mark.parametrize(
    ("column", "fix"),
    [
        ("text", "F.to_timestamp('text')"),
        ("millis", "F.timestamp_millis('millis')"),
        ("delay", "F.timestamp_seconds('delay')"),
        ("day", "F.col('day').cast('timestamp')"),
        ("local", "F.col('local').cast('timestamp')"),
    ],
)
def test_a_time_that_is_no_timestamp_is_rejected_with_the_conversion(make: Make, column: str, fix: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"time='{column}' is of type") as refused:
        make(time=column)
    assert fix in str(refused.value)


def test_a_watermark_is_asked_for_on_a_stream(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(InvalidArgumentError, match=r"withWatermark\('timestamp'"):
        windowed(stream, HOUR, time="timestamp").agg(F.count("*"))


@pytest.mark.parametrize(
    "option", [{"allowed_lateness": "1 minute"}, {"late": "emit"}, {"clock": Watermark(idle_after="1 minute")}]
)
def test_what_speaks_of_late_rows_or_idle_clocks_is_rejected_on_processing_time(
    make: Make, option: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^{next(iter(option))}.* has no effect .*time=None"):
        make(time=None, **option)


@pytest.mark.parametrize("idle_after", ["0 seconds", "soon", 30])
def test_an_idle_time_that_is_no_length_is_rejected(idle_after: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^idle_after="):
        Watermark(idle_after=idle_after)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"state": "memory"}, "State is always in RocksDB: leave it out."),
        ({"watermark": "per key"}, "Write clock=PerKey(), or clock=PerKey(wall_time=True)."),
        ({"late_by": "watermark"}, "Write clock=PerKey(late_by='watermark')."),
        ({"idle_after": "1 minute"}, "Write clock=Watermark(idle_after='30 seconds')."),
        ({"running": True}, "Write early=Early(each_row=True)."),
        ({"new_aggregates": "from now"}, "Write upgrade=Upgrade(new_aggregates='from now')."),
        ({"on_change": "drain"}, "Write upgrade=Upgrade(window='drain')."),
    ],
)
def test_a_former_option_raises_an_error_with_the_present_one(make: Make, old: dict[str, Any], new: str) -> None:
    with pytest.raises(WrongCallError, match=re.escape(f"has no argument '{next(iter(old))}'. {new}")):
        make(**old)


def test_groups_of_options_are_frozen_values_with_an_honest_repr() -> None:
    for group in (
        Watermark(),
        Watermark("30 seconds"),
        PerKey(),
        PerKey(wall_time=True, late_by="watermark"),
        Early(each_row=True),
        Upgrade(),
        Upgrade("from now", "drain"),
    ):
        assert eval(repr(group)) == group
        assert len({group, eval(repr(group))}) == 1
        with pytest.raises(AttributeError):
            setattr(group, fields(group)[0].name, None)
    with pytest.raises(InvalidArgumentError, match="nothing left for every, wall, count and unchanged"):
        Early(each_row=True, count=5)
    with pytest.raises(InvalidArgumentError, match="new_aggregates='never' is not one of 'reject', 'from now'"):
        Upgrade(new_aggregates="never")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="window='close' is not one of 'reject', 'drain', 'drop'"):
        Upgrade(window="close")  # type: ignore[arg-type]


def test_windows_without_rows_are_rejected_where_rows_make_the_windows(make: Make) -> None:
    for window in (Session("1 hour"), Around("1 hour")):
        with pytest.raises(UnsupportedError, match=r"empty='emit' needs windows that exist without rows"):
            make(window=window, empty="emit")


def test_what_becomes_of_open_panes_at_the_end_is_keep_or_close(make: Make) -> None:
    with pytest.raises(InvalidArgumentError, match=r"at_end='closed'.*'keep'.*'close'"):
        make(at_end="closed")
    with pytest.raises(UnsupportedError, match=r"ids=True and at_end='close' do not go together"):
        make(at_end="close", ids=True)


def test_rows_are_late_by_the_watermark_of_their_key_alone_and_open_no_pane(make: Make) -> None:
    with pytest.raises(InvalidArgumentError, match=r"late_by='clock'"):
        PerKey(late_by="clock")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match=r"late_by='watermark'\) with late='reopen'"):
        make(clock=PerKey(late_by="watermark"), late="reopen")


def test_discarding_is_rejected_for_windows_around_rows(make: Make) -> None:
    with pytest.raises(UnsupportedError, match="because they share rows"):
        make(window=Around("1 hour"), accumulate=False, early=Early(count=5))


def test_an_idle_time_shorter_than_sparks_clocks_tell_is_rejected(make: Make) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"clock=Watermark\(idle_after=\.\.\.\) is 1 microsecond: .* at least 1 millisecond"
    ):
        make(clock=Watermark(timedelta(microseconds=1))).agg(F.count("*").alias("n"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": "1 hour"}, r"Write Tumbling\('1 hour'\)"),
        ({"window": None}, r"window=None \(NoneType\).*or Global\.every\(100\)"),
        ({"by": 1}, r"by=1 \(int\)"),
        ({"by": {"carrier"}}, r"by=\{'carrier'\} \(set\)"),
        ({"by": ["carrier", 1]}, r"holds 1 \(int\)"),
        ({"by": ["carrier", "carrier"]}, "2 columns named 'carrier'"),
        ({"by": "*"}, "means 9 columns"),
        ({"time": 0}, r"time=0 \(int\)"),
        ({"allowed_lateness": "-1 minute"}, "allowed_lateness='-1 minute' is negative"),
        ({"allowed_lateness": 600}, "allowed_lateness='600 seconds'"),
        ({"early": "1 minute"}, r"early=Early\(every='1 minute'\)"),
        ({"early": True}, r"early=True \(bool\) is not an Early"),
        ({"empty": "show"}, "empty='show' is not one of 'skip', 'emit', 'forward'"),
        ({"on_time": "yes"}, "on_time='yes' .* neither True nor False"),
        ({"on_time": True}, "allowed_lateness='10 minutes'"),
        ({"accumulate": 0}, r"accumulate=0 \(int\) is neither True nor False"),
        ({"accumulate": False}, "Add early= or on_time=True"),
        (
            {"late": "emitt"},
            r"late='emitt' is not one of 'drop', 'emit', 'reopen', 'reopen each'\. Did you mean 'emit'\?",
        ),
        ({"late": None}, "late=None is not one of"),
    ],
)
def test_a_wrong_argument_is_rejected_by_name(make: Make, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make(**options)


@pytest.mark.parametrize("name", ["window", "Pane"])
def test_a_key_named_as_a_column_of_the_result_is_rejected_with_an_alias(make: Make, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"by='{name}' is also .*alias\('{name}_key'\)"):
        make(by=F.col("carrier").alias(name))


@pytest.mark.parametrize("name", ["window", "pane", "carrier"])
def test_an_aggregate_named_as_another_column_of_the_result_is_rejected(make: Make, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        make().agg(F.count("*").alias(name))


def test_late_row_is_reserved_only_if_late_rows_are_emitted(make: Make) -> None:
    assert "late_row" in make(late="drop").agg(F.count("*").alias("late_row")).columns
    with pytest.raises(InvalidArgumentError, match="late_row"):
        make(late="emit", by=F.col("carrier").alias("late_row"))
    with pytest.raises(InvalidArgumentError, match="late_row"):
        make(late="emit").agg(F.count("*").alias("late_row"))


def test_a_keyword_names_its_aggregate(make: Make) -> None:
    assert make().agg(F.sum("delay"), n=F.count("*"), m=F.max("delay")).columns[-3:] == ["sum(delay)", "n", "m"]
    with pytest.raises(InvalidArgumentError, match=r"agg\('count'\) was given a str, which is not a Column"):
        make().agg(n="count")


def test_no_aggregate_is_rejected_with_an_example(make: Make) -> None:
    with pytest.raises(InvalidArgumentError, match=r"agg\(F\.count\('\*'\)\.alias\('n'\)\)"):
        make().agg()


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        ("count(*)", r"given a str, which is not a Column"),
        ({"delay": "avg"}, r"given a dict\. Pass Columns"),
        ([1], r"Pass its items: agg\(\*aggregates\)"),
        (F.count, "given a function, which is not a Column"),
    ],
)
def test_an_aggregate_that_is_no_column_is_rejected(make: Make, aggregate: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make().agg(aggregate)


def test_a_nested_aggregate_is_rejected_with_the_workaround(make: Make) -> None:
    with pytest.raises(InvalidArgumentError, match="Aggregate the inner one first"):
        make().agg(F.max(F.sum("delay")))


def test_a_column_outside_of_an_aggregate_is_rejected_with_the_workaround(make: Make) -> None:
    with pytest.raises(InvalidArgumentError, match=r"add it to by="):
        make().agg(F.col("delay"))


@pytest.mark.usefixtures("spark")
def test_sessions_with_a_gap_per_row_are_values_too() -> None:
    gap = F.col("text")
    assert repr(Session(gap)) == "Session(Column<'text'>)"
    assert Session(gap) == Session(gap)
    assert hash(Session(gap)) == hash(Session(gap))
    assert Session(gap) not in (Session(F.col("text")), Session("1 hour")), "Columns cannot be compared"


def test_an_unknown_gap_is_rejected_with_the_name_that_is_meant(make: Make) -> None:
    with pytest.raises(
        UnknownColumnError, match=r"gap=Column<'milis'>: .* no column 'milis'\. Did you mean 'millis'\?"
    ):
        make(window=Session(F.col("milis")))


@pytest.mark.parametrize(
    ("gap", "fix"),
    [
        ("millis", "Session(F.make_dt_interval(secs='millis'))"),
        ("millis / 1000", "Session(F.make_dt_interval(secs='...'))"),
        ("ts", "or text such as '10 minutes'"),
        ("make_ym_interval(0, 1)", "an interval of days and time"),
    ],
)
def test_a_gap_that_is_no_interval_is_rejected_with_the_conversion(make: Make, gap: str, fix: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^The gap .* is of type") as refused:
        make(window=Session(F.expr(gap)))
    assert fix in str(refused.value)


def test_a_gap_of_spark_connect_is_rejected(make: Make) -> None:
    module = {"__module__": "pyspark.sql.connect.column", "__repr__": lambda _: "Column<'text'>"}
    gap: Any = object.__new__(type("Column", (Column,), module))
    with pytest.raises(InvalidArgumentError, match=r"gap=Column<'text'> belongs to Spark Connect, .*in one session"):
        make(window=Session(gap))


def test_a_frame_that_is_not_sparks_is_rejected() -> None:
    with pytest.raises(InvalidArgumentError, match=r"given a builtins\.dict, .*spark\.createDataFrame"):
        windowed({}, HOUR, time="ts")  # type: ignore[arg-type]


def test_spark_connect_is_rejected_with_what_to_do() -> None:
    session: Any = of_connect("SparkSession")
    with pytest.raises(UnsupportedError, match=r"without \.remote\(\.\.\.\).*dedicated \(single-user\)"):
        read_state("/checkpoint", spark=session)
    with pytest.raises(UnsupportedError, match="this Spark session belongs to Spark Connect"):
        read_state("/checkpoint", spark=session)


def test_a_repr_shows_the_call(flights: DataFrame) -> None:
    shown = repr(
        windowed(flights.select("ts"), HOUR, time="ts", allowed_lateness="600 seconds", early=Early("1 minute"))
    )
    assert shown == (
        "windowed(DataFrame[ts: timestamp], Tumbling('1 hour'), time='ts', allowed_lateness='10 minutes', "
        "early=Early('1 minute'), late='drop')"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint": 1}, r"checkpoint=1 \(int\)"),
        ({"operator": -1}, "operator=-1"),
        ({"operator": True}, "operator=True"),
        ({"panes": "n"}, "panes='n' is not a DataFrame"),
    ],
)
def test_a_wrong_argument_of_read_panes_is_rejected_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        read_panes(**{"checkpoint": "/checkpoint", **options})


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"allowed_lateness": "1 minute"}, "allowed_lateness="),
        ({"late": "emit"}, "late="),
        ({"early": Early("1 minute")}, "early="),
        ({"clock": Watermark("1 minute")}, r"clock=Watermark\(idle_after=...\)"),
        ({"clock": PerKey()}, r"clock=PerKey\(\)"),
        ({"on_time": True, "allowed_lateness": "1 minute"}, "allowed_lateness="),
    ],
)
@pytest.mark.parametrize("window", [Count(5), Global.every(5)])
def test_windows_of_rows_have_no_clock(make: Make, window: object, options: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{name} needs a clock.*no row is late"):
        make(window=window, time=None, **options)


def test_windows_of_rows_take_no_time_but_to_order_what_they_collect(make: Make) -> None:
    make(window=Count(5), time=None).agg(F.count("*"))
    make(window=Count(5), time="ts").collect("time")
    with pytest.raises(InvalidArgumentError, match=r"time='ts' has no effect: Count\(5\)"):
        make(window=Count(5)).agg(F.count("*"))
    with pytest.raises(InvalidArgumentError, match="order='time' needs an event time, and the call has time=None"):
        make(window=Count(5), time=None).collect("time")


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"order": "arrivel"}, r"order='arrivel' is not one of 'arrival', 'time'\. Did you mean 'arrival'\?"),
        ({"name": ""}, "name='' is not a column's name"),
        ({"max_rows": 0}, "max_rows=0 is not above 0"),
        ({"max_rows": True}, r"max_rows=True \(bool\)"),
        ({"name": "window"}, "named 'window'"),
    ],
)
def test_the_argument_of_collect_is_checked(make: Make, options: dict[str, Any], refusal: str) -> None:
    with pytest.raises(InvalidArgumentError, match=refusal):
        make().collect(**options)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({**EACH_ROW, "late": "reopen"}, r"late='reopen' with early=Early\(each_row=True\)"),
        ({**EACH_ROW, "late": "reopen each"}, r"late='reopen each' with early=Early\(each_row=True\)"),
        (
            {**EACH_ROW, "on_time": True, "allowed_lateness": "1 minute"},
            r"on_time=True with early=Early\(each_row=True\)",
        ),
        ({**EACH_ROW, "empty": "emit"}, r"empty='emit' with early=Early\(each_row=True\)"),
        ({"clock": PerKey(), "time": None}, r"clock=PerKey\(\): on processing time"),
        ({"clock": PerKey(), "window": Around("1 minute")}, r"clock=PerKey\(\) with from"),
        ({**EACH_ROW, "window": Around("1 minute")}, r"early=Early\(each_row=True\) with from"),
    ],
)
def test_what_does_not_go_with_rows_one_by_one_is_rejected(make: Make, options: dict[str, Any], refusal: str) -> None:
    with pytest.raises(UnsupportedError, match=refusal):
        make(**options).agg(F.count("*"))


def test_collecting_rows_goes_with_early_firings_and_by_their_number_where_windows_are_on_a_grid(make: Make) -> None:
    with pytest.raises(UnsupportedError, match=r"early=Early\(each_row=True\) with collect\(\)"):
        make(**EACH_ROW).collect()
    with pytest.raises(UnsupportedError, match=r"early=Early\(count=\.\.\.\) with collect\(\)"):
        make(window=Session("1 hour"), early=Early(count=5)).collect()
    assert "rows" in make(early=Early(count=5)).collect().columns
    assert "rows" in make(early=Early("1 minute")).collect().columns


def test_the_watermark_is_the_streams_or_each_keys(make: Make) -> None:
    with pytest.raises(InvalidArgumentError, match=r"clock='per key' \(str\) is not a clock. Write"):
        make(clock="per key")
    with pytest.raises(InvalidArgumentError, match=r"each_row='yes' \(str\) is neither True nor False"):
        Early(each_row="yes")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"upgrade='drain' \(str\) is not an Upgrade"):
        make(upgrade="drain")


@pytest.mark.parametrize(
    ("window", "refusal"),
    [
        (lambda: Global.when("delay"), r"Global.when\(delay\) is of type DOUBLE, and a condition is a BOOLEAN"),
        (lambda: Global.when(F.rand() > 0.5), "differs each time that it is computed"),
        (lambda: Global.changes(F.max("delay")), "more than one value for each row"),
    ],
)
def test_a_trigger_is_a_column_of_the_row(make: Make, window: Callable[[], Global], refusal: str) -> None:
    with pytest.raises(InvalidArgumentError, match=refusal):
        make(window=window(), time=None).agg(F.count("*"))


def test_an_unknown_column_of_a_trigger_is_rejected_with_the_columns_there_are(make: Make) -> None:
    with pytest.raises(UnknownColumnError, match="no column 'statis'"):
        make(window=Global.changes("statis"), time=None).agg(F.count("*"))
