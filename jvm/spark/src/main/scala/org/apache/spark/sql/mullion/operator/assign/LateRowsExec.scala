package org.apache.spark.sql.mullion.operator.assign

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning, UnspecifiedDistribution}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.mullion.shim.SparkVersionShim

/** Above the partial aggregate: emits the rows that [[AssignSlicesExec]] put aside, as rows of the aggregate with only
  * the keys set, and the entire input row in `lateRow`. For sessions they have their time and gap too, so that the
  * operator can decide whether they are late.
  *
  * @param input
  *   the columns of the rows put aside
  * @param lateColumns
  *   the fields of `lateRow`, over `input`
  * @param known
  *   the aggregate's columns that are not null, over `input`
  */
case class TakeUpLateRowsExec(
    operator: String,
    input: Seq[Attribute],
    lateColumns: Seq[Attribute],
    lateRow: Attribute,
    known: Seq[(Attribute, Expression)],
    child: SparkPlan
) extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output :+ lateRow

  override def producedAttributes: AttributeSet = AttributeSet(lateRow)

  override protected def doExecute(): RDD[InternalRow] = {
    val aggregated = child.output
    val fields = lateColumns.flatMap(c => Seq(Literal(c.name), c))
    val late: Expression = CreateNamedStruct(fields)
    val knownAs = known.map { case (column, value) => column.exprId -> value }.toMap
    val lateColumnsOut = aggregated.map(a => knownAs.getOrElse(a.exprId, Literal(None.orNull, a.dataType))) :+ late
    val side = new SlicesAside.Side(operator, SparkVersionShim.spillLimits(conf))
    val (from, lateType) = (input, lateRow.dataType)
    child.execute().mapPartitionsWithIndex { (partition, rows) =>
      val widen = UnsafeProjection.create(aggregated :+ Literal(None.orNull, lateType), aggregated)
      val takeUp = UnsafeProjection.create(lateColumnsOut, from)
      rows.map(widen) ++ side.of(partition).iterator.map(takeUp)
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): TakeUpLateRowsExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String = nodeName
}

/** After the shuffle, below the merging aggregate: puts late rows aside again, for [[WindowExec]] to emit. This node
  * requires the shuffle itself; otherwise the rows would be put aside before it.
  *
  * @param distributed
  *   the distribution keys; none if a previous stage has distributed rows
  * @param partitions
  *   the number of state partitions, once the query is known
  */
case class PutAsideLateRowsExec(
    operator: String,
    distributed: Option[Seq[Attribute]],
    lateRow: Attribute,
    partitions: Option[Int],
    child: SparkPlan
) extends UnaryExecNode {

  /** Before the query is known, nothing is required of the child. */
  override def requiredChildDistribution: Seq[Distribution] =
    Seq(partitions.fold[Distribution](UnspecifiedDistribution)(ByKey.distribution(distributed, _, conf)))

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def output: Seq[Attribute] = child.output.filterNot(_.exprId == lateRow.exprId)

  override protected def doExecute(): RDD[InternalRow] = {
    val (input, aggregated) = (child.output, output)
    val lateAt = input.indexWhere(_.exprId == lateRow.exprId)
    val side = new SlicesAside.Side(operator, SparkVersionShim.spillLimits(conf))
    child.execute().mapPartitionsWithIndex { (partition, rows) =>
      val narrow = UnsafeProjection.create(aggregated, input)
      lazy val aside = side.of(partition)
      rows.flatMap { row =>
        if (row.isNullAt(lateAt)) Iterator.single(narrow(row))
        else {
          aside.add(row.asInstanceOf[UnsafeRow])
          Iterator.empty
        }
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): PutAsideLateRowsExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String = nodeName
}
