package org.apache.spark.sql.mullion.operator.partial

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.types._

import dev.mullion.MullionSuite

/** The Spark functions that add decimals to a buffer's words. */
class DecimalSumSuite extends MullionSuite {

  private def column(precision: Int, nullable: Boolean) = AttributeReference("v", DecimalType(precision, 2), nullable)()

  private def sumOf(function: DeclarativeAggregate): Option[DecimalSum] =
    DecimalSum.of(function.aggBufferAttributes.head, function.updateExpressions.head)

  for (precision <- Seq(9, 18, 19, 28, 29, 38); nullable <- Seq(false, true))
    test(s"sum and avg add what they sum: of $precision digits, ${if (nullable) "nullable" else "never null"}") {
      val summand = column(precision, nullable)
      val twice = Add(summand, summand)
      for (of <- Seq(summand, twice)) {
        assertEquals(sumOf(new Sum(of)), Some(DecimalSum(of, isFirst = of.nullable)))
        assertEquals(sumOf(new Average(of)), Some(DecimalSum(of, isFirst = false)))
      }
    }

  test("nondeterministic and unknown summands are added by Spark's expression") {
    val summand = column(20, nullable = true)
    assertEquals(sumOf(new Sum(If(LessThan(Rand(Literal(1L)), Literal(0.5)), summand, summand))), None)
    assertEquals(sumOf(Max(summand)), None)
    assertEquals(sumOf(new First(summand)), None)
    assertEquals(sumOf(new Sum(AttributeReference("v", LongType)())), None)
    val sum = new Sum(summand)
    val buffer = sum.aggBufferAttributes.head
    assertEquals(DecimalSum.of(column(20, nullable = true), sum.updateExpressions.head), None)
    val mayBeNull = DecimalAddNoOverflowCheck(buffer, Cast(summand, buffer.dataType), buffer.dataType)
    assertEquals(DecimalSum.of(buffer, mayBeNull), None)
    val tenths = KnownNotNull(AttributeReference("v", DecimalType(20, 1), nullable = false)())
    assertEquals(DecimalSum.of(buffer, DecimalAddNoOverflowCheck(buffer, tenths, DecimalType(30, 2))), None)
  }
}
