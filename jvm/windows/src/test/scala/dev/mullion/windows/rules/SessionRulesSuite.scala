package dev.mullion.windows.rules

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.spec.SessionWindow

class SessionRulesSuite extends PropertySuite {

  private def rules(gap: Long, lateness: Long = 0) =
    SessionRules(SessionWindow(Some(gap)), lateness, None, LatePolicy.Drop)

  private val lengths = Gen.choose(1L, 8L)
  private val times = Gen.choose(-20L, 20L)

  test("a row may be late from the time on at which its own session would have closed, and not before") {
    val sessions = rules(gap = 10, lateness = 5)
    assert(!sessions.mayBeLate(100, 10, clock = 114))
    assert(sessions.mayBeLate(100, 10, clock = 115))
  }

  property("a row may be late iff a session of it alone would have closed") {
    forAll(lengths, lengths, times, times) { (gap, lateness, ts, clock) =>
      val sessions = rules(gap, lateness)
      val closed = BatchClock(clock, clock, wall = 0, rowsCame = true).hadClosed(sessions.closeDue(ts + gap))
      assertEquals(sessions.mayBeLate(ts, gap, clock), closed)
      assertEquals(closed, ts + gap + lateness <= clock)
    }
  }

  property("rows of one slice are less than the gap apart, and so in one session") {
    forAll(lengths, times, times) { (gap, a, b) =>
      val sessions = rules(gap)
      assert(sessions.slice(a, gap) != sessions.slice(b, gap) || Math.abs(a - b) < gap)
      assertEquals(sessions.slice(a + gap, gap), sessions.slice(a, gap) + 1)
    }
  }
}
