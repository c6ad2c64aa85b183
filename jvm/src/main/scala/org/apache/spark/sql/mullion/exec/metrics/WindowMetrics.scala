package org.apache.spark.sql.mullion.exec.metrics

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorCustomMetric

/** What operators of ours count beside what Spark counts of every operator with state, by their names in a query's
  * progress. What each means stands in docs/metrics.md.
  */
private[mullion] object WindowMetrics {

  final case class Metric(name: String, desc: String) extends StatefulOperatorCustomMetric {
    override def createSQLMetric(context: SparkContext): SQLMetric = SQLMetrics.createMetric(context, desc)
  }

  /** A metric that another node of the plan counts. */
  private final case class MetricOf(name: String, desc: String, metric: SQLMetric)
      extends StatefulOperatorCustomMetric {
    override def createSQLMetric(context: SparkContext): SQLMetric = metric
  }

  private val rowsLate = Metric("rowsLate", "late rows")
  private val rowsWithoutTime = Metric("rowsWithoutTime", "rows without time")
  private val rowsInNoWindow = Metric("rowsInNoWindow", "rows in no window")
  private val firingsRunning = Metric("firingsRunning", "running firings")

  /** Late rows that go nowhere: a part of Spark's own count of such rows, and in no list of ours. */
  val rowsDropped: Metric = Metric("rowsDropped", "late rows dropped")

  private val stateRowsRead = Metric("stateRowsRead", "state rows read")

  /** Of state in RocksDB, what is in memory too from this batch to the next. */
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

  /** What is counted where rows are given their panes. */
  val assigned: Seq[StatefulOperatorCustomMetric] = Seq(
    rowsLate,
    rowsWithoutTime,
    rowsInNoWindow,
    Metric("panesMissed", "closed panes of rows that entered others")
  )

  val ofFunctions: Seq[StatefulOperatorCustomMetric] = Seq(
    stateRowsRead,
    Metric("callsProcess", "calls of the function"),
    Metric("callsCallbacks", "calls of the callbacks"),
    Metric("rowsFolded", "rows of agents in the JVM"),
    rowsLate
  ) ++ inMemory

  /** All that an operator may report, each once. */
  val all: Seq[StatefulOperatorCustomMetric] =
    (ofPanes ++ assigned ++ ofFunctions :+ firingsRunning).distinctBy(_.name)

  /** What the node counts that gives rows their panes. */
  def countedBy(metrics: Map[String, SQLMetric]): Seq[StatefulOperatorCustomMetric] =
    assigned.map(metric => MetricOf(metric.name, metric.desc, metrics(metric.name)))

  /** Where rows are worked on one by one. */
  def ofRows(running: Boolean): Seq[StatefulOperatorCustomMetric] =
    Seq(rowsLate, rowsWithoutTime, rowsInNoWindow) ++ Option.when(running)(firingsRunning)
}
