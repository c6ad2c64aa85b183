package dev.mullion.windows.key

import scala.collection.mutable

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.{EarlyFiring, FiringKind}

class PaneFiringsSuite extends PropertySuite {
  import PaneFiringsSuite._

  override def scalaCheckTestParameters = super.scalaCheckTestParameters.withMinSuccessfulTests(300)

  property("batch after batch, the panes that fire are those whose clock has moved by the interval") {
    forAll(scenario) { case Scenario(early, batches) =>
      val model = new Model(early)
      var firings = PaneFirings.empty
      batches.foreach { case Batch(clock, touched, closedBefore) =>
        firings = PaneFirings.fromBytes(firings.toBytes)
        touched.foreach { w => firings.touch(w, 1, clock); model.touch(w, clock) }
        firings.removeBefore(closedBefore)
        model.panes.keys.filter(_ < closedBefore).toList.foreach(model.panes.remove)

        val due = firings.due(early, clock).toList
        assertEquals(due, model.due(clock), clock.toString)
        due.foreach { w => firings.fire(w, FiringKind.Early, clock); model.fire(w, clock) }

        assertEquals(firings.isEmpty, model.panes.isEmpty)
        (windows.head - 1 to windows.last + 1).foreach { w =>
          assertEquals(firings.fired(w), model.panes.get(w).fold(0)(_.fired), s"window $w")
        }
      }
    }
  }

  property("the first readings are due iff some pane is, for both clocks only go forward") {
    forAll(scenario) { case Scenario(early, batches) =>
      val firings = PaneFirings.empty
      batches.foreach { case Batch(clock, touched, _) =>
        touched.foreach(firings.touch(_, 1, clock))
        val first = firings.firstReadings(early)
        assertEquals(
          first.exists { case (event, wall) => early.isDue(event, wall, clock) },
          firings.due(early, clock).nonEmpty,
          s"$first in $clock"
        )
        firings.due(early, clock).foreach(firings.fire(_, FiringKind.Early, clock))
      }
    }
  }

  property("a pane that has fired does not fire again in the same batch") {
    forAll(scenario) { case Scenario(early, batches) =>
      val firings = PaneFirings.empty
      batches.foreach { case Batch(clock, touched, _) =>
        touched.foreach(firings.touch(_, 1, clock))
        firings.due(early, clock).foreach(firings.fire(_, FiringKind.Early, clock))
        assertEquals(firings.due(early, clock).toList, Nil)
      }
    }
  }

  private val minute = 60000000L
  private val changedOnly = EarlyFiring(minute, unchanged = false)
  private val allOpen = EarlyFiring(minute, unchanged = true)

  private def at(now: Long, rowsCame: Boolean = true) = BatchClock(before = 0, now, wall = now, rowsCame)

  test("a pane that got no rows since it fired waits for none, unless unchanged panes fire too") {
    val firings = PaneFirings.empty
    firings.touch(1, 1, at(0))
    firings.fire(1, FiringKind.Early, at(minute))
    assertEquals(firings.due(changedOnly, at(9 * minute)).toList, Nil)
    assertEquals(firings.firstReadings(changedOnly), None)
    assertEquals(firings.due(allOpen, at(9 * minute)).toList, List(1L))
    assertEquals(firings.firstReadings(allOpen), Some((minute, minute)))
  }

  test("rows do not put off a firing: the interval is counted from when the pane opened or last fired") {
    val firings = PaneFirings.empty
    firings.touch(1, 1, at(0))
    firings.touch(1, 1, at(minute - 1))
    assertEquals(firings.due(changedOnly, at(minute)).toList, List(1L))
  }

  test("firings are numbered from 0, and a closed pane that opens again begins at 0") {
    val firings = PaneFirings.empty
    firings.touch(1, 1, at(0))
    assertEquals(firings.fired(1), 0)
    firings.fire(1, FiringKind.Early, at(minute))
    firings.fire(1, FiringKind.Early, at(2 * minute))
    assertEquals(firings.fired(1), 2)
    firings.removeBefore(2)
    assert(firings.isEmpty)
    firings.touch(1, 1, at(3 * minute))
    assertEquals(firings.fired(1), 0)
  }

  test("a pane without a record has not fired") {
    assertEquals(PaneFirings.empty.fired(12), 0)
  }

  test("nothing takes no bytes") {
    assertEquals(PaneFirings.empty.toBytes.length, 0)
    assert(PaneFirings.fromBytes(Array.emptyByteArray).isEmpty)
  }

  test("windows and readings at the ends of time come back from bytes") {
    val ends = Seq(Long.MinValue, -1L, 0L, Long.MaxValue)
    val firings = PaneFirings.empty
    ends.foreach(t => firings.touch(t, 1, BatchClock(t, t, t, rowsCame = true)))
    val back = PaneFirings.fromBytes(firings.toBytes)
    assertEquals(back.toBytes.toSeq, firings.toBytes.toSeq)
    assertEquals(back.due(changedOnly, at(Long.MaxValue)).toList, ends.toList)
    assertEquals(back.firstReadings(changedOnly), Some((Long.MinValue, Long.MinValue)))
  }
}

object PaneFiringsSuite {
  private val windows = -4L to 8L

  private final case class Batch(clock: BatchClock, touched: List[Long], closedBefore: Long)
  private final case class Scenario(early: EarlyFiring, batches: List[Batch])

  /** Batches with non-decreasing clocks. */
  private val scenario: Gen[Scenario] = for {
    every <- Gen.choose(1L, 12L)
    unchanged <- Gen.oneOf(true, false)
    n <- Gen.choose(0, 25)
    events <- Gen.listOfN(n, Gen.choose(0L, 6L)).map(_.scanLeft(0L)(_ + _))
    walls <- Gen.listOfN(n, Gen.choose(0L, 6L)).map(_.scanLeft(1000L)(_ + _))
    closed <- Gen.listOfN(n, Gen.frequency(3 -> 0L, 1 -> 1L)).map(_.scanLeft(windows.head)(_ + _))
    touched <- Gen.listOfN(n, Gen.frequency(1 -> Gen.const(Nil), 2 -> Gen.listOf(Gen.oneOf(windows))))
  } yield Scenario(
    EarlyFiring(every, unchanged),
    touched.zipWithIndex.map { case (ws, i) =>
      val clock = BatchClock(events(Math.max(0, i - 1)), events(i), walls(i), rowsCame = ws.nonEmpty)
      Batch(clock, ws.filter(_ >= closed(i)), closed(i))
    }
  )

  private final class Pane(var fired: Int, var event: Long, var wall: Long, var changed: Boolean)

  /** The rules of early firings, one pane at a time. */
  private final class Model(early: EarlyFiring) {
    val panes = mutable.TreeMap.empty[Long, Pane]

    def touch(window: Long, clock: BatchClock): Unit =
      panes.getOrElseUpdate(window, new Pane(0, clock.now, clock.wall, changed = true)).changed = true

    def due(clock: BatchClock): List[Long] = panes.toList.collect {
      case (window, pane)
          if (pane.changed || early.unchanged) &&
            (clock.now - pane.event >= early.every || (!clock.rowsCame && clock.wall - pane.wall >= early.every)) =>
        window
    }

    def fire(window: Long, clock: BatchClock): Unit =
      panes(window) = new Pane(panes(window).fired + 1, clock.now, clock.wall, changed = false)
  }
}
