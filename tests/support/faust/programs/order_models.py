"""Models of orders."""

from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import ClassVar, Optional

from mullion.faust import Record


class Kind(Enum):
    CASH = "cash"
    CARD = "card"


class Place(Record):
    name: str
    point: tuple[float, float] = (0.0, 0.0)


class Withdrawal(Record):
    account: str
    amount: float
    country: str = "AT"


class Order(Record):
    number: int
    at: datetime
    items: list[Withdrawal]
    place: Place | None = None
    total: Decimal = Decimal("0")
    tags: set[str] = set()  # noqa: RUF012
    kind: Kind = Kind.CASH
    by_day: dict[date, list[int]] = {}  # noqa: RUF012
    note: Optional[str] = None  # noqa: UP045
    total_count: ClassVar[int] = 7


ORDER = Order(
    number=1,
    at=datetime(2024, 1, 10, 12, tzinfo=UTC),
    items=[Withdrawal("a", 1.5), Withdrawal("b", 2.0, country="DE")],
    place=Place("Graz", (47.07, 15.44)),
    total=Decimal("3.50"),
    tags={"x", "y"},
    kind=Kind.CARD,
    by_day={date(2024, 1, 10): [1, 2]},
)
