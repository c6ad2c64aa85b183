package org.apache.spark.sql.mullion.operator.partial.group

import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateFunction, ImperativeAggregate}
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.catalyst.util.CollationFactory
import org.apache.spark.sql.types._

/** The layout of a group's record, which is a row in Spark's form: words of null bits, one word per column, two more
  * for each decimal buffer of more than 18 digits, one with the place of the objects if there are any, then the strings
  * of keys.
  *
  * @param functions
  *   the functions whose buffers the record has
  */
private[partial] final class GroupLayout(
    val keys: Seq[Attribute],
    val buffers: Seq[Attribute],
    functions: Seq[AggregateFunction]
) {
  val fields: Int = keys.length + buffers.length

  val nullWords: Int = UnsafeRow.calculateBitSetWidthInBytes(fields) / 8

  private val wide = buffers.indices.filter(i => GroupLayout.isWide(buffers(i).dataType))

  /** The columns with two more words, counted from the first key. */
  val decimals: Array[Int] = wide.map(keys.length + _).toArray

  /** True if functions have objects, or code of their own that updates buffers. */
  val hasObjects: Boolean =
    buffers.exists(b => GroupLayout.isObject(b.dataType)) || functions.exists(_.isInstanceOf[ImperativeAggregate])

  /** The size of a record's row without strings, in bytes. */
  val bytes: Int = GroupLayout.words(fields, decimals.length, hasObjects) * 8

  /** The word with the index of the first object. */
  val objectsWord: Int = bytes / 8 - 1

  private val slots: IndexedSeq[Int] =
    buffers.scanLeft(0)((slot, b) => if (GroupLayout.isObject(b.dataType)) slot + 1 else slot).toIndexedSeq

  /** The number of a buffer's object among those of its group. */
  def slotOf(i: Int): Int = keyObjects + slots(i)

  // Keys of strings have a slot in a row with objects, which stays empty.
  private val keyObjects = keys.count(k => GroupLayout.isObject(k.dataType))

  /** The null bits of keys: all in the first word. */
  val keyNulls: Long = (1L << keys.length) - 1

  /** The word of a key, relative to the row. */
  def ofKey(i: Int): Int = nullWords + i

  def ofBuffer(i: Int): Int = nullWords + keys.length + i

  /** The first of a buffer's two additional words. */
  def ofDecimal(i: Int): Int = nullWords + fields + wide.indexOf(i) * 2

  /** The word with a buffer's null bit. */
  def nullWordOfBuffer(i: Int): Int = (keys.length + i) / 64

  def nullBitOfBuffer(i: Int): Int = (keys.length + i) % 64
}

private[partial] object GroupLayout {

  /** With more keys their null bits would span several words. */
  val MostKeys = 60

  /** The number of words of a record's row without strings. */
  def words(fields: Int, decimals: Int, hasObjects: Boolean): Int =
    UnsafeRow.calculateBitSetWidthInBytes(fields) / 8 + fields + decimals * 2 + (if (hasObjects) 1 else 0)

  /** True if a buffer is supported. Decimals must be nullable, because an overflow is null. */
  def isHeld(buffer: Attribute): Boolean =
    isFixed(buffer.dataType) || isObject(buffer.dataType) || (isWide(buffer.dataType) && buffer.nullable)

  /** True if a buffer is an object. */
  def isObject(kind: DataType): Boolean = kind match {
    case _: UserDefinedType[_] => false
    case _                     => !UnsafeRow.isMutable(kind)
  }

  /** True if a column is a decimal of more than 18 digits. */
  def isWide(kind: DataType): Boolean = kind match {
    case decimal: DecimalType => decimal.precision > Decimal.MAX_LONG_DIGITS
    case _                    => false
  }

  /** True if a column always takes one word. */
  def isFixed(kind: DataType): Boolean = kind match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType => true
    case DateType | TimestampType | TimestampNTZType                                          => true
    case _: YearMonthIntervalType | _: DayTimeIntervalType                                    => true
    case decimal: DecimalType                                                                 => !isWide(decimal)
    case _                                                                                    => false
  }

  /** True if a key is a string or binary, with equal bytes for equal keys. */
  def isText(kind: DataType): Boolean = kind match {
    case text: StringType => text.collationId == CollationFactory.UTF8_BINARY_COLLATION_ID
    case BinaryType       => true
    case _                => false
  }
}
