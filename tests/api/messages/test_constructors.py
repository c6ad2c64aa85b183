"""Invalid lengths and numbers are rejected when a spec is created, with the value and the fix."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import mullion.windows
from mullion import functions as MF
from mullion.errors import InvalidArgumentError
from mullion.windows import (
    Around,
    Count,
    Cumulate,
    Early,
    Global,
    PerKey,
    Session,
    Sliding,
    Tumbling,
    Watermark,
)

Create = Callable[[Any], Any]

POSITIVE_LENGTHS: dict[str, Create] = {
    "Tumbling": Tumbling,
    "Tumbling, first row": lambda v: Tumbling(v, starts="first row"),
    "Sliding, size": lambda v: Sliding(v, "1 minute"),
    "Sliding, slide": lambda v: Sliding("1 hour", v),
    "Cumulate, size": lambda v: Cumulate(v, "1 minute"),
    "Cumulate, step": lambda v: Cumulate("1 hour", v),
    "Cumulate, calendar": lambda v: Cumulate("1 day", v, timezone="UTC"),
    "Session": Session,
    "Session, max_length": lambda v: Session("1 second", max_length=v),
    "Count, timeout": lambda v: Count(3, timeout=v),
    "Count, forget_after": lambda v: Count(3, forget_after=v),
    "Global.every, forget_after": lambda v: Global.every(3, forget_after=v),
    "Global.when, forget_after": lambda v: Global.when("done", forget_after=v),
    "Global.changes, forget_after": lambda v: Global.changes("status", forget_after=v),
    "PerKey, forget_after": lambda v: PerKey(forget_after=v),
    "Early, every": lambda v: Early(every=v),
    "Early, wall": lambda v: Early(wall=v),
    "Watermark, idle_after": lambda v: Watermark(idle_after=v),
    "windows": lambda v: MF.windows("ts", v),
    "windows, slide": lambda v: MF.windows("ts", "1 hour", v),
    "slice_of": lambda v: MF.slice_of("ts", v, "1 minute"),
    "slice_of, slide": lambda v: MF.slice_of("ts", "1 hour", v),
    "window_start": lambda v: MF.window_start("ts", v),
    "window_end": lambda v: MF.window_end("ts", v),
    "session": lambda v: MF.session("ts", v),
    "session_end": lambda v: MF.session_end("ts", v),
}

OTHER_LENGTHS: dict[str, Create] = {
    "Around, before": Around,
    "Around, after": lambda v: Around("1 minute", v),
    "Watermark, max_ahead": lambda v: Watermark(max_ahead=v),
}

CALENDARS: dict[str, Create] = {
    "Tumbling, calendar": lambda v: Tumbling(v, timezone="UTC"),
    "Sliding, size, calendar": lambda v: Sliding(v, "1 day", timezone="UTC"),
    "Sliding, slide, calendar": lambda v: Sliding("7 days", v, timezone="UTC"),
    "Cumulate, size, calendar": lambda v: Cumulate(v, "1 hour", timezone="UTC"),
}

NUMBERS: dict[str, Create] = {
    "Count": Count,
    "Count, every": lambda v: Count(3, every=v),
    "Global.every": Global.every,
    "Early, count": lambda v: Early(count=v),
    "top_n": lambda v: MF.top_n(v, "v", "k"),
}


def cases(creates: dict[str, Create], *values: object) -> list[Any]:
    return [
        pytest.param(create, value, id=f"{name}: {value!r}")
        for name, create in creates.items()
        # A column would be a gap for each row.
        for value in values
        if not (isinstance(value, str) and name == "Session" and " " not in value)
    ]


@pytest.mark.parametrize(
    ("create", "value"),
    [
        *cases(POSITIVE_LENGTHS, "0 seconds", timedelta(0), "-5 minutes", timedelta(minutes=-5)),
        *cases(OTHER_LENGTHS, "-5 minutes", timedelta(minutes=-5)),
        *cases(POSITIVE_LENGTHS | OTHER_LENGTHS, "soon", "5 moons", "1 month", "", 5, 0, b"1 hour"),
        *cases(CALENDARS, "0 days", "-1 days", "soon", 5, timedelta(0)),
        *cases(NUMBERS, 0, -3, "many", 1.5, True),
    ],
)
def test_an_invalid_value_is_reported_with_the_fix(create: Create, value: object) -> None:
    with pytest.raises(InvalidArgumentError) as error:
        create(value)
    message = str(error.value)
    assert repr(value) in message
    assert re.search(r"\b([Ww]rite|Give)\b", message), message


@pytest.mark.parametrize("create", [pytest.param(create, id=name) for name, create in OTHER_LENGTHS.items()])
def test_zero_is_a_length_where_there_may_be_none(create: Create) -> None:
    assert create("0 seconds") == create(timedelta(0))


def test_the_cases_contain_all_specs_with_lengths_or_numbers() -> None:
    creates = POSITIVE_LENGTHS | OTHER_LENGTHS | CALENDARS | NUMBERS
    specs = {name for name in mullion.windows.__all__ if isinstance(getattr(mullion.windows, name), type)}
    # Their arguments are choices, columns and tables.
    others = {"Custom", "EmitFor", "Upgrade"}
    assert specs - others == {name.partition(",")[0].partition(".")[0] for name in creates} & specs
