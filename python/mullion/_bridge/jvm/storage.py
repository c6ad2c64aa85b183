"""Folders and tables in the JVM: topics in folders, upserted tables."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from mullion._bridge.jvm.entry import facade
from mullion._bridge.jvm.objects import dataframe_of, internal


def topic_path(spark: SparkSession, folder: str) -> str:
    """The path under which a session reads the folder of a ``dir:`` topic."""
    return str(facade(spark).topicPath(internal(spark, "_jsparkSession"), folder))


def upsert_jdbc(rows: DataFrame, keys: DataFrame, options: Mapping[str, str]) -> None:
    """Replaces the rows of a database table with the keys ``keys``."""
    facade(rows.sparkSession).upsertJdbc(internal(rows, "_jdf"), internal(keys, "_jdf"), dict(options))


def read_jdbc(spark: SparkSession, options: Mapping[str, str]) -> DataFrame | None:
    """The rows of a database table; ``None`` if it does not exist."""
    rows = facade(spark).readJdbc(internal(spark, "_jsparkSession"), dict(options))
    return None if rows is None else dataframe_of(rows, spark)


def table_note(spark: SparkSession, query: str) -> str:
    """The note of a running query, by its id, about the table that it maintains; empty if there is none."""
    return str(facade(spark).tableNote(internal(spark, "_jsparkSession"), query))


def note_table(spark: SparkSession, query: str, text: str) -> None:
    """Records in a running query's checkpoint which table it maintains."""
    facade(spark).noteTable(internal(spark, "_jsparkSession"), query, text)


def newest_version(spark: SparkSession, table: str) -> int:
    """The newest version of a table that is rewritten each time; -1 if there is none."""
    return int(facade(spark).newestVersion(internal(spark, "_jsparkSession"), table))


def version_folder(spark: SparkSession, version: int) -> str:
    """The name of a version's folder."""
    return str(facade(spark).versionFolder(version))


def remove_versions_before(spark: SparkSession, table: str, version: int) -> None:
    """Removes the folders of older versions."""
    facade(spark).removeVersionsBefore(internal(spark, "_jsparkSession"), table, version)
