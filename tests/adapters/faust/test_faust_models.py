"""Faust's records: typed fields, what JSON makes of them, and the reason when a value does not fit."""

import json
import pickle
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Optional

import faust as original
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mullion.faust as faust
from mullion import InvalidArgumentError
from mullion.faust import Record, ValidationError
from tests.support.faust.programs.order_models import ORDER, Order, Withdrawal


class Tree(Record):
    name: str
    children: list["Tree"] = []  # noqa: RUF012


# -- in Python


def test_fields_are_given_by_position_or_by_name_and_defaults_stand_in() -> None:
    assert Withdrawal("a", 1.0) == Withdrawal(account="a", amount=1.0, country="AT")
    assert Withdrawal("a", amount=1.0).country == "AT"
    assert Order(1, datetime(2024, 1, 1), []).note is None
    assert Order.total_count == 7
    assert "total_count" not in ORDER.asdict()


def test_a_field_that_is_missing_unknown_or_given_twice_is_a_type_error_that_names_it() -> None:
    with pytest.raises(TypeError, match=r"Withdrawal\(\) lacks the fields 'account', 'amount'"):
        Withdrawal()
    with pytest.raises(TypeError, match=r"has no field 'amout'\. Its fields are: account, amount, country"):
        Withdrawal("a", amout=1.0)
    with pytest.raises(TypeError, match="got the field 'account' twice"):
        Withdrawal("a", account="b", amount=1.0)
    with pytest.raises(TypeError, match="takes 3 fields, and got 4"):
        Withdrawal("a", 1.0, "AT", "more")


def test_a_default_that_can_be_changed_is_not_shared() -> None:
    one, other = Tree("a"), Tree("b")
    one.children.append(other)
    assert other.children == []
    assert Tree("c").children == []


def test_records_are_equal_by_class_and_fields_and_show_them() -> None:
    assert repr(Withdrawal("a", 1.0)) == "<Withdrawal: account='a', amount=1.0, country='AT'>"
    assert Withdrawal("a", 1.0) != Withdrawal("a", 2.0)

    class Deposit(Withdrawal):
        pass

    assert Withdrawal("a", 1.0) != Deposit("a", 1.0)
    assert len({Withdrawal("a", 1.0), Withdrawal("a", 1.0), Withdrawal("b", 1.0)}) == 2


def test_derive_copies_with_other_fields() -> None:
    assert Withdrawal("a", 1.0).derive(amount=2.0) == Withdrawal("a", 2.0)
    assert Withdrawal("a", 1.0).derive(Withdrawal("b", 3.0, "DE"), amount=2.0) == Withdrawal("b", 2.0, "DE")
    with pytest.raises(TypeError, match="has no field 'nothing'"):
        Withdrawal("a", 1.0).derive(nothing=1)


def test_a_model_derived_from_another_has_its_fields_first() -> None:
    class Foreign(Withdrawal):
        rate: float = 1.0
        country: str = "US"

    assert list(Foreign("a", 1.0).asdict()) == ["account", "amount", "country", "rate"]
    assert Foreign("a", 1.0).country == "US"
    account: Any = Foreign.account
    assert account.ident == "Foreign.account"


def test_fields_without_a_default_may_follow_others_and_come_first_as_positional_arguments() -> None:
    class Rated(Withdrawal):
        rate: float

    class Post(Record):
        id: str
        note: str | None
        text: str

    assert Rated("a", 1.0, 2.5) == Rated(account="a", amount=1.0, rate=2.5, country="AT")
    assert Rated("a", 1.0, 2.5, "US").country == "US"
    assert Post("i", "text") == Post("i", "text", None) == Post.from_data({"id": "i", "text": "text"})
    assert list(Post("i", "text").asdict()) == ["id", "note", "text"]
    with pytest.raises(TypeError, match=r"Post\(\) lacks the field 'text'"):
        Post("i")


def test_values_that_faust_lets_through_stay_unchanged_without_options() -> None:
    class Loose(Record):
        at: datetime
        items: list[int]
        by_day: dict[str, int]
        of: Withdrawal

    empty = {"at": None, "items": None, "by_day": None, "of": None}
    assert Loose.from_data(empty).asdict() == empty
    for at in ("", 1_600_000_000_000, -1e20):
        assert Loose.from_data({**empty, "at": at}).at == at
    assert Loose.from_data({**empty, "at": 1_600_000_000}).at == datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)

    class Strict(Record, validation=True):
        at: datetime
        items: list[int]

    for data in ({"at": "", "items": []}, {"at": 1_600_000_000_000, "items": []}, {"at": 0, "items": None}):
        with pytest.raises(ValidationError):
            Strict.from_data(data)


def test_a_model_may_do_something_once_its_fields_are_there() -> None:
    class Squared(Record):
        n: int
        square: int = 0

        def __post_init__(self) -> None:
            self.square = self.n**2

    assert Squared(3).square == Squared.loads(b'{"n": 3}').square == 9


def test_the_class_shows_its_fields() -> None:
    field: Any = Withdrawal.country
    amount: Any = Withdrawal.amount
    assert repr(field) == "<FieldDescriptor: Withdrawal.country (str)>"
    assert (field.field, field.type, field.required, field.default) == ("country", str, False, "AT")
    assert (amount.required, amount.default) == (True, None)
    assert field.getattr(Withdrawal("a", 1.0, "DE")) == "DE"
    assert repr(Order.items).startswith("<FieldDescriptor: Order.items (list[")
    gone = Withdrawal("a", 1.0)
    del gone.amount
    with pytest.raises(AttributeError, match="Withdrawal has lost its field 'amount'"):
        gone.amount  # noqa: B018


