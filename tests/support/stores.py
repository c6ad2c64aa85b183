"""What is in a query's state, read from RocksDB's files without any help of the operator's."""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.support.clocked import ClockedQuery

PARTITIONS = 2
"""Of state, in every test: ``spark.sql.shuffle.partitions``."""

TOTALS = {"totals": PARTITIONS}
"""What is left where no pane is: each partition's count of its panes, which is none."""


def records(spark: SparkSession, checkpoint: Path, operator: int = 0) -> dict[str, int]:
    """How many records there are of each kind, as of the last committed batch."""
    version = max(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*")) + 1
    found = Counter[str]()
    for partition in range(PARTITIONS):
        found += _in_rocksdb(spark, checkpoint / "state" / str(operator) / str(partition), version)
    return {name: number for name, number in found.items() if number}


def maintain_and_unload(spark: SparkSession, query: ClockedQuery, checkpoint: Path) -> None:
    """Unloads state as Spark does after minutes, or when a partition moves to another executor."""
    jvm: Any = spark._jvm
    state = jvm.org.apache.spark.sql.execution.streaming.state
    run = query.java_query.runId()
    for partition in range(PARTITIONS):
        store = state.StateStoreProviderId(
            state.StateStoreId(f"file:{checkpoint / 'state'}", 0, partition, "default"), run
        )
        assert state.StateStore.isLoaded(store)
        state.StateStore.doMaintenanceAndUnload(store)


def _in_rocksdb(spark: SparkSession, store: Path, version: int) -> Counter[str]:
    """Opens the snapshot of a version by RocksDB itself; the first two bytes of a key say which family it is of.

    Records in segments are counted there, without those that are noted as gone. A segment counts as one at least: where
    no record is left, none of it is to be.
    """
    found = Counter[str]()
    segments: dict[tuple[str, bytes], int] = {}
    gone = Counter[tuple[str, bytes]]()
    with tempfile.TemporaryDirectory() as scratch:
        with zipfile.ZipFile(_snapshot(store, version)) as snapshot:
            snapshot.extractall(scratch)
        metadata = json.loads(Path(scratch, "metadata").read_text().splitlines()[1])
        for table in metadata["sstFiles"]:
            shutil.copy(store / "SSTs" / table["dfsSstFileName"], Path(scratch, table["localFileName"]))
        families = {number: name for name, number in metadata["columnFamilyMapping"].items()}
        db = _jvm(spark).org.rocksdb.RocksDB.openReadOnly(scratch)
        keys = db.newIterator()
        keys.seekToFirst()
        while keys.isValid():
            key, family = keys.key(), families[int.from_bytes(keys.key()[:2], "little")]
            if family.endswith("-segments"):
                segments[family.removesuffix("-segments"), key[-8:]] = _records_in(_data_of(keys.value()))
            elif family.endswith("-gone"):
                marks = int.from_bytes(_data_of(keys.value()), "little")
                gone[family.removesuffix("-gone"), key[-8:]] = marks.bit_count()
            else:
                found[family] += 1
            keys.next()
        keys.close()
        db.close()
    assert set(gone) <= set(segments), "notes on segments that are not there"
    for segment, records in segments.items():
        found[segment[0]] += max(1, records - gone[segment])
    return found


def _snapshot(store: Path, version: int) -> Path:
    """The snapshot of a version that the last attempt of the last run wrote: ``VERSION_RUN-ATTEMPT-RANDOM.zip``."""

    def attempt(file: Path) -> list[int]:
        return [int(number) for number in file.stem.split("_")[1].split("-")[:2]]

    return max(store.glob(f"{version}_*.zip"), key=attempt)


def _data_of(value: bytes) -> bytes:
    """The column of bytes of a row, which comes after the version of the encoding."""
    row = value[1:]
    start = int.from_bytes(row[12:16], "little")
    return row[start : start + int.from_bytes(row[8:12], "little")]


def _records_in(segment: bytes) -> int:
    """How many records there are: each is the lengths of its key and its value, and these."""
    if segment[:4] == b"\xff\xff\xff\xff":
        segment = _unpacked(segment)
    at = count = 0
    while at < len(segment):
        key, value = (int.from_bytes(segment[i : i + 4], "little", signed=True) for i in (at, at + 4))
        assert min(key, value) >= 0, "no lengths of a record"
        at += 8 + key + value
        count += 1
    assert at == len(segment), "a record that ends behind its segment"
    return count


def _unpacked(segment: bytes) -> bytes:
    """The records of a segment whose words of eight bytes lie there without the zeros that they begin with."""
    size = int.from_bytes(segment[4:8], "little")
    records = bytearray()
    at = 8
    while len(records) < size:
        lengths = segment[at]
        at += 1
        for length in (lengths >> 4, lengths & 15):
            records += segment[at : at + length].ljust(8, b"\0")
            at += length
    assert at + 8 == len(segment), "no packed words"
    return bytes(records[:size])


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm
