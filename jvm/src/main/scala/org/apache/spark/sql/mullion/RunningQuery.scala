package org.apache.spark.sql.mullion

import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.{AvailableNowTrigger, OneTimeTrigger}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.streaming.Trigger

/** What the driver knows of a query that runs. Spark tells an operator its run's id and nothing else of its query. */
private[mullion] object RunningQuery {

  /** The query's own clock, in milliseconds, which the timestamp of its next batch will be read from; none if its
    * trigger ends the query once all input is read, so that it does not wait for time to pass.
    */
  def timeMs(session: SparkSession, runId: UUID): Option[Long] =
    find(session, runId).collect { case query if !ends(query.trigger) => query.triggerClock.getTimeMillis() }

  def find(session: SparkSession, runId: UUID): Option[StreamExecution] =
    session.sharedState.activeStreamingQueries.values.asScala.find(_.runId == runId)

  private def ends(trigger: Trigger): Boolean = trigger match {
    case AvailableNowTrigger | OneTimeTrigger => true
    case _                                    => false
  }
}
