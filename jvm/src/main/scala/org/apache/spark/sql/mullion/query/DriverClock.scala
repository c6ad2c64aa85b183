package org.apache.spark.sql.mullion.query

import java.util.{UUID, WeakHashMap}

import scala.collection.mutable

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, OffsetSeqLog}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.mullion.shim.SparkLineShim

import dev.mullion.windows.clock.{BatchClock, IdleClock}
import dev.mullion.windows.spec.TimeMath

/** What the driver remembers of time for one operator of a running query, from batch to batch: Spark makes an operator
  * anew for each.
  */
private[mullion] final class DriverClock private (
    latestBefore: Long => Long,
    recovered: () => Option[WatermarkNote],
    notes: DriverClock.Notes
) {
  private var batch = -1L
  private var before = BatchClock.BeforeAllTime
  private var now = BatchClock.BeforeAllTime
  private var idle = Option.empty[IdleClock]
  private var putFrom = Option.empty[Long]
  // Read once: only the first batch of a run may be one that a recovery left.
  private lazy val recovery = recovered()
  // Written while the machine's clock is behind, by this run or an earlier one.
  private lazy val notedBefore = notes.read()
  private var notedNow = Option.empty[ClockNote]

  /** Processing time before a batch and in it, in microseconds. It never goes back, even if the machine's clock does:
    * else a pane that has closed would get rows again. Where it stands then is in the checkpoint before a batch has it
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

  /** Processing time before a batch by the note. One of a later batch is of a life that a recovery gave up. */
  private def noted(batch: Long): Long =
    notedNow.orElse(notedBefore).filter(_.batch <= batch).fold(BatchClock.BeforeAllTime)(_.timeUs)

  /** Where a recovery has the watermark after a batch, if it has. */
  def noteOf(batch: Long): Option[WatermarkNote] = synchronized(recovery).filter(_.batch == batch)

  /** Rows came: the stream is not idle. */
  def rowsCame(): Unit = synchronized {
    idle = None
    putFrom = None
  }

  /** The event clock has been put forward from `watermarkMs`. */
  def put(watermarkMs: Long): Unit = synchronized { putFrom = Some(watermarkMs) }

  /** True if it stands where it was put forward from: another stream of the query holds it, whose watermark is behind
    * and not idle, and more batches would not move it.
    */
  def isHeld(watermarkMs: Long): Boolean = synchronized(putFrom.exists(watermarkMs <= _))

  /** Where the event clock may be put at `nowMs`, if the source has been seen to be empty for so long: in milliseconds,
    * and `watermarkMs` itself if not.
    *
    * @param idleAfterMs
    *   how long it must have been
    * @param askedMs
    *   when the source was asked: later than `nowMs` in a batch that an earlier run of the query had planned
    */
  def whenIdle(nowMs: Long, watermarkMs: Long, idleAfterMs: Long, askedMs: Long): Long = synchronized {
    val since = idle.getOrElse(IdleClock(Math.max(nowMs, askedMs), watermarkMs))
    idle = Some(since)
    since.at(nowMs, watermarkMs, idleAfterMs)
  }
}

private[mullion] object DriverClock {
  // Forgotten with the query, so nothing in here may hold on to it.
  private val ofQueries = new WeakHashMap[StreamExecution, mutable.Map[Long, DriverClock]]()

  /** The clock of an operator of the query that has this run; of its own where none runs, as in `explain`. */
  def apply(session: SparkSession, runId: UUID, operator: Long): DriverClock = ofQueries.synchronized {
    RunningQuery.find(session, runId) match {
      case Some(query) =>
        val home = new Path(query.resolvedCheckpointRoot)
        lazy val files = CheckpointFileManager.create(home, session.sessionState.newHadoopConf())
        val notes = new Notes {
          def read(): Option[ClockNote] = ClockNote.read(files, home)
          def write(note: ClockNote): Unit = note.write(files, home)
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

  /** A checkpoint's note of processing time. */
  private trait Notes {
    def read(): Option[ClockNote]
    def write(note: ClockNote): Unit
  }

  private object NoNotes extends Notes {
    def read(): Option[ClockNote] = None
    def write(note: ClockNote): Unit = ()
  }

  /** The latest processing time of the batches before one, as far as the checkpoint still lists them. */
  private def latest(offsets: OffsetSeqLog)(batch: Long): Long = {
    // Each by itself: a range of the log is refused if its first is not there any more.
    val listed = (Math.max(0, batch - read) until batch).flatMap(offsets.get(_))
    val times = listed.flatMap(SparkLineShim.batchTimestampMs(_)).map(TimeMath.fromMillis(_))
    times.maxOption.getOrElse(BatchClock.BeforeAllTime)
  }

  // Each is a small file, read once when a query starts.
  private val read = 20L
}
