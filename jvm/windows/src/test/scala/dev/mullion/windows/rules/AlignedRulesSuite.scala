package dev.mullion.windows.rules

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.WindowException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.sets.{Naive, SliceSet}
import dev.mullion.windows.spec.{AlignedWindow, TimeMath}

class AlignedRulesSuite extends PropertySuite {
  import Naive.clamp
  import AlignedRulesSuite._

  override def scalaCheckTestParameters = super.scalaCheckTestParameters.withMinSuccessfulTests(500)

  private def batchAfter(before: Long) = BatchClock(before, before, wall = 0, rowsCame = true)

  test("a negative lateness is rejected with the value and the fix") {
    val refused = intercept[WindowException](rulesOf(AlignedWindow.tumbling(10), -2000000))
    assertEquals(refused.condition, "INVALID_ARGUMENT")
    assert(refused.getMessage.contains("allowedLateness = -2 seconds"), refused.getMessage)
    assert(refused.getMessage.contains("such as '10 minutes'"), refused.getMessage)
  }

  property("a pane closes its lateness after its end, or at the end of time") {
    forAll(anyRules, Naive.anyTime)((rules, end) =>
      assertEquals(rules.closeDue(end), clamp(BigInt(end) + rules.allowedLateness))
    )
  }

  property("a row exactly at the end of a window is not in it") {
    forAll(rules, Naive.time) { (rules, t) =>
      val naive = Naive(rules)
      naive.around(t).foreach { k =>
        assert(naive.holding(naive.start(k)).contains(k))
        assert(!naive.holding(naive.end(k)).contains(k))
        assertEquals(rules.inWindow(naive.end(k).toLong), naive.holding(naive.end(k)).nonEmpty)
      }
    }
  }

  property("a row is in a window iff some window holds it") {
    forAll(anyRules, Naive.anyTime) { (rules, t) =>
      assertEquals(rules.inWindow(t), Naive(rules).holding(t).nonEmpty)
    }
  }

  property("at any time a row is in one pane for each window that covers it, with the bounds of the window") {
    forAll(ofAnyPanes(anyRules), Naive.anyTime) { (rules, t) =>
      val naive = Naive(rules)
      val holding = naive.holding(t)
      if (holding.nonEmpty) {
        val panes = (0 until rules.panesOf(t)).map(rules.paneOf(t, _))
        assertEquals(
          panes.map(pane => (rules.paneStart(pane), rules.paneEnd(pane))),
          holding.map(k => (clamp(naive.start(k)), clamp(naive.end(k))))
        )
        assertEquals(panes.distinct, panes)
      }
    }
  }

  property("the panes that end by a time are those up to `paneEndingBy`") {
    forAll(ofAnyPanes(anyRules), Naive.anyTime, Naive.anyTime) { (rules, t, by) =>
      if (rules.inWindow(t))
        (0 until rules.panesOf(t)).map(rules.paneOf(t, _)).foreach { pane =>
          // A pane that ends with time is clamped there, and no pane starts before the first start.
          if (rules.paneEnd(pane) != Long.MaxValue && (rules.numbersSlices || pane != Long.MinValue))
            assertEquals(rules.paneEnd(pane) <= by, pane <= rules.paneEndingBy(by), s"$pane")
        }
    }
  }

  property("the first open window is the first that is not due") {
    forAll(rules, Naive.time) { (rules, clock) =>
      val due = new Due(rules)
      assertEquals(BigInt(rules.firstOpen(clock)), due.around(clock).find(due(_) > clock).get)
    }
  }

  property(
    "of any length and at any clock since the epoch, the first open window is the first that is not due"
  ) {
    forAll(anyRules, eventClock) { (rules, clock) =>
      val due = new Due(rules)
      assertEquals(BigInt(rules.firstOpen(clock)), due.around(clock).find(due(_) > clock).get)
    }
  }

  property("the windows that close between two clock readings are those that are due between them") {
    forAll(rules, Naive.time, Naive.time) { (rules, a, b) =>
      val (before, now) = (Math.min(a, b), Math.max(a, b))
      val (due, clock) = (new Due(rules), BatchClock(before, now, wall = 0, rowsCame = true))
      val closing = (due.around(before) ++ due.around(now)).distinct.filter(k => due(k) > before && due(k) <= now)
      closing.foreach(k => assert(rules.firstOpen(before) <= k && k < rules.firstOpen(now), s"window $k"))
      (rules.firstOpen(before) until rules.firstOpen(now)).foreach { k =>
        assert(clock.closes(rules.windowCloseDue(k)) && !clock.hadClosed(rules.windowCloseDue(k)), s"window $k")
      }
    }
  }

