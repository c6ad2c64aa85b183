package org.apache.spark.sql.mullion.pyfunction.keyed

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  AttributeSeq,
  AttributeSet,
  BindReferences,
  BoundReference,
  InterpretedUnsafeProjection
}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.mullion.pyfunction.dataflow.{FlowInputs, InputsProgram}
import org.apache.spark.sql.mullion.shim.{PythonFrames, SparkVersionShim}

/** The stateless steps of a dataflow, over entries of its input log: rows of a number and bytes. Entries that the JVM
  * cannot decode are processed by Python.
  *
  * @param input
  *   the columns of the child with the entries
  * @param process
  *   receives entries as frames, and returns Arrow streams of rows of `output` as frames
  */
case class FlowEntries(
    input: Seq[Attribute],
    program: InputsProgram,
    process: PythonFrames.Code,
    output: Seq[Attribute],
    child: LogicalPlan
) extends UnaryNode {
  override def producedAttributes: AttributeSet = outputSet

  override protected def withNewChildInternal(newChild: LogicalPlan): FlowEntries = copy(child = newChild)
}

case class FlowEntriesExec(
    input: Seq[Attribute],
    program: InputsProgram,
    process: PythonFrames.Code,
    output: Seq[Attribute],
    child: SparkPlan
) extends UnaryExecNode {
  override def producedAttributes: AttributeSet = outputSet

  override lazy val metrics: Map[String, SQLMetric] = SparkVersionShim.pythonMetrics(sparkContext)

  override def outputPartitioning: Partitioning = UnknownPartitioning(child.outputPartitioning.numPartitions)

  override protected def withNewChildInternal(newChild: SparkPlan): FlowEntriesExec = copy(child = newChild)

  override protected def doExecute(): RDD[InternalRow] = {
    val frames = PythonFrames(process, conf, metrics)
    val (said, columns, layout) = (program, input, child.output)
    val asOutput = output.zipWithIndex.map { case (column, i) => BoundReference(i, column.dataType, column.nullable) }
    child.execute().mapPartitionsWithIndexInternal { (index, rows) =>
      // Generating code for each task takes longer than processing these few rows.
      val project = InterpretedUnsafeProjection.createProjection(asOutput)
      val inputs = new FlowInputs(said)
      val entry = InterpretedUnsafeProjection.createProjection(
        BindReferences.bindReferences(columns, AttributeSeq(layout))
      )
      val entries = rows.map(entry).map(row => (row.getLong(0), row.getBinary(1).clone)).toVector
      val (left, made) = entries.partitionMap(entry => inputs.over(entry._1, entry._2).toRight(entry))
      val ofPython =
        if (left.isEmpty) Iterator.empty
        else {
          val frame = left.iterator.map { case (number, data) => InternalRow(number.toInt, data) }
          PythonFrames.decode(frames.run(index, frame).map(_.getBinary(1).clone), TaskContext.get())
        }
      made.iterator.flatten.map(project) ++ ofPython.map(project)
    }
  }
}
