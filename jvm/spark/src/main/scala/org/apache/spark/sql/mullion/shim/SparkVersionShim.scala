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

/** The APIs that differ between Spark versions, in traits with one source per version. */
object SparkVersionShim extends StateOfVersion with QueriesOfVersion with PythonOfVersion with SpillsOfVersion {

  /** The only operator class that Spark's state and watermark planning allows to extend; its package moved after 4.0.
    */
  type StatefulBase = flatmapgroupswithstate.FlatMapGroupsWithStateExec

  type StateInfo = StatefulOperatorStateInfo

  /** A task's report of a partition's new version. */
  type Reported = StatefulOpStateStoreCheckpointInfo

  type Reports = CollectionAccumulator[Reported]

  def reported(partition: Int, version: Long, id: String, base: Option[String]): Reported =
    StatefulOpStateStoreCheckpointInfo(partition, version, Some(Array(id)), base.map(Array(_)))

  /** An empty scan: the initial state that the base operator requires. */
  def emptyScan: SparkPlan = LocalTableScanExec(Nil, Nil, None)

  /** The current value of each watermark in a query's plan, by the id of its node, in milliseconds. */
  def watermarks(query: MicroBatchExecution): Map[UUID, Option[Long]] = watermarkTracker(query).watermarkMap

  /** The watermarks of a query. Spark restricts access in Scala, but not in byte code. */
  def watermarkTracker(query: MicroBatchExecution): WatermarkTracker =
    classOf[MicroBatchExecution].getMethod("watermarkTracker").invoke(query).asInstanceOf[WatermarkTracker]

  def setWatermarkTracker(query: MicroBatchExecution, tracker: WatermarkTracker): Unit = {
    classOf[MicroBatchExecution].getMethod("watermarkTracker_$eq", classOf[WatermarkTracker]).invoke(query, tracker)
    ()
  }

  /** The metrics of Spark's Python runner. */
  def pythonMetrics(context: SparkContext): Map[String, SQLMetric] = {
    def metrics(of: Map[String, String])(make: String => SQLMetric) = of.map { case (name, words) =>
      name -> make(words)
    }

    metrics(PythonSQLMetrics.pythonSizeMetricsDesc)(SQLMetrics.createSizeMetric(context, _)) ++
      metrics(PythonSQLMetrics.pythonTimingMetricsDesc)(SQLMetrics.createTimingMetric(context, _)) ++
      metrics(PythonSQLMetrics.pythonOtherMetricsDesc)(SQLMetrics.createMetric(context, _))
  }

  /** The same for a runner that a task creates itself. Nothing reports them. */
  def unreportedPythonMetrics: Map[String, SQLMetric] = {
    import PythonSQLMetrics._
    (pythonSizeMetricsDesc ++ pythonTimingMetricsDesc ++ pythonOtherMetricsDesc).map { case (name, _) =>
      name -> new SQLMetric("sum", 0L)
    }
  }
}

/** The thresholds at which buffered rows are spilled to disk. */
final case class SpillLimits(rowsInMemory: Int, bytesInMemory: Long, rowsToSpill: Int, bytesToSpill: Long)