  property("a row is late iff every window that holds it had closed before its batch") {
    forAll(rules, Naive.time, Naive.time) { (rules, t, before) =>
      val (due, holding) = (new Due(rules), Naive(rules).holding(t))
      if (holding.nonEmpty) assertEquals(rules.isLate(t, batchAfter(before)), holding.forall(due(_) <= before))
    }
  }

  property("at any time and of any length, a row is late iff every window that holds it had closed before its batch") {
    forAll(anyRules, Naive.anyTime, eventClock) { (rules, t, before) =>
      val (due, holding) = (new Due(rules), Naive(rules).holding(t))
      if (holding.nonEmpty) assertEquals(rules.isLate(t, batchAfter(before)), holding.forall(due(_) <= before))
    }
  }

  property("a row is late iff its last window comes before the first open one") {
    forAll(anyRules, Naive.anyTime, eventClock) { (rules, t, before) =>
      assertEquals(rules.isLate(t, batchAfter(before)), rules.grid.windowAt(t) < rules.firstOpen(before))
    }
  }

  property("no row of batch 0 is late, whatever its time") {
    forAll(anyRules, Naive.anyTime) { (rules, t) =>
      assert(!rules.isLate(t, BatchClock(BatchClock.BeforeAllTime, 0, wall = 0, rowsCame = true)))
    }
  }

  property(
    "with a lateness as long as all time, the first open window is the first that is not due"
  ) {
    forAll(Naive.anyLength, Gen.choose(Long.MaxValue - 100000, Long.MaxValue), eventClock) { (spec, lateness, clock) =>
      val rules = rulesOf(spec, lateness)
      val due = new Due(rules)
      assertEquals(BigInt(rules.firstOpen(clock)), due.around(clock).find(due(_) > clock).get)
    }
  }

  property("with a lateness as long as all time, no row since the epoch is late, and none of its panes closes") {
    forAll(Naive.anyLength, Gen.choose(0L, Long.MaxValue), eventClock) { (spec, t, clock) =>
      val rules = rulesOf(spec, Long.MaxValue)
      assert(!rules.isLate(t, batchAfter(clock)))
      new Naive(spec).holding(t).filter(_ >= 0).foreach(k => assert(k >= rules.firstOpen(clock), s"window $k"))
    }
  }

  property("the slices that open windows hold are those from the first slice of the first open window on") {
    forAll(rules, Naive.time, Naive.time) { (rules, t, clock) =>
      val (due, holding) = (new Due(rules), Naive(rules).holding(t))
      val needed = rules.grid.ordinalOf(t) >= rules.grid.firstSlice(rules.firstOpen(clock))
      if (holding.nonEmpty) assertEquals(needed, holding.exists(due(_) > clock))
    }
  }

  property("the window that closes at a time is the one that is due then") {
    forAll(anyRules, Naive.anyTime) { (rules, t) =>
      val (due, naive) = (new Due(rules), Naive(rules))
      val inTime = naive.around(t).filter(k => naive.start(k) >= Long.MinValue && due(k) <= Long.MaxValue)
      inTime.foreach(k => assertEquals(BigInt(rules.windowThatCloses(rules.windowCloseDue(k.toLong))), k, s"$rules"))
    }
  }

  property("no pane that is open and ends after the epoch ends at or before the output watermark") {
    forAll(anyRules, eventClock) { (rules, clock) =>
      val end = rules.grid.windowEnd(rules.firstOpen(clock))
      if (end > 0) assert(end > rules.outputWatermark(clock), s"$end, ${rules.outputWatermark(clock)}")
    }
  }

  property("the output watermark is the clock less the lateness, and never before the epoch") {
    forAll(anyRules, Naive.anyTime) { (rules, clock) =>
      assertEquals(BigInt(rules.outputWatermark(clock)), (BigInt(clock) - rules.allowedLateness).max(0))
    }
  }

