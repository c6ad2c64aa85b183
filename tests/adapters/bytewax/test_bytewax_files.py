"""Files that the JVM reads: the result equals that of the released package for the same files and functions."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import bytewax.connectors.files as their_files
import bytewax.dataflow as their_dataflow
import bytewax.operators as their_op
import bytewax.operators.windowing as their_win
import bytewax.testing as their_testing
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import mullion.bytewax.connectors.files as our_files
import mullion.bytewax.dataflow as our_dataflow
import mullion.bytewax.operators as our_op
import mullion.bytewax.operators.windowing as our_win
import mullion.bytewax.testing as our_testing
from mullion._bridge import jvm
from mullion.bytewax import explain
from mullion.bytewax._log.file_ranges import FileRange
from mullion.bytewax._query import runner
from mullion.bytewax.recovery import RecoveryConfig
from mullion.errors import MullionError
from tests.support.seeds import SEED

START = datetime(2024, 2, 28, 23, 59, tzinfo=UTC)
THEIRS = (their_dataflow, their_op, their_win, their_files, their_testing)
OURS = (our_dataflow, our_op, our_win, our_files, our_testing)
NAMES = ["ann", "bob", "zoë", "漢字", "x y", "a.b"]


def _row(random_: random.Random, n: int) -> dict[str, Any]:
    at = START + timedelta(milliseconds=250 * n - random_.choice((0, 0, 0, 9000)))
    price = random_.choice((random_.randrange(-50, 50) / 4, random_.random() * 10 ** random_.randrange(-9, 9)))
    return {"key": random_.choice(NAMES), "at": at.isoformat(timespec="milliseconds"), "price": price, "note": "-"}


def _csv(random_: random.Random, rows: int) -> str:
    """A CSV file, with some lines that only Python reads."""
    end = random_.choice(("\n", "\r\n"))
    oddity = random_.choice((0.0, 0.0, 0.02))
    lines = ["key,at,price,note"]
    for n in range(rows):
        row = {**_row(random_, n)}
        if random_.random() < oddity:
            row["note"] = random_.choice(('"a, b"', '"of two\nlines"', '"say ""so"""', 'half"', "", "\t"))
        lines.append(",".join(map(str, row.values())))
        if random_.random() < oddity:
            lines.append(random_.choice(("", "ann,2024-03-01T00:00:00Z,1", "bob,2024-03-01T00:00:00+00:00,2,-,more")))
    return end.join(lines) + random_.choice(("", end))


def _json(random_: random.Random, rows: int) -> str:
    """Lines of JSON, with some that only Python reads."""
    end = random_.choice(("\n", "\r\n"))
    oddity = random_.choice((0.0, 0.0, 0.02))
    lines = []
    for n in range(rows):
        row: dict[str, Any] = {**_row(random_, n), "whole": random_.randrange(-9, 9), "in": {"deep": n % 3, "no": None}}
        if random_.random() < oddity:
            more: Any = ({"note": 'a "b"'}, {"note": [1, 2]}, {"more": 1}, {"whole": 2**70}, {"price": 7}, {"in": {}})
            row.update(random_.choice(more))
        lines.append(json.dumps(row, ensure_ascii=random_.random() < oddity))
    return end.join(lines) + random_.choice(("", end))


def _of_line(line: str) -> tuple[str, datetime, float]:
    row = json.loads(line)
    return (row["key"], datetime.fromisoformat(row["at"]), row["price"] + row["whole"])


def _outcome(files: Path, kind: str, batch_size: int, modules: tuple[Any, ...], spark: SparkSession | None) -> Any:
    dataflow, op, win, connectors, testing = modules
    flow = dataflow.Dataflow("files")
    if kind == "csv":
        rows = op.input("in", flow, connectors.CSVSource(files / "a.csv", batch_size=batch_size))
        parsed = op.map("of", rows, lambda r: (r["key"], datetime.fromisoformat(r["at"]), float(r["price"])))
    else:
        rows = op.input("in", flow, connectors.DirSource(files, "*.json", batch_size=batch_size))
        parsed = op.map("of", rows, _of_line)
    keyed = op.key_on("key", parsed, lambda item: item[0])
    clock = win.EventClock(lambda item: item[1], timedelta(seconds=2), now_getter=lambda: START)
    windower = win.TumblingWindower(length=timedelta(seconds=7), align_to=START)
    summed = win.fold_window(
        "sum", keyed, clock, windower, float, lambda total, item: total + item[2], lambda one, other: one + other
    )
    outputs: tuple[list[Any], list[Any]] = ([], [])
    op.output("down", summed.down, testing.TestingSink(outputs[0]))
    op.output("late", summed.late, testing.TestingSink(outputs[1]))
    if spark is None:
        testing.run_main(flow)
    else:
        assert {part.runs for part in explain(flow).parts if part.name != "down" and part.name != "late"} == {"JVM"}
        testing.run_main(flow, spark=spark)
    by_key: dict[str, Any] = {}
    for stream, items in enumerate(outputs):
        for key, item in items:
            by_key.setdefault(key, ([], []))[stream].append(item)
    return by_key


