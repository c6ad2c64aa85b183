"""Valid and invalid arguments of ``mullion.kx``, before anything runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import mullion.kx
from mullion.errors import InvalidArgumentError, UnsupportedError, WrongCallError
from mullion.kx import sp
from mullion.kx._window_spec import Window

SECOND = 1_000_000

UNTYPED: Any = sp
"""The same, for calls that type checkers also reject."""
TEN = timedelta(seconds=10)


def times(data: pa.Table) -> Any:
    return data["time"]


def trigger(id: str, buffer: pa.Table, offset: int, metadata: dict[str, Any], data: pa.Table) -> list[int]:  # noqa: A002
    return [len(buffer)]


class SymbolAtom:
    """A symbol of q in PyKX."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def test_the_module_of_windows_has_the_names_of_the_document() -> None:
    assert sp.window.__all__ == ["Window", "sliding", "timer", "tumbling", "count", "global_window"]
    assert dir(sp.window) == sorted(sp.window.__all__)
    assert mullion.kx.__all__ == ["sp"]


def test_a_window_is_an_operator_and_a_frozen_value() -> None:
    window = sp.window.tumbling(TEN, "time")
    assert isinstance(window, sp.window.Window)
    assert issubclass(sp.window.Window, sp.Operator)
    assert window == sp.window.tumbling((10, "s"), time_column="time")
    assert window != sp.window.tumbling(TEN, "time", sort=True)
    assert hash(window) == hash(sp.window.tumbling(TEN, "time"))
    with pytest.raises(AttributeError):
        window.size_us = 1  # type: ignore[misc]


def test_defaults_are_those_of_the_document() -> None:
    timed, counted = sp.window.tumbling(TEN, "time"), sp.window.count(10)
    assert (timed.count_trigger, timed.skip_empty_windows) == (2**63 - 1, False)
    assert (timed.lateness_us, timed.passthrough, timed.sort) == (0, False, False)
    assert (counted.size, counted.frequency) == (10, 10)
    assert not sp.window.global_window(trigger).mixed_schemas


def test_a_repr_makes_an_equal_window() -> None:
    import datetime

    names = {**vars(sp.window), "datetime": datetime, "times": times, "trigger": trigger}
    for window in (
        sp.window.timer(TEN, count_trigger=5, skip_empty_windows=True),
        sp.window.tumbling(TEN, "time", lateness=(1, "s"), sort=True, name="ten"),
        sp.window.sliding(TEN, timedelta(minutes=1), time_assigner=times, passthrough=True),
        sp.window.count(3, frequency=2),
        sp.window.count(3),
        sp.window.global_window(trigger, mixed_schemas=True),
    ):
        assert eval(repr(window), names) == window, repr(window)


