package org.apache.spark.sql.mullion.operator.partial.group

import java.math.{BigDecimal => JavaDecimal, BigInteger}

import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.types.Decimal

import dev.mullion.{MullionSuite, TestSeed}

/** Compares decimals in records with unbounded integers, and with Spark's. */
class GroupDecimalsSuite extends MullionSuite {
  import GroupDecimalsSuite._

  private val seed = TestSeed.value

  test(s"a decimal is written and read as it is, and handed on as Spark's bytes (seed $seed)") {
    val random = new Random(seed)
    for (_ <- 0 until 20000) {
      val precision = 19 + random.nextInt(20)
      val (digits, scale) = (randomDigits(random, precision), random.nextInt(precision + 1))
      val record = new Record
      val value = decimal(digits, scale, random)
      assert(record.put(value, precision), s"$digits of $precision digits")
      assertEquals(record.get(precision, scale).toJavaBigDecimal, new JavaDecimal(digits, scale))
      assertEquals(record.handedOn(isNull = false), ofSpark(Some(digits), precision, scale))
    }
    assertEquals(new Record().handedOn(isNull = true), ofSpark(None, 38, 2))
  }

  test(s"a sum that fits is exact, and one that does not fit is rejected (seed $seed)") {
    val random = new Random(seed + 1)
    for (_ <- 0 until 50000) {
      val precision = 19 + random.nextInt(20)
      val (held, scale) = (randomDigits(random, precision), random.nextInt(20))
      val of = 1 + random.nextInt(precision)
      val added = randomDigits(random, of)
      val record = new Record
      assert(record.put(decimal(held, scale, random), precision))
      val fits =
        if (of <= Decimal.MAX_LONG_DIGITS && random.nextBoolean()) record.add(added.longValue, precision)
        else record.add(decimal(added, scale, random), precision, scale)
      val sum = held.add(added)
      val clue = s"$held + $added of $precision digits"
      assertEquals(fits, sum.abs.compareTo(BigInteger.TEN.pow(precision)) < 0, clue)
      if (fits) assertEquals(record.get(precision, scale).toJavaBigDecimal.unscaledValue, sum, clue)
      else assertEquals(record.get(precision, scale).toJavaBigDecimal.unscaledValue, held, clue)
    }
  }

  test("a decimal with too many digits or another scale is converted like in Spark") {
    for (digits <- Seq("1", "99", "-12345678901234567890", "9" * 38).map(new BigInteger(_)); scale <- 0 to 3) {
      val (precision, ofType) = (38, 2)
      val record = new Record
      assert(record.put(Decimal(JavaDecimal.ONE.setScale(2), 38, 2), precision))
      val value = Decimal(new JavaDecimal(digits, scale))
      val cast = value.clone()
      cast.changePrecision(precision, ofType)
      val sum = Decimal(JavaDecimal.ONE.setScale(2), 38, 2) + cast
      val fits = sum.changePrecision(precision, sum.scale)
      assertEquals(record.add(value, precision, ofType), fits, s"$value")
      if (fits) assertEquals(record.handedOn(isNull = false), ofSpark(Some(sum.toJavaBigDecimal.unscaledValue), 38, 2))
    }
    assert(!new Record().put(Decimal(new JavaDecimal(BigInteger.TEN.pow(20), 0)), 20))
  }
}

object GroupDecimalsSuite {

  /** The record of a row with one column, after an unrelated word. */
  private final class Record {
    private val page = Array.fill(6)(-1L)
    page(1) = 0L

    def put(value: Decimal, precision: Int): Boolean = GroupDecimals.put(page, 3, value, precision)

    def get(precision: Int, scale: Int): Decimal = GroupDecimals.get(page, 3, precision, scale)

    def add(digits: Long, precision: Int): Boolean = GroupDecimals.add(page, 3, digits, precision)

    def add(value: Decimal, precision: Int, scale: Int): Boolean =
      GroupDecimals.add(page, 3, value, precision, scale, isCast = true)

    def handedOn(isNull: Boolean): Seq[Byte] = {
      GroupDecimals.handOn(page, row = 1, column = 1, at = 2, isNull)
      val row = new UnsafeRow(1)
      row.pointTo(page, GroupBytes.placeOf(1), 32)
      if (isNull) {
        page(1) = 1L
        assert(row.isNullAt(0))
      }
      row.getBytes.toSeq
    }
  }

  private def ofSpark(digits: Option[BigInteger], precision: Int, scale: Int): Seq[Byte] = {
    val writer = new UnsafeRowWriter(1)
    writer.resetRowWriter()
    val value = digits.map(of => Decimal(new JavaDecimal(of, scale), precision, scale))
    writer.write(0, value.orNull, precision, scale)
    writer.getRow.getBytes.toSeq
  }

  /** A number of at most this number of digits, often the greatest, or one at a word boundary. */
  private def randomDigits(random: Random, most: Int): BigInteger = {
    val limit = BigInteger.TEN.pow(most)
    val size = new BigInteger(1 + random.nextInt(127), random.self)
    val edge = BigInteger.ONE.shiftLeft(8 * random.nextInt(17)).subtract(BigInteger.valueOf(random.nextInt(3).toLong))
    val greatest = limit.subtract(BigInteger.valueOf(1L + random.nextInt(3)))
    val digits = Seq(size, edge, greatest)(random.nextInt(3)).mod(limit)
    if (random.nextBoolean()) digits.negate else digits
  }

  /** A decimal in one of Spark's forms. */
  private def decimal(digits: BigInteger, scale: Int, random: Random): Decimal =
    if (digits.bitLength < 59 && random.nextBoolean()) Decimal(digits.longValue, 38, scale)
    else Decimal(new JavaDecimal(digits, scale), 38, scale)
}
