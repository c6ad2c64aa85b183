package org.apache.spark.sql.mullion.expressions.functions

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.trees.UnaryLike
import org.apache.spark.sql.types.{BinaryType, DataType, LongType}

/** Spark's `approx_count_distinct`, with a buffer of variable size. Spark's buffer has all registers of the sketch: 416
  * bytes for each group, at the usual precision, even if it has one value.
  *
  * {{{
  *   update      Spark's function finds the register of a value
  *   buffer      the set registers                                 see `HllRegisters`
  *   result      Spark's function, over all registers
  * }}}
  *
  * @param relativeSD
  *   the maximum relative error
  */
case class ApproxDistinct(
    child: Expression,
    relativeSD: Double,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0
) extends TypedImperativeAggregate[HllRegisters]
    with UnaryLike[Expression] {

  @transient private lazy val function = HyperLogLogPlusPlus(child, relativeSD)

  @transient private lazy val words = function.aggBufferAttributes.length

  @transient private lazy val raised = new HllRegisters.Raised

  // The results by the number of set registers, as long as they are few: the result then depends on the number alone.
  @transient private lazy val estimates = Array.tabulate(HllRegisters.mostEntries(words) + 1) { count =>
    val registers = createAggregationBuffer()
    (0 until count).foreach(registers.raise(_, rank = 1))
    function.eval(registers.toRow)
  }

  override def nullable: Boolean = function.nullable

  override def dataType: DataType = LongType

  override def prettyName: String = function.prettyName

  override def createAggregationBuffer(): HllRegisters = new HllRegisters(words)

  override def update(registers: HllRegisters, input: InternalRow): HllRegisters = {
    raised.register = -1
    function.update(raised, input)
    if (raised.register >= 0) registers.raise(raised.register, raised.rank)
    registers
  }

  override def merge(registers: HllRegisters, other: HllRegisters): HllRegisters = {
    registers.merge(other)
    registers
  }

  override def eval(registers: HllRegisters): Any =
    if (registers.few >= 0) estimates(registers.few) else function.eval(registers.toRow)

  override def serialize(registers: HllRegisters): Array[Byte] = registers.toBytes

  override def deserialize(bytes: Array[Byte]): HllRegisters = HllRegisters.ofBytes(bytes, words)

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)

  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)

  override protected def withNewChildInternal(newChild: Expression): ApproxDistinct = copy(child = newChild)
}

object ApproxDistinct {

  /** The aggregate with Spark's sketches replaced. */
  def replaced(aggregate: AggregateExpression): AggregateExpression = aggregate.aggregateFunction match {
    case HyperLogLogPlusPlus(child, relativeSD, _, _) =>
      aggregate.copy(aggregateFunction = ApproxDistinct(child, relativeSD))
    case _ => aggregate
  }

  /** The types of the buffers that Spark's own function has. */
  def sparkBuffers(function: AggregateFunction): Seq[DataType] = (function match {
    case own: ApproxDistinct => own.function
    case other               => other
  }).inputAggBufferAttributes.map(_.dataType)

  /** The buffers of a function from those of Spark's own. */
  def buffersOf(function: AggregateFunction, spark: Seq[Expression]): Seq[Expression] = function match {
    case _: ApproxDistinct => Seq(RegistersOfSpark(spark))
    case _                 => spark
  }
}

/** The buffer of [[ApproxDistinct]] from the columns of Spark's. */
private final case class RegistersOfSpark(children: Seq[Expression]) extends Expression with CodegenFallback {
  override def nullable: Boolean = false

  override def dataType: DataType = BinaryType

  override def eval(input: InternalRow): Any =
    HllRegisters.ofWords(children.map(_.eval(input).asInstanceOf[Long]).toArray).toBytes

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): RegistersOfSpark =
    copy(children = newChildren)
}
