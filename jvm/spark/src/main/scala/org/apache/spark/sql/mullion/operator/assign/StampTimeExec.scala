package org.apache.spark.sql.mullion.operator.assign

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.execution.{CodegenSupport, SparkPlan, UnaryExecNode}

/** On processing time: sets the time of each row to that of its batch.
  *
  * @param now
  *   the clock of the batch, in microseconds, once the batch is known
  */
case class StampTimeExec(operator: String, time: Attribute, now: Option[Long], child: SparkPlan)
    extends UnaryExecNode
    with CodegenSupport {

  override def output: Seq[Attribute] = child.output :+ time

  override def producedAttributes: AttributeSet = AttributeSet(time)

  // Evaluated on use, as without this node.
  override def usedInputs: AttributeSet = AttributeSet.empty

  override def inputRDDs(): Seq[RDD[InternalRow]] = child.asInstanceOf[CodegenSupport].inputRDDs()

  override protected def doProduce(ctx: CodegenContext): String = child.asInstanceOf[CodegenSupport].produce(ctx, this)

  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String = {
    // Not a literal in the code, or each batch would compile its own.
    val clock = ctx.addReferenceObj("clock", new StampTimeExec.Clock(stamp), classOf[StampTimeExec.Clock].getName)
    val stamped = ctx.freshName("now")
    val code = ExprCode(FalseLiteral, JavaCode.variable(stamped, time.dataType))
    s"""
       |long $stamped = $clock.now();
       |${consume(ctx, input :+ code)}
       |""".stripMargin
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val (input, full, now) = (child.output, output, stamp)
    child.execute().mapPartitions { rows =>
      val both = new JoinedRow().withRight(InternalRow(now))
      val project = UnsafeProjection.create(full, full.init :+ full.last)
      require(input.length + 1 == full.length)
      rows.map(row => project(both.withLeft(row)))
    }
  }

  // Without a batch there is no stream, and no row.
  private def stamp: Long = now.getOrElse(0L)

  override protected def withNewChildInternal(newChild: SparkPlan): StampTimeExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String = nodeName
}

object StampTimeExec {

  /** The time for generated code. */
  final class Clock(val now: Long) extends Serializable
}