@pytest.mark.parametrize(
    ("value", "us"),
    [
        (timedelta(seconds=10), 10 * SECOND),
        (timedelta(microseconds=1), 1),
        (np.timedelta64(10, "s"), 10 * SECOND),
        (np.timedelta64(1_500, "ms"), 1_500_000),
        (np.timedelta64(2_000, "ns"), 2),
        (np.timedelta64(2, "W"), 14 * 86_400 * SECOND),
        (np.timedelta64(3, ("s", 25)), 75 * SECOND),
        (np.timedelta64(1, "h"), 3_600 * SECOND),
        (pd.Timedelta("1 minute"), 60 * SECOND),
        ((10, "s"), 10 * SECOND),
        ((1, "minute"), 60 * SECOND),
        ((2, "hours"), 7_200 * SECOND),
        ((np.int64(5), "ms"), 5_000),
        ((1, "D"), 86_400 * SECOND),
    ],
)
def test_durations_of_all_three_kinds_are_exact(value: Any, us: int) -> None:
    assert sp.window.timer(value).size_us == us
    assert sp.window.tumbling(value, "time").size_us == us
    sliding = sp.window.sliding(value, value, "time", lateness=value)
    assert (sliding.slide_us, sliding.size_us, sliding.lateness_us) == (us, us, us)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (10, "(10, 's')"),
        (1.5, "(2, 's')"),
        ("10 seconds", "timedelta(seconds=10)"),
        ("soon", "timedelta"),
        (None, "timedelta"),
        (True, "timedelta"),
        (timedelta(0), "longer"),
        (timedelta(seconds=-1), "negative"),
        ((1.5, "s"), "whole number"),
        ((True, "s"), "whole number"),
        ((1, "fortnights"), "none of the units"),
        ((1, "months"), "differ in length"),
        ((1, "ns"), "microseconds"),
        (np.timedelta64(1, "ns"), "microseconds"),
        (np.timedelta64(1, "M"), "differ in length"),
        (np.timedelta64("NaT"), "not a length of time"),
        (np.timedelta64(5), "none of the units"),
        ((2**62, "W"), "292 thousand years"),
    ],
)
def test_an_invalid_duration_is_rejected_with_the_value_and_the_fix(value: Any, says: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        sp.window.timer(value)
    assert "period=" in str(refused.value)
    assert says in str(refused.value)
    assert "sp.window.timer(" in str(refused.value)


def test_each_duration_is_rejected_by_its_own_name() -> None:
    calls: dict[str, Any] = {
        "period": lambda: UNTYPED.window.sliding(1, TEN, "time"),
        "duration": lambda: UNTYPED.window.sliding(TEN, 1, "time"),
        "lateness": lambda: UNTYPED.window.tumbling(TEN, "time", lateness=1),
    }
    for name, call in calls.items():
        with pytest.raises(InvalidArgumentError, match=f"^{name}=1"):
            call()
    with pytest.raises(InvalidArgumentError, match=r"lateness=.*negative"):
        sp.window.tumbling(TEN, "time", lateness=timedelta(seconds=-1))
    assert sp.window.tumbling(TEN, "time", lateness=(0, "s")).lateness_us == 0


@pytest.mark.parametrize("window", [sp.window.tumbling, lambda *a, **k: sp.window.sliding(TEN, *a, **k)])
def test_time_column_and_time_assigner_exclude_each_other(window: Callable[..., Window]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"time_column='time'.*time_assigner=.*both are given"):
        window(TEN, time_column="time", time_assigner=times)
    with pytest.raises(InvalidArgumentError, match=r"time_column=None.*time_assigner=None.*neither is given"):
        window(TEN)


def test_a_column_is_a_text_or_a_symbol() -> None:
    assert sp.window.tumbling(TEN, SymbolAtom("time")).time_column == "time"
    for wrong in (5, "", times):
        with pytest.raises(InvalidArgumentError, match="time_column="):
            sp.window.tumbling(TEN, wrong)


def test_a_time_assigner_is_a_function_or_the_name_of_one() -> None:
    local = lambda data: data["time"]  # noqa: E731
    assert sp.window.tumbling(TEN, time_assigner=times).time_assigner is times
    assert sp.window.tumbling(TEN, time_assigner="times").time_assigner is times
    assert sp.window.tumbling(TEN, time_assigner="local").time_assigner is local
    assert sp.window.tumbling(TEN, time_assigner="numpy.asarray").time_assigner is np.asarray
    window = sp.window.tumbling(TEN, time_assigner=times, params=["metadata", "data"])
    assert window.params == ("metadata", "data")
    with pytest.raises(InvalidArgumentError, match="'nowhere' names no function"):
        sp.window.tumbling(TEN, time_assigner="nowhere")
    with pytest.raises(InvalidArgumentError, match=r"'no\.module' names no function"):
        sp.window.tumbling(TEN, time_assigner="no.module")
    with pytest.raises(InvalidArgumentError, match="neither a function nor the name"):
        sp.window.tumbling(TEN, time_assigner=5)  # type: ignore[arg-type]


def test_params_are_of_the_three_there_are() -> None:
    assert sp.map(times, params="metadata").params == ("metadata",)
    assert sp.map(times, params=[sp.OperatorParams.operator, sp.OperatorParams.data]).params == ("operator", "data")
    with pytest.raises(InvalidArgumentError, match=r"'metdata'.*Did you mean 'metadata'"):
        sp.map(times, params=["metdata"])
    with pytest.raises(InvalidArgumentError, match="not a list"):
        sp.map(times, params=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="time_assigner is called with"):
        sp.window.tumbling(TEN, "time", params=["metadata"])


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "5", True, None])
def test_counts_are_whole_numbers_above_zero(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="count_trigger="):
        sp.window.timer(TEN, count_trigger=wrong)
    with pytest.raises(InvalidArgumentError, match="size="):
        sp.window.count(wrong)
    if wrong is not None:
        with pytest.raises(InvalidArgumentError, match="frequency="):
            sp.window.count(5, frequency=wrong)
    assert sp.window.count(np.int64(5)).size == 5  # type: ignore[arg-type]


