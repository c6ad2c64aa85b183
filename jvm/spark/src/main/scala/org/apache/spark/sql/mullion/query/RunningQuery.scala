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

/** The driver's view of a running query. Spark gives an operator only the id of its run. */
object RunningQuery {

  /** The timestamp that the query's next batch would have, in milliseconds, at the time when Spark decides whether to
    * run it; none if its trigger ends the query after all input, so that it does not wait for time to pass. The clock
    * itself may have moved since the timestamp was read: with its time a batch might run with nothing due.
    */
  def timeMs(session: SparkSession, runId: UUID): Option[Long] = find(session, runId).collect {
    case query if waits(query) => query.getLatestExecutionContext().offsetSeqMetadata.batchTimestampMs
  }

  /** The current reading of the query's clock, in milliseconds: later than the timestamp of a repeated batch. */
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

  /** The entry of a batch in the query's log of offsets, as text; empty if there is none. */
  def planOf(session: SparkSession, queryId: String, batch: Long): String =
    ofId(session, queryId).map(query => new Path(s"${query.resolvedCheckpointRoot}/offsets/$batch")).fold("") { note =>
      val files = note.getFileSystem(session.sessionState.newHadoopConf())
      if (!files.exists(note)) ""
      else Using.resource(files.open(note))(in => new String(in.readAllBytes(), UTF_8))
    }

  /** The URI of the query's checkpoint; empty if it is not running. */
  def checkpointOf(session: SparkSession, queryId: String): String =
    ofId(session, queryId).fold("")(query => new Path(query.resolvedCheckpointRoot).toUri.toString)

  private def ofId(session: SparkSession, queryId: String): Option[StreamExecution] =
    session.sharedState.activeStreamingQueries.values.asScala.find(_.id.toString == queryId)

  /** True if the query ends after reading the input that existed at its start, in any number of batches. */
  def isDraining(query: StreamExecution): Boolean = query.trigger == AvailableNowTrigger

  /** True if a function receives each batch and may run any number of actions on it: `foreachBatch`. */
  def hasActions(query: StreamExecution): Boolean = query.sink.isInstanceOf[ForeachBatchSink[_]]

  /** True if the query continues after it has read all input, and then waits for more. */
  def waits(query: StreamExecution): Boolean = !ends(query.trigger)

  private def ends(trigger: Trigger): Boolean = trigger match {
    case AvailableNowTrigger | OneTimeTrigger => true
    case _                                    => false
  }
}
