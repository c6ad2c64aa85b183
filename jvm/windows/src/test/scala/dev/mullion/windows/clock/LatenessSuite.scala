package dev.mullion.windows.clock

import dev.mullion.MullionSuite

class LatenessSuite extends MullionSuite {
  private val second = 1000000L

  test("a bucket has the rows that are less late than its bound") {
    val edges = Lateness.Bounds.flatMap(bound => Seq(bound - 1, bound))
    assertEquals(edges.map(Lateness.bucket), Vector(0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6))
    assertEquals(Lateness.bucket(-1), 0)
    assertEquals(Lateness.bucket(Long.MaxValue), Lateness.Buckets - 1)
  }

  test("each bucket has a name and a label") {
    assertEquals(Lateness.Names.length, Lateness.Buckets)
    assertEquals(Lateness.Labels.length, Lateness.Buckets)
    assertEquals(
      Lateness.Labels.take(2) :+ Lateness.Labels.last,
      Vector("less than 1 second", "less than 10 seconds", "1 day or more")
    )
  }

  test("the delay that keeps 99.9 % of the rows is the bound behind which at most one row in a thousand is late") {
    def keeps(rows: Long, late: Long*) = Lateness.delayToKeep(late, rows)
    assertEquals(keeps(1000, 0, 0, 0, 0, 0, 0, 0), Some(0L))
    assertEquals(keeps(1000, 1, 0, 0, 0, 0, 0, 0), Some(0L))
    assertEquals(keeps(1000, 2, 0, 0, 0, 0, 0, 0), Some(second))
    assertEquals(keeps(1000, 2, 3, 1, 0, 0, 0, 0), Some(10 * second))
    assertEquals(keeps(1000, 0, 0, 0, 0, 0, 5, 1), Some(86400 * second))
    assertEquals(keeps(1000, 0, 0, 0, 0, 0, 0, 2), None)
    assertEquals(keeps(Long.MaxValue, Long.MaxValue / 7, 0, 0, 0, 0, 0, 0), Some(second))
  }
}
