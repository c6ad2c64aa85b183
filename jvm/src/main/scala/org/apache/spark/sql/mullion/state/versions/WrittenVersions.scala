package org.apache.spark.sql.mullion.state.versions

import java.util.{UUID, WeakHashMap}

import scala.collection.mutable

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.mullion.query.RunningQuery
import org.apache.spark.util.AccumulatorV2

/** The ids of the versions that the tasks of a batch left ([[VersionIds]]), by partition; `Doubtful` where several
  * attempts may have left one, and it is not known whose is in the checkpoint.
  *
  * A batch's plan may run several times, as with two actions in `foreachBatch`: where one run of a partition had ended
  * before the next was begun, it is the last one's.
  */
private[mullion] final class WrittenVersions extends AccumulatorV2[(Int, Long), Map[Int, Long]] {
  private var ids = Map.empty[Int, Long]
  private var again = Set.empty[Int]

  override def isZero: Boolean = ids.isEmpty
  override def copy(): WrittenVersions = { val c = new WrittenVersions; c.ids = ids; c }
  override def reset(): Unit = ids = Map.empty
  override def add(of: (Int, Long)): Unit = put(Map(of))
  override def merge(other: AccumulatorV2[(Int, Long), Map[Int, Long]]): Unit = put(other.value)
  override def value: Map[Int, Long] = synchronized(ids)

  /** Says that a partition is about to run: whatever was told of it so far has ended. */
  def begins(partition: Int): Unit = synchronized { if (ids.contains(partition)) again += partition }

  private def put(others: Map[Int, Long]): Unit = synchronized {
    others.foreach { case (partition, id) =>
      ids += partition -> (if (!ids.contains(partition) || again(partition)) id else WrittenVersions.Doubtful)
      again -= partition
    }
  }
}

private[mullion] object WrittenVersions {
  final val Doubtful = 0L

  /** What is known of the version that a batch starts from, and who is told of the one that it leaves.
    *
    * @param before
    *   by partition; none in the first batch of a run
    */
  final case class OfBatch(before: Option[Map[Int, Long]], left: WrittenVersions)

  // Forgotten with the query, so nothing in here may hold on to it.
  private val ofQueries = new WeakHashMap[StreamExecution, mutable.Map[Long, Seq[(Long, WrittenVersions)]]]()

  /** For a batch of an operator's that starts from a version. */
  def of(session: SparkSession, runId: UUID, operator: Long, version: Long): OfBatch = ofQueries.synchronized {
    val left = new WrittenVersions
    session.sparkContext.register(left)
    RunningQuery.find(session, runId).fold(OfBatch(None, left)) { query =>
      val operators = ofQueries.computeIfAbsent(query, _ => mutable.Map.empty[Long, Seq[(Long, WrittenVersions)]])
      val known = operators.getOrElse(operator, Nil).filter(_._1 >= version)
      operators(operator) = known :+ (version + 1 -> left)
      val before = known.collect { case (`version`, written) => written }
      OfBatch(Option.when(before.nonEmpty)(together(before)), left)
    }
  }

  private def together(all: Seq[WrittenVersions]): Map[Int, Long] = {
    val one = new WrittenVersions
    all.foreach(one.merge)
    one.value
  }
}
