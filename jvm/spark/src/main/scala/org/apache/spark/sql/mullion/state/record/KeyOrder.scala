package org.apache.spark.sql.mullion.state.record

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.types.{DataType, Decimal, DecimalType, LongType}

/** The number that orders keys, both for sorted rows of a batch and in memory, so that consecutive lookups are close
  * together. A key of one 8-byte column is its own number ([[WordOrder]]), in RocksDB's order, so that lookups there
  * are close together too. Other keys have a hash.
  *
  * @param types
  *   of the key's columns
  * @param from
  *   their index in the rows
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

  /** The sort order of rows. Keys with equal hashes may be interleaved. */
  def ordering(keys: Seq[Expression]): Seq[SortOrder] =
    if (keys.isEmpty) Nil else Seq(SortOrder(of(keys), Ascending))

  private def of(keys: Seq[Expression]): Expression =
    if (isWord(keys.map(_.dataType))) WordOrder(keys.head) else new XxHash64(keys)

  /** True if a key is one 8-byte word in a row. */
  def isWord(types: Seq[DataType]): Boolean = types match {
    case Seq(wide: DecimalType) => wide.precision <= Decimal.MAX_LONG_DIGITS
    case Seq(one)               => UnsafeRow.isFixedLength(one)
    case _                      => false
  }
}

/** The number of a value that takes one word in a row. RocksDB compares keys byte by byte, and words are little-endian:
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
    defineCodeGen(ctx, ev, value => s"org.apache.spark.sql.mullion.state.record.WordOrder$$.MODULE$$.of($value)")

  override protected def withNewChildInternal(newChild: Expression): WordOrder = copy(child = newChild)
}

private[mullion] object WordOrder {
  def of(word: Long): Long = java.lang.Long.reverseBytes(word) ^ Long.MinValue

  /** The word with this number. */
  def wordOf(number: Long): Long = java.lang.Long.reverseBytes(number ^ Long.MinValue)

  def of(value: Boolean): Long = of(if (value) 1L else 0L)
  def of(value: Byte): Long = of(value & 0xffL)
  def of(value: Short): Long = of(value & 0xffffL)
  def of(value: Int): Long = of(value & 0xffffffffL)
  def of(value: Float): Long = of(java.lang.Float.floatToIntBits(value))
  def of(value: Double): Long = of(java.lang.Double.doubleToLongBits(value))
  def of(value: Decimal): Long = of(value.toUnscaledLong)
}