@pytest.mark.parametrize("flag", ["passthrough", "sort", "skip_empty_windows"])
def test_flags_are_true_or_false(flag: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{flag}='yes'"):
        sp.window.tumbling(TEN, "time", **{flag: "yes"})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="mixed_schemas=1"):
        sp.window.global_window(trigger, mixed_schemas=1)  # type: ignore[arg-type]


def test_a_trigger_takes_five() -> None:
    with pytest.raises(InvalidArgumentError, match=r"trigger=.*\(data\).*id, buffer, offset, metadata, data"):
        sp.window.global_window(lambda data: [])
    assert sp.window.global_window("trigger").trigger is trigger
    assert sp.window.global_window(lambda *arguments: []).shape == "global_window"
    with pytest.raises(InvalidArgumentError, match="neither a function"):
        sp.window.global_window(100)  # type: ignore[arg-type]


def test_wrong_calls_name_the_missing_or_similar_argument() -> None:
    with pytest.raises(WrongCallError, match="period"):
        sp.window.tumbling()  # type: ignore[call-arg]
    with pytest.raises(WrongCallError, match=r"duration.*sp\.window\.tumbling"):
        sp.window.sliding(TEN)  # type: ignore[call-arg]
    with pytest.raises(WrongCallError, match="Did you mean 'lateness'"):
        sp.window.tumbling(TEN, "time", latenes=TEN)  # type: ignore[call-arg]
    with pytest.raises(WrongCallError, match="trigger"):
        sp.window.global_window()  # type: ignore[call-arg]


def test_pipelines_are_joined_with_a_bar() -> None:
    source = sp.read.from_callback("publish")
    assert repr(source | sp.window.count(5) | sp.write.to_console()) == "from_callback | count | to_console"
    part = sp.window.count(5) | sp.map(times, name="shown")
    assert repr(source | part | sp.write.to_console()) == "from_callback | count | shown | to_console"
    ends = source | sp.split() | [sp.map(times) | sp.write.to_console(), sp.write.to_variable("out")]
    assert repr(ends) == "[from_callback | split | map | to_console, from_callback | split | to_variable]"
    assert len({id(end) for end in ends.ends}) == 2


def test_what_cannot_be_joined_is_rejected_with_what_to_write() -> None:
    source: Any
    source, writer = sp.read.from_callback("publish"), sp.write.to_console()
    calls: tuple[tuple[Any, str], ...] = (
        (lambda: source | 5, "not an operator"),
        (lambda: source | writer | sp.map(times), "ends its pipeline"),
        (lambda: source | source, "sp.union"),
        (lambda: source | [sp.map(times), sp.filter(times)] | writer, "2 ends"),
        (lambda: [source, source] | writer, "sp.union"),
        (lambda: [source, source] | (sp.map(times) | writer), "sp.union"),
    )
    for call, says in calls:
        with pytest.raises(InvalidArgumentError, match=says):
            call()


