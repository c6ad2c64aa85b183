"""Draws the pictures of the docs with ``mullion.plot``, each from a running stream: pictures.py [FOLDER].

The default folder is ``docs/pictures``.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import Early, PerKey, Session, Sliding, Tumbling, configure, plot, read_panes, windowed
from mullion.windows import Window

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
SCHEMA = "due timestamp, carrier string"

# Equal pictures are equal files.
mpl.rcParams["svg.hashsalt"] = "mullion"


@dataclass(frozen=True)
class Picture:
    """A stream of one-row batches, ``10:05 AA``, through a window."""

    rows: tuple[str, ...]
    window: Window
    delay: str = "10 minutes"
    options: dict[str, Any] = field(default_factory=dict)


PICTURES = {
    "panes": Picture(
        ("10:05 AA", "10:40 AA", "11:30 AA", "10:35 UA", "10:55 AA"),
        Tumbling("1 hour"),
        options={"allowed_lateness": "5 minutes", "early": Early(every="10 minutes"), "late": "emit"},
    ),
    "lateness": Picture(
        ("10:10 AA", "11:05 AA", "11:06 AA", "10:50 AA", "11:20 AA", "11:21 AA", "10:55 AA"),
        Tumbling("1 hour"),
        delay="0 minutes",
        options={"allowed_lateness": "15 minutes", "on_time": True, "late": "emit"},
    ),
    "clocks": Picture(
        ("10:05 AA", "10:15 UA", "10:35 UA", "11:30 AA", "11:50 AA"),
        Tumbling("1 hour"),
        options={"clock": PerKey(), "early": Early(every="10 minutes")},
    ),
    "sliding": Picture(("10:05 AA", "10:25 AA", "10:50 AA", "12:00 AA"), Sliding("1 hour", "20 minutes")),
    "sessions": Picture(
        ("10:00 AA", "10:15 AA", "11:10 AA", "10:05 UA", "10:50 UA", "12:30 AA"), Session("30 minutes")
    ),
}


def draw(spark: SparkSession, name: str, file: Path) -> None:
    """Runs the stream of a picture, and draws its firings."""
    picture = PICTURES[name]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as checkpoint:
        for row in picture.rows:
            due, carrier = row.split()
            one = spark.createDataFrame([(f"2013-01-01 {due}:00", carrier)], ["due", "carrier"])
            one.coalesce(1).write.mode("append").json(folder)
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(folder)
        panes = windowed(
            stream.withWatermark("due", picture.delay), picture.window, by="carrier", time="due", **picture.options
        ).agg(F.count("*").alias("n"))
        table = f"picture_{name}"
        writer = panes.writeStream.format("memory").queryName(table).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
        rows = spark.read.schema(SCHEMA).json(folder)
        still_open = read_panes(checkpoint, spark=spark)
        axes = plot.timeline(spark.table(table), by="carrier", value="n", time="due", rows=rows, open_panes=still_open)
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.savefig(file, format="svg", metadata={"Date": None})


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    options: dict[str, bool | float | int | str | None] = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = configure(SparkSession.builder.master("local[2]").config(map=options)).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for name in PICTURES:
        draw(spark, name, folder / f"{name}.svg")
        print(folder / f"{name}.svg")
    spark.stop()


if __name__ == "__main__":
    main()
