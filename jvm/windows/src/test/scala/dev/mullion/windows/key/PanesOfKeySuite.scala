package dev.mullion.windows.key

import org.scalacheck.Gen
import org.scalacheck.Prop._

import dev.mullion.PropertySuite
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.session.{MergingSessionsOfKey, SessionIds}
import dev.mullion.windows.rules.{AlignedRules, LatePolicy, Refinements, SessionRules}
import dev.mullion.windows.sets.SlotSizes
import dev.mullion.windows.spec.{AlignedWindow, CountWindow, GlobalTrigger, SessionWindow}

/** The decisions for a key, row by row, compared with windows computed one by one. */
class PanesOfKeySuite extends PropertySuite {
  import PanesOfKeySuite._

  property("a counted row is in the windows that hold its number, and the last row of a window closes it") {
    forAll(Gen.choose(1L, 6L), Gen.choose(1L, 6L), Gen.choose(1, 40), Gen.oneOf(true, false)) {
      (size: Long, every: Long, rows: Int, byPane: Boolean) =>
        val window = CountWindow(size, every)
        val grid = CountPanesOfKey.grid(window)
        var panes = new CountPanesOfKey(window, grid, byPane, 0L)
        val rowsBySlot = scala.collection.mutable.Map.empty[Long, Seq[Long]].withDefaultValue(Nil)
        (0 until rows).foreach { n =>
          val starts = (0L to n by every).filter(start => n < start + size)
          val fate = panes.take(new Arriving())
          assertEquals(fate, if (starts.isEmpty) Fate.InNoWindow else Fate.InPanes)
          if (starts.nonEmpty) {
            panes.slots.foreach(slot => rowsBySlot(slot) = rowsBySlot(slot) :+ n.toLong)
            assertEquals(panes.touched.map(_.start).toSeq, starts)
          }
          panes.closes().foreach { pane =>
            assertEquals(pane.end, n + 1L)
            assertEquals(panes.slotsOf(pane).toSeq.flatMap(rowsBySlot(_)), pane.start until pane.end)
            panes.forget(pane).foreach(rowsBySlot.remove)
          }
          val open = (0L to n by every).filter(start => start + size > n + 1)
          assertEquals(panes.open.map(_.start).toSeq, open)
          assertEquals(
            rowsBySlot.keySet.toSet,
            open.flatMap(s => panes.slotsOf(ArrivalPane(s / every, s, s + size))).toSet
          )
          if (n % 3 == 0) panes = CountPanesOfKey.fromBytes(window, grid, byPane, panes.toBytes)
        }
    }
  }

  test("a global window closes after so many rows, after a condition, and before a change") {
    def closesOf(trigger: GlobalTrigger, rows: Seq[Arriving]): Seq[(Long, Long)] = {
      var panes = GlobalPaneOfKey.empty(trigger)
      rows.flatMap { row =>
        val before = panes.closesBefore(row).map { p => panes.forget(p); (p.start, p.end) }.toList
        panes.take(row)
        val after = panes.closes().map { p => panes.forget(p); (p.start, p.end) }.toList
        panes = GlobalPaneOfKey.fromBytes(trigger, None, panes.toBytes)
        before ++ after
      }
    }
    val marks = Seq("a", "a", "b", "b", "b", "a").map(m => new Arriving(mark = m.getBytes, closes = m == "b"))
    assertEquals(closesOf(GlobalTrigger.Every(2), marks), Seq((0L, 2L), (2L, 4L), (4L, 6L)))
    assertEquals(closesOf(GlobalTrigger.When, marks), Seq((0L, 3L), (3L, 4L), (4L, 5L)))
    assertEquals(closesOf(GlobalTrigger.Changes, marks), Seq((0L, 2L), (2L, 5L)))
  }

  test("a window that begins with the first row ever does not close before it") {
    assert(GlobalPaneOfKey.empty(GlobalTrigger.Changes).closesBefore(new Arriving(mark = "a".getBytes)).isEmpty)
  }

