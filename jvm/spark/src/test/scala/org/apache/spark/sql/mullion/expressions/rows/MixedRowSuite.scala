package org.apache.spark.sql.mullion.expressions.rows

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.CollectList
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String}

import dev.mullion.{MullionSuite, TestSeed}

/** Compares changed rows with rows that Spark's projections write from the same values. */
class MixedRowSuite extends MullionSuite {
  import MixedRowSuite._

  private val seed = TestSeed.value

  test(
    s"a row has the values that were put into it last, whatever its types are, and writes them as Spark (seed $seed)"
  ) {
    val random = new Random(seed)
    for (round <- 1 to 60) {
      val types = Seq.fill(1 + random.nextInt(70))(kinds(random.nextInt(kinds.length))).toArray
      val toUnsafe = UnsafeProjection.create(types)
      val values = types.map(valueOf(random, _))
      val columns = new MixedRow.Columns(types, Map.empty)
      var row = columns.over(toUnsafe(new GenericInternalRow(values.clone())).copy())
      for (_ <- 0 to random.nextInt(4)) {
        for (_ <- 1 to random.nextInt(2 * types.length)) {
          val at = random.nextInt(types.length)
          values(at) = valueOf(random, types(at))
          put(row, at, types(at), values(at))
        }
        val wanted = toUnsafe(new GenericInternalRow(values.clone())).copy()
        val clue = s"round $round of seed $seed: ${types.mkString(", ")}"
        types.indices.foreach(i => assertEquals(row.isNullAt(i), values(i) == null, clue))
        assertEquals(toUnsafe(row).copy(), wanted, clue)
        // The bytes of replaced texts are gone.
        assertEquals(row.written.getSizeInBytes, wanted.getSizeInBytes, clue)
        assertEquals(toUnsafe(row.written).copy(), wanted, clue)
        if (random.nextBoolean()) row = columns.over(row.toUnsafe.copy())
      }
    }
  }

  test("a copy has values of its own") {
    val types = Array[DataType](StringType, LongType)
    val row = new MixedRow.Columns(types, Map.empty).over(UnsafeProjection.create(types)(InternalRow(text("a"), 1L)))
    row.update(0, text("b"))
    val copy = row.copy()
    row.update(0, text("c"))
    row.setLong(1, 2L)
    assertEquals((copy.getUTF8String(0).toString, copy.getLong(1)), ("b", 1L))
    assertEquals((row.getUTF8String(0).toString, row.getLong(1)), ("c", 2L))
  }

  test("the buffer of a typed aggregate is an object from its first reading on, and bytes again when it is written") {
    val function = CollectList(BoundReference(0, LongType, nullable = true), 1, 0)
    val types = Array[DataType](LongType, BinaryType)
    val columns = new MixedRow.Columns(types, Map(1 -> function))
    val list = function.createAggregationBuffer()
    function.update(list, InternalRow(7L))
    val bytes = UnsafeProjection.create(types)(InternalRow(1L, function.serialize(list))).copy()
    val row = columns.over(bytes.copy())
    assertEquals(row.toUnsafe, bytes)
    function.update(row, InternalRow(8L))
    function.update(row, InternalRow(9L))
    val written = columns.over(row.toUnsafe.copy())
    assertEquals(function.eval(written).asInstanceOf[ArrayData].toLongArray().toSeq, Seq(7L, 8L, 9L))
    assertEquals(written.getLong(0), 1L)
  }

  test("an array of bytes is changed in place, as imperative aggregates do") {
    val types = Array[DataType](BinaryType)
    val columns = new MixedRow.Columns(types, Map.empty)
    val row = columns.over(UnsafeProjection.create(types)(InternalRow(Array[Byte](1, 2))).copy())
    row.getBinary(0)(1) = 5
    assertEquals(row.toUnsafe.getBinary(0).toSeq, Seq[Byte](1, 5))
  }
}

private object MixedRowSuite {
  private def text(value: String) = UTF8String.fromString(value)

  private val struct = new StructType().add("a", StringType).add("b", IntegerType)

  private val kinds = Seq[DataType](LongType, IntegerType, BooleanType, DoubleType, ShortType, ByteType, FloatType) ++
    Seq(StringType, BinaryType, DecimalType(10, 2), DecimalType(38, 4), CalendarIntervalType, struct) ++
    Seq(ArrayType(StringType), TimestampType)

  private def valueOf(random: Random, kind: DataType): Any =
    if (random.nextInt(5) == 0) null
    else {
      val number = random.nextInt(100)
      kind match {
        case LongType | TimestampType => number.toLong
        case IntegerType              => number
        case BooleanType              => number % 2 == 0
        case DoubleType               => number / 8.0
        case FloatType                => number / 8.0f
        case ShortType                => number.toShort
        case ByteType                 => number.toByte
        case StringType               => text("x" * number)
        case BinaryType               => Array.fill[Byte](number)(number.toByte)
        case of: DecimalType          => Decimal(BigDecimal(number, of.scale), of.precision, of.scale)
        case CalendarIntervalType     => new CalendarInterval(number, 1, 2L)
        case ArrayType(_, _)          => ArrayData.toArrayData(Array.fill[Any](number % 5)(text("y" * number)))
        case _                        => InternalRow(text("z" * number), number)
      }
    }

  /** Puts a value as generated code does. */
  private def put(row: MixedRow, at: Int, kind: DataType, value: Any): Unit = (kind, value) match {
    case (of: DecimalType, decimal)           => row.setDecimal(at, decimal.asInstanceOf[Decimal], of.precision)
    case (CalendarIntervalType, interval)     => row.setInterval(at, interval.asInstanceOf[CalendarInterval])
    case (_, null)                            => row.setNullAt(at)
    case (LongType | TimestampType, of: Long) => row.setLong(at, of)
    case (_, of: Int)                         => row.setInt(at, of)
    case (_, of: Boolean)                     => row.setBoolean(at, of)
    case (_, of: Double)                      => row.setDouble(at, of)
    case (_, of: Float)                       => row.setFloat(at, of)
    case (_, of: Short)                       => row.setShort(at, of)
    case (_, of: Byte)                        => row.setByte(at, of)
    case (_, of)                              => row.update(at, of)
  }
}
