package org.apache.spark.sql.mullion.shim

import java.util.UUID

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.{LocalTableScanExec, SparkPlan}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.python.PythonSQLMetrics
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOpStateStoreCheckpointInfo,
  StatefulOperatorStateInfo
}
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, WatermarkTracker}
import org.apache.spark.util.CollectionAccumulator

/** What is Spark's own and may differ between its lines. What does is in traits, of which each line has its own. */
object SparkLineShim extends StateOfLine with QueriesOfLine with PythonOfLine with SpillsOfLine {

  /** The only operator that Spark's planning of state and watermarks lets us extend; its package moved after 4.0. */
  type StatefulBase = flatmapgroupswithstate.FlatMapGroupsWithStateExec

  type StateInfo = StatefulOperatorStateInfo

  /** What a task reports of the version of a partition that it has made. */
  type Reported = StatefulOpStateStoreCheckpointInfo

  type Reports = CollectionAccumulator[Reported]

  def reported(partition: Int, version: Long, id: String, base: Option[String]): Reported =
    StatefulOpStateStoreCheckpointInfo(partition, version, Some(Array(id)), base.map(Array(_)))

  /** A scan of nothing: the initial state that the base operator wants. */
  def emptyScan: SparkPlan = LocalTableScanExec(Nil, Nil, None)

  /** Of each watermark in a query's plan, by the id of its node, how far it has come, in milliseconds. Spark keeps it
    * for classes of its own, though not in its byte code.
    */
  def watermarks(query: MicroBatchExecution): Map[UUID, Option[Long]] = {
    val tracker = classOf[MicroBatchExecution].getMethod("watermarkTracker").invoke(query)
    tracker.asInstanceOf[WatermarkTracker].watermarkMap
  }

  /** What Spark's Python runner counts. */
  def pythonMetrics(context: SparkContext): Map[String, SQLMetric] = {
    def made(of: Map[String, String])(make: String => SQLMetric) = of.map { case (name, words) => name -> make(words) }

    made(PythonSQLMetrics.pythonSizeMetricsDesc)(SQLMetrics.createSizeMetric(context, _)) ++
      made(PythonSQLMetrics.pythonTimingMetricsDesc)(SQLMetrics.createTimingMetric(context, _)) ++
      made(PythonSQLMetrics.pythonOtherMetricsDesc)(SQLMetrics.createMetric(context, _))
  }

  /** The same for a runner that a task creates itself. Nothing reports them. */
  def unreportedPythonMetrics: Map[String, SQLMetric] = {
    import PythonSQLMetrics._
    (pythonSizeMetricsDesc ++ pythonTimingMetricsDesc ++ pythonOtherMetricsDesc).map { case (name, _) =>
      name -> new SQLMetric("sum", 0L)
    }
  }
}

/** When rows held aside go to disk. */
final case class SpillLimits(rowsInMemory: Int, bytesInMemory: Long, rowsToSpill: Int, bytesToSpill: Long)