def test_a_record_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(ORDER)) == ORDER


@pytest.mark.parametrize("option", [{"serializer": "pickle"}, {"isodate": True}])
def test_an_option_that_is_not_served_is_rejected(option: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"serializer='pickle'|option 'isodate'"):
        type("Wrong", (Record,), {}, **option)


# -- to JSON and back


def test_what_json_holds_reads_back_as_an_equal_record() -> None:
    assert Order.loads(ORDER.dumps()) == ORDER
    assert json.loads(ORDER.dumps()) == {
        "number": 1,
        "at": "2024-01-10T12:00:00+00:00",
        "items": [
            {"account": "a", "amount": 1.5, "country": "AT"},
            {"account": "b", "amount": 2.0, "country": "DE"},
        ],
        "place": {"name": "Graz", "point": [47.07, 15.44]},
        "total": "3.50",
        "tags": ["x", "y"],
        "kind": "card",
        "by_day": {"2024-01-10": [1, 2]},
        "note": None,
    }


@given(
    st.recursive(st.builds(Tree, st.text()), lambda inner: st.builds(Tree, st.text(), st.lists(inner)), max_leaves=8)
)
def test_a_model_may_hold_itself(tree: Tree) -> None:
    assert Tree.loads(tree.dumps()) == tree


class Scalars(Record):
    u: uuid.UUID
    d: timedelta
    b: bytes
    t: time
    f: frozenset[int]
    pair: tuple[int, str]
    many: tuple[int, ...]
    deep: Mapping[str, list[Decimal]]
    anything: Any = None


@given(
    st.builds(
        Scalars,
        u=st.uuids(),
        d=st.timedeltas(timedelta(days=-1000), timedelta(days=1000)),
        b=st.binary(),
        t=st.times(),
        f=st.frozensets(st.integers()),
        pair=st.tuples(st.integers(), st.text()),
        many=st.lists(st.integers()).map(tuple),
        deep=st.dictionaries(st.text(), st.lists(st.decimals(allow_nan=False))),
        anything=st.dictionaries(st.text(), st.lists(st.none() | st.booleans() | st.floats(-1e300, 1e300))),
    )
)
def test_values_of_every_kind_read_back(record: Scalars) -> None:
    assert Scalars.loads(record.dumps()) == record


def test_as_a_dict_records_stay_and_as_json_they_are_dicts() -> None:
    assert ORDER.asdict()["place"] is ORDER.place
    assert ORDER.to_representation()["place"] == {"name": "Graz", "point": [47.07, 15.44]}


def test_metadata_is_written_where_it_is_asked_for_and_never_read() -> None:
    class Tagged(Record, include_metadata=True, namespace="shop.Tagged"):
        n: int

    assert json.loads(Tagged(1).dumps()) == {"n": 1, "__faust": {"ns": "shop.Tagged"}}
    assert Tagged.loads(Tagged(1).dumps()) == Tagged(1)


def test_what_the_model_does_not_name_is_left_out() -> None:
    assert Withdrawal.loads(b'{"account": "a", "amount": 1, "more": 2}').asdict() == {
        "account": "a",
        "amount": 1,
        "country": "AT",
    }


def test_a_null_is_the_default_where_there_is_one() -> None:
    assert Withdrawal.loads(b'{"account": "a", "amount": 1, "country": null}').country == "AT"
    assert Withdrawal.loads(b'{"account": null, "amount": 1}').account is None


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (object(), "Tree.name="),
        ({"k": [1, lambda: 1]}, r"Tree.name\['k'\]\[1\]="),
        ({(1, 2): 3}, r"Tree.name has the key \(1, 2\)"),
        (float("nan"), "Tree.name=nan"),
    ],
)
def test_a_value_that_json_cannot_hold_is_rejected_with_its_place(value: Any, where: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{where}"):
        Tree(value).dumps()


# -- what does not fit
# -- faust-streaming itself


class TheirPlace(original.Record):
    name: str


class TheirOrder(original.Record, coerce=True, include_metadata=False):
    account: str
    amount: float
    at: datetime
    total: Decimal
    places: list[TheirPlace]
    country: str = "AT"
    note: Optional[str] = None  # noqa: UP045


class OurPlace(Record):
    name: str


class OurOrder(Record, coerce=True):
    account: str
    amount: float
    at: datetime
    total: Decimal
    places: list[OurPlace]
    country: str = "AT"
    note: str | None = None


@given(
    account=st.text(),
    amount=st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**40), 2**40),
    at=st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)),
    total=st.decimals(-(10**6), 10**6, places=2),
    places=st.lists(st.text(), max_size=3),
    rest=st.fixed_dictionaries({}, optional={"country": st.none() | st.text(), "note": st.none() | st.text()}),
)
def test_fields_are_what_faust_streaming_reads(places: list[str], at: datetime, total: Decimal, **data: Any) -> None:
    order = {
        **{name: value for name, value in data.items() if name != "rest"},
        **data["rest"],
        "at": at.isoformat(),
        "total": str(total),
        "places": [{"name": name} for name in places],
    }
    ours, original = OurOrder.from_data(order), TheirOrder.from_data(dict(order))
    for field in ("account", "amount", "at", "total", "country", "note"):
        assert getattr(ours, field) == getattr(original, field), field
    assert [place.name for place in ours.places] == [place.name for place in original.places]
    assert faust.Record.__name__ == "Record"
