package org.apache.spark.sql.mullion.query

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.mullion.query.note.CheckpointFiles

/** The table that a query maintains, recorded in the query's checkpoint once the table exists, so that a dropped table
  * can be detected. Python writes and reads it.
  */
object TableNote {
  private val format = "mullion table 1"

  private def path(home: Path): Path = new Path(home, "mullion-table")

  /** The note of a running query, or an empty text. */
  def read(session: SparkSession, query: String): String = at(session, query).fold("") { case (files, home) =>
    read(files, home).getOrElse("")
  }

  def write(session: SparkSession, query: String, text: String): Unit = at(session, query).foreach {
    case (files, home) => write(files, home, text)
  }

  /** Copies the note of one checkpoint to another. */
  def copy(files: CheckpointFileManager, home: Path, others: CheckpointFileManager, to: Path): Unit =
    read(files, home).foreach(write(others, to, _))

  private def read(files: CheckpointFileManager, home: Path): Option[String] =
    Option.when(files.exists(path(home)))(CheckpointFiles.read(files, path(home))).map { bytes =>
      new String(bytes, UTF_8).split("\n", 2) match {
        case Array(`format`, text) => text
        case _                     => throw CheckpointFiles.damagedNote(path(home))
      }
    }

  private def write(files: CheckpointFileManager, home: Path, text: String): Unit =
    CheckpointFiles.write(files, path(home), s"$format\n$text".getBytes(UTF_8))

  private def at(session: SparkSession, query: String): Option[(CheckpointFileManager, Path)] =
    Option(RunningQuery.checkpointOf(session, query)).filter(_.nonEmpty).map { checkpoint =>
      val home = new Path(new java.net.URI(checkpoint))
      CheckpointFileManager.create(home, session.sessionState.newHadoopConf()) -> home
    }
}
