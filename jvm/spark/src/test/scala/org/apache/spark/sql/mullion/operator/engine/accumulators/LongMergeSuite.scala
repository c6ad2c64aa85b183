package org.apache.spark.sql.mullion.operator.engine.accumulators

import scala.util.{Random, Try}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.state.record.RecordBytes
import org.apache.spark.sql.types._

import dev.mullion.{MullionSuite, TestSeed}

/** Compares merging of longs with Spark's own interpreted expressions. */
class LongMergeSuite extends MullionSuite {
  import LongMergeSuite._

  private val seed = TestSeed.value

  for (isAnsi <- Seq(true, false))
    test(
      s"merged values are those of Spark's expressions, and the others do not change: ANSI $isAnsi (seed $seed)"
    ) {
      val random = new Random(seed)
      var (merged, nulls, beyond) = (0, 0, 0)
      for (_ <- 1 to 60) {
        val functions = withConf(isAnsi)(Seq.fill(1 + random.nextInt(6))(functionOf(random)))
        val offset = random.nextInt(5)
        val merge = LongMerge.of(functions, offset).getOrElse(fail(s"$functions"))
        for (_ <- 1 to 50) {
          val nullable = random.nextBoolean()
          val work = rowOf(functions.length + random.nextInt(3), random, nullable)
          val row = rowOf(offset + functions.length, random, nullable)
          val before = work.copy()
          val expected = Try(ofSpark(functions, offset, before.copy(), row))
          val isNull = functions.indices.exists(i => before.isNullAt(i) || row.isNullAt(offset + i))
          if (merge(work, row)) {
            merged += 1
            assert(!isNull)
            functions.indices.foreach(i => assertEquals(work.getLong(i), expected.get(i).get, s"$functions: $i"))
            (functions.length until work.numFields).foreach(i => assertEquals(work.getLong(i), before.getLong(i)))
          } else {
            assertEquals(work, before)
            if (isNull) nulls += 1
            else {
              beyond += 1
              assert(functions.indices.exists(i => isBeyond(before.getLong(i), row.getLong(offset + i))))
            }
          }
        }
      }
      assert(merged > 100 && nulls > 100 && beyond > 100, s"$merged merged, $nulls with nulls, $beyond beyond a long")
    }

  for (isAnsi <- Seq(true, false))
    test(
      s"of rows that lie one behind the other those before the first that is left to Spark are merged: ANSI $isAnsi (seed $seed)"
    ) {
      val random = new Random(seed)
      var (whole, nulls, beyond) = (0, 0, 0)
      for (_ <- 1 to 60) {
        val functions = withConf(isAnsi)(Seq.fill(1 + random.nextInt(6))(functionOf(random)))
        val offset = random.nextInt(5)
        val merge = LongMerge.of(functions, offset).getOrElse(fail(s"$functions"))
        for (_ <- 1 to 50) {
          val nullable = random.nextInt(3) == 0
          val work = rowOf(functions.length + random.nextInt(3), random, nullable)
          val rows = Seq.fill(1 + random.nextInt(8))(rowOf(offset + functions.length, random, nullable))
          val expected = work.copy()
          def isNull(row: UnsafeRow) =
            functions.indices.exists(i => expected.isNullAt(i) || row.isNullAt(offset + i))
          def isTooLarge(row: UnsafeRow) =
            functions.indices.exists(i => adds(functions(i)) && isBeyond(expected.getLong(i), row.getLong(offset + i)))
          val count = rows.iterator.takeWhile { row =>
            !isNull(row) && !isTooLarge(row) && {
              val sums = ofSpark(functions, offset, expected.copy(), row)
              sums.zipWithIndex.foreach { case (sum, i) => expected.setLong(i, sum.get) }
              true
            }
          }.size
          assertEquals(merge.all(work, oneBehindTheOther(rows), rows.length), count, s"$functions")
          assertEquals(work, expected, s"$functions")
          if (count == rows.length) whole += 1 else if (isNull(rows(count))) nulls += 1 else beyond += 1
        }
      }
      assert(whole > 100 && nulls > 100 && beyond > 100, s"$whole merged, $nulls with nulls, $beyond beyond a long")
    }

