package org.apache.spark.sql.mullion.operator.metrics

import dev.mullion.MullionSuite
import dev.mullion.windows.clock.Lateness

class LatenessCountsSuite extends MullionSuite {
  private val second = 1000000L

  private def rows(buckets: (Int, Long)*): Array[Long] = {
    val all = new Array[Long](Lateness.Buckets)
    buckets.foreach { case (bucket, count) => all(bucket) = count }
    all
  }

  /** The counts of a task. */
  private def task(partition: Int, of: Array[Long]): LatenessCounts = {
    val counts = new LatenessCounts
    counts.setRows(partition, of)
    counts
  }

  test("the rows of a partition count once, however many actions run its task") {
    val driver = new LatenessCounts
    assert(driver.isZero)
    driver.merge(task(0, rows(1 -> 2L)))
    driver.merge(task(1, rows(1 -> 3L, 6 -> 1L)))
    driver.merge(task(0, rows(1 -> 2L)))
    assertEquals(driver.value.toSeq, rows(1 -> 5L, 6 -> 1L).toSeq)
    assertEquals(driver.copy().value.toSeq, driver.value.toSeq)
    driver.reset()
    assert(driver.isZero)
  }

  test("rows that a node below a shuffle counts are added") {
    val (driver, one, other) = (new LatenessCounts, new LatenessCounts, new LatenessCounts)
    one.count(5 * second)
    other.count(5 * second)
    driver.merge(one)
    driver.merge(other)
    driver.merge(task(0, Array.emptyLongArray))
    assertEquals(driver.value.toSeq, rows(1 -> 2L).toSeq)
  }
}
