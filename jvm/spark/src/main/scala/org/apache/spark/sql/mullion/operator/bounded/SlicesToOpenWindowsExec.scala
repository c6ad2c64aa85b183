package org.apache.spark.sql.mullion.operator.bounded

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.mullion.operator.assign.ByKey
import org.apache.spark.sql.mullion.shim.DescribedExec

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.AlignedRules

/** After the shuffle, below the merging aggregate: copies each partial row of a slice to every open window that holds
  * the slice, if overlapping windows cannot share slices. This node requires the shuffle itself, so that only one row
  * per slice is shuffled.
  *
  * @param distributed
  *   the distribution keys; none if a previous stage has distributed rows
  * @param slice
  *   the ordinal of a slice in input rows, the number of a window in output rows
  * @param marked
  *   the column of partial rows that reopen a pane: their slice is already the number of a window
  * @param partitions
  *   the number of state partitions, once the query is known
  * @param before
  *   the event clock before this batch, in microseconds, once the batch is known
  */
case class SlicesToOpenWindowsExec(
    operator: String,
    distributed: Option[Seq[Attribute]],
    slice: Attribute,
    marked: Option[Attribute],
    rules: AlignedRules,
    partitions: Option[Int],
    before: Option[Long],
    child: SparkPlan
) extends UnaryExecNode
    with DescribedExec {

  override def requiredChildDistribution: Seq[Distribution] =
    partitions.map(ByKey.distribution(distributed, _, conf)).toSeq

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def output: Seq[Attribute] = child.output

  override protected def doExecute(): RDD[InternalRow] = {
    val sliceAt = child.output.indexWhere(_.exprId == slice.exprId)
    val markedAt = marked.map(m => child.output.indexWhere(_.exprId == m.exprId))
    val pane = rules
    val firstOpen = before.filter(_ != BatchClock.BeforeAllTime).fold(Long.MinValue)(rules.firstOpen)
    child.execute().mapPartitions { rows =>
      rows.flatMap { row =>
        if (markedAt.exists(row.getBoolean)) Iterator.single(row)
        else {
          val ordinal = row.getLong(sliceAt)
          Iterator
            .iterate(Math.max(firstOpen, pane.grid.firstWindow(ordinal)))(_ + 1)
            .takeWhile(_ <= pane.grid.lastWindow(ordinal))
            .map { window =>
              row.asInstanceOf[UnsafeRow].setLong(sliceAt, window)
              row
            }
        }
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SlicesToOpenWindowsExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String = s"$nodeName ${rules.window.describe}"
}
