package org.apache.spark.sql.mullion.operator

import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter

import dev.mullion.{MullionSuite, TestSeed}

class SortedPrefetchSuite extends MullionSuite {
  private val seed = TestSeed.value

  private def row(number: Long, text: Int): UnsafeRow = {
    val writer = new UnsafeRowWriter(2, text + 32)
    writer.resetRowWriter()
    writer.write(0, number)
    writer.write(1, Array.fill(text)(number.toByte))
    writer.getRow.copy()
  }

  test(s"rows come as they were, short and long, though the sort has but one row for all (seed $seed)") {
    val random = new Random(seed)
    for (count <- Seq(0, 1, 63, 64, 65, 1000)) {
      val rows = Seq.tabulate(count)(i => row(i.toLong, if (random.nextInt(10) == 0) random.nextInt(20000) else 20))
      val only = new UnsafeRow(2)
      val sorted = rows.iterator.map { row =>
        only.pointTo(row.getBytes.clone(), row.getSizeInBytes)
        only
      }
      val copied = new SortedPrefetch(sorted, columns = 2)
      assertEquals(copied.map(_.asInstanceOf[UnsafeRow].copy()).toList, rows.toList)
      assert(!copied.hasNext)
      intercept[NoSuchElementException](copied.next())
    }
  }

  test("a row of the sort stays valid after its page is released") {
    val page = row(1L, 100).getBytes
    val only = new UnsafeRow(2)
    var handed = 0
    val sorted = new SortedPrefetch(
      Iterator.fill(3) {
        // What lay there is gone.
        if (handed > 0) java.util.Arrays.fill(page, 0: Byte)
        val next = row(handed.toLong, 100).getBytes
        System.arraycopy(next, 0, page, 0, next.length)
        only.pointTo(page, page.length)
        handed += 1
        only
      },
      columns = 2
    )
    assertEquals(sorted.map(_.getLong(0)).toList, List(0L, 1L, 2L))
  }
}
