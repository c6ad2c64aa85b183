package org.apache.spark.sql.mullion.state.attempt

import java.util.{UUID, WeakHashMap}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.mullion.query.RunningQuery
import org.apache.spark.sql.mullion.shim.SparkVersionShim.{Reported, Reports}

import dev.mullion.MullionException

/** The attempts that a query's tasks have reported to the driver, for the last batch's version and for the running
  * batch's. A batch's plan may run several times, as with two actions in `foreachBatch`, and a task may have several
  * attempts: the last one of each partition counts.
  */
private[mullion] object ReportedAttempts {
  // Entries are removed with their query, so they must not reference it.
  private val ofQueries = new WeakHashMap[StreamExecution, mutable.Map[Long, Seq[(Long, Reports)]]]()

  /** The ids of the version that a batch starts from, by partition; none if another run wrote it.
    *
    * @param left
    *   collects the reports for the version that the batch's tasks write
    */
  def begin(session: SparkSession, run: UUID, operator: Long, version: Long, left: Reports): Option[
    Map[Int, String]
  ] =
    ofQueries.synchronized {
      RunningQuery.find(session, run).flatMap { query =>
        val operators = ofQueries.computeIfAbsent(query, _ => mutable.Map.empty[Long, Seq[(Long, Reports)]])
        val recent = operators.getOrElse(operator, Nil).filter(_._1 >= version)
        operators(operator) = recent :+ (version + 1 -> left)
        val previous = recent.collect { case (`version`, reports) => reports }
        Option.when(previous.nonEmpty) {
          last(previous.flatMap(_.value.asScala))
            .flatMap(of => of.stateStoreCkptId.map(ids => of.partitionId -> ids.head))
            .toMap
        }
      }
    }

  /** The last attempt of each partition. */
  def last(reported: Iterable[Reported]): Seq[Reported] = reported
    .groupBy(_.partitionId)
    .values
    .map(_.maxBy(_.stateStoreCkptId.fold("")(_.head))(AttemptId.ordering))
    .toSeq
    .sortBy(_.partitionId)

  /** The error for a batch whose plan did not run for each partition. */
  def notRead(batch: Long, partition: Int): MullionException = MullionException.invalid(
    s"foreachBatch did not read its DataFrame to the end in batch $batch: partition $partition of the state has no new " +
      "version. Write, count or collect the whole DataFrame in each batch."
  )
}