  property(
    "by a key's own clock a row is late iff its panes had closed, and panes close with the row that is past them"
  ) {
    val times = Gen.listOf(Gen.choose(-40L, 40L))
    forAll(Gen.choose(1L, 9L), Gen.choose(1L, 9L), Gen.choose(0L, 5L), Gen.choose(0L, 5L), times) {
      (size: Long, slide: Long, delay: Long, lateness: Long, rows: List[Long]) =>
        val rules = AlignedRules(AlignedWindow.sliding(size, slide), lateness, None, LatePolicy.Drop)
        var panes =
          AlignedPanesOfKey.empty(rules, byPane = false, counted = false, KeyClock.ofKey(delay, Long.MinValue))
        var clock = Long.MinValue
        var open = Set.empty[Long]
        rows.foreach { ts =>
          val starts = startsOf(size, slide, ts).toSet
          val wanted = starts.filterNot(start => clock != Long.MinValue && start + size + lateness <= clock)
          clock = Math.max(clock, ts - delay)
          val fate = panes.take(new Arriving(time = ts))
          assertEquals(
            fate,
            if (starts.isEmpty) Fate.InNoWindow else if (wanted.isEmpty) Fate.Late else Fate.InPanes
          )
          if (fate == Fate.InPanes) assertEquals(panes.touched.map(_.start).toSet, wanted)
          open ++= wanted
          val (closed, left) = open.partition(_ + size + lateness <= clock)
          val closing = panes.closes().map { p => panes.forget(p); p.start }.toList
          assertEquals(closing, closed.toList.sorted)
          open = left
          panes = AlignedPanesOfKey.fromBytes(
            rules,
            byPane = false,
            counted = false,
            KeyClock.ofKey(delay, Long.MinValue),
            panes.toBytes
          )
          assertEquals(panes.open.map(_.start).toList, open.toList.sorted)
        }
    }
  }

  property("a row fires the panes that it makes full, each by its own rows, through its form in state") {
    val times = Gen.listOf(Gen.choose(-40L, 40L))
    forAll(Gen.choose(1L, 9L), Gen.choose(1L, 9L), Gen.choose(1L, 4L), times) {
      (size: Long, slide: Long, count: Long, rows: List[Long]) =>
        val refinements = Refinements.none.copy(count = Some(count), accumulate = false)
        val rules = AlignedRules(AlignedWindow.sliding(size, slide), 0L, None, LatePolicy.Drop, refinements)
        val clock = KeyClock.ofStream(
          BatchClock(BatchClock.BeforeAllTime, BatchClock.BeforeAllTime, wall = 0L, rowsCame = true)
        )
        var panes = AlignedPanesOfKey.empty(rules, byPane = true, counted = true, clock)
        val since = scala.collection.mutable.Map.empty[Long, Long].withDefaultValue(0L)
        rows.foreach { ts =>
          val starts = startsOf(size, slide, ts).toList.sorted
          starts.foreach(start => since(start) += 1)
          val full = if (panes.take(new Arriving(time = ts)) == Fate.InPanes) panes.full.toList else Nil
          assertEquals(full.map(_.start), starts.filter(since(_) == count))
          full.foreach { pane =>
            panes.fire(pane)
            since(pane.start) = 0L
          }
          panes = AlignedPanesOfKey.fromBytes(rules, byPane = true, counted = true, clock, panes.toBytes)
        }
    }
  }

