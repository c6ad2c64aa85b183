"""Folders and tables, read and written in the JVM: topics in folders, tables that are upserted."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from mullion._jvm.entry import facade
from mullion._jvm.objects import dataframe_of, internal


def topic_path(spark: SparkSession, folder: str) -> str:
    """How a session reads the folder of a ``dir:`` topic."""
    return str(facade(spark).topicPath(internal(spark, "_jsparkSession"), folder))


def upsert_jdbc(rows: DataFrame, keys: DataFrame, options: Mapping[str, str]) -> None:
    """Puts rows into a table of a database in place of those of ``keys``."""
    facade(rows.sparkSession).upsertJdbc(internal(rows, "_jdf"), internal(keys, "_jdf"), dict(options))


def read_jdbc(spark: SparkSession, options: Mapping[str, str]) -> DataFrame | None:
    """What a table of a database holds; ``None`` where there is none."""
    found = facade(spark).readJdbc(internal(spark, "_jsparkSession"), dict(options))
    return None if found is None else dataframe_of(found, spark)


def table_note(spark: SparkSession, query: str) -> str:
    """What a running query, by its id, has noted of the table that it keeps; empty if nothing."""
    return str(facade(spark).tableNote(internal(spark, "_jsparkSession"), query))


def note_table(spark: SparkSession, query: str, text: str) -> None:
    """Notes in a running query's checkpoint which table it keeps."""
    facade(spark).noteTable(internal(spark, "_jsparkSession"), query, text)


def newest_version(spark: SparkSession, table: str) -> int:
    """The newest version of a table that is written whole each time; -1 if there is none."""
    return int(facade(spark).newestVersion(internal(spark, "_jsparkSession"), table))


def version_folder(spark: SparkSession, version: int) -> str:
    """What the folder of a version is called."""
    return str(facade(spark).versionFolder(version))


def remove_versions_before(spark: SparkSession, table: str, version: int) -> None:
    """Removes the folders of older versions."""
    facade(spark).removeVersionsBefore(internal(spark, "_jsparkSession"), table, version)