def _compared(spark: SparkSession, folder: Path, round_: int) -> None:
    random_ = random.Random(f"{SEED} files {round_}")
    kind = ("csv", "json")[round_ % 2]
    rows = random_.randrange(1, 900)
    if kind == "csv":
        (folder / "a.csv").write_text(_csv(random_, rows), encoding="utf-8", newline="")
    else:
        for name in "abc"[: random_.randrange(1, 4)]:
            (folder / f"{name}.json").write_text(_json(random_, rows), encoding="utf-8", newline="")
    batch_size = random_.choice((1, 7, 100, 1000))
    outcomes: list[Any] = []
    for modules, session in ((THEIRS, None), (OURS, spark)):
        try:
            outcomes.append(_outcome(folder, kind, batch_size, modules, session))
        except Exception as error:
            # A missing field fails in both.
            outcomes.append("failed" if modules is THEIRS or isinstance(error, MullionError) else error)
    assert outcomes[0] == outcomes[1], f"MULLION_SEED={SEED}, round {round_}, {kind} by {batch_size}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("round_", range(40))
def test_files_give_the_same_results_as_in_the_released_package(
    spark: SparkSession, tmp_path: Path, round_: int
) -> None:
    _compared(spark, tmp_path, round_)


def _never(frames: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    raise AssertionError("an entry was left to Python")


def _in_the_jvm(spark: SparkSession, file: Path, mapper: Callable[[Any], Any]) -> list[Any]:
    """The result of a function over the lines of a file, without Python."""
    out: list[Any] = []
    flow = our_dataflow.Dataflow("texts")
    lines = our_op.input("in", flow, our_files.FileSource(file))
    our_op.output("out", our_op.map("of", lines, mapper), our_testing.TestingSink(out))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runner, "LeftInputs", lambda inputs: _never)
        our_testing.run_main(flow, spark=spark)
    return out


def test_python_reads_json_that_does_not_come_from_a_file() -> None:
    flow = our_dataflow.Dataflow("items")
    items = our_op.input("in", flow, our_testing.TestingSource(['{"n": 1}']))
    our_op.output("out", our_op.map("of", items, lambda line: json.loads(line)["n"]), our_testing.TestingSink([]))
    of = next(part for part in explain(flow).parts if part.name.startswith("of"))
    assert of.runs == "Python"
    assert "json.loads of what does not come from a file" in of.why


def _texts(random_: random.Random) -> dict[str, Any]:
    at = datetime(1, 1, 1, tzinfo=UTC) + timedelta(
        days=random_.randrange(3652058), microseconds=random_.randrange(10**12)
    )
    zone = random_.choice(("+00:00", "Z"))
    digits = random_.choice((None, 3, 6))
    text = at.replace(tzinfo=None).isoformat(random_.choice("T "), random_.choice(("seconds", "milliseconds")))
    if digits == 6:
        text = at.replace(tzinfo=None, microsecond=at.microsecond or 1).isoformat()
    numbers = (
        repr(random_.uniform(-1, 1) * 10.0 ** random_.randrange(-320, 308)),
        f"{random_.uniform(-1e6, 1e6):.{random_.randrange(0, 20)}f}",
        str(random_.randrange(-(10**17), 10**17)),
        f"+{random_.randrange(100)}.",
        f"-.{random_.randrange(100)}e{random_.randrange(-9, 9)}",
    )
    return {
        "at": text + zone,
        "naive": text,
        "f": random_.choice(numbers),
        "i": random_.choice(("-", "+", "")) + str(random_.randrange(10**17)),
        "t": random_.choice((random_.uniform(-6e10, 2e11), random_.randrange(-(10**9), 10**10), random_.random())),
        "n": random_.choice((random_.uniform(-1, 1) * 10.0 ** random_.randrange(-300, 300), 1.5, -0.0, 12)),
        "b": random_.choice((True, False, None, "é漢", "")),
    }


def _read(line: str) -> Any:
    row = json.loads(line)
    return (
        datetime.fromisoformat(row["at"]),
        datetime.fromisoformat(row["naive"]).replace(tzinfo=UTC),
        datetime.fromisoformat(row["at"]).astimezone(UTC),
        float(row["f"]),
        int(row["i"]),
        datetime.fromtimestamp(row["t"], UTC),
        datetime.fromtimestamp(row["t"], tz=UTC),
        row["n"],
        row["b"],
    )


