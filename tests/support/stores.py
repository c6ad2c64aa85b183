"""The contents of a query's state, read from RocksDB's files without the operator."""

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
"""The partitions of state in every test: ``spark.sql.shuffle.partitions``."""

TOTALS = {"totals": PARTITIONS}
"""The records without panes: each partition's count of its panes, which is 0."""


def records(spark: SparkSession, checkpoint: Path, operator: int = 0) -> dict[str, int]:
    """The number of records of each kind in the last committed batch."""
    version = max(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*")) + 1
    counts = Counter[str]()
    for partition in range(PARTITIONS):
        counts += _in_rocksdb(spark, checkpoint / "state" / str(operator) / str(partition), version)
    return {name: number for name, number in counts.items() if number}


def maintain_and_unload(spark: SparkSession, query: ClockedQuery, checkpoint: Path) -> None:
    """Unloads state, as Spark does after minutes or when a partition moves to another executor."""
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
    """Opens the snapshot of a version with RocksDB. The first two bytes of a key identify its family.

    Records in segments count, except those marked as deleted. A segment counts as one record or more, because a segment
    without records must not exist.
    """
    counts = Counter[str]()
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
                counts[family] += 1
            keys.next()
        keys.close()
        db.close()
    assert set(gone) <= set(segments), "notes on segments that are not there"
    for segment, records in segments.items():
        counts[segment[0]] += max(1, records - gone[segment])
    return counts


def _snapshot(store: Path, version: int) -> Path:
    """The snapshot of a version by the last attempt of the last run: ``VERSION_RUN-ATTEMPT-RANDOM.zip``."""

    def attempt(file: Path) -> list[int]:
        return [int(number) for number in file.stem.split("_")[1].split("-")[:2]]

    return max(store.glob(f"{version}_*.zip"), key=attempt)


def _data_of(value: bytes) -> bytes:
    """The column of bytes of a row, which follows the version of the encoding."""
    row = value[1:]
    start = int.from_bytes(row[12:16], "little")
    return row[start : start + int.from_bytes(row[8:12], "little")]


def _records_in(segment: bytes) -> int:
    """The number of records. Each consists of the lengths of its key and value, and these."""
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
    """The records of a segment whose words of eight bytes are stored without their leading zeros."""
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
