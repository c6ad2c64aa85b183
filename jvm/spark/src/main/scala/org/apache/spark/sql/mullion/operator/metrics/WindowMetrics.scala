package org.apache.spark.sql.mullion.operator.metrics

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorCustomMetric

/** The metrics of Mullion's operators in a query's progress, in addition to Spark's metrics of stateful operators.
  * docs/reference/metrics.md documents them.
  */
private[mullion] object WindowMetrics {

  final case class Metric(name: String, desc: String) extends StatefulOperatorCustomMetric {
    override def createSQLMetric(context: SparkContext): SQLMetric = SQLMetrics.createMetric(context, desc)
  }

  /** A metric of another node of the plan. */
  private final case class MetricOf(name: String, desc: String, metric: SQLMetric)
      extends StatefulOperatorCustomMetric {
    override def createSQLMetric(context: SparkContext): SQLMetric = metric
  }

  private val rowsLate = Metric("rowsLate", "late rows")
  private val rowsWithoutTime = Metric("rowsWithoutTime", "rows without time")
  private val rowsInNoWindow = Metric("rowsInNoWindow", "rows in no window")
  private val rowsAhead = Metric("rowsAhead", "rows ahead of the wall clock")
  private val firingsRunning = Metric("firingsRunning", "running firings")

  /** Late rows without any output: part of Spark's own count, and in none of Mullion's lists. */
  val rowsDropped: Metric = Metric("rowsDropped", "late rows dropped")

  private val stateRowsRead = Metric("stateRowsRead", "state rows read")

  /** For state in RocksDB, the cache between batches. */
  private val inMemory =
    Seq(Metric("hotBytes", "bytes of state in memory"), Metric("hotPartitions", "partitions in memory"))

  val ofPanes: Seq[StatefulOperatorCustomMetric] = Seq(
    Metric("panesOpen", "panes open"),
    Metric("firingsEarly", "early firings"),
    Metric("firingsOnTime", "panes fired on time"),
    Metric("firingsUpdate", "updates of panes"),
    Metric("firingsClose", "panes closed"),
    stateRowsRead
  ) ++ inMemory

  /** The metrics of the node that assigns panes. */
  val assigned: Seq[StatefulOperatorCustomMetric] = Seq(
    rowsLate,
    rowsWithoutTime,
    rowsInNoWindow,
    rowsAhead,
    Metric("panesMissed", "closed panes of rows that entered others")
  )

  val ofFunctions: Seq[StatefulOperatorCustomMetric] = Seq(
    stateRowsRead,
    Metric("callsProcess", "calls of the function"),
    Metric("callsCallbacks", "calls of the callbacks"),
    Metric("rowsFolded", "rows of agents in the JVM"),
    rowsLate
  ) ++ inMemory

  /** The metrics of joins. */
  val ofJoins: Seq[StatefulOperatorCustomMetric] = Seq(rowsLate, rowsWithoutTime, stateRowsRead) ++ inMemory

  /** All metrics of an operator, each once. */
  val all: Seq[StatefulOperatorCustomMetric] =
    (ofPanes ++ assigned ++ ofFunctions :+ firingsRunning).distinctBy(_.name)

  /** The metrics of the node that assigns panes. */
  def countedBy(metrics: Map[String, SQLMetric]): Seq[StatefulOperatorCustomMetric] =
    assigned.map(metric => MetricOf(metric.name, metric.desc, metrics(metric.name)))

  /** Metrics of row-by-row processing. */
  def ofRows(running: Boolean): Seq[StatefulOperatorCustomMetric] =
    Seq(rowsLate, rowsWithoutTime, rowsInNoWindow, rowsAhead) ++ Option.when(running)(firingsRunning)
}
