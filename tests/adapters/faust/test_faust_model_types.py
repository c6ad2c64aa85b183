"""Values that do not fit the types of a model: validation, coercion and errors."""

import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal

import pytest

from mullion import InvalidArgumentError, MullionError
from mullion.faust import Record, ValidationError
from tests.support.faust.programs.order_models import Order, Place, Withdrawal


class Strict(Record, validation=True):
    n: int
    x: float = 0.0
    s: str = ""
    flag: bool = False
    either: int | str = 0
    one: Literal["a", 1] = "a"


class Loose(Record, coerce=True):
    n: int
    x: float = 0.0
    s: str = ""
    flag: bool = False


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        (b'{"number": 1', "Order", "it is not JSON"),
        (b"\xff", "Order", "it is not JSON"),
        (b"[1]", "Order", r"\[1\] \(list\) is not an object with fields"),
        (b'{"number": 1, "at": "2024-01-10"}', "Order.items", "it is missing, and has no default"),
        (b'{"number": 1, "at": "soon", "items": []}', "Order.at", "'soon' is not a datetime"),
        (b'{"number": 1, "at": [], "items": []}', "Order.at", "ISO 8601 text is expected"),
        (b'{"number": 1, "at": 0, "items": 5}', "Order.items", r"5 \(int\) is not a list"),
        (b'{"number": 1, "at": 0, "items": [{"account": "a"}]}', r"Order.items\[0\].amount", "it is missing"),
        (b'{"number": 1, "at": 0, "items": [], "total": "much"}', "Order.total", r"'much' \(str\) is not a Decimal"),
        (b'{"number": 1, "at": 0, "items": [], "kind": "gold"}', "Order.kind", "'gold' is not one of 'cash', 'card'"),
        (b'{"number": 1, "at": 0, "items": [], "by_day": {"x": []}}', r"Order.by_day\['x'\]", "'x' is not a date"),
        (b'{"number": 1, "at": 0, "items": [], "by_day": []}', "Order.by_day", "is not a dict"),
        (
            b'{"number": 1, "at": 0, "items": [], "place": {"name": "x", "point": [1]}}',
            "Order.place.point",
            "is to have 2",
        ),
    ],
)
def test_data_that_does_not_fit_is_rejected_with_the_field_and_the_reason(text: bytes, field: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=f"^{field}: .*{reason}") as refused:
        Order.loads(text)
    assert isinstance(refused.value, MullionError)
    assert isinstance(refused.value, ValueError)
    assert str(refused.value) == f"{refused.value.field}: {refused.value.reason}"
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", "1"),
        ("n", True),
        ("n", 1.0),
        ("n", None),
        ("x", "1.5"),
        ("s", 1),
        ("flag", 1),
        ("either", 1.5),
        ("either", None),
        ("one", "b"),
        ("one", True),
    ],
)
def test_a_model_that_validates_takes_no_other_type(field: str, value: Any) -> None:
    data = {"n": 1, field: value}
    with pytest.raises(ValidationError, match=f"^Strict.{field}: "):
        Strict(**data)
    if value is not None:
        with pytest.raises(ValidationError, match=f"^Strict.{field}: "):
            Strict.from_data(data)


def test_a_model_that_validates_takes_what_fits() -> None:
    assert Strict(1, 2, "s", True, "either", 1) == Strict.from_data(
        {"n": 1, "x": 2, "s": "s", "flag": True, "either": "either", "one": 1}
    )
    assert isinstance(Strict(1, 2).x, float)


