package dev.mullion.windows.key.session

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.{Arriving, Fate, KeyClock, PanesOfKey}
import dev.mullion.windows.rules.{LatePolicy, OrderedRules}
import dev.mullion.windows.spec.OrderedWindow

/** Windows that depend on the order of rows, against their definition for rows in order, and their invariants for rows
  * in any order.
  */
class OrderedSessionsSuite extends PropertySuite {
  import OrderedSessionsSuite.Window

  /** A row: its time, and whether it ends its window. */
  private type Row = (Long, Boolean)

  private def rules(window: OrderedWindow, lateness: Long = 0L): OrderedRules =
    OrderedRules(window, lateness, None, LatePolicy.Drop)

  private def session(gap: Long, most: Option[Long]) = OrderedWindow.session(Some(gap), most, endsWithRow = true)

  private val windows: Gen[OrderedWindow] = Gen.frequency(
    3 -> Gen.zip(Gen.choose(1L, 6L), Gen.option(Gen.choose(0L, 9L))).map { case (gap, more) =>
      session(gap, more.map(gap + _))
    },
    1 -> Gen.choose(1L, 10L).map(OrderedWindow.fromFirstRow)
  )

  private val rows: Gen[List[Row]] =
    Gen.listOf(Gen.zip(Gen.choose(-30L, 30L), Gen.frequency(4 -> Gen.const(false), 1 -> Gen.const(true))))

  /** The windows of rows that come in order, by their definition. */
  private def ofOrdered(window: OrderedWindow, rows: Seq[Row]): Seq[Window] = {
    val groups = rows.foldLeft(Vector.empty[Vector[Row]]) {
      case (done :+ group, row) if !ends(window, group.last) && fits(window, group, row._1) => done :+ (group :+ row)
      case (done, row)                                                                      => done :+ Vector(row)
    }
    groups.map { group =>
      val (first, last) = (group.head._1, group.last._1)
      val open = if (window.fromFirstRow) first + window.maxLength.get else last + window.gap.get
      val most = window.maxLength.fold(open)(length => Math.min(open, first + length))
      Window(first, if (ends(window, group.last)) last + 1 else most, group.length)
    }
  }

  private def ends(window: OrderedWindow, row: Row) = window.endsWithRow && row._2

  private def fits(window: OrderedWindow, group: Seq[Row], ts: Long) =
    (window.fromFirstRow || ts <= group.last._1 + window.gap.get) &&
      window.maxLength.forall(ts < group.head._1 + _)

  private val clock = BatchClock(BatchClock.BeforeAllTime, 0L, wall = 0L, rowsCame = true)

  private def add(of: OrderedSessions, window: OrderedWindow, row: Row, slot: Long): OpenSessions.Session = {
    of.locate(row._1, window.gap.get, ends(window, row), mayEndOpen = true)
    of.add(slot, clock)
  }

  private def spans(of: OrderedSessions) = of.iterator.map(w => Window(w.first, w.end, w.rows.toInt)).toSeq

  property("rows in order make the windows of the definition") {
    forAll(windows, rows) { (window: OrderedWindow, unordered: List[Row]) =>
      val ordered = unordered.sortBy(_._1)
      val open = OrderedSessions.empty(rules(window))
      ordered.zipWithIndex.foreach { case (row, slot) => add(open, window, row, slot.toLong) }
      val expected = ofOrdered(window, ordered)
      // A window is not cut short by the next one if its rows come in order.
      assertEquals(spans(open), expected)
    }
  }

  property("in any order, a row is in a window that covers its time, and windows neither overlap nor shrink") {
    forAll(windows, rows) { (window: OrderedWindow, rows: List[Row]) =>
      var open = OrderedSessions.empty(rules(window))
      rows.zipWithIndex.foreach { case (row, slot) =>
        val before = open.iterator.map(w => w.slots.toSet -> w.end).toSeq
        val mine = add(open, window, row, slot.toLong)
        assert(mine.first <= row._1 && row._1 < mine.end, s"$row in $mine")
        assert(mine.slots.nonEmpty)
        open.iterator.zip(open.iterator.drop(1)).foreach { case (a, b) =>
          assert(a.first <= b.first && a.end <= b.end, s"$a, $b")
          assert(a.end <= b.first || (a.end == b.first + 1 && window.endsWithRow), s"$a overlaps $b")
        }
        window.maxLength.foreach(most => assert(open.iterator.forall(w => w.end - w.first <= most)))
        // Only the row that ends a window moves its end back.
        before.foreach { case (slots, end) =>
          val now = open.iterator.find(w => slots.subsetOf(w.slots.toSet)).get
          assert(now.end >= end || (ends(window, row) && now.end == row._1 + 1), s"$now ended at $end, with $row")
        }
        assertEquals(open.iterator.map(_.rows).sum, slot + 1L)
        val slots = open.iterator.map(_.slots).toSeq
        open = OrderedSessions.fromBytes(
          rules(window),
          open.toBytes(withFirings = true),
          withFirings = true,
          withIds = false
        )
        open.iterator.zip(slots).foreach { case (w, of) => w.slots = of }
      }
    }
  }