def test_a_pipeline_has_a_reader_and_a_writer() -> None:
    source, window, writer = sp.read.from_callback("publish"), sp.window.count(5), sp.write.to_console()
    for pipelines, says in (
        ([], "no pipeline to run"),
        ([window | writer], "reads nothing"),
        ([source | window], "writes nowhere"),
        ([source | sp.reduce(times, 0) | writer], "no window is before it"),
        ([source | sp.union(window) | writer], "reads nothing"),
        ([source | sp.union(source | writer) | writer], "Leave to_console out"),
        ([source | sp.union(source | [sp.map(times), window]) | writer], "2 ends"),
        (["text"], "not a pipeline"),
    ):
        with pytest.raises(InvalidArgumentError, match=says):
            sp.App("program", *pipelines)


def test_two_operators_of_one_name_are_rejected() -> None:
    source = sp.read.from_callback("publish")
    with pytest.raises(InvalidArgumentError, match=r"the name 'w'.*test_kx_arguments.py:\d+.*name="):
        sp.App("program", source | sp.window.count(5, name="w") | sp.map(times, name="w") | sp.write.to_console())


def queries_of(*pipelines: sp.Pipeline) -> list[str]:
    return [part.name for part in sp.App("program", *pipelines).explain().parts if "query of its own" in part.why]


def test_a_window_by_event_time_after_another_has_a_query_of_its_own_before_it() -> None:
    pipeline = sp.read.from_callback("publish") | sp.window.tumbling(TEN, "time") | sp.map(times)
    assert queries_of(pipeline | sp.window.sliding(TEN, TEN, "time") | sp.write.to_console()) == ["sliding_1"]
    assert queries_of(pipeline | sp.window.count(5) | sp.write.to_console()) == []
    joined = sp.read.from_callback("other") | sp.union(pipeline) | sp.window.tumbling(TEN, "time", name="joined")
    assert queries_of(joined | sp.window.count(5) | sp.write.to_console()) == ["joined"]
    third = joined | sp.window.sliding(TEN, TEN, "time") | sp.write.to_console()
    assert queries_of(third) == ["joined", "sliding_1"]


@pytest.mark.parametrize("option", [{"passthrough": True}, {"count_trigger": 5}])
def test_windows_after_late_records_or_partial_batches_have_a_query_of_their_own_before_them(
    option: dict[str, Any],
) -> None:
    window = sp.window.tumbling(TEN, "time", skip_empty_windows=True, **option)
    pipeline = sp.read.from_callback("publish") | window
    counted = pipeline | sp.map(times) | sp.window.count(5)
    assert queries_of(counted | sp.window.count(2) | sp.write.to_console()) == ["count_1"]
    assert queries_of(pipeline | sp.accumulate(times, 0) | sp.write.to_console()) == []


def test_missing_parts_raise_an_error_with_their_name_and_the_alternative() -> None:
    for module, name, says in (
        (sp, "apply", "sp.map"),
        (sp, "op", "sp.map, sp.filter"),
        (sp, "state", "sp.accumulate"),
        (sp, "rolling", "sp.window.sliding"),
        (sp, "sql", "sp.map(function), or F.expr"),
        (sp.read, "from_stream", "sp.read.from_topic"),
        (sp.read, "from_amazon_s3", "sp.read.from_file"),
        (sp.window, "session", "mullion.windowed(df, Session"),
        (sp.write, "to_database", "sp.write.to_callback"),
        (sp.write, "to_stream", "sp.write.to_topic"),
    ):
        with pytest.raises(UnsupportedError, match=re.escape(f"{name} is not there. Write {says}")):
            getattr(module, name)
    for module, name, meant in (
        (sp, "mapp", "map"),
        (sp.read, "from_fil", "from_file"),
        (sp.window, "slide", "sliding"),
        (sp.write, "console", "to_"),
    ):
        with pytest.raises(AttributeError, match=meant):
            getattr(module, name)
    with pytest.raises(UnsupportedError, match="keyed tables"):
        sp.write.to_variable("out", mode="upsert")


def test_errors_about_missing_parts_name_existing_parts() -> None:
    for module in (sp, sp.read, sp.window, sp.write):
        for text in module._ELSEWHERE.values():
            for name in re.findall(r"sp\.((?:\w+\.)?\w+)", text):
                thing: Any = sp
                for part in name.split("."):
                    thing = getattr(thing, part)