@pytest.mark.parametrize(
    ("data", "field", "value"),
    [
        ({"n": "12"}, "n", 12),
        ({"n": 12.0}, "n", 12),
        ({"n": 1, "x": "1.5"}, "x", 1.5),
        ({"n": 1, "x": 1}, "x", 1.0),
        ({"n": 1, "s": 5}, "s", "5"),
        ({"n": 1, "flag": "true"}, "flag", True),
        ({"n": 1, "flag": "No"}, "flag", False),
        ({"n": 1, "flag": 0}, "flag", False),
    ],
)
def test_a_model_that_coerces_makes_values_of_the_type(data: dict[str, Any], field: str, value: Any) -> None:
    for record in (Loose(**data), Loose.from_data(data)):
        assert getattr(record, field) == value
        assert type(getattr(record, field)) is type(value)


@pytest.mark.parametrize(
    "data", [{"n": "x"}, {"n": 1.5}, {"n": None}, {"n": []}, {"n": 1, "flag": "maybe"}, {"n": 1, "x": {}}]
)
def test_what_cannot_be_coerced_is_rejected(data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"^Loose\.\w+: "):
        Loose.from_data(data)


def test_without_either_plain_values_stay_as_they_came() -> None:
    assert Withdrawal.loads(b'{"account": 1, "amount": "2"}').asdict() == {"account": 1, "amount": "2", "country": "AT"}


def test_a_value_of_several_types_stays_what_it_is() -> None:
    class Either(Record, coerce=True):
        v: int | str | Place

    assert Either.from_data({"v": "1"}).v == "1"
    assert Either.from_data({"v": 1}).v == 1
    assert Either.from_data({"v": {"name": "Graz"}}).v == Place("Graz")
    with pytest.raises(ValidationError, match=r"^Either\.v: it is none of the types it may be"):
        Either.from_data({"v": []})


def test_dates_are_read_by_the_options_of_the_model() -> None:
    class Raw(Record, isodates=False):
        at: datetime

    class German(Record, date_parser=lambda text: datetime.strptime(text, "%d.%m.%Y").replace(tzinfo=UTC)):
        at: datetime

    class Plain(Record):
        at: datetime

    assert Raw.from_data({"at": "2024-01-10"}).at == "2024-01-10"
    assert German.from_data({"at": "10.01.2024"}).at == datetime(2024, 1, 10, tzinfo=UTC)
    with pytest.raises(ValidationError, match=r"^German\.at: '2024-01-10' is not a datetime"):
        German.from_data({"at": "2024-01-10"})
    assert Plain.from_data({"at": 86_400.5}).at == datetime(1970, 1, 2, 0, 0, 0, 500_000, UTC)
    east = timezone(timedelta(hours=2))
    assert Plain.from_data({"at": "2024-01-10T12:00:00+02:00"}).at == datetime(2024, 1, 10, 12, tzinfo=east)
    assert Plain.from_data({"at": "2024-01-10T12:00:00Z"}).at == datetime(2024, 1, 10, 12, tzinfo=UTC)


class Metres:
    def __init__(self, n: float) -> None:
        self.n = n


def test_types_of_ones_own_are_coerced_by_functions_of_ones_own() -> None:
    class Walk(Record, coercions={Metres: lambda n: Metres(float(n))}):
        far: Metres

    assert Walk.from_data({"far": "5"}).far.n == 5.0
    with pytest.raises(ValidationError, match=r"^Walk\.far: 'x' could not be coerced: ValueError"):
        Walk.from_data({"far": "x"})


def test_a_record_lists_its_invalid_fields() -> None:
    fine, wrong = Withdrawal("a", 1.0), Withdrawal(1, "x")
    assert fine.is_valid()
    assert fine.validate() == []
    fine.validate_or_raise()
    assert [error.field for error in wrong.validate()] == ["Withdrawal.account", "Withdrawal.amount"]
    assert not wrong.is_valid()
    with pytest.raises(ValidationError, match=r"^Withdrawal\.account: 1 \(int\) is not a str"):
        wrong.validate_or_raise()


def test_a_type_that_is_not_known_is_named() -> None:
    class Lost(Record):
        v: "Nowhere"  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidArgumentError, match="Lost has a field of a type that is not known: name 'Nowhere'"):
        Lost.from_data({"v": 1})