  test(s"a sum in a third row is the sum in place, and both rows stay as they are (seed $seed)") {
    val random = new Random(seed)
    var (merged, left) = (0, 0)
    for (_ <- 1 to 60) {
      val functions = Seq.fill(1 + random.nextInt(6))(functionOf(random))
      val offset = random.nextInt(5)
      val merge = LongMerge.of(functions, offset).getOrElse(fail(s"$functions"))
      for (_ <- 1 to 50) {
        val nullable = random.nextBoolean()
        val one = rowOf(functions.length, random, nullable)
        val row = rowOf(offset + functions.length, random, nullable)
        // Its previous content may have been null.
        val room = rowOf(functions.length, random, nullable = true)
        val (oneBefore, rowBefore, sum) = (one.copy(), row.copy(), one.copy())
        val isSum = merge(sum, row)
        assertEquals(merge.sum(room, one, row), isSum)
        if (isSum) assertEquals(room, sum)
        assertEquals(one, oneBefore)
        assertEquals(row, rowBefore)
        if (isSum) merged += 1 else left += 1
      }
    }
    assert(merged > 100 && left > 100, s"$merged merged, $left left to Spark")
  }

  test("a row with other columns has no sum in a third") {
    val merge = LongMerge.of(Seq(Sum(column(LongType))), 0).get
    val row = rowOf(2, new Random(seed), nullable = false)
    assert(!merge.sum(row.copy(), row, row))
  }

  test("only counts, sums, minima and maxima of longs are not left to Spark") {
    val (long, int, double) = (column(LongType), column(IntegerType), column(DoubleType))
    val others = Seq(Average(long), Sum(double), Min(int), Max(double), BitXorAgg(long), Max(column(DecimalType(9, 2))))
    others.foreach(other => assertEquals(LongMerge.of(Seq(Sum(long), other), 0).isDefined, false, s"$other"))
    assert(LongMerge.of(Nil, 0).isEmpty)
    assert(LongMerge.of(Seq.fill(60)(Sum(long)), 4).isDefined)
    assert(LongMerge.of(Seq.fill(60)(Sum(long)), 5).isEmpty, "null bits of one word")
  }
}

private object LongMergeSuite {
  private def column(kind: DataType) = AttributeReference("v", kind)()

  private def withConf[A](isAnsi: Boolean)(body: => A): A = {
    val conf = new SQLConf()
    conf.setConf(SQLConf.ANSI_ENABLED, isAnsi)
    SQLConf.withExistingConf(conf)(body)
  }

  private def functionOf(random: Random): DeclarativeAggregate = {
    val of = column(if (random.nextBoolean()) LongType else TimestampType)
    random.nextInt(4) match {
      case 0 => Count(of)
      case 1 => Sum(column(LongType))
      case 2 => Min(of)
      case _ => Max(of)
    }
  }

  private val ends = Seq(0L, 1L, -1L, Long.MaxValue, Long.MinValue, Long.MaxValue - 1)

  private def rowOf(columns: Int, random: Random, nullable: Boolean): UnsafeRow = {
    val values = Seq.fill(columns) {
      if (nullable && random.nextInt(8) == 0) None.orNull
      else if (random.nextInt(6) == 0) ends(random.nextInt(ends.length))
      else random.nextInt().toLong
    }
    UnsafeProjection.create(Array.fill[DataType](columns)(LongType))(InternalRow(values: _*)).copy()
  }

  /** Each buffer after Spark's merge. */
  private def ofSpark(
      functions: Seq[DeclarativeAggregate],
      offset: Int,
      work: UnsafeRow,
      row: UnsafeRow
  ): Seq[Option[Long]] = {
    val (held, added) = (functions.flatMap(_.aggBufferAttributes), functions.flatMap(_.inputAggBufferAttributes))
    def padding(n: Int) = Seq.fill(n)(AttributeReference("other", LongType)())
    val input = held ++ padding(work.numFields - held.length) ++ padding(offset) ++ added
    val both = new JoinedRow(work, row)
    functions
      .flatMap(_.mergeExpressions)
      .map(e => Option(BindReferences.bindReference(e, AttributeSeq(input)).eval(both)).map(_.asInstanceOf[Long]))
  }

  private def adds(function: DeclarativeAggregate): Boolean = function match {
    case _: Sum | _: Count => true
    case _                 => false
  }

  /** The first of consecutive rows that do not begin at the start of their array. */
  private def oneBehindTheOther(rows: Seq[UnsafeRow]): UnsafeRow = {
    val bytes = new Array[Byte](8) ++ rows.flatMap(_.getBytes)
    val first = new UnsafeRow(rows.head.numFields)
    first.pointTo(bytes, RecordBytes.offset(8), rows.head.getSizeInBytes)
    first
  }

  private def isBeyond(one: Long, other: Long): Boolean = Try(Math.addExact(one, other)).isFailure
}
