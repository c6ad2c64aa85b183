"""Fills in the tables of docs/reference/options.md: options.py [--check].

The parameters are those of ``windowed``. The matrix has the answer of Mullion's own checks: the script makes each
combination of a window and an option.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import mullion.windows
from mullion import (
    Around,
    Count,
    Cumulate,
    Custom,
    Early,
    EmitFor,
    Global,
    InvalidArgumentError,
    PaneProcessor,
    PerKey,
    PythonAggregate,
    Session,
    Sliding,
    Tumbling,
    UnsupportedError,
    Upgrade,
    Watermark,
    Windowed,
    configure,
    together,
    windowed,
)
from mullion.functions import previous

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "options.md"

WINDOWS: Final[dict[str, Any]] = {
    "`Tumbling`": Tumbling("1 hour"),
    "`Sliding`": Sliding("1 hour", "20 minutes"),
    "`Cumulate`": Cumulate("1 day", "1 hour"),
    "`Session`": Session("30 minutes"),
    "`Session(max_length=)`": Session("30 minutes", max_length="6 hours"),
    '`Tumbling(starts="first row")`': Tumbling("1 hour", starts="first row"),
    "`Around`": Around("10 minutes"),
    "`Custom`": Custom("ranges"),
    "`Count`": Count(100),
    "`Global`": Global.every(100),
    "`Global.split`": Global.split(lambda rows: [len(rows)]),
}
KEYS: Final = "keys_of_options"
OF_ROW_NUMBERS: Final = (Count, Global)


class Last(PythonAggregate, returns="bigint"):
    """The last value."""

    def create(self) -> int:
        return 0

    def add(self, last: int, rows: Any) -> int:
        return int(rows["v"][-1].as_py())

    def merge(self, last: int, other: int) -> int:
        return other

    def finish(self, last: int) -> int:
        return last


class Copies(PaneProcessor, returns="value bigint"):
    """Emits the rows that it gets."""

    def create(self) -> dict[str, int]:
        return {}

    def on_row(self, state: Any, key: Any, pane: Any, row: Any) -> dict[str, Any]:
        return {"value": row["v"]}

    def merge(self, state: Any, other: Any) -> Any:
        return state


def counted(rows: Windowed) -> DataFrame:
    return rows.agg(F.count("*").alias("n"))


# Each row of the matrix: the options of windowed, and the contents of a pane.
OPTIONS: Final[dict[str, tuple[dict[str, Any], Callable[[Windowed], DataFrame]]]] = {
    '`time="ts"`': ({"time": "ts"}, counted),
    "`time=None`": ({"time": None}, counted),
    "`allowed_lateness=`": ({"allowed_lateness": "5 minutes"}, counted),
    "`clock=Watermark(idle_after=)`": ({"clock": Watermark(idle_after="1 minute")}, counted),
    "`clock=Watermark(max_ahead=)`": ({"clock": Watermark(max_ahead="1 hour")}, counted),
    "`clock=PerKey()`": ({"clock": PerKey()}, counted),
    "`clock=PerKey(wall_time=True)`": ({"clock": PerKey(wall_time=True)}, counted),
    "`clock=PerKey(forget_after=)`": ({"clock": PerKey(forget_after="7 days")}, counted),
    '`clock=PerKey(late_by="watermark")`': ({"clock": PerKey(late_by="watermark")}, counted),
    "`early=Early(every=)`": ({"early": Early(every="1 minute")}, counted),
    "`early=Early(wall=)`": ({"early": Early(wall="1 minute")}, counted),
    "`early=Early(count=)`": ({"early": Early(count=10)}, counted),
    "`early=Early(each_row=True)`": ({"early": Early(each_row=True)}, counted),
    "`on_time=True`": ({"on_time": True, "allowed_lateness": "5 minutes"}, counted),
    "`accumulate=False`": ({"early": Early(count=10), "accumulate": False}, counted),
    '`late="emit"`': ({"late": "emit"}, counted),
    '`late="reopen"`': ({"late": "reopen"}, counted),
    '`late="reopen each"`': ({"late": "reopen each"}, counted),
    '`empty="emit"`': ({"empty": "emit"}, counted),
    '`empty="forward"`': ({"empty": "forward"}, counted),
    "`empty=EmitFor(keys)`": ({"empty": EmitFor(KEYS)}, counted),
    '`at_end="close"`': ({"at_end": "close"}, counted),
    "`dedupe_by=`": ({"dedupe_by": "v"}, counted),
    "`ids=True`": ({"ids": True}, counted),
    '`upgrade=Upgrade(new_aggregates="from now")`': ({"upgrade": Upgrade(new_aggregates="from now")}, counted),
    '`upgrade=Upgrade(window="drain")`': ({"upgrade": Upgrade(window="drain")}, counted),
    "`.collect()`": ({}, lambda rows: rows.collect()),
    '`.collect(order="time")`': ({"time": "ts"}, lambda rows: rows.collect(order="time")),
    "`.apply()`": ({}, lambda rows: rows.apply(lambda key, pane, own: None, "value bigint")),
    "`.process()`": ({}, lambda rows: rows.process(Copies())),
    "`mullion.functions.previous`": ({}, lambda rows: rows.agg(previous(F.count("*")).alias("before"))),
    "`PythonAggregate`": ({}, lambda rows: rows.agg(Last("v").alias("last"))),
    "`together`": ({}, lambda rows: together(one=counted(rows), two=counted(rows))),
}

TYPES: Final = {
    "ColumnOrName | None": "column, or `None`",
    "ColumnOrName | Sequence[ColumnOrName]": "column, or list of columns",
    "bool": "`True`, `False`",
    "Duration": "text, `timedelta`",
    "Window": "a window",
}


def parameters() -> list[str]:
    """The table of the parameters of ``windowed``."""
    items = re.findall(r"^ *- ``(\w+)``: (.*?)(?=^ *- ``|\n\n)", windowed.__doc__ or "", re.MULTILINE | re.DOTALL)
    texts = {name: " ".join(text.split()) for name, text in items}
    lines = ["| parameter | values | default | meaning |", "|---|---|---|---|"]
    for name, parameter in inspect.signature(windowed).parameters.items():
        default = repr(parameter.default).replace("'", '"')
        shown = "required" if parameter.default is inspect.Parameter.empty else f"`{default}`"
        lines.append(f"| `{name}` | {values_of(parameter.annotation)} | {shown} | {summary(texts[name])} |")
    return lines


def values_of(annotation: str) -> str:
    if annotation in TYPES:
        return TYPES[annotation]
    values: list[str] = []
    for part in annotation.split(" | "):
        literal = get_args(getattr(mullion.windows, part, None))
        values += [f'`"{value}"`' for value in literal] or [f"`{part}`"]
    return ", ".join(values)


def summary(text: str) -> str:
    """The first sentence, with the markup of the page."""
    sentence = re.match(r".*?[.:](?= [A-Z`\"]|$)", text)
    short = sentence[0] if sentence else text
    plain = re.sub(r":\w+:`([^`]*)`", r"`\1`", short).replace("``", "`").rstrip(".")
    return plain[0].upper() + plain[1:]


def matrix(spark: SparkSession) -> list[str]:
    """The table of windows and options."""
    rows = (
        spark.readStream.format("rate")
        .load()
        .selectExpr(
            "timestamp AS ts",
            "value AS v",
            "value % 3 AS k",
            "array(named_struct('start', timestamp, 'end', timestamp)) AS ranges",
        )
        .withWatermark("ts", "1 minute")
    )
    spark.range(3).toDF("k").createOrReplaceTempView(KEYS)
    lines = [f"| option | {' | '.join(WINDOWS)} |", f"|---|{'---|' * len(WINDOWS)}"]
    for option, (arguments, contents) in OPTIONS.items():
        answers = ["yes" if works(rows, window, arguments, contents) else "no" for window in WINDOWS.values()]
        lines.append(f"| {option} | {' | '.join(answers)} |")
    return lines


def works(rows: DataFrame, window: Any, arguments: dict[str, Any], contents: Callable[[Windowed], DataFrame]) -> bool:
    time = None if isinstance(window, OF_ROW_NUMBERS) else "ts"
    try:
        contents(windowed(rows, window, **{"by": "k", "time": time, **arguments}))
    except (InvalidArgumentError, UnsupportedError):
        return False
    return True


def filled_in(page: str, spark: SparkSession) -> str:
    """The page with its tables as they must be."""
    for name, lines in (("parameters", parameters()), ("matrix", matrix(spark))):
        table = "\n".join(lines)
        page = re.sub(
            rf"(<!-- begin: {name} -->\n).*?(\n<!-- end: {name} -->)",
            lambda match, table=table: match[1] + table + match[2],  # type: ignore[misc]
            page,
            flags=re.DOTALL,
        )
    return page


def main() -> int:
    options: dict[str, bool | float | int | str | None] = {"spark.ui.enabled": "false"}
    spark = configure(SparkSession.builder.master("local[1]").config(map=options)).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    page = PAGE.read_text("utf-8")
    should = filled_in(page, spark)
    spark.stop()
    if "--check" in sys.argv:
        return int(page != should)
    PAGE.write_text(should, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
