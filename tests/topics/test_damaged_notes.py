"""Mullion's small files next to checkpoints and topics, with damaged bytes: a Mullion error that names the file."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion import topics
from mullion._program import part_names
from mullion._program.manifest import Manifest
from mullion.errors import DamagedStateError, IncompatibleStateError, InvalidArgumentError
from mullion.topics import _json
from mullion.topics._folder.topic import DirTopic
from mullion.topics._kafka import client as _kafka_client
from mullion.topics._kafka.transactions import Transactions
from mullion.topics._schemas import remember, remembered_schema, spark_schema

NOTES: dict[str, Callable[[Path], Any]] = {
    "schema.json": lambda file: remembered_schema(file),
    "manifest.json": lambda file: [part_names._noted(file.parent), Manifest(file.parent).read("steps", dict)],
    "_topic.json": lambda file: DirTopic(file.parent.parent, file.parent.name).about(),
}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def valid_note(folder: Path, note: str) -> Path:
    """Writes a valid note."""
    topics.produce(f"dir:{folder}", "topic", [{"n": 1, "s": "ö", "l": [{"x": 1.5}]}])
    columns = pa.schema({"n": pa.int64(), "l": pa.list_(pa.struct({"x": pa.float64()}))})
    remember(folder / "topic" / "schema.json", spark_schema(columns))
    part_names._note(folder / "topic", {"a": part_names.Named("window", "a", "line 1", "a")})
    Manifest(folder / "topic").write("steps", {"stateful": ["a"], "kept": {"a": {}}})
    return folder / "topic" / note


def refusal(read: Callable[[Path], Any], file: Path) -> str | None:
    """The message of a note's error, or none if it was read. Any other error fails the test."""
    try:
        read(file)
    except (DamagedStateError, IncompatibleStateError) as damage:
        return str(damage)
    return None


@pytest.mark.parametrize("note", NOTES)
def test_a_note_with_other_bytes_is_read_or_rejected_by_its_name(tmp_path: Path, note: str) -> None:
    file, rng = valid_note(tmp_path, note), random.Random(7)
    written, read = file.read_bytes(), NOTES[note]
    as_written = read(file)
    texts = [written[:at] for at in range(0, len(written), 7)]
    for _ in range(300):
        damaged = bytearray(written)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.choice(b'{}[]",:0a\xff\x00\n')
        texts.append(bytes(damaged))
    texts += [b"[" * 100_000, b'{"a":' * 50_000, b"null", b"7", b'""', b"[]", b"{}", b"\xff\xfe", b"NaN", b"1e999"]
    refused = 0
    for text in texts:
        file.write_bytes(text)
        says = refusal(read, file)
        assert says is None or (str(file) in says and ("Restore it from a copy" in says or "has version" in says))
        refused += says is not None
    assert refused > 150
    file.write_bytes(written)
    assert read(file) == as_written


@settings(max_examples=300)
@given(anything)
def test_notes_that_are_json_of_another_shape_are_rejected(
    tmp_path_factory: pytest.TempPathFactory, value: Any
) -> None:
    folder = tmp_path_factory.getbasetemp() / "shapes"
    (folder / "topic").mkdir(parents=True, exist_ok=True)
    for note, read in NOTES.items():
        file = folder / "topic" / note
        file.write_text(json.dumps(value))
        assert str(file) in (refusal(read, file) or str(file))


def test_a_record_among_the_notes_of_batches_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (b"", b"{", b"7", b"null", b"[1]", b'{"batch": "x", "plan": ""}', b'{"batch": 1}', b"\xff"):
        records = [_kafka_client.Record(3, 41, 0, "query/0", value)]
        monkeypatch.setattr(_kafka_client, "read_settled", lambda *_, result=records: result)
        with pytest.raises(
            DamagedStateError, match=r"offset 41 of partition 3 of topic '__mullion_batches' is cut short"
        ):
            Transactions("localhost:1", "query")._noted()


def test_times_that_no_text_of_json_has_are_rejected_with_their_column() -> None:
    ends = {"us": (-(2**63), 2**63 - 1), "ms": (-(2**63), 2**63 - 1), "s": (-(2**62), 2**62)}
    for unit, times in ends.items():
        for zone in (None, "UTC", "Asia/Tokyo"):
            for time in times:
                kind = pa.timestamp(unit, zone)
                for values in (pa.array([time], kind), pa.array([[time]], pa.list_(kind))):
                    with pytest.raises(
                        InvalidArgumentError, match="Column 'at' has a time outside of the years 1 to 9999"
                    ):
                        _json.written(pa.table({"n": [1], "at": values}))
    last = pa.array([253_402_300_799_999_999, -62_135_596_800_000_000], pa.timestamp("us", "UTC"))
    assert _json.written(pa.table({"at": last})) == [
        b'{"at": "9999-12-31T23:59:59.999999Z"}',
        b'{"at": "0001-01-01T00:00:00Z"}',
    ]


def test_a_manifest_keeps_the_sections_of_others_and_is_read_by_newer_versions_only(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path / "query")
    assert manifest.read("window", dict) is None
    manifest.write("topic", "orders")
    manifest.write("window", {"key": ("k",), "time_column": None})
    assert manifest.read("window", dict) == {"key": ["k"], "time_column": None}
    manifest.write("window", None)
    assert (manifest.read("window", dict), manifest.read("topic", str)) == (None, "orders")
    with pytest.raises(DamagedStateError, match=r"manifest\.json is cut short"):
        manifest.read("topic", list)
    manifest.file.write_text('{"version": 2, "topic": "orders"}', "utf-8")
    with pytest.raises(IncompatibleStateError, match="has version 2, and this Mullion reads versions up to 1"):
        manifest.read("topic", str)
    with pytest.raises(IncompatibleStateError, match="has version 2"):
        manifest.write("topic", "visits")
