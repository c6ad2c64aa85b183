"""Windows and early firings as values."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Count, Early, Global, InvalidArgumentError, Session, Sliding, Tumbling

LENGTHS = st.timedeltas(timedelta(microseconds=1), timedelta(days=100_000))
OFFSETS = st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000))
ROWS = st.integers(1, 10**12)
SPECS = st.one_of(
    st.builds(Tumbling, LENGTHS, OFFSETS),
    st.builds(Sliding, LENGTHS, LENGTHS, OFFSETS, gaps=st.just(True)),
    st.builds(Session, LENGTHS),
    st.builds(Count, ROWS, ROWS),
    st.builds(Global.every, ROWS),
    st.builds(Global.changes, st.sampled_from(["status", "k"])),
    st.builds(Early, LENGTHS, st.booleans()),
)


@given(SPECS)
def test_a_repr_is_the_code_that_makes_an_equal_value(spec: object) -> None:
    again = eval(repr(spec))
    assert again == spec
    assert hash(again) == hash(spec)
    assert repr(again) == repr(spec)


@given(SPECS)
def test_a_value_survives_pickling_and_copying(spec: object) -> None:
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert copy.deepcopy(spec) == spec


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (Tumbling("60 minutes"), "Tumbling('1 hour')"),
        (Tumbling(timedelta(days=1), offset="-6 hours"), "Tumbling('1 day', offset='18 hours')"),
        (Sliding("1 minute", "1 second"), "Sliding('60 seconds', '1 second')"),
        (Sliding("90 minutes", "1 hour", offset="1 minute"), "Sliding('90 minutes', '60 minutes', offset='1 minute')"),
        (Sliding("1 day", "1 second"), "Sliding('1 day', '1 second')"),
        (Session("600 seconds"), "Session('10 minutes')"),
        (Session(timedelta(minutes=90)), "Session('1 hour 30 minutes')"),
        (Count(100), "Count(100)"),
        (Count(100, every=100), "Count(100)"),
        (Count(100, 10), "Count(100, every=10)"),
        (Global.every(5), "Global.every(5)"),
        (Tumbling("600 seconds", starts="first row"), "Tumbling('10 minutes', starts='first row')"),
        (Session("30 minutes", max_length="360 minutes"), "Session('30 minutes', max_length='6 hours')"),
        (Session("1 minute", ends_with="done"), "Session('1 minute', ends_with='done')"),
        (Count(100, timeout="60 seconds"), "Count(100, timeout='1 minute')"),
        (Global.when("done"), "Global.when('done')"),
        (Global.every(9, ends_with="done"), "Global.every(9, ends_with='done')"),
        (Global.changes("status", ends_with="done"), "Global.changes('status', ends_with='done')"),
        (Global.changes("status"), "Global.changes('status')"),
        (Early(every="60 seconds"), "Early('1 minute')"),
        (Early("1 minute", unchanged=True), "Early('1 minute', unchanged=True)"),
    ],
)
def test_a_repr_is_in_units_that_a_reader_likes(spec: object, text: str) -> None:
    assert repr(spec) == text


def test_values_are_equal_however_they_are_written() -> None:
    assert Tumbling("60 minutes") == Tumbling("1 hour") == Tumbling(timedelta(hours=1))
    assert len({Tumbling("60 minutes"), Tumbling("1 hour"), Tumbling("interval 3600 seconds")}) == 1


def test_windows_of_another_kind_or_grid_are_not_equal() -> None:
    one: object = Tumbling("1 hour")
    for other in (
        Session("1 hour"),
        Sliding("1 hour", "1 hour"),
        Tumbling("1 hour", offset="1 minute"),
        Tumbling("2 hours"),
        Tumbling("1 hour", starts="first row"),
        "1 hour",
    ):
        assert one != other


def test_sessions_are_equal_when_their_gaps_are_as_long() -> None:
    assert Session("10 minutes") == Session("600 seconds") == Session(timedelta(minutes=10))
    assert Session("10 minutes") != Session("11 minutes")
    assert len({Session("10 minutes"), Session("600 seconds"), Session("1 minute")}) == 2


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"starts": "monday"}, "starts='monday' is neither 'grid' nor 'first row'"),
        ({"starts": "first row", "offset": "5 minutes"}, "offset='5 minutes' shifts a grid"),
        ({"starts": "first row", "timezone": "UTC"}, "timezone='UTC' shifts a grid"),
    ],
)
def test_windows_from_the_first_row_have_no_grid(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        Tumbling("1 day", **wrong)


def test_sessions_that_end_early_are_equal_when_all_of_their_rules_are() -> None:
    done: object = Session("1 hour", ends_with="done")
    assert done == Session("60 minutes", ends_with="done")
    assert hash(done) == hash(Session("60 minutes", ends_with="done"))
    for other in (Session("1 hour"), Session("1 hour", ends_with="left"), Session("1 hour", max_length="2 hours")):
        assert done != other


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"max_length": "0 seconds"}, "max_length='0 seconds'"),
        ({"max_length": "1 minute"}, "max_length='1 minute' is shorter than gap="),
        ({"max_length": "1 month"}, "max_length='1 month'"),
        ({"ends_with": 7}, r"7 \(int\) is neither a column's name nor a Column"),
    ],
)
def test_wrong_limits_of_a_session_raise_an_error(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        Session("1 hour", **wrong)


def test_a_column_named_as_a_gap_is_rejected_with_the_column_itself() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^gap='pause' is not a duration.*Session\(F\.col\('pause'\)\)"):
        Session("pause")


def test_only_an_offsets_remainder_matters() -> None:
    assert Tumbling("1 hour", offset="75 minutes") == Tumbling("1 hour", offset="15 minutes")
    assert Tumbling("1 hour", offset="-45 minutes") == Tumbling("1 hour", offset="15 minutes")
    assert Tumbling("1 hour", offset="1 hour") == Tumbling("1 hour")
    assert Sliding("1 hour", "10 minutes", offset="25 minutes") == Sliding("1 hour", "10 minutes", offset="5 minutes")


@pytest.mark.parametrize(
    "spec",
    [
        Tumbling("1 hour"),
        Sliding("1 hour", "1 minute"),
        Session("1 hour"),
        Count(5),
        Global.every(5),
        Early("1 minute"),
    ],
)
def test_a_value_cannot_be_changed(spec: Tumbling | Sliding | Session | Count | Global | Early) -> None:
    for field in spec.__slots__:
        with pytest.raises(FrozenInstanceError):
            setattr(spec, field, 1)


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda length: Tumbling(length), "size"),
        (lambda length: Sliding(length, "1 second"), "size"),
        (lambda length: Sliding("1 hour", length), "slide"),
        (lambda length: Session(length), "gap"),
        (lambda length: Early(every=length), "every"),
    ],
)
@pytest.mark.parametrize("length", ["0 seconds", "-1 hour", timedelta(0), "soon", "1 month", 10, 1.5, True])
def test_a_length_that_is_not_longer_than_nothing_is_rejected_by_name(
    make: Callable[[object], object], parameter: str, length: object
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{parameter}="):
        make(length)


def test_an_error_shows_the_correct_call() -> None:
    with pytest.raises(InvalidArgumentError, match=r"Tumbling\('10 seconds'\)"):
        Tumbling(10)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"Sliding\('1 minute', '5 seconds'\)"):
        Sliding("1 minute", 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"Session\('600 seconds'\)"):
        Session(600)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"Early\(every='10 seconds'\)"):
        Early(every="0 seconds")


def test_an_offset_must_be_a_duration_too() -> None:
    with pytest.raises(InvalidArgumentError, match=r"offset=15 has no unit.*offset='15 seconds'"):
        Tumbling("1 hour", offset=15)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [Tumbling, Session, lambda length: Sliding("1 hour", length)])
def test_a_length_must_be_given(make: Callable[[object], object]) -> None:
    with pytest.raises(InvalidArgumentError, match="=None"):
        make(None)


def test_early_has_an_interval_or_a_count_or_both() -> None:
    assert repr(Early("1 minute", count=5)) == "Early('1 minute', count=5)"
    assert Early(count=5) == Early(count=5) != Early(count=6)
    with pytest.raises(InvalidArgumentError, match=r"neither every nor count.*Early\(every='1 minute'\)"):
        Early()
    with pytest.raises(InvalidArgumentError, match=r"unchanged=True.*Early\(every='1 minute', unchanged=True\)"):
        Early(count=5, unchanged=True)


@pytest.mark.parametrize("count", [0, -1, 1.5, "10", True])
def test_a_count_that_is_no_number_of_rows_is_rejected(count: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^count=.*Early\(count=1000\)"):
        Early(count=count)  # type: ignore[arg-type]


def test_unchanged_must_be_a_bool() -> None:
    with pytest.raises(InvalidArgumentError, match="unchanged='yes'"):
        Early("1 minute", unchanged="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [0, -1, 1.5, "10", True, None])
def test_a_window_of_rows_needs_a_number_of_them(rows: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^size=.*Count\(100\)"):
        Count(rows)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"^rows=.*Global\.every\(100\)"):
        Global.every(rows)  # type: ignore[arg-type]
    if rows is not None:
        with pytest.raises(InvalidArgumentError, match=r"^every=.*Count\(100, every=10\)"):
            Count(5, rows)  # type: ignore[arg-type]


def test_a_global_window_has_a_trigger() -> None:
    with pytest.raises(InvalidArgumentError, match=r"Global\(\) does not say.*Global\.every\(100\)"):
        Global()
    with pytest.raises(InvalidArgumentError, match=r"Write Global\.split\(function\).*Global\.when"):
        Global(lambda row: row.v > 3)
    for make in (Global.when, Global.changes):
        with pytest.raises(InvalidArgumentError, match="neither a column's name nor a Column"):
            make(5)  # type: ignore[arg-type]


def test_global_windows_are_equal_when_they_close_by_the_same(spark: SparkSession) -> None:
    done = F.col("done")
    assert Global.every(5) == Global.every(5) != Global.every(6)
    assert Global.when(done) == Global.when(done) != Global.changes(done)
    assert Global.when(done) != Global.when(F.col("done"))
    assert Global.when("done") == Global.when("done") != Global.when(done)
    assert len({Global.when(done), Global.when(done), Global.changes("k"), Global.changes("k")}) == 2
    assert repr(Global.when(done)) == "Global.when(Column<'done'>)"


def test_a_function_that_splits_takes_the_buffer_and_perhaps_where_the_batch_begins() -> None:
    def split(buffer: object, offset: int) -> list[int]:
        return [offset]

    assert not Global.split(lambda buffer: None).takes_offset
    assert not Global.split(lambda buffer, gap=5: [gap]).takes_offset
    assert not Global.split(lambda *buffer: None).takes_offset
    assert not Global.split(dict.fromkeys).takes_offset
    assert Global.split(split).takes_offset
    wrong: list[Any] = [lambda: [], lambda a, b, c: [], lambda *, buffer: []]
    for function in wrong:
        with pytest.raises(
            InvalidArgumentError, match=r"cannot be called with the buffered rows, nor.*def function\(bu"
        ):
            Global.split(function)
    with pytest.raises(InvalidArgumentError, match=r"function='done' \(str\) cannot be called"):
        Global.split("done")  # type: ignore[arg-type]
    for columns in ("price", [], [5], {"price"}):
        with pytest.raises(InvalidArgumentError, match=r"is not a list of columns' names.*leave it out for all"):
            Global.split(split, columns=columns)  # type: ignore[arg-type]


def test_windows_that_a_function_splits_are_values() -> None:
    def split(buffer: object, offset: int) -> list[int]:
        return [offset]

    assert Global.split(split) == Global.split(split) != Global.split(lambda buffer: None)
    assert Global.split(split, ["a", "b"]) == Global.split(split, ("a", "b")) != Global.split(split, ["b", "a"])
    assert len({Global.split(split), Global.split(split), Global.split(split, ["a"])}) == 2
    assert repr(Global.split(split)) == "Global.split(split)"
    assert repr(Global.split(split, ("a",))) == "Global.split(split, columns=['a'])"
