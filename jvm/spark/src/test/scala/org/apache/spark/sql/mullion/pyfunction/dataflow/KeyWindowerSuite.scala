package org.apache.spark.sql.mullion.pyfunction.dataflow

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.mullion.pyfunction.expression.{Item, Untranslatable}

import dev.mullion.{MullionSuite, TestSeed}

/** The windows of a key under Bytewax's ids, compared with Bytewax's own algorithm in plain Scala. */
class KeyWindowerSuite extends MullionSuite {
  import KeyWindowerSuite._

  private val random = new Random(TestSeed.value)

  test("sessions have the ids, the merges and the closes of Bytewax, also after a restart") {
    for (_ <- 1 to 2000) {
      val gap = random.nextInt(5).toLong
      val model = new Model(gap)
      var windows = new KeyWindower.Sessions(gap, Item.Nothing)
      for (_ <- 1 to 12) {
        for (_ <- 0 to random.nextInt(3)) {
          val time = random.nextInt(30).toLong
          var entered = -1L
          windows.openFor(time)(entered = _)
          assertEquals(entered, model.openFor(time))
        }
        assertEquals(windows.merged(), model.merged())
        val watermark = random.nextInt(35).toLong
        assertEquals(windows.nextClose, model.nextClose)
        val closed = windows.closeFor(watermark, Nil).map(one => (one.window, textOf(one.metadata)))
        assertEquals(closed, model.closeFor(watermark))
        if (random.nextBoolean()) windows = new KeyWindower.Sessions(gap, windows.snapshot(Nil))
      }
    }
  }

  test("stored sessions that touch under a longer gap are left to Python") {
    val windows = new KeyWindower.Sessions(2L, Item.Nothing)
    Seq(10L, 14L).foreach(windows.openFor(_)(_ => ()))
    val state = windows.snapshot(Nil)
    new KeyWindower.Sessions(3L, state)
    intercept[Untranslatable.type](new KeyWindower.Sessions(4L, state))
  }

  test("windows of a grid have Bytewax's ids, starts and ends, and close in the order in which they opened") {
    for (_ <- 1 to 2000) {
      val length = 1L + random.nextInt(12)
      val offset = 1L + random.nextInt(length.toInt)
      val align = random.nextInt(60) - 30L
      val windows = new KeyWindower.Aligned(new KeyWindower.Grid(length, offset, align), Item.Nothing)
      val open = mutable.LinkedHashSet.empty[Long]
      for (_ <- 1 to 10) {
        val time = random.nextInt(80) - 40L
        val expected =
          (-100L to 100L).filter(id => align + id * offset <= time && time < align + id * offset + length)
        val entered = mutable.ArrayBuffer.empty[Long]
        windows.openFor(time)(entered += _)
        assertEquals(entered.toSeq, expected)
        assertEquals(windows.lateFor(time), expected)
        assertEquals(windows.isInNewest(time), length == offset)
        open ++= entered
        def endOf(id: Long) = align + id * offset + length
        assertEquals(windows.nextClose, open.map(endOf).min)
        val watermark = random.nextInt(90) - 40L
        val due = open.toSeq.filter(endOf(_) <= watermark)
        val closed = windows.closeFor(watermark, open)
        assertEquals(
          closed.map(one => (one.window, textOf(one.metadata))),
          due.map { id =>
            (id, textOf(endOf(id) - length, endOf(id), Nil))
          }
        )
        open --= due
      }
    }
  }
}

object KeyWindowerSuite {
  private def textOf(first: Long, last: Long, merged: Iterable[Long]): String =
    s"$first to $last, ${merged.toSeq.sorted.mkString(" ")}"

  private def textOf(metadata: Item): String = metadata match {
    case Item.Record(_, _, Array(Item.Time(first), Item.Time(last), Item.Numbers(merged)), _) =>
      textOf(first, last, merged.toSeq)
    case other => other.toString
  }

  /** `_SessionWindowerLogic` of Bytewax 0.21. */
  private final class Model(gap: Long) {
    private final class Session(var first: Long, var last: Long, val merged: mutable.Set[Long])
    private val open = mutable.LinkedHashMap.empty[Long, Session]
    private var count = 0L
    private val pairs = mutable.ArrayBuffer.empty[(Long, Long)]

    def openFor(time: Long): Long = {
      val touched = open.find { case (_, s) => time >= s.first - gap && time <= s.last + gap }
      touched.foreach { case (_, s) =>
        s.first = Math.min(s.first, time)
        s.last = Math.max(s.last, time)
        merge()
      }
      touched.fold {
        open(count) = new Session(time, time, mutable.Set.empty)
        count += 1
        count - 1
      }(_._1)
    }

    private def merge(): Unit = {
      val byStart = open.toVector.sortBy(_._2.first)
      var (targetId, target) = byStart.head
      byStart.tail.foreach { case (id, session) =>
        if (session.first - target.last <= gap) {
          target.last = Math.max(target.last, session.last)
          target.merged += id
          pairs += id -> targetId
          open -= id
        } else {
          targetId = id
          target = session
        }
      }
    }

    def merged(): Seq[(Long, Long)] = {
      val all = pairs.toVector
      pairs.clear()
      all
    }

    def nextClose: Long = if (open.isEmpty) KeyWindower.Never else open.values.map(_.last).min + gap + 1

    def closeFor(watermark: Long): Seq[(Long, String)] = {
      val closed = open.toVector.filter(_._2.last < watermark - gap)
      closed.map { case (id, session) =>
        open -= id
        (id, textOf(session.first, session.last, session.merged))
      }
    }
  }
}
