package dev.mullion.windows.rules

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.WindowException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.spec.CustomWindow

class RowRangesSuite extends PropertySuite {

  private def rules(lateness: Long): CustomRules =
    CustomRules(CustomWindow("shifts"), lateness, None, LatePolicy.Drop)

  private def entered(of: RowRanges): Seq[(Long, Long)] = (0 until of.count).map(i => (of.start(i), of.end(i)))

  private val ranges: Gen[List[(Long, Long)]] = Gen.listOf(for {
    start <- Gen.choose(-9L, 9L)
    length <- Gen.choose(1L, 5L)
  } yield (start, start + length))

  private val clocks: Gen[Long] = Gen.frequency(5 -> Gen.choose(-15L, 15L), 1 -> BatchClock.BeforeAllTime)

  property("a row enters its open ranges, and when there is none it is late for all, each counted once") {
    forAll(Gen.listOf(ranges), clocks, Gen.choose(0L, 4L)) { (rows, before, lateness) =>
      val of = new RowRanges(rules(lateness), before)
      rows.foreach { row =>
        of.clear()
        row.foreach { case (start, end) => of.add(start, end) }
        val open = row.distinct.filter { case (_, end) =>
          before == BatchClock.BeforeAllTime || end + lateness > before
        }
        assertEquals(of.isEmpty, row.isEmpty)
        assertEquals(of.isLate, row.nonEmpty && open.isEmpty)
        assertEquals(entered(of).sorted, (if (open.isEmpty) row.distinct else open).sorted)
      }
    }
  }

  test("ranges at the ends of time do not wrap") {
    val of = new RowRanges(rules(Long.MaxValue), before = 5)
    of.add(Long.MinValue, Long.MaxValue)
    of.add(Long.MinValue, Long.MinValue + 1)
    assertEquals(entered(of), Seq((Long.MinValue, Long.MaxValue)))
  }

  test("a range that ends at or before its start is rejected, and shown") {
    val of = new RowRanges(rules(0), before = 0)
    val same = intercept[WindowException](of.add(1357034400000000L, 1357034400000000L))
    assert(clue(same.getMessage).contains("starts at 2013-01-01T10:00:00Z and ends at 2013-01-01T10:00:00Z"))
    val turned = intercept[WindowException](of.add(Long.MaxValue, 0L))
    assert(clue(turned.getMessage).contains("must end after its start"))
    assert(turned.getMessage.contains("The ranges are shifts"))
  }

  test("a null in the list is rejected") {
    val refusal = intercept[WindowException](new RowRanges(rules(0), before = 0).addNull())
    assert(clue(refusal.getMessage).contains("has a null in it"))
  }
}
