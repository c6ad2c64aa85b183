package org.apache.spark.sql.mullion.query.note

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** The watermarks of a query's streams after each batch, in its checkpoint: Spark stores only the query's watermark.
  *
  * {{{
  *   mullion-watermarks/7     after batch 7     1704103380000 0 0:at FileStreamSource[a]     the watermark, the delay,
  *                                              - 0 1:at FileStreamSource[b]                 the stream, its sources
  * }}}
  *
  * A batch is recorded before its commit, and only if it moved a watermark. A query that continues with batch N uses
  * the last record before N, so the record of an attempt that was not committed has no effect.
  */
private[mullion] final class WatermarkLog(files: CheckpointFileManager, home: Path) {
  import WatermarkLog._

  private val folder = new Path(home, "mullion-watermarks")

  private def path(batch: Long): Path = new Path(folder, batch.toString)

  // Listed once: each listing is a request to an object store.
  private lazy val batches: mutable.SortedSet[Long] = {
    val names = if (files.exists(folder)) files.list(folder).toSeq.map(_.getPath.getName) else Nil
    mutable.SortedSet.from(names.filter(name => name.nonEmpty && name.forall(_.isDigit)).map(_.toLong))
  }

  /** The watermarks before a batch; none if there is no record. */
  def before(batch: Long): Option[Seq[StreamWatermark]] = batches.maxBefore(batch).map(read)

  private def read(batch: Long): Seq[StreamWatermark] =
    new String(CheckpointFiles.read(files, path(batch)), UTF_8).linesIterator.toSeq match {
      case Format +: lines =>
        lines.map {
          case Line(ms, delay, stream, sources) =>
            StreamWatermark(stream, sources, delay.toLong, Option.when(ms != "-")(ms.toLong))
          case _ => throw CheckpointFiles.damagedNote(path(batch))
        }
      case _ => throw CheckpointFiles.damagedNote(path(batch))
    }

  /** Records the watermarks after a batch. Deletes the records that no batch from `oldest` on needs. */
  def write(batch: Long, streams: Seq[StreamWatermark], oldest: Long): Unit = {
    CheckpointFiles.write(files, path(batch), (Format +: streams.map(_.line)).mkString("", "\n", "\n").getBytes(UTF_8))
    batches += batch
    batches.maxBefore(oldest).foreach(kept => delete(batches.rangeUntil(kept)))
  }

  /** Deletes the records of later batches than `batch`. */
  def forgetAfter(batch: Long): Unit = delete(batches.rangeFrom(batch + 1))

  private def delete(of: collection.Set[Long]): Unit = of.toSeq.foreach { batch =>
    files.delete(path(batch))
    batches -= batch
  }

  /** Copies the watermarks after `batch` to another checkpoint. */
  def copy(batch: Long, to: WatermarkLog): Unit = before(batch + 1).foreach(to.write(batch, _, oldest = batch))
}

private[mullion] object WatermarkLog {
  private val Format = "mullion watermarks 1"
  private val Line = """(-|-?\d{1,18}) (\d{1,18}) (\S+) (.+)""".r
}

/** The watermark of one stream.
  *
  * @param stream
  *   identifies it within the query, without spaces
  * @param sources
  *   its sources, as text
  * @param delayMs
  *   its delay
  * @param ms
  *   the largest event time of its rows so far, minus the delay; none before its first row
  */
private[mullion] final case class StreamWatermark(stream: String, sources: String, delayMs: Long, ms: Option[Long]) {
  private[query] def line: String = s"${ms.fold("-")(_.toString)} $delayMs $stream $sources"
}
