"""The forms of ordinary rows: the keys, the columns and the files that a workload's rows are written as.

Each form has the same rows of ``ts``, ``k`` and ``v``, so that only the form differs between workloads.
"""

from __future__ import annotations

from dataclasses import dataclass

# The fields of rows in JSON.
FIELDS = "ts timestamp, k string, v bigint"


@dataclass(frozen=True, slots=True)
class Form:
    """A form of rows.

    - ``columns``: the schema of the files.
    - ``keys``: the columns that windows are grouped by, once ``value`` is parsed.
    - ``format``: of the files.
    - ``where``: a condition on the rows before the window, true for half of them.
    - ``is_parsed``: True if the file has one column ``value`` with JSON, like a Kafka topic.
    """

    columns: str
    keys: tuple[str, ...] = ("k",)
    format: str = "parquet"
    where: str = ""
    is_parsed: bool = False


FORMS = {
    "published": Form("ts timestamp, k bigint, v bigint"),
    "filter": Form("ts timestamp, k bigint, v bigint", where="v < 500"),
    "uuid": Form("ts timestamp, k string, v bigint"),
    "user": Form("ts timestamp, k string, v bigint"),
    "device": Form("ts timestamp, k string, country string, v bigint", keys=("k", "country")),
    "json": Form(FIELDS, format="json"),
    "value": Form("value string", is_parsed=True),
    "measures": Form("ts timestamp, k bigint, v bigint, d double, name string"),
}
