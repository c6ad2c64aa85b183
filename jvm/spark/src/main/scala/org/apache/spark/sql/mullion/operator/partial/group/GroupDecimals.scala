package org.apache.spark.sql.mullion.operator.partial.group

import java.math.{BigDecimal => JavaDecimal, BigInteger}

import org.apache.spark.sql.types.{Decimal, DecimalType}

/** Decimal buffers of more than 18 digits in records, for generated code. While rows are added to a group, a buffer is
  * its unscaled 128-bit value in two words after the columns, low word first. When the group is emitted, they are
  * converted to Spark's bytes, and the column's word gets their offset and size.
  *
  * {{{
  *   added to     null bits ... [ ] ... [low] [high]              a sum is an addition of two words
  *   emitted      null bits ... [place, size] ... [bytes     ]    big-endian, minimal length
  * }}}
  *
  * Values out of range are null, as in Spark's rows.
  */
object GroupDecimals {

  // The greatest number of each number of digits, in two words.
  private val greatest = Array.tabulate(DecimalType.MAX_PRECISION + 1)(BigInteger.TEN.pow(_).subtract(BigInteger.ONE))
  private val greatestLow = greatest.map(_.longValue)
  private val greatestHigh = greatest.map(_.shiftRight(64).longValue)

  /** The decimal at a word of a page. */
  def get(page: Array[Long], at: Int, precision: Int, scale: Int): Decimal = {
    val low = page(at)
    val high = page(at + 1)
    val digits =
      if (high == low >> 63) JavaDecimal.valueOf(low, scale)
      else {
        val lower = BigInteger.valueOf(low & Long.MaxValue)
        val of64 = if (low < 0) lower.setBit(63) else lower
        new JavaDecimal(BigInteger.valueOf(high).shiftLeft(64).or(of64), scale)
      }
    Decimal(digits, precision, scale)
  }

  /** Writes a decimal; false if it is out of range, or null. */
  def put(page: Array[Long], at: Int, value: Decimal, precision: Int): Boolean =
    if ((value eq null) || !value.changePrecision(precision, value.scale)) false
    else {
      val digits = value.toJavaBigDecimal.unscaledValue
      page(at) = digits.longValue
      page(at + 1) = if (digits.bitLength < 64) digits.longValue >> 63 else digits.shiftRight(64).longValue
      true
    }

  /** Adds an unscaled value of the same scale; false if the sum is out of range. */
  def add(page: Array[Long], at: Int, digits: Long, precision: Int): Boolean =
    add(page, at, digits, digits >> 63, precision)

  /** Adds a decimal; false if the sum is out of range.
    *
    * @param scale
    *   the scale of the buffer, and of the value's type
    * @param isCast
    *   whether Spark casts the value to the buffer's type
    */
  def add(page: Array[Long], at: Int, value: Decimal, precision: Int, scale: Int, isCast: Boolean): Boolean =
    if (value.scale == scale && value.precision <= Decimal.MAX_LONG_DIGITS)
      add(page, at, value.toUnscaledLong, precision)
    else addWide(page, at, value, precision, scale, isCast)

  private def addWide(page: Array[Long], at: Int, value: Decimal, precision: Int, scale: Int, isCast: Boolean) = {
    val digits = value.toJavaBigDecimal.unscaledValue
    if (value.scale == scale && digits.bitLength < 64) add(page, at, digits.longValue, precision)
    else if (value.scale == scale && digits.bitLength < 128)
      add(page, at, digits.longValue, digits.shiftRight(64).longValue, precision)
    else {
      // The value violates its type: convert it like Spark.
      val summand = if (isCast) value.clone() else value
      if (isCast) summand.changePrecision(precision, scale): Unit
      put(page, at, get(page, at, precision, scale) + summand, precision)
    }
  }

  private def add(page: Array[Long], at: Int, low: Long, high: Long, precision: Int): Boolean = {
    val heldLow = page(at)
    val heldHigh = page(at + 1)
    val sumLow = heldLow + low
    val carry = if (java.lang.Long.compareUnsigned(sumLow, low) < 0) 1L else 0L
    val sumHigh = heldHigh + high + carry
    // A long has at most 19 digits, and these decimals have at least as many.
    val fits = sumHigh == sumLow >> 63 ||
      (((heldHigh ^ sumHigh) & (high ^ sumHigh)) >= 0 && hasDigits(sumLow, sumHigh, precision))
    if (fits) {
      page(at) = sumLow
      page(at + 1) = sumHigh
    }
    fits
  }

  private def hasDigits(low: Long, high: Long, most: Int): Boolean = {
    val absoluteLow = if (high < 0) -low else low
    val absoluteHigh = if (high >= 0) high else if (low == 0) -high else ~high
    val byHigh = java.lang.Long.compareUnsigned(absoluteHigh, greatestHigh(most))
    byHigh < 0 || (byHigh == 0 && java.lang.Long.compareUnsigned(absoluteLow, greatestLow(most)) <= 0)
  }

  /** Converts a decimal's two words to Spark's form.
    *
    * @param row
    *   the first word of the record's row in its page
    * @param column
    *   the column's word, relative to that
    * @param at
    *   the first of the two words, relative to that
    */
  def handOn(page: Array[Long], row: Int, column: Int, at: Int, isNull: Boolean): Unit = {
    val place = (at * 8L) << 32
    if (isNull) {
      page(row + column) = place
      page(row + at) = 0L
      page(row + at + 1) = 0L
    } else {
      val low = page(row + at)
      val high = page(row + at + 1)
      val sign = high >> 63
      val leading =
        if (high != sign) java.lang.Long.numberOfLeadingZeros(high ^ sign)
        else 64 + java.lang.Long.numberOfLeadingZeros(low ^ sign)
      val size = (128 - leading) / 8 + 1
      val padding = (16 - size) * 8
      page(row + column) = place | size
      page(row + at) = java.lang.Long.reverseBytes(
        if (padding == 0) high
        else if (padding < 64) (high << padding) | (low >>> (64 - padding))
        else low << (padding - 64)
      )
      page(row + at + 1) = java.lang.Long.reverseBytes(if (padding < 64) low << padding else 0L)
    }
  }
}
