package org.apache.spark.sql.mullion.query

import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.{AvailableNowTrigger, OneTimeTrigger}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink
import org.apache.spark.sql.streaming.Trigger

/** What the driver knows of a query that runs. Spark tells an operator its run's id and nothing else of its query. */
object RunningQuery {

  /** The timestamp that the query's next batch would have, in milliseconds, as of when Spark asks whether to run it;
    * none if its trigger ends the query once all input is read, so that it does not wait for time to pass. Not the
    * clock's own time: that may have moved since the timestamp was read, and a batch would run with nothing due by its
    * own.
    */
  def timeMs(session: SparkSession, runId: UUID): Option[Long] = find(session, runId).collect {
    case query if !ends(query.trigger) => query.getLatestExecutionContext().offsetSeqMetadata.batchTimestampMs
  }

  /** What the query's clock says now, in milliseconds: later than the timestamp of a batch that is done again. */
  def nowMs(session: SparkSession, runId: UUID): Option[Long] =
    find(session, runId).map(_.triggerClock.getTimeMillis())

  def find(session: SparkSession, runId: UUID): Option[StreamExecution] =
    session.sharedState.activeStreamingQueries.values.asScala.find(_.runId == runId)

  /** The query whose batch is being planned. */
  def current: Option[StreamExecution] = for {
    session <- SparkSession.getActiveSession
    id <- Option(session.sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY))
    query <- ofId(session, id)
  } yield query

  /** The note of a batch in the query's log of offsets, as text; empty if there is none. */
  def planOf(session: SparkSession, queryId: String, batch: Long): String =
    ofId(session, queryId).map(query => new Path(s"${query.resolvedCheckpointRoot}/offsets/$batch")).fold("") { note =>
      val files = note.getFileSystem(session.sessionState.newHadoopConf())
      if (!files.exists(note)) ""
      else Using.resource(files.open(note))(in => new String(in.readAllBytes(), UTF_8))
    }

  /** Where the query has its checkpoint, as a URI; empty if it does not run. */
  def checkpointOf(session: SparkSession, queryId: String): String =
    ofId(session, queryId).fold("")(query => new Path(query.resolvedCheckpointRoot).toUri.toString)

  private def ofId(session: SparkSession, queryId: String): Option[StreamExecution] =
    session.sharedState.activeStreamingQueries.values.asScala.find(_.id.toString == queryId)

  /** True if the query ends once all is read that there was when it started, and runs as many batches as that takes. */
  def isDraining(query: StreamExecution): Boolean = query.trigger == AvailableNowTrigger

  /** True if a function is given each batch, on which it may run as many actions as it likes: `foreachBatch`. */
  def hasActions(query: StreamExecution): Boolean = query.sink.isInstanceOf[ForeachBatchSink[_]]

  private def ends(trigger: Trigger): Boolean = trigger match {
    case AvailableNowTrigger | OneTimeTrigger => true
    case _                                    => false
  }
}
