package org.apache.spark.sql.mullion.operator.bounded

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{ClusteredDistribution, Distribution, Partitioning}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.mullion.operator.engine.rowwise.{ArrivalPanes, SplitPanes}
import org.apache.spark.sql.mullion.operator.engine.{PaneCounts, PaneEngine}
import org.apache.spark.sql.mullion.operator.program.WindowProgram
import org.apache.spark.sql.mullion.shim.DescribedExec

import dev.mullion.windows.clock.BatchClock

/** Windows of row numbers on a batch DataFrame: the same engine, without state. As in a stream, incomplete panes are
  * not emitted, unless they close at the end of the input.
  */
case class ArrivalBatchExec(program: WindowProgram, child: SparkPlan) extends UnaryExecNode with DescribedExec {

  override def output: Seq[Attribute] = program.output

  override def producedAttributes: AttributeSet = outputSet -- AttributeSet(program.keys)

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def requiredChildDistribution: Seq[Distribution] = Seq(ClusteredDistribution(program.keys))

  override def requiredChildOrdering: Seq[Seq[SortOrder]] = Seq(program.ordering)

  @transient private lazy val splitMetrics =
    program.splits.fold(Map.empty[String, SQLMetric])(_.by.metrics(sparkContext))

  override lazy val metrics: Map[String, SQLMetric] = splitMetrics

  override protected def doExecute(): RDD[InternalRow] = {
    val here = program.asking(splitMetrics)
    child.execute().mapPartitions { input =>
      val clock = BatchClock(BatchClock.BeforeAllTime, BatchClock.BeforeAllTime, 0L, rowsCame = true)
      here.rows.iterator.flatMap { rows =>
        val engine = here.splits.fold[PaneEngine](new ArrivalPanes(here, rows, clock, None, new PaneCounts)) {
          new SplitPanes(here, rows, _, None, new PaneCounts)
        }
        engine.process(input)
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): ArrivalBatchExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String = s"$nodeName ${program.describe}"
}
