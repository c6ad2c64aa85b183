package org.apache.spark.sql.mullion.state.records

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.types.{DataType, Decimal, DecimalType, LongType}

/** The number by which keys are in order, where the rows of a batch are sorted and in memory: so what is asked for one
  * key after the other lies side by side. A key of one column of eight bytes is its own number ([[WordOrder]]), in the
  * order that RocksDB has it in, so that what is looked up there lies side by side, too; any other has a hash.
  *
  * @param types
  *   of the key's columns
  * @param from
  *   where they start in the rows that are asked about
  */
private[mullion] final class KeyOrder(types: Seq[DataType], from: Int) {
  private val isWord = KeyOrder.isWord(types)
  private lazy val hash = UnsafeProjection.create(
    Seq(KeyOrder.of(types.zipWithIndex.map { case (t, i) => BoundReference(from + i, t, nullable = true) }))
  )

  def apply(row: UnsafeRow): Long =
    if (isWord) WordOrder.of(row.getLong(from)) else if (types.isEmpty) 0L else hash(row).getLong(0)
}

private[mullion] object KeyOrder {

  /** How rows are sorted, to be in this order. Two keys of one hash may come mixed. */
  def ordering(keys: Seq[Expression]): Seq[SortOrder] =
    if (keys.isEmpty) Nil else Seq(SortOrder(of(keys), Ascending))

  private def of(keys: Seq[Expression]): Expression =
    if (isWord(keys.map(_.dataType))) WordOrder(keys.head) else new XxHash64(keys)

  /** True if a key is one word of eight bytes in a row. */
  def isWord(types: Seq[DataType]): Boolean = types match {
    case Seq(wide: DecimalType) => wide.precision <= Decimal.MAX_LONG_DIGITS
    case Seq(one)               => UnsafeRow.isFixedLength(one)
    case _                      => false
  }
}

/** The number of a value that takes one word in a row. RocksDB compares the bytes of its keys from the first on, and a
  * word has its least byte first:
  *
  * {{{
  *   value     in a row and in RocksDB   number: greater where RocksDB's bytes are
  *   1         01 00 00 00 ...           01 00 00 00 ...  less 2 to the 63rd
  *   256       00 01 00 00 ...           00 01 00 00 ...  less 2 to the 63rd
  * }}}
  */
private[mullion] final case class WordOrder(child: Expression) extends UnaryExpression {
  override def dataType: DataType = LongType
  override def nullIntolerant: Boolean = true

  override protected def nullSafeEval(value: Any): Any = value match {
    case v: Boolean => WordOrder.of(v)
    case v: Byte    => WordOrder.of(v)
    case v: Short   => WordOrder.of(v)
    case v: Int     => WordOrder.of(v)
    case v: Long    => WordOrder.of(v)
    case v: Float   => WordOrder.of(v)
    case v: Double  => WordOrder.of(v)
    case v: Decimal => WordOrder.of(v)
    case other      => throw new IllegalStateException(s"a ${other.getClass} takes no word")
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode =
    defineCodeGen(ctx, ev, value => s"org.apache.spark.sql.mullion.state.records.WordOrder$$.MODULE$$.of($value)")

  override protected def withNewChildInternal(newChild: Expression): WordOrder = copy(child = newChild)
}

private[mullion] object WordOrder {
  def of(word: Long): Long = java.lang.Long.reverseBytes(word) ^ Long.MinValue

  /** The word that has this number. */
  def wordOf(number: Long): Long = java.lang.Long.reverseBytes(number ^ Long.MinValue)

  def of(value: Boolean): Long = of(if (value) 1L else 0L)
  def of(value: Byte): Long = of(value & 0xffL)
  def of(value: Short): Long = of(value & 0xffffL)
  def of(value: Int): Long = of(value & 0xffffffffL)
  def of(value: Float): Long = of(java.lang.Float.floatToIntBits(value))
  def of(value: Double): Long = of(java.lang.Double.doubleToLongBits(value))
  def of(value: Decimal): Long = of(value.toUnscaledLong)
}