  property("windows without rows close too, in order, from the first on that held a row") {
    val lengths = Gen.choose(1L, 9L)
    forAll(lengths, lengths, Gen.option(Gen.choose(1L, 3L)), Gen.listOf(Gen.choose(-40L, 40L))) {
      (size: Long, slide: Long, count: Option[Long], rows: List[Long]) =>
        // Panes that fire for their rows are cleared.
        val (byPane, counted) = (count.isDefined || size == slide, count.isDefined)
        val refinements = Refinements(count, onTime = false, accumulate = count.isEmpty, empty = true)
        val rules = AlignedRules(AlignedWindow.sliding(size, slide), 0L, None, LatePolicy.Drop, refinements)
        var clock = BatchClock.BeforeAllTime
        var state = Option.empty[Array[Byte]]
        var next = Option.empty[Long]
        var filled = Set.empty[Long]
        rows.foreach { ts =>
          val now = Math.max(clock, ts)
          val ofKey = KeyClock.ofStream(BatchClock(clock, now, wall = 0L, rowsCame = true))
          val panes = state.fold(AlignedPanesOfKey.empty(rules, byPane, counted, ofKey))(
            AlignedPanesOfKey.fromBytes(rules, byPane, counted, ofKey, _)
          )
          val open =
            startsOf(size, slide, ts).filter(start => clock == BatchClock.BeforeAllTime || start + size > clock)
          if (panes.take(new Arriving(time = ts)) == Fate.InPanes) {
            next = Some((open ++ next).min)
            filled ++= open
            panes.full.toList.foreach(panes.fire)
          }
          val closing = panes
            .advance(now)
            .map { pane =>
              val had = panes.hadRows(pane)
              panes.forget(pane)
              pane.start -> had
            }
            .toList
          val wanted = next.toList.flatMap(from => Iterator.iterate(from)(_ + slide).takeWhile(_ + size <= now))
          assertEquals(closing, wanted.map(start => start -> filled(start)))
          next = next.map(_ + wanted.length * slide)
          assertEquals(panes.isEmpty, next.isEmpty)
          next.foreach { from =>
            assertEquals(panes.nextClose, from + size)
            val last = filled.filter(_ >= from).maxOption
            assertEquals(
              panes.openAtEnd.map(_.start).toList,
              last.toList.flatMap(end => Iterator.iterate(from)(_ + slide).takeWhile(_ <= end))
            )
          }
          state = Some(panes.toBytes)
          clock = now
        }
    }
  }

  property("a key's clock that follows the wall clock closes panes as time passes, and makes rows late") {
    val batches = Gen.listOf(Gen.zip(Gen.choose(0L, 9L), Gen.listOf(Gen.choose(-40L, 40L))))
    forAll(Gen.choose(1L, 9L), Gen.choose(0L, 5L), Gen.choose(0L, 5L), Gen.oneOf(true, false), batches) {
      (size: Long, delay: Long, lateness: Long, lateBehind: Boolean, batches: List[(Long, List[Long])]) =>
        val rules = AlignedRules(AlignedWindow.sliding(size, 4L), lateness, None, LatePolicy.Drop)
        def clockAt(wall: Long) = KeyClock.ofKey(delay, BatchClock.BeforeAllTime, Some(wall), lateBehind)
        var wall = 0L
        var state = Option.empty[Array[Byte]]
        // The clock reading and its wall time, for a key with state.
        var reading = Option.empty[(Long, Long)]
        var open = Set.empty[Long]
        batches.foreach { case (passes, rows) =>
          wall += passes
          def now = reading.map { case (clock, at) => clock + wall - at }
          val panes = state.fold(AlignedPanesOfKey.empty(rules, byPane = false, counted = false, clockAt(wall))) {
            AlignedPanesOfKey.fromBytes(rules, byPane = false, counted = false, clockAt(wall), _)
          }
          def dueNow() = {
            val (due, left) = open.partition(start => now.exists(start + size + lateness <= _))
            open = left
            due.toList.sorted
          }
          def closed(of: Iterator[ArrivalPane]) = of.map { p => panes.forget(p); p.start }.toList
          if (rows.isEmpty) panes.ownClock.foreach(clock => assertEquals(closed(panes.advance(clock)), dueNow()))
          rows.foreach { ts =>
            val row = new Arriving(time = ts)
            assertEquals(closed(panes.closesBefore(row)), dueNow())
            val starts = startsOf(size, 4L, ts).toSet
            val wanted = starts.filterNot(start => now.exists(start + size + lateness <= _))
            val isLate = wanted.isEmpty || (lateBehind && now.exists(ts < _))
            val fate = panes.take(row)
            assertEquals(fate, if (starts.isEmpty) Fate.InNoWindow else if (isLate) Fate.Late else Fate.InPanes)
            if (!now.exists(_ >= ts - delay)) reading = Some((ts - delay, wall))
            if (fate == Fate.InPanes) open ++= wanted
            assertEquals(closed(panes.closes()), dueNow())
          }
          assertEquals(panes.open.map(_.start).toList, open.toList.sorted)
          open.minOption.foreach { first =>
            assertEquals(panes.nextClose, wall + first + size + lateness - now.get)
          }
          assertEquals(panes.isEmpty, open.isEmpty)
          if (open.isEmpty) reading = None
          state = Option.unless(panes.isEmpty)(panes.toBytes)
        }
    }
  }