  property("windows that clear their emitted rows are separate slices, others share slices") {
    forAll(ofAnyPanes(rules), Gen.listOf(Naive.time), Naive.time) { (rules, times, from) =>
      val panes = times.filter(rules.inWindow).map(t => t -> (0 until rules.panesOf(t)).map(rules.paneOf(t, _)))
      if (rules.knowsKeys) {
        val slices = SliceSet.empty
        panes.foreach { case (t, windows) =>
          if (rules.keepsApart) windows.foreach(slices.add) else slices.add(rules.grid.ordinalOf(t))
        }
        val wanted = panes.flatMap(_._2).distinct.sorted.filter(_ >= from)
        val windows = Iterator.iterate(rules.nextWindow(slices, from))(w => rules.nextWindow(slices, w + 1))
        assertEquals(windows.takeWhile(_ != SliceSet.None).toList, wanted)
        assertEquals(rules.countWindows(slices, from), wanted.length.toLong)
        wanted.foreach { window =>
          val inWindow = Iterator.iterate(slices.atOrAfter(rules.firstSlice(window)))(s => slices.atOrAfter(s + 1))
          inWindow.takeWhile(s => s != SliceSet.None && s <= rules.lastSlice(window)).foreach { slice =>
            val holding = List.newBuilder[Long]
            rules.foreachWindow(slices, slice, from)(holding += _)
            assert(holding.result().contains(window), s"$slice of $window")
            val alone = List.newBuilder[Long]
            rules.foreachWindowOfOne(slices, slice, from)(alone += _)
            val others = SliceSet.empty
            slices.toSeq.filter(_ != slice).foreach(others.add)
            assertEquals(alone.result(), holding.result().filter(w => rules.nextWindow(others, w) != w))
            assertEquals(rules.expires(slice) > rules.windowCloseDue(window), holding.result().exists(_ > window))
          }
        }
      }
    }
  }

  test("a row late for its first window and not for its last is not late") {
    // [0, 10) has closed at 10, [5, 15) is open.
    val rules = rulesOf(AlignedWindow.sliding(10, 5), 0)
    assert(!rules.isLate(7, batchAfter(10)))
    assert(rules.isLate(4, batchAfter(10)))
  }

  test("a row is in time while its pane waits for late rows, and late once the lateness is over") {
    val rules = rulesOf(AlignedWindow.tumbling(10), 3)
    assert(!rules.isLate(9, batchAfter(12)))
    assert(rules.isLate(9, batchAfter(13)))
  }

  test("the description of rules is plain English") {
    val second = 1000000L
    assertEquals(
      rulesOf(AlignedWindow.tumbling(10 * second), 0).describe,
      "tumbling 10 seconds, closes at its end, late rows counted and dropped"
    )
    assertEquals(
      AlignedRules(
        AlignedWindow.sliding(60 * second, second),
        5 * second,
        Some(EarlyFiring(10 * second, unchanged = false)),
        LatePolicy.Emit
      ).describe,
      "sliding 1 minute every 1 second, closes 5 seconds after its end, fires early every 10 seconds if changed, " +
        "late rows emitted"
    )
    assert(
      rulesOf(AlignedWindow.tumbling(1), 0).copy(late = LatePolicy.Reopen).describe.endsWith("late rows reopen panes")
    )
  }
}

object AlignedRulesSuite {

  private def rulesOf(window: AlignedWindow, allowedLateness: Long): AlignedRules =
    AlignedRules(window, allowedLateness, early = None, LatePolicy.Drop)

  private val rules: Gen[AlignedRules] = for {
    window <- Naive.spec
    lateness <- Gen.frequency(1 -> Gen.const(0L), 3 -> Gen.choose(0L, 60L))
  } yield rulesOf(window, lateness)

  private val anyRules: Gen[AlignedRules] = for {
    window <- Naive.anyLength
    lateness <- Gen.frequency(1 -> Gen.const(0L), 3 -> Gen.choose(0, 55).flatMap(bits => Gen.choose(0L, 1L << bits)))
  } yield rulesOf(window, lateness)

  /** For windows that share slices, and for panes with their own rows. */
  private def ofAnyPanes(of: Gen[AlignedRules]): Gen[AlignedRules] = for {
    rules <- of
    accumulate <- Gen.oneOf(true, false)
    empty <- Gen.oneOf(true, false)
  } yield rules.copy(
    early = Option.unless(accumulate)(EarlyFiring(10, unchanged = false)),
    refinements = Refinements.none.copy(accumulate = accumulate, empty = empty)
  )

  /** The possible event clocks: multiples of a millisecond, not before the epoch. */
  private val eventClock: Gen[Long] =
    Naive.anyTime.map(t => TimeMath.fromMillis(TimeMath.toMillis(Math.max(0L, t))))

  /** The closing times of panes, by definition. */
  private final class Due(rules: AlignedRules) {
    private val naive = Naive(rules)

    def apply(window: BigInt): BigInt = naive.end(window) + rules.allowedLateness

    /** Some windows that close before, at and after `clock`. */
    def around(clock: Long): Seq[BigInt] = naive.around(BigInt(clock) - rules.allowedLateness)
  }
}
