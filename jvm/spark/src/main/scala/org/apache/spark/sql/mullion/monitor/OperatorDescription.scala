package org.apache.spark.sql.mullion.monitor

import dev.mullion.windows.spec.{Duration, Language, TimeMath}

/** An operator of a query during one run.
  *
  * @param number
  *   its number in the checkpoint
  * @param branch
  *   the name of a window between the stages of a function with state
  * @param windows
  *   its windows, firings and keys, as text
  * @param streams
  *   the number of the query's streams with a watermark
  * @param idleAfterUs
  *   the time without rows after which the event clock follows the wall clock, in microseconds
  * @param emitsLate
  *   whether late rows and rows without time are emitted
  * @param partitions
  *   the number of state partitions
  * @param language
  *   of the request, for messages
  */
final case class OperatorDescription(
    number: Long,
    branch: Option[String],
    windows: String,
    clock: ClockKind,
    streams: Int,
    idleAfterUs: Option[Long],
    emitsLate: Boolean,
    partitions: Int,
    language: Language
) {

  /** The operator as text. */
  def title: String = branch.fold(s"Operator $number")(name => s"Window $name")

  /** The condition of the next firing after a batch, as text. */
  def waitsFor(report: BatchReport): String = {
    val streams = report.clock.streams
    val allIdle = streams.nonEmpty && streams.forall(_.isIdle)
    (if (allIdle) copy(idleAfterUs = None) else this).waitsFor(
      report.panesOpen,
      report.clock.atMs.map(TimeMath.fromMillis),
      report.nextDueMs.map(TimeMath.fromMillis)
    )
  }

  /** The condition of the next firing, as text. All times in microseconds.
    *
    * @param clockUs
    *   the operator's clock, if it has one that started
    * @param dueUs
    *   the earliest due time of a pane, if one waits for the clock
    */
  def waitsFor(panesOpen: Long, clockUs: Option[Long], dueUs: Option[Long]): String = clock match {
    case _ if panesOpen == 0       => "nothing: no pane is open"
    case ClockKind.RowNumbers      => "more rows of its keys"
    case ClockKind.EventTimeOfKeys => "rows of its keys"
    case kind                      =>
      dueUs.fold("nothing: no pane waits for the clock") { due =>
        val time = if (kind == ClockKind.ProcessingTime) "wall time" else "event time"
        clockUs match {
          case Some(now) if now >= due => "the next batch"
          case Some(now)               => s"${Duration.describe(due - now)} of $time$orIdle"
          case None                    => s"the first row with a time$orIdle"
        }
      }
  }

  private def orIdle: String = idleAfterUs.fold("")(after => s", or ${Duration.describe(after)} without rows")
}

/** The clock that closes panes. */
sealed abstract class ClockKind(val text: String) extends Product with Serializable

object ClockKind {
  case object EventTime extends ClockKind("event time")
  case object EventTimeOfKeys extends ClockKind("event time of each key")
  case object ProcessingTime extends ClockKind("processing time")
  case object RowNumbers extends ClockKind("rows of each key")
}
