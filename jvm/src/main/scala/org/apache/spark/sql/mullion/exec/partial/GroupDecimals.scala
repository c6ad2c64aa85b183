package org.apache.spark.sql.mullion.exec.partial

import java.math.{BigDecimal => JavaDecimal, BigInteger}

import org.apache.spark.sql.types.{Decimal, DecimalType}

/** Buffers that are decimals of more than 18 digits in records, for generated code. While rows are added to a group,
  * one is its digits as a number of 128 bits, in two words behind the columns, the lower first. When the group is
  * handed on, they become the bytes that Spark writes, and the column's word says where they are and how many.
  *
  * {{{
  *   added to     null bits ... [ ] ... [low] [high]              a sum is an addition of two words
  *   handed on    null bits ... [place, size] ... [bytes     ]    the highest byte first, and no more than there must be
  * }}}
  *
  * What does not fit its type is null, as it is where Spark writes it into a row.
  */
object GroupDecimals {

  // The greatest number of so many digits, in two words.
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

  /** Writes a decimal; false if it does not fit, or is null. */
  def put(page: Array[Long], at: Int, value: Decimal, precision: Int): Boolean =
    if ((value eq null) || !value.changePrecision(precision, value.scale)) false
    else {
      val digits = value.toJavaBigDecimal.unscaledValue
      page(at) = digits.longValue
      page(at + 1) = if (digits.bitLength < 64) digits.longValue >> 63 else digits.shiftRight(64).longValue
      true
    }

  /** Adds digits of the same scale; false if the sum does not fit. */
  def add(page: Array[Long], at: Int, digits: Long, precision: Int): Boolean =
    add(page, at, digits, digits >> 63, precision)

  /** Adds a decimal; false if the sum does not fit.
    *
    * @param scale
    *   the scale of what is held, and of the value's type
    * @param isCast
    *   whether Spark casts the value to the type of what is held
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
      // The value is none of its type: it is what Spark makes of it.
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
    // What a long holds has 19 digits at most, which these decimals have all.
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

  /** Makes of a decimal's two words what Spark writes.
    *
    * @param row
    *   the first word of the record's row in its page
    * @param column
    *   the column's word, counted from there
    * @param at
    *   the first of the two words, counted from there
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
      val left = (16 - size) * 8
      page(row + column) = place | size
      page(row + at) = java.lang.Long.reverseBytes(
        if (left == 0) high else if (left < 64) (high << left) | (low >>> (64 - left)) else low << (left - 64)
      )
      page(row + at + 1) = java.lang.Long.reverseBytes(if (left < 64) low << left else 0L)
    }
  }
}
