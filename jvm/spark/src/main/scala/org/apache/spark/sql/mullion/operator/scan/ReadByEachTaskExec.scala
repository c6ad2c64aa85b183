package org.apache.spark.sql.mullion.operator.scan

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, Partitioning}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.mullion.expressions.rows.Projections
import org.apache.spark.util.CompletionIterator
import org.apache.spark.{NarrowDependency, Partition, TaskContext}

/** The rows of each partition of state, read by its own task: each reads the entire batch, and keeps its own rows.
  *
  * {{{
  *   shuffle   task: scan - partial aggregate - files of the shuffle
  *                                                  task: WindowExec, partition 0
  *                                                  task: WindowExec, partition 1
  *   this      task: scan - partial aggregate - own rows - WindowExec, partition 0
  *             task: scan - partial aggregate - own rows - WindowExec, partition 1
  * }}}
  *
  * A batch of a hundred rows is read in a few milliseconds, and a shuffle is another stage, of about 25 ms. Only the
  * first task counts the metrics of the nodes below, because the others read the same rows.
  *
  * [[ReadByEachTask]] documents the conditions.
  */
final case class ReadByEachTaskExec(by: HashPartitioning, child: SparkPlan) extends UnaryExecNode {

  override def nodeName: String = "ReadByEachTask"

  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning = by

  override protected def doExecute(): RDD[InternalRow] = {
    val counts = child.collect { case node => node.metrics.values }.flatten
    new ReadByEachTaskExec.Rows(child.execute(), by, child.output, counts)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): ReadByEachTaskExec = copy(child = newChild)
}

private object ReadByEachTaskExec {

  private final class Own(override val index: Int, val all: Option[Partition]) extends Partition

  /** @param rows
    *   all rows, in one partition, or in none if there are no rows
    * @param counts
    *   the metrics of the read
    */
  private final class Rows(rows: RDD[InternalRow], by: HashPartitioning, output: Seq[Attribute], counts: Seq[SQLMetric])
      extends RDD[InternalRow](
        rows.sparkContext,
        Seq(new NarrowDependency[InternalRow](rows) {
          override def getParents(partition: Int): Seq[Int] = rows.partitions.indices
        })
      ) {
    override protected def getPartitions: Array[Partition] =
      Array.tabulate(by.numPartitions)(new Own(_, rows.partitions.headOption))

    override def compute(partition: Partition, context: TaskContext): Iterator[InternalRow] =
      partition.asInstanceOf[Own].all.fold[Iterator[InternalRow]](Iterator.empty) { all =>
        val placeOf = Projections(Seq(by.partitionIdExpression), output)
        val own = firstParent[InternalRow].iterator(all, context).filter(placeOf(_).getInt(0) == partition.index)
        if (partition.index == 0) own
        else CompletionIterator[InternalRow, Iterator[InternalRow]](own, counts.foreach(_.reset()))
      }
  }
}
