"""The rows of workloads: Parquet files, named by their order, one per micro-batch.

Columns are ``ts``, a timestamp in microseconds, ``k``, an integer key, and ``v``, an integer below 1000, unless a
workload has another form (see ``forms.py``). They are generated from a seed. Rows are out of order by up to two
seconds, within the watermark's delay. A last file, ``end``, has one row of a day later, which closes all earlier panes.
Settling batches are in a separate folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness import nexmark
from harness.forms import FORMS
from harness.workloads import CORES, SETTLING, SETTLING_ROWS, Workload

SECOND = 1_000_000
BASE = 1_700_000_000 * SECOND
DISORDER = 2 * SECOND
COUNTRIES = ("DE", "FR", "IT", "ES", "US", "GB", "JP", "BR")

Longs = npt.NDArray[np.int64]


def write(workload: Workload, rows: int, folder: Path) -> None:
    """Writes the first ``rows`` rows of a workload, in batches of its size, or in four batches if that would be one."""
    folder.mkdir(parents=True)
    if workload.rows_of == "open":
        for position, table in enumerate(tables(workload)):
            put(table, workload, folder, position)
        return
    size = workload.rows if rows > workload.rows else max(1, rows // 4)
    written = 0
    for table in tables(workload):
        for first in range(0, len(table), size):
            piece = table.slice(first, min(size, rows - written))
            if written < rows:
                put(piece, workload, folder, written)
            written += len(piece)
        if written >= rows:
            break
    if workload.ends:
        put(end(table), workload, folder, written, "end")


def write_settling(workload: Workload, folder: Path) -> None:
    """Writes the settling batches. Their event times are before those of all other batches."""
    folder.mkdir(parents=True)
    for position, table in enumerate(tables(replace(workload, rows=SETTLING_ROWS), -workload.settling, 0)):
        put(table, workload, folder, position, SETTLING)


def put(table: pa.Table, workload: Workload, folder: Path, position: int, name: str = "") -> None:
    form = FORMS[workload.form]
    file = folder / f"{position:012}{name}.{form.format}"
    if workload.form != "published":
        table = with_form(table, workload)
    if form.format == "json":
        file.write_text("\n".join(table["value"].to_pylist()) + "\n")
    else:
        # A row group for each core, so that the scan is not the bottleneck.
        pq.write_table(table, file, row_group_size=max(1, -(-len(table) // CORES)))
    # Spark reads files in order of their age, in milliseconds.
    os.utime(file, (BASE // SECOND, BASE // SECOND + len(list(folder.iterdir()))))


def with_form(table: pa.Table, workload: Workload) -> pa.Table:
    """Converts rows to the form of their workload."""
    form, number = workload.form, table["k"].to_numpy()
    if form == "filter":
        return table
    if form == "measures":
        hashed = (table["v"].to_numpy() * 2654435761 + table["ts"].cast(pa.int64()).to_numpy() * 40503) % (1 << 31)
        names = np.char.add("name-", (hashed % 5000).astype(str))
        return table.append_column("d", pa.array(hashed / (1 << 24))).append_column("name", pa.array(names.tolist()))
    keys = pa.array(texts(form, workload.keys + 1), pa.string()).take(pa.array(number))
    table = table.set_column(1, "k", keys)
    if form == "device":
        country = pa.array(np.array(COUNTRIES, dtype=object)[number % len(COUNTRIES)], pa.string())
        return table.append_column("country", country)
    if form in ("json", "value"):
        time = pc.strftime(table["ts"], "%Y-%m-%dT%H:%M:%S")
        values = pc.cast(table["v"], pa.string())
        pieces = ['{"ts":"', time, 'Z","k":"', table["k"], '","v":', values, "}", ""]
        return pa.table({"value": pc.binary_join_element_wise(*pieces)})
    return table


@cache
def texts(form: str, keys: int) -> list[str]:
    """The text of each key, by its number."""
    if form in ("user", "json"):
        return [f"user-{number}" for number in range(keys)]
    if form == "device":
        return [f"device-{number:06}" for number in range(keys)]
    random = np.random.default_rng(11)
    return [str(UUID(bytes=random.bytes(16))) for _ in range(keys)]


def end(table: pa.Table) -> pa.Table:
    """The last row again, a day later."""
    last = table.slice(len(table) - 1)
    later = pa.array([last["ts"][0].value + 86_400 * SECOND], table.schema.field("ts").type)
    return last.set_column(last.schema.get_field_index("ts"), "ts", later)


def tables(workload: Workload, first: int = 0, end: int | None = None) -> Iterator[pa.Table]:
    """The rows of the batches from ``first`` to before ``end``, by default of all. Batch 0 starts at ``BASE``."""
    if workload.rows_of == "nexmark":
        yield from nexmark.tables(workload.rows, workload.batches, BASE)
        return
    random = np.random.default_rng(7)
    maker = {"keys": keys, "visits": visits, "bursts": bursts, "open": still_open}[workload.rows_of]
    for batch in range(first, workload.batches if end is None else end):
        key, times = maker(workload, batch, random)
        if workload.rows_of != "open":
            times = times - random.integers(0, DISORDER, len(times))
        if workload.late:
            late = random.random(len(times)) < workload.late
            # Behind the watermark, which is at the end of the previous batch, and within the lateness.
            behind = (workload.delay + workload.size + random.integers(0, workload.lateness // 2, len(times))) * SECOND
            times = np.where(late & (batch > workload.lateness // workload.span), times - behind, times)
        values = random.integers(0, 1000, len(times))
        yield pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "k": pa.array(key, pa.int64()),
                "v": pa.array(values, pa.int64()),
            }
        )


def keys(workload: Workload, batch: int, random: np.random.Generator) -> tuple[Longs, Longs]:
    """Random keys at random times."""
    span = workload.span * SECOND
    times = BASE + batch * span + np.sort(random.integers(0, span, workload.rows))
    return random.integers(0, workload.keys, workload.rows), times


def visits(workload: Workload, batch: int, random: np.random.Generator) -> tuple[Longs, Longs]:
    """Visits of five rows, about one second apart, each with the next key."""
    span = workload.span * SECOND
    count = workload.rows // 5
    starts = np.sort(random.integers(0, span, count))
    times = starts[:, None] + np.cumsum(random.integers(0, 2 * SECOND, (count, 5)), axis=1)
    key = np.repeat((batch * count + np.arange(count)) % workload.keys, 5)
    # Visits that start near the end are cut off at the time of the next batch.
    order = np.argsort(times.ravel(), kind="stable")
    within = np.minimum(times.ravel(), span - 1)
    return key[order], BASE + batch * span + within[order]


def bursts(workload: Workload, batch: int, random: np.random.Generator) -> tuple[Longs, Longs]:
    """Each key has rows for a minute, then none for twenty seconds."""
    key, times = keys(workload, batch, random)
    cycle = 80 * SECOND
    into = (times + key * SECOND) % cycle
    # A row in the quiet time moves back into the minute before.
    return key, np.where(into < 60 * SECOND, times, times - (into - 60 * SECOND) - 1)


def still_open(workload: Workload, batch: int, random: np.random.Generator) -> tuple[Longs, Longs]:
    """The first batch opens all panes; each later batch has a single row, which closes one small pane.

    The small panes belong to one more key and are an hour older. Each later row makes one of them due.
    """
    span = workload.size * SECOND
    small = workload.keys
    if batch:
        return np.array([small]), np.array([BASE + batch * span])
    old = BASE - 3600 * SECOND + np.arange(workload.batches) * span
    key = np.concatenate([np.arange(workload.rows) % workload.keys, np.full(workload.batches, small)])
    return key, np.concatenate([np.full(workload.rows, BASE), old])
