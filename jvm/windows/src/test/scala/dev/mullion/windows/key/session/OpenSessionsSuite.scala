package dev.mullion.windows.key.session

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.FiringKind

/** Sessions against their definition: the result of merging all that touch. */
class OpenSessionsSuite extends PropertySuite {
  private val clock = BatchClock(before = 10, now = 20, wall = 30, rowsCame = true)

  private def spans(set: OpenSessions): Seq[(Long, Long)] = (0 until set.size).map(i => (set(i).first, set(i).end))

  private def add(set: OpenSessions, first: Long, end: Long): Seq[Long] = {
    val absorbed = Seq.newBuilder[Long]
    set.add(first, end, 1, clock)(session => absorbed += session.first)
    absorbed.result()
  }

  private def joined(pieces: Seq[(Long, Long)]): Seq[(Long, Long)] =
    pieces.sorted.foldLeft(Vector.empty[(Long, Long)]) {
      case (done :+ last, (first, end)) if first <= last._2 => done :+ (last._1 -> Math.max(last._2, end))
      case (done, piece)                                    => done :+ piece
    }

  private val pieces =
    Gen.listOf(Gen.zip(Gen.choose(-200L, 200L), Gen.choose(1L, 20L)).map { case (at, gap) => (at, at + gap) })

  property("sessions are the pieces, joined where they touch, in whatever order they came") {
    forAll(pieces) { added =>
      val set = OpenSessions.empty
      added.foreach { case (first, end) => add(set, first, end) }
      assertEquals(spans(set), joined(added))
    }
  }

  property("a set comes back from bytes as it was, and all its sessions are old") {
    forAll(pieces, Gen.oneOf(true, false)) { (added, firings) =>
      val set = OpenSessions.empty
      added.foreach { case (first, end) => add(set, first, end) }
      if (!set.isEmpty) set(0).fire(FiringKind.Early, clock)
      val read = OpenSessions.fromBytes(set.toBytes(firings), firings)
      assertEquals(spans(read), spans(set))
      read.foreach(s => assert(s.isOld))
      if (firings) {
        def noted(of: OpenSessions) =
          (0 until of.size).map(of(_)).map(s => (s.fired, s.eventReading, s.wallReading, s.rows))
        assertEquals(noted(read), noted(set))
      }
    }
  }

  property("sessions that close leave the others as they were, whatever is added after them") {
    val steps = Gen.listOf(Gen.zip(Gen.choose(-200L, 200L), Gen.choose(1L, 20L), Gen.oneOf(true, false, false)))
    forAll(steps) { all =>
      val set = OpenSessions.empty
      var model = Seq.empty[(Long, Long)]
      all.foreach { case (at, gap, closes) =>
        add(set, at, at + gap)
        model = joined(model :+ (at -> (at + gap)))
        if (closes) {
          set.removeFirst()
          model = model.tail
        }
        assertEquals(spans(set), model)
        assertEquals(spans(OpenSessions.fromBytes(set.toBytes(false), false)), model)
        assertEquals(set.isEmpty, model.isEmpty)
      }
    }
  }

  test("a million sessions of a key close in the time of a million") {
    val set = OpenSessions.empty
    (0L until 1000000L).foreach(i => set.add(3 * i, 3 * i + 1, 1, clock)(_ => ()))
    (0L until 1000000L).foreach { i =>
      assert(set(0).first == 3 * i)
      set.removeFirst()
    }
    assert(set.isEmpty)
  }

  property("a span touches the sessions that it would merge with") {
    forAll(pieces, Gen.choose(-220L, 220L), Gen.choose(0L, 20L)) { (added, at, length) =>
      val set = OpenSessions.empty
      added.foreach { case (first, end) => add(set, first, end) }
      val touched = spans(set).filter { case (first, end) => first <= at + length && at <= end }
      assertEquals(set.touches(at, at + length), touched.nonEmpty)
      assertEquals(add(set, at, at + length), touched.map(_._1))
    }
  }

  test("a row exactly at the end of a session joins it, and one a microsecond later does not") {
    val set = OpenSessions.empty
    add(set, 0, 10)
    assertEquals(add(set, 10, 20), Seq(0L))
    assertEquals(add(set, 21, 31), Nil)
    assertEquals(spans(set), Seq((0L, 20L), (21L, 31L)))
  }

  test("of merged sessions, the earliest that was open before the batch continues") {
    def twoOld = OpenSessions.fromBytes(
      {
        val set = OpenSessions.empty
        add(set, 10, 20)
        add(set, 40, 50)
        set(0).fire(FiringKind.Early, clock)
        (1 to 3).foreach(_ => set(1).fire(FiringKind.Early, clock))
        set.toBytes(withFirings = true)
      },
      withFirings = true
    )
    val orders = Seq((0L, 12L), (18L, 30L), (28L, 45L)).permutations
    orders.foreach { order =>
      val set = twoOld
      order.foreach { case (first, end) => add(set, first, end) }
      assertEquals(spans(set), Seq((0L, 50L)))
      assertEquals(set(0).fired, 1)
      assert(set(0).rows > 0)
    }
  }

  test("a new session that contains an old one continues as the old one") {
    val set = OpenSessions.fromBytes(
      {
        val old = OpenSessions.empty
        add(old, 40, 50)
        old(0).fire(FiringKind.Early, clock)
        old.toBytes(withFirings = true)
      },
      withFirings = true
    )
    add(set, 20, 30)
    add(set, 30, 41)
    assertEquals(spans(set), Seq((20L, 50L)))
    assertEquals(set(0).fired, 1)
  }

  test("a session has been on time at the end that it has, in whatever order rows made it grow") {
    def onTime(ends: (Long, Long)*): OpenSessions = {
      val set = OpenSessions.empty
      ends.foreach { case (first, end) => add(set, first, end) }
      set.foreach(_.fire(FiringKind.OnTime, clock))
      OpenSessions.fromBytes(set.toBytes(withFirings = true), withFirings = true)
    }
    val cases = Seq(
      (Seq((10L, 20L)), Seq((5L, 15L), (12L, 20L)), true),
      (Seq((10L, 20L)), Seq((5L, 15L), (12L, 21L)), false),
      (Seq((10L, 20L), (40L, 50L)), Seq((18L, 30L), (28L, 45L)), true),
      (Seq((10L, 20L), (40L, 50L)), Seq((18L, 30L), (28L, 45L), (44L, 51L)), false),
      (Seq((10L, 20L)), Seq((20L, 30L), (30L, 40L)), false)
    )
    cases.foreach { case (open, rows, wasOnTime) =>
      rows.permutations.foreach { order =>
        val set = onTime(open: _*)
        order.foreach { case (first, end) => add(set, first, end) }
        assertEquals(set.size, 1)
        assertEquals(set(0).wasOnTime, wasOnTime, s"$open and then $order")
      }
    }
  }
}
