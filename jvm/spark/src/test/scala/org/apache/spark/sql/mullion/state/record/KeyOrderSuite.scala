package org.apache.spark.sql.mullion.state.record

import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.{BoundReference, GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.{MullionSuite, TestSeed}

class KeyOrderSuite extends MullionSuite {
  import KeyOrderSuite._

  Seq[(String, Seq[DataType], Seq[Any])](
    ("a number", Seq(LongType), Seq(-7L)),
    ("an integer", Seq(IntegerType), Seq(-7)),
    ("a short", Seq(ShortType), Seq((-7).toShort)),
    ("a byte", Seq(ByteType), Seq((-7).toByte)),
    ("a flag", Seq(BooleanType), Seq(true)),
    ("a float", Seq(FloatType), Seq(-0.5f)),
    ("a double", Seq(DoubleType), Seq(Double.NaN)),
    ("a date", Seq(DateType), Seq(20000)),
    ("a decimal", Seq(DecimalType(9, 2)), Seq(Decimal("-12.25"))),
    ("a text", Seq(StringType), Seq(UTF8String.fromString("LGA-ORD"))),
    ("a text that is null", Seq(StringType), Seq(None.orNull)),
    ("a long decimal", Seq(DecimalType(30, 2)), Seq(Decimal("12345678901234567890.12"))),
    ("a number and a text", Seq(IntegerType, StringType), Seq(3, UTF8String.fromString("late")))
  ).foreach { case (name, types, key) =>
    test(s"rows are sorted by the number that $name has in memory, wherever a record has its times") {
      val inRow = KeyOrder.ordering(references(types, 0)).map(_.child.eval(row(types, key)))
      assertEquals(inRow, Seq[Any](new KeyOrder(types, 0)(row(types, key))))
      val generated = UnsafeProjection.create(KeyOrder.ordering(references(types, 0)).map(_.child))
      assertEquals(Seq[Any](generated(row(types, key)).getLong(0)), inRow)
      val timed = row(LongType +: types, 99L +: key)
      assertEquals(inRow, Seq[Any](new KeyOrder(types, 1)(timed)))
    }
  }

  test("numbers have the order of their keys in RocksDB") {
    val seed = TestSeed.value
    val random = new Random(seed)
    val keys = Seq.fill(2000)(random.nextLong() >> random.nextInt(64)).map(n => row(Seq(LongType), Seq(n)))
    val order = new KeyOrder(Seq(LongType), 0)
    val byNumber = keys.sortBy(order(_))
    val byBytes = keys.sortWith { (one, other) =>
      java.util.Arrays.compareUnsigned(one.getBytes, other.getBytes) < 0
    }
    assertEquals(byNumber.map(_.getLong(0)), byBytes.map(_.getLong(0)), s"seed $seed")
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
