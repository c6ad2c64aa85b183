package org.apache.spark.sql.mullion.monitor

import java.time.Instant

import org.apache.spark.internal.Logging
import org.apache.spark.sql.mullion.shim.BuildInfo

import dev.mullion.windows.spec.{Duration, Setting, TimeMath}

/** The log messages about an operator: one at its start, one when its clock has not moved for long, and one for each
  * cause of dropped rows. No batch logs anything by itself.
  *
  * @param query
  *   the query as text
  */
private[monitor] final class QueryLog(query: String, operator: OperatorDescription, settings: MonitorSettings)
    extends Logging {
  private val clock = new ClockWatch(settings.clockAfterMs)
  private val dropped = QueryLog.causes(operator).map(cause => cause -> new RowsWatch(QueryLog.RowsEveryMs))

  private def name = s"${operator.title} of query $query"

  def started(): Unit = logInfo(startMessage)

  /** Logs what a new report shows. */
  def report(report: BatchReport): Unit = {
    droppedMessages(report).foreach(text => logWarning(text))
    look(Some(report), report.timeMs)
  }

  /** Logs that the clock has not moved, if that is so. */
  def look(last: Option[BatchReport], nowMs: Long): Unit =
    clockMessage(last, nowMs).foreach(text => logWarning(text))

  private[monitor] def startMessage: String =
    s"$name starts: ${operator.windows}; clock: ${operator.clock.text}; state: ${operator.partitions} partitions in RocksDB; " +
      s"Mullion ${BuildInfo.version} for Spark ${BuildInfo.sparkLine}."

  private[monitor] def clockMessage(last: Option[BatchReport], nowMs: Long): Option[String] = for {
    report <- last if settings.clockAfterMs > 0 && operator.clock == ClockKind.EventTime
    standsMs <- clock.check(report.clock.atMs, nowMs, isAwaited = report.panesOpen > 0)
  } yield operator.language {
    val at = report.clock.atMs.fold("It has not started")(ms => s"It is at ${Instant.ofEpochMilli(ms)}")
    val message =
      s"$name: the event clock has not moved for ${Duration.describe(TimeMath.fromMillis(standsMs))}. $at, and " +
        s"${OpenReason.panes(report)} for ${operator.waitsFor(report)}."
    (message +: OpenReason.heldBy(operator, report)).mkString(" ")
  }

  private[monitor] def droppedMessages(report: BatchReport): Seq[String] = operator.language {
    for {
      (cause, watch) <- dropped
      rows <- watch.add(report.count(cause.count), report.timeMs)
    } yield s"$name: ${if (rows == 1) "1 row was" else s"$rows rows were"} dropped up to batch ${report.batch}: ${cause.text()}"
  }
}

private object QueryLog {

  /** The interval between two messages about rows dropped for one cause. */
  val RowsEveryMs = 600000L

  /** A cause of dropped rows: its count, and the message with the fix. */
  private final case class Cause(count: Count, text: () => String)

  private val late = Cause(
    Count.RowsDropped,
    () =>
      s"their panes had closed. A longer watermark delay or ${Setting.AllowedLateness} keeps panes open for them, and " +
        s"${Setting.late("emit")} emits them."
  )
  private val withoutTime = Cause(
    Count.RowsWithoutTime,
    () => s"their event time is null. Correct the time at its source, or use ${Setting.late("emit")} to emit such rows."
  )
  private val ahead = Cause(
    Count.RowsTooFarAhead,
    () =>
      s"their time is further ahead of the wall clock than ${Setting.MaxAhead}. Correct the clock of the producer, or use " +
        s"${Setting.late("emit")} to emit such rows."
  )
  private val inNoWindow =
    Cause(Count.RowsInNoWindow, () => "no window contains their time. Check the window, or the rows' time.")
  private val before = Cause(
    Count.RowsDroppedBefore,
    () =>
      "an operator of Spark before the window drops rows that are older than the watermark. Use a longer watermark delay."
  )

  private def causes(operator: OperatorDescription): Seq[Cause] =
    Seq(late, inNoWindow, before) ++ (if (operator.emitsLate) Nil else Seq(withoutTime, ahead))
}
