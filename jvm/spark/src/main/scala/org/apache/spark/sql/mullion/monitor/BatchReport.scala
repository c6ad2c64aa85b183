package org.apache.spark.sql.mullion.monitor

import dev.mullion.windows.sets.EndCounts

/** The report of an operator after a batch. Times are milliseconds since the epoch; counts are those of the batch.
  *
  * @param timeMs
  *   the time of the report, by the query's clock
  * @param clock
  *   the operator's clock after the batch
  * @param nextDueMs
  *   the earliest time at which the clock makes a pane fire or close, if one waits
  * @param rowsRead
  *   the rows that the sources returned
  * @param counts
  *   the operator's counts
  * @param lateness
  *   the late rows in the buckets of `Lateness`
  * @param partitions
  *   the state of each partition
  * @param ends
  *   the open panes of each partition by the end of their windows (`EndCounts.toBytes`), if they are tracked
  * @param closed
  *   the panes of watched keys that have closed
  */
final case class BatchReport(
    batch: Long,
    timeMs: Long,
    clock: ClockReading,
    nextDueMs: Option[Long],
    rowsRead: Long,
    counts: Map[Count, Long],
    panesOpen: Long,
    lateness: Seq[Long],
    state: StateSize,
    partitions: Seq[PartitionSize],
    ends: Seq[Array[Byte]] = Nil,
    closed: Seq[ClosedPane] = Nil
) {
  def count(of: Count): Long = counts.getOrElse(of, 0L)

  /** The open panes by the end of their windows, in microseconds. */
  def openEnds: EndCounts = ends.map(EndCounts.fromBytes).foldLeft(new EndCounts)(_.merge(_))
}

/** The reading of an operator's clock.
  *
  * @param atMs
  *   none for clocks of keys, and before the first row
  * @param streams
  *   the watermarks of the query's streams
  * @param heldBy
  *   the stream that holds the clock back, as text
  */
final case class ClockReading(atMs: Option[Long], streams: Seq[StreamReading], heldBy: Option[String])

/** The watermark of a stream, none before its first row.
  *
  * @param delayMs
  *   the delay of its watermark behind its largest time
  * @param isIdle
  *   whether it does not hold the clock back, because it had no rows for long enough
  */
final case class StreamReading(name: String, delayMs: Long, watermarkMs: Option[Long], isIdle: Boolean = false)

/** The state of an operator.
  *
  * @param bytes
  *   its memory in Spark's metrics
  * @param cachedBytes
  *   the memory of records that are cached next to RocksDB
  * @param diskBytes
  *   the size of RocksDB's files
  */
final case class StateSize(records: Long, bytes: Long, cachedBytes: Long, diskBytes: Long)

final case class PartitionSize(partition: Int, cachedBytes: Long, diskBytes: Long)

/** A count of a batch that an operator reports, under the name of its metric. */
sealed abstract class Count(val name: String) extends Product with Serializable

object Count {
  case object FiringsEarly extends Count("firingsEarly")
  case object FiringsOnTime extends Count("firingsOnTime")
  case object FiringsUpdate extends Count("firingsUpdate")
  case object FiringsRunning extends Count("firingsRunning")
  case object FiringsClose extends Count("firingsClose")
  case object RowsLate extends Count("rowsLate")

  /** Late rows without any output. */
  case object RowsDropped extends Count("rowsDropped")
  case object RowsWithoutTime extends Count("rowsWithoutTime")

  /** Rows whose time was further ahead of the wall clock than permitted. */
  case object RowsTooFarAhead extends Count("rowsAhead")
  case object RowsInNoWindow extends Count("rowsInNoWindow")

  /** Rows that operators of Spark before the window dropped by the watermark. */
  case object RowsDroppedBefore extends Count("rowsDroppedBefore")
  case object PanesMissed extends Count("panesMissed")

  /** The time of the operator's tasks, in milliseconds. */
  case object OperatorTimeMs extends Count("operatorTimeMs")

  val all: Seq[Count] = Seq(
    FiringsEarly,
    FiringsOnTime,
    FiringsUpdate,
    FiringsRunning,
    FiringsClose,
    RowsLate,
    RowsDropped,
    RowsWithoutTime,
    RowsTooFarAhead,
    RowsInNoWindow,
    RowsDroppedBefore,
    PanesMissed,
    OperatorTimeMs
  )

  /** The firings of panes that stay open. */
  val firingsOpen: Seq[Count] = Seq(FiringsEarly, FiringsOnTime, FiringsUpdate, FiringsRunning)
}
