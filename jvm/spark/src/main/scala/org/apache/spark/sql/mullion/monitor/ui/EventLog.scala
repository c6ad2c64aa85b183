package org.apache.spark.sql.mullion.monitor.ui

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.apache.spark.internal.config.EVENT_LOG_ENABLED
import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.sql.mullion.monitor.{MonitoredQuery, QueryMonitor}

/** The reports of a run in the event log of its application, for the history server.
  *
  * @param json
  *   the result of `QueryJson.ofRun`
  */
final case class QueryReported(run: String, timeMs: Long, title: String, json: String) extends SparkListenerEvent

/** Writes the reports of each run into the event log: those at its end, and those of a batch in each minute, for
  * applications that are killed.
  */
private[ui] final class EventLog(context: SparkContext) extends QueryMonitor.Observer {
  private val writtenMs = mutable.Map.empty[UUID, Long]

  override def reported(query: MonitoredQuery, timeMs: Long): Unit = {
    val isDue = synchronized {
      val due = writtenMs.get(query.runId).forall(timeMs - _ >= EventLog.EveryMs)
      if (due) writtenMs(query.runId) = timeMs
      due
    }
    if (isDue) write(query, timeMs)
  }

  override def ended(query: MonitoredQuery): Unit = {
    synchronized { writtenMs -= query.runId; () }
    write(query, query.operators.flatMap(_.last).map(_.timeMs).maxOption.getOrElse(0L))
  }

  private def write(query: MonitoredQuery, timeMs: Long): Unit =
    context.listenerBus.post(QueryReported(query.runId.toString, timeMs, query.title, QueryJson.ofRun(query)))
}

private[ui] object EventLog {
  private val EveryMs = 60000L

  def begin(context: SparkContext): Unit =
    if (context.conf.get(EVENT_LOG_ENABLED)) QueryMonitor.of(context).observe(new EventLog(context))
}
