package org.apache.spark.sql.mullion

import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession

/** What the driver knows of a query that runs. Spark tells an operator its run's id and nothing else of its query. */
private[mullion] object RunningQuery {

  /** The query's own clock, in milliseconds: what the timestamp of its next batch will be read from. */
  def timeMs(session: SparkSession, runId: UUID): Long =
    session.sharedState.activeStreamingQueries.values.asScala
      .find(_.runId == runId)
      .fold(System.currentTimeMillis())(_.triggerClock.getTimeMillis())
}
