package org.apache.spark.sql.mullion.operator.partial

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.mullion.expressions.udf.{AggregateWorker, PaneRows, PythonAggregate}
import org.apache.spark.sql.mullion.shim.DescribedExec

/** Adds the rows of large groups to accumulators before the shuffle, in the Python worker of the task.
  *
  * {{{
  *   partial aggregate   (k, slice, [1000 rows])   (k2, slice, [3 rows])
  *   output              (k, slice, accumulator)   (k2, slice, [3 rows])
  * }}}
  *
  * Groups are processed in blocks, so that one request adds the rows of many groups.
  *
  * @param functions
  *   the Python aggregates, with the ordinals of their buffers
  * @param nameOf
  *   the name of a group in errors, as in `The pane [0, 3) of k=a`
  */
final case class AddRowsExec(functions: Seq[(Int, PythonAggregate)], nameOf: InternalRow => String, child: SparkPlan)
    extends UnaryExecNode
    with DescribedExec {
  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override def nodeName: String = "AddPythonRows"

  override def simpleString(maxFields: Int): String = s"$nodeName ${functions.map(_._2.sql).mkString("[", ", ", "]")}"

  override protected def doExecute(): RDD[InternalRow] =
    child.execute().mapPartitionsInternal(new AddRowsExec.Added(functions, nameOf, output, _))

  override protected def withNewChildInternal(newChild: SparkPlan): AddRowsExec = copy(child = newChild)
}

object AddRowsExec {

  /** The node over a partial aggregate, if it has Python aggregates; otherwise the partial aggregate. */
  def over(partial: SparkPlan, functions: Seq[AggregateFunction], nameOf: InternalRow => String): SparkPlan = {
    val python = functions.collect {
      case of: PythonAggregate if of.canAdd =>
        partial.output.indexWhere(_.exprId == of.inputAggBufferAttributes.head.exprId) -> of
    }
    if (python.isEmpty) partial else AddRowsExec(python, nameOf, partial)
  }

  private final val BlockGroups = 4096
  private final val BlockRows = 16384
  private final val BlockBytes = 4L << 20

  /** The groups of a partition, in their order. */
  private final class Added(
      functions: Seq[(Int, PythonAggregate)],
      nameOf: InternalRow => String,
      output: Seq[Attribute],
      groups: Iterator[InternalRow]
  ) extends Iterator[InternalRow] {
    private val block = mutable.ArrayBuffer.empty[UnsafeRow]
    private var at = 0

    private val replacement = new GenericInternalRow(functions.length)
    private val both = new JoinedRow()
    private val projection = {
      val places = functions.map(_._1).zipWithIndex.toMap
      UnsafeProjection.create(output.zipWithIndex.map { case (a, i) =>
        BoundReference(places.get(i).fold(i)(output.length + _), a.dataType, a.nullable): Expression
      })
    }

    override def hasNext: Boolean = at < block.length || groups.hasNext

    override def next(): InternalRow = {
      if (at == block.length) readBlock()
      at += 1
      block(at - 1)
    }

    private def readBlock(): Unit = {
      block.clear()
      at = 0
      val large = functions.map(_ => mutable.ArrayBuffer.empty[(Int, PaneRows)])
      var (rows, bytes) = (0L, 0L)
      while (groups.hasNext && block.length < BlockGroups && rows < BlockRows && bytes < BlockBytes) {
        val group = groups.next().asInstanceOf[UnsafeRow].copy()
        for (((ordinal, of), panes) <- functions.zip(large)) {
          val buffer = group.getBinary(ordinal)
          if (of.hasManyRows(buffer)) {
            val pane = of.deserialize(buffer)
            panes += block.length -> pane
            rows += pane.rowCount
          }
        }
        bytes += group.getSizeInBytes
        block += group
      }
      val added = functions.zip(large).map { case ((_, of), panes) =>
        if (panes.isEmpty) Map.empty[Int, PaneRows]
        else {
          val accumulators = AggregateWorker.of(of).add(panes.map(_._2).toSeq, i => nameOf(block(panes(i)._1)))
          accumulators.zip(panes).foreach { case (accumulator, (_, pane)) => pane.become(accumulator) }
          panes.toMap
        }
      }
      for (i <- added.flatMap(_.keys).distinct) {
        val group = block(i)
        for ((((ordinal, of), panes), j) <- functions.zip(added).zipWithIndex)
          replacement.update(j, panes.get(i).fold(group.getBinary(ordinal))(of.serialize))
        block(i) = projection(both(group, replacement)).copy()
      }
    }
  }
}
