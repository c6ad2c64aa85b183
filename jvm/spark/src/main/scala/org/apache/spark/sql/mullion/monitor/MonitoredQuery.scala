package org.apache.spark.sql.mullion.monitor

import java.lang.ref.WeakReference
import java.util.UUID

import scala.collection.immutable.TreeMap

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/** One run of a query with operators of Mullion. Its reports stay after its end.
  *
  * @param name
  *   the query's name, if it has one
  * @param checkpoint
  *   the location of its checkpoint
  */
private[mullion] final class MonitoredQuery private (
    val id: UUID,
    val runId: UUID,
    val name: Option[String],
    val checkpoint: String,
    execution: WeakReference[StreamExecution],
    ofSession: WeakReference[SparkSession]
) {
  @volatile private var failed = Option.empty[String]
  @volatile private var histories = TreeMap.empty[Long, (OperatorHistory, QueryLog)]

  /** The query while it runs. */
  def running: Option[StreamExecution] = Option(execution.get).filter(_.isActive)

  /** The session of the query, while it is in use. */
  def session: Option[SparkSession] = Option(ofSession.get)

  /** The current time by the query's clock, while it runs. */
  def nowMs: Option[Long] = running.map(_.triggerClock.getTimeMillis())

  /** The message of the error that ended it, if one did. */
  def failure: Option[String] = failed

  def fail(message: String): Unit = failed = Some(message)

  /** The operators in order of their numbers. */
  def operators: Seq[OperatorHistory] = histories.values.map(_._1).toSeq

  def operator(number: Long): Option[OperatorHistory] = histories.get(number).map(_._1)

  /** Adds an operator. */
  def begin(description: OperatorDescription, settings: MonitorSettings): OperatorHistory = {
    val history = new OperatorHistory(description)
    val log = new QueryLog(title, description, settings)
    histories += description.number -> (history -> log)
    log.started()
    history
  }

  def report(number: Long, report: BatchReport): Unit = histories.get(number).foreach { case (history, log) =>
    if (history.add(report)) log.report(report)
  }

  /** Logs clocks that have not moved; called while the query has no rows. */
  def look(): Unit =
    for (now <- nowMs; (history, log) <- histories.values) log.look(history.last, now)

  /** The query as text. */
  def title: String = name.fold(s"$id")(text => s"$text (id $id)")
}

private[mullion] object MonitoredQuery {
  def apply(query: StreamExecution): MonitoredQuery = new MonitoredQuery(
    query.id,
    query.runId,
    Option(query.name),
    query.resolvedCheckpointRoot,
    new WeakReference(query),
    new WeakReference(query.sparkSession)
  )
}
