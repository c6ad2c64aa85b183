package org.apache.spark.sql.mullion.state.records

import munit.FunSuite

import org.apache.spark.sql.catalyst.expressions.{BoundReference, GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

class KeyOrderSuite extends FunSuite {
  import KeyOrderSuite._

  Seq[(String, Seq[DataType], Seq[Any])](
    ("a number", Seq(LongType), Seq(-7L)),
    ("a text", Seq(StringType), Seq(UTF8String.fromString("LGA-ORD"))),
    ("a text that is null", Seq(StringType), Seq(None.orNull)),
    ("a long decimal", Seq(DecimalType(30, 2)), Seq(Decimal("12345678901234567890.12"))),
    ("a number and a text", Seq(IntegerType, StringType), Seq(3, UTF8String.fromString("late")))
  ).foreach { case (name, types, key) =>
    test(s"rows are sorted by the number that $name has in memory, wherever a record has its times") {
      val inRow = KeyOrder.ordering(references(types, 0)).map(_.child.eval(row(types, key)))
      assertEquals(inRow, Seq[Any](new KeyOrder(types, 0)(row(types, key))))
      val timed = row(LongType +: types, 99L +: key)
      assertEquals(inRow, Seq[Any](new KeyOrder(types, 1)(timed)))
    }
  }

  test("where there is no key there is nothing to sort by") {
    assertEquals(KeyOrder.ordering(Nil), Nil)
    assertEquals(new KeyOrder(Nil, 0)(row(Seq(LongType), Seq(5L))), 0L)
  }
}

object KeyOrderSuite {
  private def references(types: Seq[DataType], from: Int) =
    types.zipWithIndex.map { case (t, i) => BoundReference(from + i, t, nullable = true) }

  private def row(types: Seq[DataType], values: Seq[Any]): UnsafeRow =
    UnsafeProjection.create(references(types, 0))(new GenericInternalRow(values.toArray)).copy()
}
