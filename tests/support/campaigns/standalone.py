"""A standalone cluster of Spark on this machine: a master and workers in processes that tests can kill."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import pyspark

from tests.support.kafka.kafka_server import free_ports

SPARK = Path(pyspark.__file__).parent


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    executable = str(Path(home, "bin", "java")) if home else shutil.which("java")
    assert executable is not None
    return executable


def wait_until(condition: str, true: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {condition}"
        time.sleep(0.05)


class Standalone:
    """A master and workers with one core each. Their executors end with them.

    Spark places workers with different host names on different machines.
    """

    def __init__(self, home: Path, workers: int = 2, hosts: tuple[str, ...] = ("localhost",)) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        port, self._page = free_ports()
        self.url = f"spark://localhost:{port}"
        self._master = self._start(
            "master", "master.Master", "--host", "localhost", "--port", str(port), "--webui-port", str(self._page)
        )
        wait_until("the master listens", lambda: self._alive_workers() is not None)
        self._workers: list[subprocess.Popen[bytes]] = []
        for number in range(workers):
            self.add_worker(hosts[number % len(hosts)])

    def add_worker(self, host: str = "localhost") -> None:
        before = self._alive_workers() or 0
        name = f"worker-{len(self._workers)}"
        self._workers.append(
            self._start(
                name,
                "worker.Worker",
                *(
                    "--host",
                    host,
                    "--cores",
                    "1",
                    "--memory",
                    "1g",
                    "--webui-port",
                    "0",
                    "--work-dir",
                    str(self.home / name),
                    self.url,
                ),
            )
        )
        wait_until("the worker is registered", lambda: (self._alive_workers() or 0) > before)

    def kill_worker(self, number: int) -> None:
        """Kills a worker and its executors, like a lost machine."""
        executors = self.executors(number)
        for process in (self._workers[number].pid, *executors):
            os.kill(process, signal.SIGKILL)
        self._workers[number].wait()

    def kill_executor(self, number: int) -> None:
        """Kills the executors of a worker, which starts new ones."""
        executors = self.executors(number)
        assert executors, f"worker {number} has no executor"
        for process in executors:
            os.kill(process, signal.SIGKILL)

    def executors(self, number: int) -> list[int]:
        """The processes of a worker's executors."""
        return [process for process, parent in processes() if parent == self._workers[number].pid]

    def stop(self) -> None:
        for process in (*self._workers, self._master):
            children = [child for child, parent in processes() if parent == process.pid]
            process.kill()
            process.wait()
            for child in children:
                # It may have ended with its worker.
                subprocess.run(["kill", "-9", str(child)], stderr=subprocess.DEVNULL, check=False)

    def logs(self) -> str:
        """The ends of the cluster's logs, for the message of a failed test."""
        files = [*self.home.glob("*.log"), *self.home.glob("worker-*/*/*/stderr")]
        return "\n".join(f"== {file}\n{file.read_text(errors='replace')[-2000:]}" for file in files)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            print(self.logs(), file=sys.stderr)
        self.stop()

    def _alive_workers(self) -> int | None:
        try:
            with urllib.request.urlopen(f"http://localhost:{self._page}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except OSError:
            return None

    def _start(self, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            **{"SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(self.home / "local")},
            # Workers search for it in folders that a Spark from PyPI does not have.
            "SPARK_SCALA_VERSION": "2.13",
        }
        options = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", str(SPARK / "jars" / "*")]
        log: IO[bytes]
        with (self.home / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [java(), *options, f"org.apache.spark.deploy.{main}", *arguments],
                env=environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )


def processes() -> Iterator[tuple[int, int]]:
    """The processes of this machine, and their parents."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            # The name of a process, in brackets, may contain any character.
            yield int(folder.name), int(stat.rpartition(")")[2].split()[1])
