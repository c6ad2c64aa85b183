package org.apache.spark.sql.mullion.operator

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric

import dev.mullion.MullionSuite

class CountedRowsSuite extends MullionSuite {
  test("output rows are counted, and the final action runs once, after the last") {
    val count = new SQLMetric("sum")
    var done = 0
    val rows = new CountedRows(Iterator(1L, 2L, 3L).map(InternalRow(_)), count)({ done += 1 })
    assertEquals(rows.next().getLong(0), 1L)
    assertEquals((count.value, done), (1L, 0))
    assertEquals(rows.map(_.getLong(0)).toList, List(2L, 3L))
    assertEquals((count.value, done), (3L, 1))
    assert(!rows.hasNext)
    intercept[NoSuchElementException](rows.next())
    assertEquals((count.value, done), (3L, 1))
  }
}
