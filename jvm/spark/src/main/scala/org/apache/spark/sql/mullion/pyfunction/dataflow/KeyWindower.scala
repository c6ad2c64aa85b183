package org.apache.spark.sql.mullion.pyfunction.dataflow

import scala.collection.mutable

import org.apache.spark.sql.mullion.pyfunction.expression.{Item, Layout, Untranslatable}

/** The windows of one key, in microseconds, as `bytewax/_key_windows/windowers.py` has them: what it says there holds
  * here.
  */
private[dataflow] sealed abstract class KeyWindower {

  /** Opens the windows of a time, and calls `enter` with the id of each. */
  def openFor(timeUs: Long)(enter: Long => Unit): Unit

  def lateFor(timeUs: Long): Seq[Long]

  /** True if nothing has merged, and nothing closes there, now and after any value that is not late there; `false` also
    * for not known.
    */
  def rests(watermark: Long): Boolean

  /** True if a time is in a window, and in no other; `false` also for not known. */
  def isWithin(window: Long, timeUs: Long): Boolean

  /** Pairs of what was merged, and into what, since the last call. */
  def merged(): Seq[(Long, Long)]

  /** The windows that are closed there, and forgotten. */
  def closeFor(watermark: Long): Seq[KeyWindower.Closed]

  def nextClose: Option[Long]

  def isEmpty: Boolean

  def snapshot: Item
}

private[dataflow] object KeyWindower {
  private val kind = "mullion.bytewax._key_windows.interfaces:WindowMetadata"
  private val names = Layout.Names(Vector("open_time", "close_time", "merged_ids"))

  /** A window that is closed, with what is known of it. */
  final class Closed(val window: Long, open: Long, close: Long, merged: Array[Long]) {
    def metadata: Item =
      Item.Record(kind, names, Array(time(open), time(close), Item.Numbers(merged)), plain = true)
  }

  /** What no datetime can hold is the earliest or the latest. */
  private def time(us: Long): Item = Item.Time(Math.max(KeyClock.MinUs, Math.min(us, KeyClock.MaxUs)))

  private def numbers(of: Item): Array[Long] = of match {
    case Item.Many(items) => items.map { case Item.Int(held) => held; case _ => throw Untranslatable }
    case _                => throw Untranslatable
  }

  /** Windows of one length, one every `offset`. */
  final class Sliding(length: Long, offset: Long, align: Long, kept: Item) extends KeyWindower {
    // In order of opening, in which they close.
    private val open = mutable.LinkedHashSet.empty[Long]
    kept match {
      case Item.Nothing => ()
      case ids          => open ++= numbers(ids)
    }
    private var next = nextOf
    // One that is open: mostly the next one too.
    private var newest = Long.MinValue

    private def nextOf = if (open.isEmpty) Long.MaxValue else closeOf(open.min)

    private def closeOf(window: Long) = align + offset * window + length

    private def first(since: Long) = Math.floorDiv(since - length, offset) + 1

    private def last(since: Long) = Math.floorDiv(since, offset)

    override def openFor(timeUs: Long)(enter: Long => Unit): Unit = {
      val since = timeUs - align
      var window = first(since)
      val end = last(since)
      while (window <= end) {
        if (window != newest) {
          if (open.add(window)) next = Math.min(next, closeOf(window))
          newest = window
        }
        enter(window)
        window += 1
      }
    }

    override def lateFor(timeUs: Long): Seq[Long] = first(timeUs - align) to last(timeUs - align)

    // A window that has such a value closes after it.
    override def rests(watermark: Long): Boolean = watermark < next

    override def isWithin(window: Long, timeUs: Long): Boolean = {
      val into = timeUs - align - offset * window
      offset == length && into >= 0 && into < length
    }

    override def merged(): Seq[(Long, Long)] = Nil

    override def closeFor(watermark: Long): Seq[Closed] =
      if (watermark < next) Nil
      else {
        val closed = open.iterator.filter(closeOf(_) <= watermark).toVector
        open --= closed
        next = nextOf
        newest = Long.MinValue
        closed.map(window => new Closed(window, closeOf(window) - length, closeOf(window), Array.empty))
      }

    override def nextClose: Option[Long] = Option.when(open.nonEmpty)(next)

    override def isEmpty: Boolean = open.isEmpty

    override def snapshot: Item = Item.Many(open.iterator.map[Item](Item.Int(_)).toArray)
  }

  private final class Session(var first: Long, var last: Long, val merged: mutable.Set[Long])

  private val LateId = -1L

  /** Windows that end where no value comes for longer than `gap`. */
  final class Sessions(gap: Long, kept: Item) extends KeyWindower {
    private val open = mutable.LinkedHashMap.empty[Long, Session]
    private var lastId = kept match {
      case Item.Nothing                                         => LateId
      case Item.Tuple(Array(Item.Int(id), Item.Many(sessions))) =>
        sessions.foreach {
          case Item.Tuple(Array(Item.Int(window), Item.Int(first), Item.Int(last), merged)) =>
            open(window) = new Session(first, last, mutable.TreeSet.from(numbers(merged)))
          case _ => throw Untranslatable
        }
        id
      case _ => throw Untranslatable
    }
    private val pairs = mutable.ArrayBuffer.empty[(Long, Long)]

    override def openFor(timeUs: Long)(enter: Long => Unit): Unit = {
      val touched = open.find { case (_, session) =>
        timeUs >= session.first - gap && timeUs <= session.last + gap
      }
      touched match {
        case Some((window, session)) =>
          if (timeUs < session.first) {
            session.first = timeUs
            merge()
          } else if (timeUs > session.last) {
            session.last = timeUs
            merge()
          }
          enter(window)
        case None =>
          lastId += 1
          open(lastId) = new Session(timeUs, timeUs, mutable.TreeSet.empty)
          enter(lastId)
      }
    }

    private def merge(): Unit = if (open.size > 1) {
      val byStart = open.toVector.sortBy(_._2.first)
      var (targetId, target) = byStart.head
      byStart.tail.foreach { case (window, session) =>
        if (session.first - target.last <= gap) {
          target.last = Math.max(target.last, session.last)
          target.merged += window
          pairs += window -> targetId
          open -= window
        } else {
          targetId = window
          target = session
        }
      }
    }

    override def lateFor(timeUs: Long): Seq[Long] = Seq(LateId)

    override def rests(watermark: Long): Boolean = false

    override def isWithin(window: Long, timeUs: Long): Boolean = false

    override def merged(): Seq[(Long, Long)] =
      if (pairs.isEmpty) Nil
      else {
        val found = pairs.toVector
        pairs.clear()
        found
      }

    override def closeFor(watermark: Long): Seq[Closed] = {
      val after = Math.max(watermark - gap, KeyClock.MinUs)
      val closed = open.iterator.filter(_._2.last < after).toVector
      closed.map { case (window, session) =>
        open -= window
        new Closed(window, session.first, session.last, session.merged.toArray)
      }
    }

    override def nextClose: Option[Long] = Option.when(open.nonEmpty)(open.valuesIterator.map(_.last).min + gap + 1)

    override def isEmpty: Boolean = false

    override def snapshot: Item = Item.tuple(
      Item.Int(lastId),
      Item.Many(
        open.iterator
          .map[Item] { case (window, session) =>
            val merged = Item.Many(session.merged.toArray.map[Item](Item.Int(_)))
            Item.tuple(Item.Int(window), Item.Int(session.first), Item.Int(session.last), merged)
          }
          .toArray
      )
    )
  }
}
