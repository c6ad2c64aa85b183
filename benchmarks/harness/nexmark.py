"""Events of Nexmark, as its published generator distributes them (Apache Beam's, which Flink's follows).

Of 50 events one is a new person, three are new auctions and 46 are bids, at 10,000 events a second of event time, in
order. Half of the bids go to the hot auction, the latest whose number divides by 100, and the others to one of the last
100 or of 10 yet to come. Three of four bids come from the hot bidder, and three of four auctions from the hot seller;
the others from one of the last 1000 people or of 10 yet to come. Prices are log-uniform from 1 to 10^6, in cents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Longs = npt.NDArray[np.int64]

PERSON, AUCTION, BID = 0, 1, 2
OF, PEOPLE, AUCTIONS = 50, 1, 3
EVERY_US = 100
FIRST_PERSON = FIRST_AUCTION = 1000
HOT = 100
IN_FLIGHT, ACTIVE, LEAD = 100, 1000, 10


def last_person(event: Longs) -> Longs:
    """The number of the newest person at an event."""
    return event // OF


def last_auction(event: Longs) -> Longs:
    """The number of the newest auction at an event; -1 before the first."""
    return event // OF * AUCTIONS + np.clip(event % OF - PEOPLE, -1, AUCTIONS - 1)


def somebody(newest: Longs, random: np.random.Generator) -> Longs:
    active = np.minimum(newest + 1, ACTIVE)
    return newest + 1 - active + random.integers(0, active + LEAD)


def tables(rows: int, batches: int, base_us: int) -> Iterator[pa.Table]:
    """Batches of events: ``kind``, ``ts``, ``auction``, ``person`` (new, seller or bidder), ``price`` (of bids)."""
    random = np.random.default_rng(11)
    for batch in range(batches):
        event = batch * rows + np.arange(rows)
        place = event % OF
        kind = np.select([place < PEOPLE, place < PEOPLE + AUCTIONS], [PERSON, AUCTION], BID)
        people, auctions = last_person(event), np.maximum(last_auction(event), 0)
        oldest = np.maximum(auctions - IN_FLIGHT, 0)
        cold = oldest + random.integers(0, auctions - oldest + 1 + LEAD)
        bid_on = np.where(random.integers(0, 2, rows) > 0, auctions // HOT * HOT, cold)
        hot_person = people // HOT * HOT + (kind == BID)
        by = np.where(random.integers(0, 4, rows) > 0, hot_person, somebody(people, random))
        price = np.round(10 ** (random.random(rows) * 6) * 100).astype(np.int64)
        columns: dict[str, Any] = {
            "kind": pa.array(kind, pa.int32()),
            "ts": pa.array(base_us + event * EVERY_US, pa.timestamp("us", "UTC")),
            "auction": FIRST_AUCTION + np.where(kind == BID, bid_on, auctions),
            "person": FIRST_PERSON + np.where(kind == PERSON, people, by),
            "price": np.where(kind == BID, price, 0),
        }
        yield pa.table(columns)
