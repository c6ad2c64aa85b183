"""The tab Windows in a browser, and the metrics in Prometheus, of a query whose source is idle.

The tests need Debian's packages chromium and prometheus.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
OPERATIONS = ROOT / "docs" / "operations"

QUERY = """
import sys, tempfile
from pyspark.sql import SparkSession, functions as F
from mullion import Tumbling, configure, windowed

name = sys.argv[1]
builder = SparkSession.builder.master("local[1]").appName("shop").config("spark.log.level", "OFF")
servlet = "spark.metrics.conf.*.sink.prometheusServlet."
options = {
    "spark.ui.port": "0",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.metrics.namespace": "spark",
    servlet + "class": "org.apache.spark.metrics.sink.PrometheusServlet",
    servlet + "path": "/metrics/prometheus",
}
spark = configure(builder.config(map=options)).getOrCreate()
folder = tempfile.mkdtemp()


def write(*times):
    rows = spark.createDataFrame([(f"2024-01-01 {time}:00", key) for time, key in times], "at string, k string")
    rows.coalesce(1).write.mode("append").json(folder)


write(("10:05", "ann"), ("11:10", "ann"), ("11:20", name))
orders = spark.readStream.schema("at timestamp, k string").json(folder).withWatermark("at", "5 minutes")
panes = windowed(orders, Tumbling("1 hour"), by="k", time="at").agg(F.count("*").alias("n"))
query = panes.writeStream.format("noop").queryName(name).start()
query.processAllAvailable()
write(("10:40", "ann"), ("11:15", name))
query.processAllAvailable()
print(spark.sparkContext.uiWebUrl, flush=True)
for line in sys.stdin:
    write((line.strip(), "bob"))
    query.processAllAvailable()
    print("done", flush=True)
query.stop()
spark.stop()
"""

MARKUP = "<script>document.title = 'changed'</script>"


def program(package: str, name: str) -> str:
    """The path of a program of a Debian package."""
    path = shutil.which(name)
    assert path, f"{name} is missing: apt-get install {package}"
    return path


@contextmanager
def running(name: str, folder: Path) -> Iterator[tuple[str, Callable[[str], None]]]:
    """A query with an idle source: the address of its web UI, and a function that gives its source a row."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(
        [sys.executable, "-c", QUERY, name],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        to_query, from_query = process.stdin, process.stdout

        def give(time: str) -> None:
            print(time, file=to_query, flush=True)
            assert from_query.readline() == "done\n"

        try:
            yield from_query.readline().strip(), give
        finally:
            to_query.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(MARKUP, tmp_path_factory.mktemp("page")) as (url, _):
        yield url


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running("orders", tmp_path_factory.mktemp("orders")) as (url, _):
        yield url


def get(url: str) -> str:
    with urllib.request.urlopen(url) as response:
        text: str = response.read().decode()
        return text


def in_browser(url: str, *options: str) -> str:
    """The document of a page, after its scripts have run."""
    command = [
        program("chromium", "chromium"),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=4000",
    ]
    shown = subprocess.run([*command, *options, "--dump-dom", url], capture_output=True, text=True, check=True)
    return shown.stdout


@pytest.mark.slow
def test_the_tab_shows_the_source_that_a_window_waits_for(page: str) -> None:
    document = in_browser(f"{page}/windows/")
    for text in (
        "waits for 45 minutes of event time",
        "no row after 2024-01-01T11:20:00Z",
        "tumbling 1 hour, closes at its end",
        "open panes by the end of their windows, 1 second for each bar",
        "windows that end from 2024-01-01T12:00:00Z to 2024-01-01T12:00:01Z: 2 open panes",
        "A watermark delay of 1 hour 5 minutes instead of 5 minutes would have kept",
        "Structured Streaming",
    ):
        assert text in document


@pytest.mark.slow
def test_the_tab_lists_the_largest_keys_and_draws_the_panes_of_one(page: str) -> None:
    run = json.loads(get(f"{page}/windows/json/"))["query"]["run"]
    largest = json.loads(get(f"{page}/windows/panes/?run={run}&operator=0"))["largest"]
    (key,) = (key["id"] for key in largest if key["key"] == json.dumps({"k": MARKUP}, separators=(",", ":")))
    document = in_browser(f"{page}/windows/?run={run}&operator=0&key={key}")
    for text in (
        "pane that is due first",
        "largest keys",
        '{"k":"ann"}',
        "Panes of the key",
        "2024-01-01T11:00:00Z to 2024-01-01T12:00:00Z, waits for 45 minutes of event time, 2 rows, fired 0 times",
        "red: the clock when the state was read, at 2024-01-01T11:15:00Z",
    ):
        assert text in document
    assert MARKUP not in document


