"""Durations: parsing, formatting and errors."""

from datetime import timedelta

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion import InvalidArgumentError
from mullion._util import durations

FIX = "Tumbling({})"


def read(value: object) -> int:
    return durations.microseconds(value, "size", FIX)


def refusal(value: object) -> str:
    with pytest.raises(InvalidArgumentError) as refused:
        read(value)
    assert "size=" in str(refused.value), "a message names the parameter"
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1 hour", 3_600_000_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("interval 2 days", 172_800_000_000),
        ("INTERVAL 1 Week", 604_800_000_000),
        ("250 milliseconds", 250_000),
        ("1 microsecond", 1),
        ("1.5 seconds", 1_500_000),
        ("0.25 hours", 900_000_000),
        ("-1 hour 15 minutes", -2_700_000_000),
        ("+3 seconds", 3_000_000),
        ("  10   seconds\n", 10_000_000),
        ("0 seconds", 0),
    ],
)
def test_text_in_sparks_manner_is_read(text: str, us: int) -> None:
    assert read(text) == us


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_a_length_as_text_has_the_same_microseconds(us: int) -> None:
    assert read(durations.written(us)) == us


@given(st.timedeltas(timedelta(days=-100_000_000), timedelta(days=100_000_000)))
def test_a_timedelta_is_read_to_the_microsecond(length: timedelta) -> None:
    assert timedelta(microseconds=read(length)) == length


@given(st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1))
def test_two_durations_written_alike_read_back_as_the_same_microseconds(one: int, other: int) -> None:
    assert tuple(map(read, durations.written_alike(one, other))) == (one, other)


@given(st.text())
def test_any_text_is_either_a_duration_or_rejected_with_a_fix(text: str) -> None:
    try:
        us = read(text)
    except InvalidArgumentError as refused:
        message = str(refused)
    else:
        message = f"Tumbling({us})"
    assert "Tumbling(" in message


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 seconds"),
        (60_000_000, "1 minute"),
        (90_000_000, "1 minute 30 seconds"),
        (86_400_000_000, "1 day"),
        (1_209_600_000_000, "14 days"),
        (-5_400_000_000, "-1 hour -30 minutes"),
        (1_001, "1 millisecond 1 microsecond"),
    ],
)
def test_a_duration_is_written_in_the_largest_units_that_hold_it(us: int, text: str) -> None:
    assert durations.written(us) == text


def test_a_number_is_rejected_with_the_unit_it_lacks() -> None:
    assert "has no unit. If seconds are meant, write Tumbling('10 seconds')" in refusal(10)
    assert "write Tumbling('1 second')" in refusal(1)
    assert "write Tumbling('2.5 seconds')" in refusal(2.5)
    assert "write Tumbling('15 seconds')" in refusal("15")


@pytest.mark.parametrize("value", [None, True, [1], b"1 hour", object()])
def test_an_object_that_is_no_duration_is_rejected_by_its_type(value: object) -> None:
    assert f"({type(value).__name__}) is not a duration" in refusal(value)


def test_an_abbreviation_is_rejected_with_the_unit_that_is_meant() -> None:
    assert "Write Tumbling('10 seconds')" in refusal("10s")
    assert "Write Tumbling('250 milliseconds')" in refusal("250ms")
    assert "did you mean 'minutes'?" in refusal("5 min")
    assert "did you mean 'seconds'?" in refusal("5 secnods")


def test_an_unknown_unit_is_rejected_with_the_units_there_are() -> None:
    assert "'parsecs' is not a unit" in refusal("12 parsecs")
    assert "microseconds, milliseconds, seconds, minutes, hours, days, weeks" in refusal("1 fortnight")


@pytest.mark.parametrize("text", ["1 month", "2 years", "1 day 1 month"])
def test_months_and_years_are_rejected_for_they_have_no_fixed_length(text: str) -> None:
    assert "not of a fixed length" in refusal(text)
    assert "in days" in refusal(text)


@pytest.mark.parametrize(
    "text", ["", " ", "interval", "hour", "one hour", "1 hour 30", "hour 1", "1,5 seconds", "\u0661 hour"]
)
def test_text_that_is_no_duration_is_rejected(text: str) -> None:
    assert f"size={text!r}" in refusal(text)


@pytest.mark.parametrize("value", ["0.5 microseconds", "0.0000001 seconds", pd.Timedelta(nanoseconds=1500)])
def test_less_than_a_microsecond_is_rejected(value: object) -> None:
    assert "not a whole number of microseconds" in refusal(value)


def test_a_pandas_timedelta_of_whole_microseconds_is_read() -> None:
    assert read(pd.Timedelta("90s")) == 90_000_000


@pytest.mark.parametrize("value", ["300000000 days", timedelta.max, "9" * 40 + " days"])
def test_longer_than_timestamps_span_is_rejected(value: object) -> None:
    assert "292 thousand years" in refusal(value)


def test_zero_and_less_are_rejected_where_a_length_must_be_positive() -> None:
    with pytest.raises(InvalidArgumentError, match=r"size='0 seconds' is zero.*Tumbling\('10 seconds'\)"):
        durations.positive("0 seconds", "size", FIX)
    with pytest.raises(InvalidArgumentError, match="size='-1 hour' is negative"):
        durations.positive("-1 hour", "size", FIX)


def test_only_less_than_zero_is_rejected_where_a_length_may_be_none() -> None:
    assert durations.not_negative("0 seconds", "allowed_lateness", "allowed_lateness={}") == 0
    with pytest.raises(InvalidArgumentError, match="allowed_lateness='-1 hour' is negative"):
        durations.not_negative("-1 hour", "allowed_lateness", "allowed_lateness={}")
