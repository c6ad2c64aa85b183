package org.apache.spark.sql.mullion.expressions.rows

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, ArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.{MullionSuite, TestSeed}

/** Compares projections with interpreted ones. */
class ProjectionsSuite extends MullionSuite {
  private val seed = TestSeed.value

  private val types = Seq(
    BooleanType,
    ByteType,
    IntegerType,
    LongType,
    DoubleType,
    TimestampType,
    StringType,
    BinaryType,
    DecimalType(10, 2),
    DecimalType(30, 4),
    ArrayType(LongType, containsNull = true),
    new StructType().add("a", LongType).add("b", StringType),
    MapType(StringType, LongType, valueContainsNull = true)
  )

  private def value(random: Random, of: DataType, nullable: Boolean): Any =
    if (nullable && random.nextInt(4) == 0) null
    else
      of match {
        case BooleanType           => random.nextBoolean()
        case ByteType              => random.nextInt().toByte
        case IntegerType           => random.nextInt()
        case LongType              => random.nextLong()
        case TimestampType         => random.nextLong()
        case DoubleType            => random.nextDouble()
        case StringType            => UTF8String.fromString(random.nextString(random.nextInt(12)))
        case BinaryType            => random.nextString(random.nextInt(12)).getBytes("UTF-8")
        case decimal: DecimalType  => Decimal(random.nextInt().toLong, decimal.precision, decimal.scale)
        case ArrayType(element, _) =>
          ArrayData.toArrayData(Array.fill(random.nextInt(4))(value(random, element, nullable = true)))
        case StructType(fields) =>
          InternalRow.fromSeq(fields.toSeq.map(f => value(random, f.dataType, nullable = true)))
        case MapType(key, of, _) =>
          val keys = Array.fill(random.nextInt(4))(value(random, key, nullable = false)).distinct
          ArrayBasedMapData(keys, keys.map(_ => value(random, of, nullable = true)))
        case other => fail(s"$other")
      }

  private def literal(random: Random): Expression = random.nextInt(5) match {
    case 0 => Literal(random.nextInt(3))
    case 1 => Literal(random.nextInt(3).toLong)
    case 2 => Literal(random.nextBoolean())
    case 3 => Literal(s"text ${random.nextInt(3)}")
    case _ => Literal(null, LongType)
  }

  private def expression(random: Random, input: Seq[Attribute]): Expression = {
    def column = input(random.nextInt(input.length))
    def hashed = Seq.fill(1 + random.nextInt(2))(column).filterNot(_.dataType.isInstanceOf[MapType])
    random.nextInt(6) match {
      case 0                    => Alias(literal(random), "l")()
      case 1                    => Alias(column, "c")()
      case 2 if hashed.nonEmpty => new XxHash64(hashed :+ Literal(1))
      case 3                    => HashPartitioning(Seq(Literal("a")), 1 + random.nextInt(9)).partitionIdExpression
      case _                    => column
    }
  }

  test(s"a projection gives what Spark's interpreted one gives, each time it is asked for (seed $seed)") {
    val random = new Random(seed)
    for (_ <- 1 to 60) {
      val input = Seq.fill(1 + random.nextInt(6)) {
        AttributeReference("c", types(random.nextInt(types.length)), nullable = random.nextBoolean())()
      }
      val expressions = Seq.fill(1 + random.nextInt(6))(expression(random, input))
      val rows = Seq.fill(20)(InternalRow.fromSeq(input.map(a => value(random, a.dataType, a.nullable))))
      // Two at once, like two tasks, each with its own row.
      val (one, two) = (Projections(expressions, input), Projections(expressions, input))
      val interpreted =
        InterpretedUnsafeProjection.createProjection(expressions.map(BindReferences.bindReference(_, input)))
      rows.zip(rows.reverse).foreach { case (row, other) =>
        val (first, second) = (one(row), two(other))
        assertEquals(first, interpreted(row).copy())
        assertEquals(second, interpreted(other).copy())
      }
    }
  }

  test("only expressions whose equality determines their code are cached") {
    val long = BoundReference(0, LongType, nullable = true)
    val supported = Seq[Expression](long, Literal(1L), Literal("text"), new XxHash64(Seq(long)))
    supported.foreach(of => assert(Projections.isKnown(Seq(of)), of))
    val place = HashPartitioning(Seq(long), 2).partitionIdExpression
    assert(Projections.isKnown(Seq(place)), place)
    val others = Seq[Expression](
      Literal(0.0),
      Add(long, Literal(1L)),
      Pmod(long, Literal(2L)),
      Rand(Literal(1L)),
      new XxHash64(Seq(Rand(Literal(1L)))),
      Cast(long, StringType)
    )
    others.foreach(of => assert(!Projections.isKnown(Seq(of)), of))
    assert(!Projections.isKnown(Seq.fill(65)(long)))
  }

  test("equal expressions have one class, and others their own") {
    def classFor(of: DataType): Any = Projections(Seq(BoundReference(0, of, nullable = true))).getClass
    assertEquals(classFor(LongType), classFor(LongType))
    assertNotEquals(classFor(LongType), classFor(StringType))
  }
}
