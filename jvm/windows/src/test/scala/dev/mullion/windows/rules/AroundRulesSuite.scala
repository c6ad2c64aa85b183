package dev.mullion.windows.rules

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.WindowException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.sets.SliceSet
import dev.mullion.windows.spec.AroundWindow

class AroundRulesSuite extends PropertySuite {

  private def rules(before: Long, after: Long, lateness: Long = 0) =
    AroundRules(AroundWindow(before, after), lateness, None, LatePolicy.Drop)

  private def at(before: Long) = BatchClock(before, before, 0, rowsCame = true)

  private val lengths = Gen.choose(0L, 20L)
  private val times = Gen.choose(-50L, 50L)

  test("a window includes both its ends, so its interval ends a microsecond later") {
    val around = rules(before = 5, after = 2)
    assertEquals((around.windowStart(10), around.windowEnd(10)), (5L, 13L))
    assertEquals((around.firstSlice(10), around.lastSlice(10)), (5L, 12L))
  }

  property("the first open window is the first that has not closed") {
    forAll(lengths, lengths, lengths, times) { (before, after, lateness, clock) =>
      val around = rules(before, after, lateness)
      val first = around.firstOpen(clock)
      assert(around.windowCloseDue(first) > clock)
      assert(around.windowCloseDue(first - 1) <= clock)
    }
  }

  property("a window is found again from the time at which it closes") {
    forAll(lengths, lengths, lengths, times) { (before, after, lateness, row) =>
      val around = rules(before, after, lateness)
      assertEquals(around.windowThatCloses(around.windowCloseDue(row)), row)
    }
  }

  property("a row is late iff every window that could hold it has closed") {
    forAll(lengths, lengths, lengths, times, times) { (before, after, lateness, row, clock) =>
      val around = rules(before, after, lateness)
      val holding = (row - after to row + before).filter(w => around.firstSlice(w) <= row && row <= around.lastSlice(w))
      assertEquals(around.isLate(row, at(clock)), holding.forall(around.windowCloseDue(_) <= clock))
    }
  }

  property("a row is in the open windows around all rows within reach") {
    forAll(lengths, lengths, Gen.listOf(times), times, times) { (before, after, rows, row, from) =>
      val around = rules(before, after)
      val slices = SliceSet.empty
      rows.foreach(slices.add)
      val starts = Seq.newBuilder[Long]
      around.foreachWindow(slices, row, from)(starts += _)
      val expected = rows.distinct.sorted.filter(w => w >= from && row - after <= w && w <= row + before)
      assertEquals(starts.result(), expected)
      assertEquals(around.countWindows(slices, from), rows.distinct.count(_ >= from).toLong)
      rows.foreach { slice =>
        val alone = Seq.newBuilder[Long]
        around.foreachWindowOfOne(slices, slice, from)(alone += _)
        assertEquals(alone.result(), Seq(slice).filter(_ >= from))
      }
    }
  }

  test("a negative length is rejected by its name, and accumulate=False with the reason") {
    assert(intercept[WindowException](AroundWindow(-1, 0)).getMessage.contains("before is"))
    assert(intercept[WindowException](AroundWindow(0, -1)).getMessage.contains("after is"))
    val discarding = Refinements(Some(1), onTime = false, accumulate = false)
    val refused = intercept[WindowException](
      AroundRules(AroundWindow(1, 1), 0, None, LatePolicy.Drop, discarding)
    )
    assert(refused.getMessage.contains("because they share rows"))
  }
}