def test_readers_and_writers_reject_invalid_arguments() -> None:
    calls: tuple[tuple[Any, str], ...] = (
        (lambda: UNTYPED.read.from_expr("select from trades"), "no q here"),
        (lambda: UNTYPED.read.from_callback(5), "callback=5"),
        (lambda: UNTYPED.read.from_file("trades.txt"), "'csv', 'json' and 'parquet'"),
        (lambda: UNTYPED.read.from_file("trades.csv", watch=1), "watch=1"),
        (lambda: UNTYPED.read.from_file("trades.csv", files_per_batch=0), "files_per_batch=0"),
        (lambda: UNTYPED.read.from_topic(""), "topic=''"),
        (lambda: UNTYPED.read.from_topic("trades", broker="localhost"), "broker='localhost'"),
        (lambda: UNTYPED.read.from_kafka("trades", ""), "brokers=''"),
        (lambda: UNTYPED.read.from_dataframe([1]), "not a Spark DataFrame"),
        (lambda: UNTYPED.write.to_console(5), "prefix=5"),
        (lambda: UNTYPED.write.to_variable(""), "neither a name nor a list"),
        (lambda: UNTYPED.write.to_variable("out", "replace"), "mode='replace'"),
        (lambda: UNTYPED.write.to_callback(5), "neither a function"),
        (lambda: UNTYPED.write.to_file("out", "orc"), "'orc' is not one of"),
        (lambda: UNTYPED.write.to_topic(5), "topic=5"),
        (lambda: UNTYPED.write.to_kafka("out", ""), "brokers=''"),
        (lambda: UNTYPED.merge(times, times), "not a pipeline"),
        (lambda: UNTYPED.union([]), "not a pipeline"),
        (lambda: UNTYPED.merge(sp.read.from_callback("p"), times, flush="all"), "flush='all'"),
        (lambda: UNTYPED.merge(sp.read.from_callback("p"), times, trigger="any"), "trigger='any'"),
        (lambda: UNTYPED.map(times, name=""), "name=''"),
        (lambda: UNTYPED.map(times, pandas=1), "pandas=1"),
        (lambda: UNTYPED.map(5), "neither a function"),
    )
    for call, says in calls:
        with pytest.raises(InvalidArgumentError, match=says):
            call()


def test_explain_shows_where_each_operator_runs_and_the_deciding_line() -> None:
    source = sp.read.from_callback("publish")
    report = sp.explain(
        source
        | sp.window.tumbling(TEN, "time")
        | sp.map(times)
        | sp.window.global_window(trigger)
        | sp.accumulate(lambda data, total: total, 0)
        | sp.write.to_file("out"),
        source | sp.window.sliding(TEN, TEN, time_assigner=times) | sp.write.to_topic("out"),
    )
    assert [(part.name, part.runs) for part in report.parts] == [
        ("from_callback_1", "JVM"),
        ("tumbling_1", "JVM"),
        ("map_1", "Python"),
        ("global_window_1", "Python"),
        ("accumulate_1", "Python"),
        ("to_file_1", "JVM"),
        ("sliding_1", "Python"),
        ("to_topic_1", "Python"),
    ]
    assert all(re.search(r"test_kx_arguments.py:\d+$", part.where) for part in report.parts)
    assert "event time" in report.parts[1].why


def test_a_fold_is_called_with_the_metadata_if_it_takes_three() -> None:
    assert sp.accumulate(lambda data, total: total).params == ("data",)
    assert sp.accumulate(lambda metadata, data, total: total).params == ("metadata", "data")
    assert sp.reduce(lambda *arguments: 0, params=["operator"]).params == ("operator",)


def test_until_is_drained_or_end() -> None:
    app = sp.App("program", sp.read.from_callback("publish") | sp.write.to_console())
    with pytest.raises(InvalidArgumentError, match=r"until='drain'.*Did you mean 'drained'"):
        app.run("drain")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"callback 'publsh'.*Did you mean 'publish'"):
        app.publish("publsh", [{"x": 1}])
