package org.apache.spark.sql.mullion.exec.batch

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.mullion.exec.assign.ByKey

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.AlignedRules

/** After the shuffle, below the aggregate that merges: gives each partial row of a slice to every open window that
  * holds the slice, where overlapping windows cannot share slices. It is this node that asks for the shuffle, so that
  * as few rows go through it as there are slices.
  *
  * @param distributed
  *   what rows are distributed by; none where a stage before has done it
  * @param slice
  *   the ordinal of a slice in the rows that come, the number of a window in those that go
  * @param marked
  *   the column of partial rows that reopen a pane: their slice is the number of its window already
  * @param partitions
  *   into how many partitions state is divided, once the query is known
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
) extends UnaryExecNode {

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