  test("sessions close by the time that passes, and keep their key's clock") {
    val rules = SessionRules(SessionWindow(Some(10L)), 0L, None, LatePolicy.Drop)
    def at(wall: Long) = KeyClock.ofKey(0L, BatchClock.BeforeAllTime, Some(wall))
    val first = MergingSessionsOfKey.empty(rules, joins = true, counted = false, SessionIds.none, at(100L))
    assertEquals(first.take(new Arriving(time = 5L)), Fate.InPanes)
    assertEquals(first.nextClose, 110L)

    def later(wall: Long, of: MergingSessionsOfKey) =
      MergingSessionsOfKey.fromBytes(rules, joins = true, counted = false, SessionIds.none, at(wall), of.toBytes)
    assert(later(109L, first).advance(14L).isEmpty)
    val second = later(110L, first)
    assertEquals(second.ownClock, Some(15L))
    assertEquals(second.advance(15L).map { p => second.forget(p); p.end }.toList, List(15L))
    assert(!second.isEmpty)
    assertEquals(second.nextClose, Long.MaxValue)
    assertEquals(later(111L, second).take(new Arriving(time = 6L)), Fate.Late)
    assertEquals(later(111L, second).take(new Arriving(time = 7L)), Fate.InPanes)
  }

  test("a key's clock is before all time until it saw a row, and never goes back") {
    val clock = KeyClock.ofKey(5L, BatchClock.BeforeAllTime)
    assert(!clock.started)
    assert(clock.see(10L) && clock.now == 5L)
    assert(!clock.see(9L) && clock.now == 5L)
    assert(KeyClock.ofKey(5L, BatchClock.BeforeAllTime).see(Long.MinValue))
  }

  property(
    "a window with a timeout closes with its last row or when the time has passed, and the next one begins there"
  ) {
    forAll(Gen.choose(1L, 4L), Gen.choose(1L, 5L), Gen.listOfN(30, Gen.choose(0L, 3L))) {
      (size: Long, after: Long, steps: List[Long]) =>
        def timeout(wall: Long) = Some(PaneTimeout(after, wall))
        val trigger = GlobalTrigger.Every(size)
        var state = GlobalPaneOfKey.empty(trigger, timeout(0L)).toBytes
        var (wall, rows) = (0L, 0L)
        var open = Option.empty[(Long, Long)] // its first row, and the time of it
        steps.foreach { step =>
          wall += step
          val panes = GlobalPaneOfKey.fromBytes(trigger, timeout(wall), state)
          assertEquals(panes.nextClose, open.fold(Long.MaxValue)(_._2 + after))
          val due = open.filter(_._2 + after <= wall)
          val closed = panes.closesBefore(new Arriving()).map { pane => panes.forget(pane); (pane.start, pane.end) }
          assertEquals(closed.toSeq, due.map(_._1 -> rows).toSeq)
          open = open.filterNot(due.contains).orElse(Some(rows -> wall))
          panes.take(new Arriving())
          rows += 1
          val full = open.filter(rows - _._1 == size)
          assertEquals(
            panes.closes().map { pane => panes.forget(pane); (pane.start, pane.end) }.toSeq,
            full.map(_._1 -> rows).toSeq
          )
          open = open.filterNot(full.contains)
          state = panes.toBytes
        }
    }
  }

