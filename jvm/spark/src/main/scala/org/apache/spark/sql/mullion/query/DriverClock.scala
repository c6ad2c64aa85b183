package org.apache.spark.sql.mullion.query

import java.util.{UUID, WeakHashMap}

import scala.collection.mutable

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, OffsetSeqLog}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.mullion.query.note.{ClockNote, FirstReading, WatermarkNote}
import org.apache.spark.sql.mullion.shim.SparkVersionShim

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.spec.TimeMath

/** The clock state that the driver keeps between batches for one operator of a running query: Spark creates a new
  * operator for each batch.
  */
private[mullion] final class DriverClock private (
    latestBefore: Long => Long,
    recovered: () => Option[WatermarkNote],
    notes: DriverClock.Notes
) {
  private var batch = -1L
  private var before = BatchClock.BeforeAllTime
  private var now = BatchClock.BeforeAllTime
  // Read once: only the first batch of a run may follow a recovery.
  private lazy val recovery = recovered()
  // Written while the machine's clock is behind, by this run or an earlier one.
  private lazy val notedBefore = notes.read()
  private var notedNow = Option.empty[ClockNote]
  private lazy val firstBefore = notes.readFirst()
  private var firstNow = Option.empty[FirstReading]

  /** Processing time before a batch and in it, in microseconds. It never moves back, even if the machine's clock does:
    * otherwise a closed pane would get rows again. In that case the checkpoint contains it before a batch uses it
    * ([[ClockNote]]).
    *
    * @param timestampMs
    *   the batch's
    */
  def processingTime(batch: Long, timestampMs: Long): (Long, Long) = synchronized {
    if (batch != this.batch) {
      val machine = TimeMath.fromMillis(timestampMs)
      before = if (this.batch < 0) Math.max(latestBefore(batch), noted(batch)) else now
      if (machine < before && noted(batch) < before) {
        val note = ClockNote(batch, before)
        notes.write(note)
        notedNow = Some(note)
      }
      now = Math.max(before, machine)
      this.batch = batch
    }
    (before, now)
  }

  /** The recorded processing time before a batch. A note of a later batch was made obsolete by a recovery. */
  private def noted(batch: Long): Long =
    notedNow.orElse(notedBefore).filter(_.batch <= batch).fold(BatchClock.BeforeAllTime)(_.timeUs)

  /** The first reading of the operator's event clock, in microseconds: the end of time if there is none yet, before all
    * time if it is unknown, because panes did not fire early then.
    *
    * @param beforeMs
    *   the event clock of the previous batch
    * @param nowMs
    *   the event clock of this batch
    */
  def firstReading(batch: Long, beforeMs: Long, nowMs: Long): Long = synchronized {
    def noted = firstNow.orElse(firstBefore).filter(_.batch <= batch)
    if (nowMs <= 0) Long.MaxValue
    else {
      if (noted.isEmpty && beforeMs <= 0) {
        val first = FirstReading(batch, nowMs)
        notes.writeFirst(first)
        firstNow = Some(first)
      }
      noted.fold(BatchClock.BeforeAllTime)(first => TimeMath.fromMillis(first.ms))
    }
  }

  /** The watermark that a recovery recorded for the end of a batch, if any. */
  def noteOf(batch: Long): Option[WatermarkNote] = synchronized(recovery).filter(_.batch == batch)
}

private[mullion] object DriverClock {
  // Entries are removed with their query, so they must not reference it.
  private val ofQueries = new WeakHashMap[StreamExecution, mutable.Map[Long, DriverClock]]()

  /** The clock of an operator of the query with this run; a new one outside of a query, as in `explain`. */
  def apply(session: SparkSession, runId: UUID, operator: Long): DriverClock = ofQueries.synchronized {
    RunningQuery.find(session, runId) match {
      case Some(query) =>
        val home = new Path(query.resolvedCheckpointRoot)
        lazy val files = CheckpointFileManager.create(home, session.sessionState.newHadoopConf())
        val notes = new Notes {
          def read(): Option[ClockNote] = ClockNote.read(files, home)
          def write(note: ClockNote): Unit = note.write(files, home)
          def readFirst(): Option[FirstReading] = FirstReading.read(files, home, operator)
          def writeFirst(first: FirstReading): Unit = FirstReading.write(files, home, operator, first)
        }
        ofQueries
          .computeIfAbsent(query, _ => mutable.Map.empty[Long, DriverClock])
          .getOrElseUpdate(
            operator,
            new DriverClock(latest(query.offsetLog), () => WatermarkNote.read(files, home), notes)
          )
      case None => new DriverClock(_ => BatchClock.BeforeAllTime, () => None, NoNotes)
    }
  }

  /** A checkpoint's records of processing time, and of the first reading of the operator's event clock. */
  private trait Notes {
    def read(): Option[ClockNote]
    def write(note: ClockNote): Unit
    def readFirst(): Option[FirstReading]
    def writeFirst(first: FirstReading): Unit
  }

  private object NoNotes extends Notes {
    def read(): Option[ClockNote] = None
    def write(note: ClockNote): Unit = ()
    def readFirst(): Option[FirstReading] = None
    def writeFirst(first: FirstReading): Unit = ()
  }

  /** The latest processing time of the batches before one, as far as the checkpoint still lists them. */
  private def latest(offsets: OffsetSeqLog)(batch: Long): Long = {
    // One by one: a range of the log fails if its first entry is gone.
    val listed = (Math.max(0, batch - read) until batch).flatMap(offsets.get(_))
    val times = listed.flatMap(SparkVersionShim.batchTimestampMs(_)).map(TimeMath.fromMillis(_))
    times.maxOption.getOrElse(BatchClock.BeforeAllTime)
  }

  // Each is a small file, read once when a query starts.
  private val read = 20L
}
