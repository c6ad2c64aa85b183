package org.apache.spark.sql.mullion.operator.engine.output

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.windows.rules.{AlignedRules, FiringKind, LatePolicy}
import dev.mullion.windows.spec.AlignedWindow
import dev.mullion.{MullionSuite, TestSeed}

/** Compares overwritten rows with rows of Spark's code. */
class FiringRowSuite extends MullionSuite {
  import FiringRowSuite._

  private val seed = TestSeed.value

  test(s"the firings of a task are the rows that Spark's code makes, whatever is null (seed $seed)") {
    val random = new Random(seed)
    for (round <- 1 to 12) {
      val query = new Query(random)
      val output = query.output
      var kind = Firing.Close
      var key = query.key()
      for (i <- 1 to PaneOutput.Few + 100) {
        if (random.nextInt(10) == 0) kind = kinds(random.nextInt(kinds.length))
        if (random.nextInt(3) > 0) key = query.key()
        val work = query.accumulator()
        val (start, end, number) = (random.nextLong(), random.nextLong(), random.nextInt())
        // From an output that has built no row yet.
        val expected = query.output.fire(key, start, end, kind, number, work)
        assertEquals(output.fire(key, start, end, kind, number, work), expected, s"round $round, row $i of $query")
      }
    }
  }

  test("rows are written over if the results have a fixed width and the keys are plain") {
    val key = AttributeReference("k", LongType)()
    val text = AttributeReference("t", StringType)()
    val buffer = AttributeReference("sum", LongType)()
    def of(keys: Seq[Attribute], results: Expression*) =
      FiringRow.of(keys, keys, Seq(buffer), results, columns = keys.length + 2 + results.length)
    assert(of(Seq(key), buffer, Add(buffer, Literal(1L)), Literal(2.5)).isDefined)
    assert(of(Nil, buffer).isDefined)
    assert(of(Seq(text), buffer).isDefined, "a key of text")
    assert(of(Seq(AttributeReference("a", ArrayType(LongType))()), buffer).isEmpty, "a key of an array")
    assert(of(Seq(key), Cast(buffer, StringType)).isEmpty, "a result of text")
    assert(of(Seq(key), Rand(Literal(1L))).isEmpty, "a result by chance")
    assert(of(Seq(key), AttributeReference("other", LongType)()).isEmpty, "a result of no accumulator")
    assert(of(Seq.fill(60)(key), buffer, buffer).isDefined, "null bits of one word")
    assert(of(Seq.fill(60)(key), buffer, buffer, buffer).isEmpty, "null bits of two words")
  }
}

private object FiringRowSuite {
  private val rules = AlignedRules(AlignedWindow.sliding(60L, 1L), 0L, early = None, LatePolicy.Drop)
  private val kinds = Firing.Close +: Seq(FiringKind.Early, FiringKind.OnTime, FiringKind.Update).map(Firing.of)

  private val keyTypes = Seq(
    LongType,
    IntegerType,
    BooleanType,
    DoubleType,
    DateType,
    StringType,
    StringType,
    BinaryType,
    DecimalType(38, 0),
    ArrayType(IntegerType, containsNull = false)
  )

  /** A query of random keys, functions and results. */
  private final class Query(random: Random) {
    private def oneOf[A](of: A*): A = of(random.nextInt(of.length))
    private val keys =
      Seq.tabulate(random.nextInt(4))(i => AttributeReference(s"k$i", oneOf(keyTypes: _*))())
    private val other = AttributeReference("other", LongType)()
    // Keys of records have a time too, before or after.
    private val layout = if (random.nextBoolean()) other +: keys else keys :+ other
    private val functions: Seq[DeclarativeAggregate] = Seq.fill(1 + random.nextInt(4)) {
      val long = AttributeReference("v", oneOf(LongType, TimestampType))()
      oneOf(
        Count(long),
        Sum(AttributeReference("v", LongType)()),
        Min(long),
        Max(long),
        Average(AttributeReference("v", LongType)()),
        StddevPop(AttributeReference("v", DoubleType)()),
        Min(AttributeReference("v", IntegerType)())
      )
    }
    private val notes = Seq.fill(random.nextInt(3))(LongType)
    private val values = functions.map(f => AttributeReference("value", f.dataType)())
    private val results: Seq[NamedExpression] = values.map(value => Alias(value, "r")()) ++
      Option.when(random.nextBoolean())(Alias(IsNull(values.head), "isNull")()) ++
      Option.when(random.nextBoolean())(Alias(Literal(None.orNull, LongType), "none")())
    private val lateRow = Option.when(random.nextBoolean())(StructType(Seq(StructField("a", StringType))))
    private val buffers =
      functions.flatMap(_.aggBufferAttributes.map(b => b.dataType -> b.nullable)) ++ notes.map(_ -> false)

    def output: PaneOutput = new PaneOutput(layout, keys, notes, functions, values, results, lateRow, rules)

    private def rowOf(types: Seq[(DataType, Boolean)]): UnsafeRow = {
      val values = types.map { case (kind, nullable) =>
        if (nullable && random.nextInt(6) == 0) None.orNull
        else
          kind match {
            case IntegerType | DateType => random.nextInt()
            case BooleanType            => random.nextBoolean()
            case DoubleType             => random.nextGaussian()
            case StringType             => UTF8String.fromString(text())
            case BinaryType             => text().getBytes
            case wide: DecimalType      => Decimal(BigDecimal(random.nextInt()) * random.nextLong(), wide.precision, 0)
            case _: ArrayType           => ArrayData.toArrayData(Array.fill(random.nextInt(3))(random.nextInt()))
            case _                      => random.nextInt().toLong
          }
      }
      UnsafeProjection.create(types.map(_._1).toArray)(InternalRow.fromSeq(values))
    }

    private def text() = random.alphanumeric.take(8 * random.nextInt(3) + random.nextInt(2)).mkString

    def key(): UnsafeRow = rowOf(layout.map(_.dataType -> true))

    def accumulator(): UnsafeRow = rowOf(buffers)

    override def toString: String = s"$layout, $functions, $results, $lateRow"
  }
}