def test_the_jvm_reads_the_same_values_from_texts_as_python(spark: SparkSession, tmp_path: Path) -> None:
    """JSON, times, floats and ints of 3,000 random lines."""
    random_ = random.Random(f"{SEED} texts")
    lines = [json.dumps(_texts(random_), ensure_ascii=False) for _ in range(3000)]
    (tmp_path / "lines").write_text("\n".join(lines), encoding="utf-8")
    values = _in_the_jvm(spark, tmp_path / "lines", _read)
    expected = list(map(_read, lines))
    wrong = [pair for pair in zip(values, expected, strict=True) if repr(pair[0]) != repr(pair[1])]
    assert not wrong, f"MULLION_SEED={SEED}: {wrong[:3]}"


ODD = (
    b'{"a":1}',
    b'"a,b",c',
    b'"a\nb",c',
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\xc3\xa9",
    b'x"y',
    b'""',
    b"a,b,c",
    b"",
    b"\0",
)


@pytest.mark.parametrize("delimiter", ["", ","])
def test_lines_that_the_jvm_finds_are_those_of_python(spark: SparkSession, tmp_path: Path, delimiter: str) -> None:
    """Compares the lines of 300 files with random bytes."""
    random_ = random.Random(f"{SEED} ranges {delimiter}")
    file = tmp_path / "bytes"
    sure = 0
    for number in range(300):
        head = b"k,n\n" if delimiter else b""
        lines = [b"abc,1", b"d,\xc3\xa9"] * random_.randrange(20) + random_.choices(ODD, k=random_.randrange(3))
        random_.shuffle(lines)
        file.write_bytes(head + b"\n".join(lines) + random_.choice((b"", b"\n")))
        at, size = len(head), random_.choice((1, 2, 5))
        stream = file.open("rt", newline="" if delimiter else None)
        rows: Any = csv.DictReader(stream) if delimiter else (line.rstrip("\n") for line in stream)
        while True:
            end, count = jvm.flow_lines(spark, str(file), at, delimiter, size, 3 * size)
            if not count:
                break
            file_range = FileRange(0, str(file), at, end, count, delimiter, ["k", "n"], size, 0, 1)
            items = [item for _, batch in file_range.read() for item in batch]
            assert items == list(islice(rows, count)), f"MULLION_SEED={SEED}, file {number}"
            sure, at = sure + count, end
        stream.close()
    assert sure > 1000


def test_the_program_reads_files_that_are_no_text(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"a\n\xff\n")
    assert jvm.flow_lines(spark, str(tmp_path / "bytes"), 0, "", 1, 1) == (2, 1)
    assert jvm.flow_lines(spark, str(tmp_path / "bytes"), 2, "", 1, 1) == (2, 0)


def test_a_file_that_was_changed_while_it_was_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    with pytest.raises(MullionError, match="is not as it was when a part of it was taken, bytes 0 to 12, 3 lines"):
        list(FileRange(0, str(tmp_path / "a"), 0, 12, 3, "", [], 2, 0, 1).read())


def test_a_run_continues_at_the_position_of_the_previous_run_in_its_file(spark: SparkSession, tmp_path: Path) -> None:
    file, state = tmp_path / "a", RecoveryConfig(tmp_path)
    out: list[Any] = []
    for text in ("a\nb\n", "c\nd"):
        with file.open("a") as more:
            more.write(text)
        flow = our_dataflow.Dataflow("lines")
        lines = our_op.input("in", flow, our_files.FileSource(file, batch_size=3))
        our_op.output("out", our_op.map("of", lines, lambda line: line + "!"), our_testing.TestingSink(out))
        our_testing.run_main(flow, recovery_config=state, spark=spark)
    assert out == ["a!", "b!", "c!", "d!"]


def test_files_that_are_read_in_turn_are_emitted_in_turn(spark: SparkSession, tmp_path: Path) -> None:
    for name, many in (("a", 7), ("b", 3), ("c", 12)):
        (tmp_path / name).write_text("".join(f"{name}{n}\n" for n in range(many)))
    outcomes: list[list[str]] = []
    for dataflow, op, _, connectors, testing in (THEIRS, OURS):
        out: list[str] = []
        flow = dataflow.Dataflow("turns")
        lines = op.input("in", flow, connectors.DirSource(tmp_path, batch_size=2))
        op.output("out", op.map("of", lines, lambda line: line + "!"), testing.TestingSink(out))
        testing.run_main(flow, **({} if dataflow is their_dataflow else {"spark": spark}))
        outcomes.append(out)
    assert sorted(outcomes[0]) == sorted(outcomes[1])
    for name in "abc":
        assert [line for line in outcomes[1] if line[0] == name] == [line for line in outcomes[0] if line[0] == name]
    assert outcomes[1][:6] == ["a0!", "a1!", "b0!", "b1!", "c0!", "c1!"]
