package org.apache.spark.sql.mullion.expressions.rows

import scala.util.{Failure, Random, Success, Try}

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeProjection
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

import dev.mullion.{MullionSuite, TestSeed}

/** Compares the replacements of Spark's expressions without nulls with these, interpreted. */
class WithoutNullsSuite extends MullionSuite {
  import WithoutNullsSuite._

  private val seed = TestSeed.value

  for (isAnsi <- Seq(true, false))
    test(s"sums of longs and of nulls are Spark's: ANSI $isAnsi (seed $seed)") {
      val sum = SQLConf.withExistingConf(confOf(isAnsi))(Add(of(0, LongType), of(1, LongType)))
      val simplified = WithoutNulls.simplified(sum)
      assert(simplified.isInstanceOf[SumOf])
      val generated = GenerateUnsafeProjection.generate(Seq(simplified))
      val random = new Random(seed)
      val ends = Seq(0L, 1L, -1L, Long.MaxValue, Long.MinValue, Long.MaxValue - 1, Long.MinValue + 1)
      val numbers = ends ++ Seq.fill(40)(random.nextLong()) ++ Seq.fill(10)(random.nextInt().toLong)
      for (one <- numbers; other <- numbers) {
        val row = InternalRow(one, other)
        assertEquals(
          outcome(generated(row).getLong(0)),
          outcome(sum.eval(row).asInstanceOf[Long]),
          s"$one + $other"
        )
      }
    }

  test("coalesce over a value that is there is the value, and a sum within it is still Spark's") {
    val (sum, v) = (of(0, LongType), of(1, LongType))
    val added = Coalesce(Seq(Add(Coalesce(Seq(sum, Literal(0L))), v), sum))
    assertEquals(WithoutNulls.simplified(added), SumOf(sum, v, Add(sum, v)))
    val mayBeNull = Coalesce(Seq(sum.copy(nullable = true), v))
    assertEquals(WithoutNulls.simplified(mayBeNull), mayBeNull)
  }

  for (kind <- Seq(ByteType, IntegerType, LongType, DoubleType, FloatType, DateType, TimestampType, DecimalType(9, 2)))
    test(s"the lesser and the greater of two are Spark's: ${kind.sql} (seed $seed)") {
      val two = Seq(of(0, kind), of(1, kind))
      val ofSpark = Seq(Least(two), Greatest(two))
      val simplified = ofSpark.map(WithoutNulls.simplified)
      assert(simplified.forall(_.isInstanceOf[OneOfTwo]))
      val (generated, spark) =
        (GenerateUnsafeProjection.generate(simplified), UnsafeProjection.create(Array[DataType](kind, kind)))
      val random = new Random(seed)
      val values = valuesOf(kind, random)
      for (one <- values; other <- values) {
        val row = InternalRow(one, other)
        val expected = spark(InternalRow(ofSpark.map(_.eval(row)): _*))
        assertEquals(generated(row), expected, s"$one and $other")
      }
    }
}

private object WithoutNullsSuite {
  private def of(i: Int, kind: DataType) = BoundReference(i, kind, nullable = false)

  private def confOf(isAnsi: Boolean): SQLConf = {
    val conf = new SQLConf()
    conf.setConf(SQLConf.ANSI_ENABLED, isAnsi)
    conf
  }

  /** A value, or the condition of Spark's error. */
  private def outcome(of: => Long): Either[String, Long] =
    Try(of) match {
      case Success(value)             => scala.Right(value)
      case Failure(e: SparkThrowable) => scala.Left(e.getCondition)
      case Failure(other)             => throw other
    }

  private def valuesOf(kind: DataType, random: Random): Seq[Any] = kind match {
    case ByteType               => Seq[Byte](0, 1, -1, Byte.MaxValue, Byte.MinValue)
    case IntegerType | DateType => Seq(0, 1, -1, Int.MaxValue, Int.MinValue) ++ Seq.fill(10)(random.nextInt())
    case DoubleType             =>
      Seq(0.0, -0.0, Double.NaN, Double.PositiveInfinity, Double.NegativeInfinity) ++ Seq.fill(10)(
        random.nextGaussian()
      )
    case FloatType => Seq(0.0f, -0.0f, Float.NaN, Float.MinValue, Float.MaxValue) ++ Seq.fill(10)(random.nextFloat())
    case _: DecimalType => Seq.fill(10)(Decimal(random.nextInt(10000).toLong - 5000, 9, 2)) :+ Decimal(0L, 9, 2)
    case _              => Seq(0L, 1L, -1L, Long.MaxValue, Long.MinValue) ++ Seq.fill(10)(random.nextLong())
  }
}
