package org.apache.spark.sql.mullion

import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.{AvailableNowTrigger, OneTimeTrigger}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.streaming.Trigger

/** What the driver knows of a query that runs. Spark tells an operator its run's id and nothing else of its query. */
private[mullion] object RunningQuery {

  /** The timestamp that the query's next batch would have, in milliseconds, as of when Spark asks whether to run it;
    * none if its trigger ends the query once all input is read, so that it does not wait for time to pass. Not the
    * clock's own time: that may have moved since the timestamp was read, and a batch would run with nothing due by its
    * own.
    */
  def timeMs(session: SparkSession, runId: UUID): Option[Long] = find(session, runId).collect {
    case query if !ends(query.trigger) => query.getLatestExecutionContext().offsetSeqMetadata.batchTimestampMs
  }

  def find(session: SparkSession, runId: UUID): Option[StreamExecution] =
    session.sharedState.activeStreamingQueries.values.asScala.find(_.runId == runId)

  /** The query whose batch is being planned. */
  def current: Option[StreamExecution] = for {
    session <- SparkSession.getActiveSession
    id <- Option(session.sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY))
    query <- session.sharedState.activeStreamingQueries.values.asScala.find(_.id.toString == id)
  } yield query

  private def ends(trigger: Trigger): Boolean = trigger match {
    case AvailableNowTrigger | OneTimeTrigger => true
    case _                                    => false
  }
}
