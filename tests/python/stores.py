"""What is in a query's state, read from the files of Spark's stores without any help of the operator's."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from mullion._jars import running_line

PARTITIONS = 2
"""Of state, in every test: ``spark.sql.shuffle.partitions``."""

TOTALS = {"totals": PARTITIONS}
"""What is left where no pane is: each partition's count of its panes, which is none."""


def records(spark: SparkSession, checkpoint: Path, state: str, operator: int = 0) -> dict[str, int]:
    """How many records there are of each kind, as of the last committed batch."""
    version = max(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*")) + 1
    found = Counter[str]()
    for partition in range(PARTITIONS):
        store = checkpoint / "state" / str(operator) / str(partition)
        if state == "rocksdb":
            found += _in_rocksdb(spark, store, version)
        elif state == "memory":
            found += _in_memory(spark, store, version)
        else:
            # A store to each kind of record, and one that lists the times in use where the kind is kept in order.
            found["default"] += _in_hdfs(spark, checkpoint, operator, partition, "default", version)
            for folder in store.iterdir():
                if folder.is_dir() and not folder.name.startswith("_"):
                    found[folder.name] += _in_hdfs(spark, checkpoint, operator, partition, folder.name, version)
    return {name: number for name, number in found.items() if number}


def _in_rocksdb(spark: SparkSession, store: Path, version: int) -> Counter[str]:
    """Opens the snapshot of a version by RocksDB itself; the first two bytes of a key say which family it is of.

    Records in segments are counted there, without those that are noted as gone. A segment counts as one at least: where
    no record is left, none of it is to be.
    """
    found = Counter[str]()
    segments: dict[tuple[str, bytes], int] = {}
    gone = Counter[tuple[str, bytes]]()
    versions = 0
    with tempfile.TemporaryDirectory() as scratch:
        with zipfile.ZipFile(store / f"{version}.zip") as snapshot:
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
            elif family == "version-ids":
                versions += 1
            else:
                found[family] += 1
            keys.next()
        keys.close()
        db.close()
    # Of no pane: which attempts wrote the last versions.
    assert versions <= 1024
    assert set(gone) <= set(segments), "notes on segments that are not there"
    for segment, records in segments.items():
        found[segment[0]] += max(1, records - gone[segment])
    return found


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


def _in_memory(spark: SparkSession, store: Path, version: int) -> Counter[str]:
    """Reads the snapshot of a version: for each family its name, then records of a key, a value and three numbers."""
    found = Counter[str]()
    java, io = _jvm(spark).java.io, _jvm(spark).org.apache.spark.io
    codec = io.LZ4CompressionCodec(spark._jsc.sc().conf())
    (snapshot,) = [file for file in store.iterdir() if re.fullmatch(rf"{version}(_.*)?\.memory", file.name)]
    data = java.DataInputStream(codec.compressedInputStream(java.FileInputStream(str(snapshot))))
    assert data.readInt() == 4, "the format"
    for _ in range(data.readInt()):
        family = data.readUTF()
        while (length := data.readInt()) >= 0:
            data.skipBytes(length)
            data.skipBytes(data.readInt())
            data.skipBytes(3 * 8)
            found[family] += 1
    data.close()
    return found


def _in_hdfs(spark: SparkSession, checkpoint: Path, operator: int, partition: int, name: str, version: int) -> int:
    """Asks Spark's provider how many keys it loads; what they are does not matter to it."""
    jvm = _jvm(spark)
    state = jvm.org.apache.spark.sql.execution.streaming.state
    session = spark._jsparkSession.sessionState()
    none = getattr(getattr(jvm, "scala.None$"), "MODULE$")
    anything = jvm.org.apache.spark.sql.types.StructType().add("anything", "int")
    hadoop = session.newHadoopConf()
    hadoop.set("sql.streaming.runId", str(jvm.java.util.UUID.randomUUID()))
    provider = state.HDFSBackedStateStoreProvider()
    store_id = state.StateStoreId(str(checkpoint / "state"), operator, partition, name)
    encoder = state.NoPrefixKeyStateEncoderSpec(anything)
    settings = session.conf().clone()
    settings.setConfString("spark.sql.streaming.stateStore.formatValidation.enabled", "false")
    conf = state.StateStoreConf.apply(settings)
    provider.init(store_id, anything, anything, encoder, False, conf, hadoop, False, none)
    # Since 4.2 Spark asks whether to write a snapshot, and whether nothing is to be loaded.
    newer = (False, False) if tuple(map(int, running_line().split("."))) >= (4, 2) else ()
    store = provider.getStore(version, none, *newer)
    keys = int(store.metrics().numKeys())
    store.abort()
    provider.close()
    return keys


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm
