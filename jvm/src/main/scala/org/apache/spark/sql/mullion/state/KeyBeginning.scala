package org.apache.spark.sql.mullion.state

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types._

/** A number for a key by one of its columns: that of eight bytes is the number itself, of text the first eight bytes
  * count. Records in memory are in this order among those of one time, so keys of near numbers are best asked for one
  * after the other.
  */
private[mullion] final class KeyBeginning(dataType: DataType, at: Int) {
  import KeyBeginning._

  private val kind = dataType match {
    case _: StringType          => Text
    case fixed if isWord(fixed) => Word
    case _                      => Other
  }

  def apply(key: UnsafeRow): Long = kind match {
    case Word                      => key.getLong(at)
    case Text if !key.isNullAt(at) => key.getUTF8String(at).getPrefix
    case _                         => 0L
  }
}

private[mullion] object KeyBeginning {
  // Matched for each row.
  private final val Word = 0
  private final val Text = 1
  private final val Other = 2

  /** Whether all of a value is in a row's word of eight bytes. */
  def isWord(dataType: DataType): Boolean = UnsafeRow.isFixedLength(dataType) && (dataType match {
    case wide: DecimalType => wide.precision <= Decimal.MAX_LONG_DIGITS
    case _                 => true
  })
}
