package org.apache.spark.sql.mullion.operator.engine.accumulators

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.mullion.state.record.KeyOrder
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.{MullionSuite, TestSeed}

/** Compares merged groups with a fold over the same rows in plain Scala. */
class MergedGroupsSuite extends MullionSuite {
  private val seed = TestSeed.value
  private val slice = AttributeReference("slice", LongType, nullable = false)()
  private val value = AttributeReference("v", LongType)()
  private val name = AttributeReference("name", StringType)()

  test(s"each group is returned once, with the merged buffers of all its rows (seed $seed)") {
    val random = new Random(seed)
    for (round <- 1 to 40) {
      val functions = Seq(Max(value), Max(name), CollectList(value, 0, 0)).filter(_ => random.nextInt(4) > 0)
      val keys = Seq("a", "b").take(1 + random.nextInt(2)).map(AttributeReference(_, StringType)())
      val of = 1 + random.nextInt(6)
      // With many slices, the groups of a key are found by a table.
      val slices = Seq(3, 40)(random.nextInt(2))
      val groups = Seq.fill(random.nextInt(20 * slices)) {
        // Keys that differ in where a null is have one hash.
        val key = keys.map(_ => if (random.nextInt(3) == 0) null else s"k${random.nextInt(of)}")
        (key, random.nextInt(slices).toLong, random.nextInt(1000).toLong)
      }
      val results = merged(keys, functions, groups)
      val wanted = groups.groupBy(g => (g._1, g._2)).map { case (group, rows) =>
        val values = rows.map(_._3)
        group -> functions.map[Any] {
          case Max(of) if of.dataType == LongType => values.max
          case _: Max                             => values.map(v => s"n$v").max
          case _                                  => values.sorted
        }
      }
      assertEquals(results.map(_._1).distinct.length, results.length, s"round $round of seed $seed")
      assertEquals(results.toMap, wanted, s"round $round of seed $seed")
    }
  }

  /** The groups with the values of their functions. */
  private def merged(
      keys: Seq[Attribute],
      functions: Seq[AggregateFunction],
      groups: Seq[(Seq[String], Long, Long)]
  ): Seq[((Seq[String], Long), Seq[Any])] = {
    val grouping = keys :+ slice
    val partial = grouping ++ functions.flatMap(_.inputAggBufferAttributes)
    val toRow = UnsafeProjection.create(partial.map(_.dataType).toArray)
    val order = new KeyOrder(keys.map(_.dataType), 0)
    val rows = groups
      .map { case (key, start, v) =>
        val buffers = functions.map[Any] {
          case Max(of) if of.dataType == LongType => v
          case _: Max                             => UTF8String.fromString(s"n$v")
          case other                              =>
            val list = other.asInstanceOf[CollectList]
            list.serialize(list.createAggregationBuffer() += v)
        }
        toRow(InternalRow.fromSeq(key.map[Any](UTF8String.fromString) ++ Seq[Any](start) ++ buffers)).copy()
      }
      .sortBy(order(_))
    // The rows of a sort are overwritten.
    val reused = UnsafeRow.createFromByteArray(8, partial.length)
    val input = rows.iterator.map { row =>
      reused.copyFrom(row)
      reused: InternalRow
    }
    new MergedGroups(input, keys, grouping, partial, functions).map { row =>
      val key = keys.indices.map(i => if (row.isNullAt(i)) null else row.getUTF8String(i).toString)
      val values = functions.zipWithIndex.map[Any] { case (f, i) =>
        val at = grouping.length + i
        f match {
          case Max(of) if of.dataType == LongType => row.getLong(at)
          case _: Max                             => row.getUTF8String(at).toString
          case other                              =>
            val list = other.asInstanceOf[CollectList]
            list.deserialize(row.getBinary(at)).toSeq.map(_.asInstanceOf[Long]).sorted
        }
      }
      (key, row.getLong(keys.length)) -> values
    }.toSeq
  }
}