  property("without an ending row and a length that matters, the windows are sessions") {
    forAll(Gen.choose(1L, 6L), Gen.listOf(Gen.choose(-30L, 30L))) { (gap: Long, times: List[Long]) =>
      val window = OrderedWindow.session(Some(gap), Some(1000L), endsWithRow = false)
      val (open, sessions) = (OrderedSessions.empty(rules(window)), OpenSessions.empty)
      times.foreach { ts =>
        add(open, window, ts -> false, 0L)
        sessions.add(ts, ts + gap, 1L, clock)(_ => ())
      }
      assertEquals(spans(open), sessions.iterator.map(s => Window(s.first, s.end, s.rows.toInt)).toSeq)
    }
  }

  private def panes(window: OrderedWindow, lateness: Long, before: Long): OrderedSessionsOfKey =
    OrderedSessionsOfKey.empty(
      rules(window, lateness),
      joins = true,
      counted = false,
      SessionIds.none,
      KeyClock.ofStream(clock.copy(before = before))
    )

  private def open(of: PanesOfKey) = of.open.map(pane => (pane.start, pane.end)).toSeq

  test("a row whose end the clock has passed joins an open window, and does not end it") {
    val of = panes(session(10L, None), lateness = 0L, before = 15L)
    assertEquals(of.take(new Arriving(time = 6L)), Fate.InPanes)
    assertEquals(of.take(new Arriving(time = 12L, closes = true)), Fate.InPanes)
    assertEquals(open(of), Seq((6L, 22L)))
    assertEquals(of.take(new Arriving(time = 15L, closes = true)), Fate.InPanes)
    assertEquals(open(of), Seq((6L, 16L)))
  }

  test("a row is late if its window would have closed, and ended with it if it ends windows") {
    def fate(ts: Long, closes: Boolean, lateness: Long = 0L) =
      panes(session(8L, Some(8L)), lateness, before = 15L).take(new Arriving(time = ts, closes = closes))
    assertEquals(fate(7L, closes = false), Fate.Late)
    assertEquals(fate(8L, closes = false), Fate.InPanes)
    assertEquals(fate(14L, closes = true), Fate.Late)
    assertEquals(fate(15L, closes = true), Fate.InPanes)
    assertEquals(fate(14L, closes = true, lateness = 1L), Fate.InPanes)
  }

  test("a window that begins before another one ends there, and may be late for that") {
    val of = panes(OrderedWindow.fromFirstRow(10L), lateness = 0L, before = 0L)
    of.take(new Arriving(time = 4L))
    assertEquals(of.take(new Arriving(time = -3L)), Fate.InPanes)
    assertEquals(open(of), Seq((-3L, 4L), (4L, 14L)))
    val closed = panes(OrderedWindow.fromFirstRow(10L), lateness = 0L, before = 4L)
    closed.take(new Arriving(time = 4L))
    assertEquals(closed.take(new Arriving(time = 3L)), Fate.Late)
  }

  test("windows that open at one time have different ids") {
    val of = OrderedSessionsOfKey.empty(
      rules(session(10L, None)),
      joins = true,
      counted = false,
      SessionIds(kept = true, atOnce = true, batch = 3L),
      KeyClock.ofStream(clock)
    )
    Seq(true, true, false).foreach(closes => of.take(new Arriving(time = 5L, closes = closes)))
    assertEquals(of.open.map(of.nameOf(_)._1).toSeq, Seq("5@3", "5@3.1", "5@3.2"))
    assertEquals(of.open.map(of.slotsOf(_).toSeq).toSeq, Seq(Seq(0L), Seq(1L), Seq(2L)))
  }
}

object OrderedSessionsSuite {
  private final case class Window(first: Long, end: Long, rows: Int)
}
