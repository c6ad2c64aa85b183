package org.apache.spark.sql.mullion.exec

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{ClusteredDistribution, Distribution, Partitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

import dev.mullion.windows.BatchClock

/** Windows of row numbers on a batch DataFrame: the same engine, with no state. Panes that no row completes do not come
  * out, as they would not of a stream.
  */
case class ArrivalBatchExec(program: WindowProgram, child: SparkPlan) extends UnaryExecNode {

  override def output: Seq[Attribute] = program.output

  override def producedAttributes: AttributeSet = outputSet -- AttributeSet(program.keys)

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def requiredChildDistribution: Seq[Distribution] = Seq(ClusteredDistribution(program.keys))

  override def requiredChildOrdering: Seq[Seq[SortOrder]] = Seq(program.ordering)

  override protected def doExecute(): RDD[InternalRow] = {
    val here = program
    child.execute().mapPartitions { input =>
      val clock = BatchClock(BatchClock.BeforeAllTime, BatchClock.BeforeAllTime, 0L, rowsCame = true)
      here.rows.iterator.flatMap(new ArrivalPanes(here, _, clock, None, new PaneCounts).process(input))
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): ArrivalBatchExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String = s"$nodeName ${program.describe}"
}
