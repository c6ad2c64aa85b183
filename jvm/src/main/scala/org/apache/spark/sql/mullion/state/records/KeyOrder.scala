package org.apache.spark.sql.mullion.state.records

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{DataType, Decimal, DecimalType}

/** The number by which keys are in order, where the rows of a batch are sorted and in memory: so what is asked for one
  * key after the other lies side by side. A key of one column of eight bytes is its own number, any other has a hash.
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
    if (isWord) row.getLong(from) else if (types.isEmpty) 0L else hash(row).getLong(0)
}

private[mullion] object KeyOrder {

  /** How rows are sorted, to be in this order. Two keys of one hash may come mixed. */
  def ordering(keys: Seq[Expression]): Seq[SortOrder] =
    if (keys.isEmpty) Nil else Seq(SortOrder(of(keys), Ascending))

  private def of(keys: Seq[Expression]): Expression =
    if (isWord(keys.map(_.dataType))) keys.head else new XxHash64(keys)

  /** Whether a key is one word of eight bytes in a row. */
  def isWord(types: Seq[DataType]): Boolean = types match {
    case Seq(wide: DecimalType) => wide.precision <= Decimal.MAX_LONG_DIGITS
    case Seq(one)               => UnsafeRow.isFixedLength(one)
    case _                      => false
  }
}
