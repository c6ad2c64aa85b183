package org.apache.spark.sql.mullion.checkpoint.savepoint

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import scala.annotation.tailrec

import org.apache.hadoop.fs.{FileSystem, FileUtil, Path}
import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.query.TableNote
import org.apache.spark.sql.mullion.query.note.{CheckpointFiles, ClockNote, FirstReading, WatermarkLog}

import dev.mullion.MullionException

/** The parts of a savepoint other than state: the logs of sources, and Spark's logs of the last two batches.
  *
  * @param last
  *   the last batch of the savepoint
  */
private[checkpoint] final class SavepointLogs(spark: SparkSession, checkpoint: String, last: Long) {
  private val hadoopConf = spark.sessionState.newHadoopConf()
  private val home = new Path(checkpoint)
  private val from = CheckpointFileManager.create(home, hadoopConf)

  /** The settings of the query, as of the last batch, from Spark's log. */
  lazy val settings: Seq[(String, String)] = for {
    JObject(noted) <- Seq(metadata \ "conf")
    (key, JString(value)) <- noted
  } yield key -> value

  /** The watermark of the last batch, in microseconds. */
  def watermark: Long = metadata \ "batchWatermarkMs" match {
    case JInt(ms) => ms.toLong * 1000L
    case _        => 0L
  }

  /** Writes all of it.
    *
    * @param to
    *   the savepoint
    * @param ids
    *   of the versions of state, by operator and partition, if they have ids
    */
  def write(to: Path, partitions: Int, ids: Option[Seq[(Long, Seq[Option[String]])]]): Unit = {
    copySources(to)
    val files = CheckpointFileManager.create(to, hadoopConf)
    def put(name: String, lines: Seq[String]): Unit =
      CheckpointFiles.write(files, new Path(to, name), lines.mkString("\n").getBytes(UTF_8))
    // Spark reads the last two.
    Seq(last - 1, last).filter(_ >= 0).foreach(batch => put(s"offsets/$batch", offsets(batch, partitions)))
    ClockNote.read(from, home).foreach(_.write(files, to))
    TableNote.copy(from, home, files, to)
    FirstReading.copy(from, home, files, to)
    new WatermarkLog(from, home).copy(last, new WatermarkLog(files, to))
    put(s"commits/$last", commit(ids))
    put("metadata", Seq(text(JObject("id" -> JString(UUID.randomUUID().toString)))))
  }

  /** Copies the logs of sources. A running query may extend and compact them meanwhile; then all are copied again.
    * Entries of later batches are harmless: a source finds them and continues from there.
    */
  @tailrec
  private def copySources(to: Path, attempts: Int = 5): Unit = {
    val sources = new Path(home, "sources")
    val copied =
      if (!from.exists(sources)) true
      else
        try {
          val (fs, other) = (home.getFileSystem(hadoopConf), to.getFileSystem(hadoopConf))
          val copy = new Path(to, "sources")
          if (other.exists(copy)) other.delete(copy, true)
          copyAll(fs, sources, other, copy)
          true
        } catch { case _: FileNotFoundException if attempts > 1 => false }
    if (!copied) copySources(to, attempts - 1)
  }

  private def copyAll(fs: FileSystem, folder: Path, other: FileSystem, into: Path): Unit = {
    other.mkdirs(into)
    fs.listStatus(folder).filterNot(_.getPath.getName.startsWith(".")).foreach { found =>
      val copy = new Path(into, found.getPath.getName)
      if (found.isDirectory) copyAll(fs, found.getPath, other, copy)
      else FileUtil.copy(fs, found.getPath, other, copy, false, true, hadoopConf)
    }
  }

  private def lines(log: String, batch: Long): Seq[String] = {
    val path = new Path(new Path(home, log), batch.toString)
    if (!from.exists(path))
      throw MullionException.stateLost(
        s"The file $path is missing, and the state returns to that batch. Stop the query, call " +
          s"recover(\"$checkpoint\"), and write the savepoint then."
      )
    new String(CheckpointFiles.read(from, path), UTF_8).linesIterator.toSeq
  }

  private lazy val metadata: JValue = JsonMethods.parse(lines("offsets", last)(1))

  private def offsets(batch: Long, partitions: Int): Seq[String] = {
    val noted = lines("offsets", if (from.exists(new Path(home, s"offsets/$batch"))) batch else last)
    val changed = JsonMethods.parse(noted(1)).transformField { case ("conf", JObject(conf)) =>
      val remaining = conf.filterNot(_._1 == SQLConf.SHUFFLE_PARTITIONS.key)
      "conf" -> JObject((SQLConf.SHUFFLE_PARTITIONS.key -> JString(partitions.toString)) :: remaining)
    }
    noted.updated(1, text(changed))
  }

  private def commit(ids: Option[Seq[(Long, Seq[Option[String]])]]): Seq[String] = {
    val noted = JsonMethods.parse(lines("commits", last)(1)).removeField(_._1 == "stateUniqueIds")
    ids match {
      case None            => Seq("v1", text(noted))
      case Some(operators) =>
        val of = operators.map { case (operator, partitions) =>
          operator.toString -> JArray(partitions.map(id => JArray(List(JString(id.getOrElse(""))))).toList)
        }
        Seq("v2", text(noted.merge(JObject("stateUniqueIds" -> JObject(of.toList)): JValue)))
    }
  }

  private def text(json: JValue): String = JsonMethods.compact(JsonMethods.render(json))
}