@pytest.mark.slow
def test_the_tab_draws_the_panes_of_a_key_that_have_closed_since_the_page_was_opened(tmp_path: Path) -> None:
    with running("orders", tmp_path) as (url, give):
        run = json.loads(get(f"{url}/windows/json/"))["query"]["run"]
        largest = json.loads(get(f"{url}/windows/panes/?run={run}&operator=0"))["largest"]
        (key,) = (key["id"] for key in largest if key["key"] == '{"k":"ann"}')
        page = f"{url}/windows/?run={run}&operator=0&key={key}"
        assert "2024-01-01T11:00:00Z to 2024-01-01T12:00:00Z, waits for 45 minutes" in in_browser(page)
        give("13:00")
        document = in_browser(page)
        assert "2024-01-01T11:00:00Z to 2024-01-01T12:00:00Z, closed, fired 1 times" in document
        assert "waits for 45 minutes of event time" not in document


@pytest.mark.slow
def test_a_name_with_markup_is_shown_as_text(page: str) -> None:
    document = in_browser(f"{page}/windows/")
    assert MARKUP.replace("<", "&lt;").replace(">", "&gt;") in document
    assert MARKUP not in document
    assert "<title>shop - Windows</title>" in document


def documented_metrics() -> set[str]:
    """The metrics of docs/reference/metrics.md that a source has."""
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8").partition("## In Spark's metrics system")[2]
    listed = "\n".join(line for line in text.splitlines() if re.match(r"- \*\*| {2}", line))
    return {name for name in re.findall(r"`(\w+)`", listed) if name not in ("dropDuplicates", "watermarkLagMs1")}


@pytest.mark.slow
def test_each_metric_of_the_docs_is_in_the_servlet_and_the_dashboard_uses_no_other(orders: str) -> None:
    text = get(f"{orders}/metrics/prometheus/")
    served = set(re.findall(r"^metrics_spark_driver_mullion_orders_0_(\w+)_Value", text, re.MULTILINE))
    assert served == documented_metrics()
    for file in ("grafana.json", "alerts.yml"):
        used = set(re.findall(r"mullion_(\w+)", (OPERATIONS / file).read_text("utf-8")))
        assert used, file
        assert used <= served, file


@pytest.mark.slow
def test_each_alert_rule_is_raised_in_its_case_and_in_no_other() -> None:
    command = [program("prometheus", "promtool"), "test", "rules", "alerts_test.yml"]
    ran = subprocess.run(command, cwd=OPERATIONS, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def api(server: str, path: str, **parameters: str) -> Any:
    return json.loads(get(f"{server}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))["data"]


def listening(log: Iterable[str]) -> str:
    """The address of Prometheus, once it is ready."""
    address = ""
    for line in log:
        if match := re.search(r"Listening on.* address=(\S+)", line):
            address = match[1]
        if "Server is ready" in line:
            return address
    raise AssertionError("Prometheus has not started.")


@pytest.mark.slow
def test_prometheus_reads_the_metrics_by_query_and_evaluates_the_rules(orders: str, tmp_path: Path) -> None:
    settings = (
        (OPERATIONS / "prometheus.yml").read_text("utf-8").replace("localhost:4040", orders.removeprefix("http://"))
    )
    fast = "global: { scrape_interval: 1s, evaluation_interval: 1s }\n"
    (tmp_path / "prometheus.yml").write_text(fast + settings)
    shutil.copy(OPERATIONS / "alerts.yml", tmp_path)
    options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0"]
    with subprocess.Popen(
        [program("prometheus", "prometheus"), *options], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            address = listening(process.stderr)
            server = f"http://{address}"
            expected = {"panesOpen": "2", "firingsClose": "1", "rowsLateUnder1h": "1", "rowsRead": "5"}
            for name, value in expected.items():
                query = f'mullion_{name}{{query="orders", operator="0"}}'
                while not (result := api(server, "query", query=query)["result"]):
                    assert process.poll() is None
                assert result[0]["value"][1] == value, name
            rules = [rule for group in api(server, "rules")["groups"] for rule in group["rules"]]
            while any(rule["health"] == "unknown" for rule in rules):
                rules = [rule for group in api(server, "rules")["groups"] for rule in group["rules"]]
            assert [rule["health"] for rule in rules] == ["ok"] * 3, rules
        finally:
            process.terminate()
