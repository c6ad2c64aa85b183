"""Kafka Streams from Kafka to Kafka: ``kafka_streams.py SYSTEM SETTINGS``. Runs ``KafkaStreamsPanes.java``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def main(settings: dict[str, str]) -> None:
    jars = sorted((ROOT / ".build" / "kafka-streams").glob("*.jar"))
    if not jars:
        raise SystemExit("The JARs of Kafka Streams are not there. Get them: make bench-kafka")
    classes = Path(settings["home"], "classes")
    path = os.pathsep.join(map(str, [classes, *jars]))
    source = Path(__file__).with_name("KafkaStreamsPanes.java")
    subprocess.run(["javac", "-cp", path, "-d", str(classes), str(source)], check=True)
    process = subprocess.Popen(
        [
            "java",
            "-Xmx2g",
            "-cp",
            path,
            "KafkaStreamsPanes",
            *(settings[each] for each in ("servers", "source", "target", "home")),
        ]
    )
    sys.stdin.read()
    process.terminate()
    process.wait()


if __name__ == "__main__":
    main(json.loads(sys.argv[2]))
