package org.apache.spark.sql.mullion.monitor

import dev.mullion.windows.clock.Lateness

/** The reports of an operator during one run: totals, the last report, and the last [[OperatorHistory.Length]] batches.
  * Its size does not depend on the number of batches.
  */
final class OperatorHistory(val description: OperatorDescription) {
  import OperatorHistory._

  private val totals = Array.ofDim[Long](Count.all.length)
  private val lateness = Array.ofDim[Long](Lateness.Buckets)
  private val columns = Array.ofDim[Long](Columns.length, Length)
  private var rows = 0L
  private var count = 0L
  private var lastReport = Option.empty[BatchReport]

  val watched = new WatchedKeys

  /** Adds the report of a batch. Returns false if the batch has been reported before: Spark may ask again. */
  def add(report: BatchReport): Boolean = synchronized {
    val isNew = lastReport.forall(_.batch < report.batch)
    if (isNew) {
      Count.all.zipWithIndex.foreach { case (of, i) => totals(i) += report.count(of) }
      report.lateness.zipWithIndex.foreach { case (late, i) => lateness(i) += late }
      rows += report.rowsRead
      watched.add(report.closed)
      Columns.zipWithIndex.foreach { case ((_, value), i) => columns(i)((count % Length).toInt) = value(report) }
      count += 1
      lastReport = Some(report)
    }
    isNew
  }

  def last: Option[BatchReport] = synchronized(lastReport)

  /** The number of reported batches. */
  def batches: Long = synchronized(count)

  /** The sum of a count over the run. */
  def total(of: Count): Long = synchronized(totals(Count.all.indexOf(of)))

  /** The late rows of the run in the buckets of `Lateness`. */
  def lateRows: Seq[Long] = synchronized(lateness.toSeq)

  /** The rows that the sources returned during the run. */
  def rowsRead: Long = synchronized(rows)

  /** The last batches by column, the oldest first. */
  def recent: Seq[(String, Seq[Long])] = synchronized {
    val from = Math.max(0L, count - Length)
    Columns.zipWithIndex.map { case ((name, _), i) =>
      name -> (from until count).map(batch => columns(i)((batch % Length).toInt))
    }
  }
}

object OperatorHistory {

  /** The number of batches whose counts are kept. */
  val Length = 100

  private val Columns: Seq[(String, BatchReport => Long)] = Seq(
    ("batch", _.batch),
    ("panesOpen", _.panesOpen),
    ("closed", _.count(Count.FiringsClose)),
    ("fired", report => Count.firingsOpen.map(report.count).sum),
    ("late", _.count(Count.RowsLate))
  )
}