  property(
    "by its key's clock a row joins the sessions it touches, and is late if its own had closed and none is open"
  ) {
    val lengths = Gen.choose(1L, 5L)
    forAll(lengths, Gen.choose(0L, 4L), Gen.choose(0L, 4L), Gen.listOfN(30, Gen.choose(0L, 3L))) {
      (gap: Long, lateness: Long, delay: Long, steps: List[Long]) =>
        val rules = SessionRules(SessionWindow(Some(gap)), lateness, None, LatePolicy.Drop)
        def keyClock = KeyClock.ofKey(delay, BatchClock.BeforeAllTime)
        var panes = MergingSessionsOfKey.empty(rules, joins = true, counted = false, SessionIds.none, keyClock)
        var open = Seq.empty[(Long, Long)]
        var clock = Option.empty[Long]
        // Increasing overall, with steps back of up to nine.
        steps.zipWithIndex.map { case (step, i) => i + 3 * step - (i % 3) * 3 }.foreach { ts =>
          val (touched, others) = open.partition { case (first, end) => first <= ts + gap && ts <= end }
          val late = touched.isEmpty && clock.exists(_ >= ts + gap + lateness)
          assertEquals(panes.take(new Arriving(time = ts)), if (late) Fate.Late else Fate.InPanes)
          if (!late) open = (others :+ ((touched.map(_._1) :+ ts).min, (touched.map(_._2) :+ (ts + gap)).max)).sorted
          clock = Some(Math.max(clock.getOrElse(Long.MinValue), ts - delay))
          val (due, rest) = open.partition { case (_, end) => clock.exists(_ >= end + lateness) }
          assertEquals(panes.closes().map { pane => panes.forget(pane); (pane.start, pane.end) }.toSeq, due)
          open = rest
          panes = MergingSessionsOfKey.fromBytes(
            rules,
            joins = true,
            counted = false,
            SessionIds.none,
            keyClock,
            panes.toBytes
          )
          assertEquals(panes.open.map(pane => (pane.start, pane.end)).toSeq, open)
        }
    }
  }

  test("merged sessions have one slot, or several") {
    val first = BatchClock(BatchClock.BeforeAllTime, 0L, wall = 0L, rowsCame = true)
    def panes(joins: Boolean) = {
      val rules = SessionRules(SessionWindow(Some(10L)), 0L, None, LatePolicy.Drop)
      val of =
        MergingSessionsOfKey.empty(rules, joins, counted = false, SessionIds.none, KeyClock.ofStream(first))
      Seq(20L, 40L, 60L).foreach(ts => of.take(new Arriving(time = ts)))
      of.take(new Arriving(time = 30L))
      of.take(new Arriving(time = 50L))
      MergingSessionsOfKey.fromBytes(
        rules,
        joins,
        counted = false,
        SessionIds.none,
        KeyClock.ofStream(first),
        of.toBytes
      ) -> of
    }
    val (joined, live) = panes(joins = true)
    assertEquals(joined.open.toSeq, Seq(ArrivalPane(0L, 20L, 70L)))
    assertEquals(joined.slotsOf(joined.open.next()).toSeq, Seq(0L))
    assertEquals(live.merged.toSeq, Seq(2L))
    val (beside, _) = panes(joins = false)
    assertEquals(beside.slotsOf(beside.open.next()).toSeq, Seq(0L, 1L, 2L))
  }

  test("the rows of a slot are counted across its form in state") {
    val sizes = SlotSizes.empty
    assertEquals(Seq(7L, 7L, -3L).map(sizes.add), Seq(1L, 2L, 1L))
    val read = SlotSizes.fromBytes(sizes.toBytes)
    assertEquals(read.add(7L), 3L)
    read.remove(7L)
    assertEquals(read.add(7L), 1L)
  }

  test("a window of no rows is rejected") {
    Seq(
      () => CountWindow(4L, 4L, Some(0L)),
      () => CountWindow(0L, 1L),
      () => CountWindow(1L, 0L),
      () => GlobalTrigger.Every(0L)
    ).foreach { make =>
      assert(intercept[dev.mullion.windows.WindowException](make()).getMessage.contains("at least 1"))
    }
    val overlapping = intercept[dev.mullion.windows.WindowException](CountWindow(4L, 2L, Some(1L)))
    assert(clue(overlapping.getMessage).contains("Leave every = out"))
  }
}

object PanesOfKeySuite {
  private def startsOf(size: Long, slide: Long, ts: Long): Seq[Long] =
    Iterator.iterate(Math.floorDiv(ts, slide) * slide)(_ - slide).takeWhile(_ > ts - size).toSeq
}
