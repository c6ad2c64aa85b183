package org.apache.spark.sql.mullion.pyfunction.dataflow

import scala.collection.mutable

import org.apache.spark.sql.mullion.pyfunction.expression.{Item, Layout, Untranslatable}

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.session.OpenSessions
import dev.mullion.windows.spec.{AlignedWindow, SliceGrid}

/** The windows of one key under Bytewax's ids. The state is as in `bytewax/_key_windows/windowers.py`. Times are in
  * microseconds.
  */
private[dataflow] sealed abstract class KeyWindower {

  /** Opens the windows of a time, and calls `enter` with the id of each. */
  def openFor(timeUs: Long)(enter: Long => Unit): Unit

  /** The ids of the windows that a late value would belong to. */
  def lateFor(timeUs: Long): Seq[Long]

  /** True if no window has merged, and none closes at `watermark`, nor after any value that is not late there; `false`
    * if unknown.
    */
  def rests(watermark: Long): Boolean

  /** True if a time is in the window that was opened last, and in no other; `false` if unknown. */
  def isInNewest(timeUs: Long): Boolean

  /** The windows merged since the last call, as pairs of the original and the target. */
  def merged(): Seq[(Long, Long)]

  /** Removes and returns the windows that close at `watermark`, in the order in which they opened.
    *
    * @param open
    *   the ids of all open windows, in that order
    */
  def closeFor(watermark: Long, open: Iterable[Long]): Seq[KeyWindower.Closed]

  /** The watermark at which the next window closes, or `Never`. */
  def nextClose: Long

  /** True if the state of the key can be deleted once no window is open. */
  def isForgotten: Boolean

  /** @param open
    *   the ids of all open windows
    */
  def snapshot(open: Iterable[Long]): Item
}

private[dataflow] object KeyWindower {
  val Never: Long = Long.MaxValue

  private val kind = "mullion.bytewax._key_windows.interfaces:WindowMetadata"
  private val names = Layout.Names(Vector("open_time", "close_time", "merged_ids"))

  /** A closed window and its metadata. */
  final class Closed(val window: Long, open: Long, close: Long, merged: Array[Long]) {
    def metadata: Item =
      Item.Record(kind, names, Array(time(open), time(close), Item.Numbers(merged)), plain = true)
  }

  /** A time within the range of Python's datetimes. */
  private def time(us: Long): Item = Item.Time(Math.max(FlowClock.MinUs, Math.min(us, FlowClock.MaxUs)))

  private def numbers(of: Item): Array[Long] = of match {
    case Item.Many(items) => items.map { case Item.Int(number) => number; case _ => throw Untranslatable }
    case _                => throw Untranslatable
  }

  /** Windows of one length that start every `offset`, of which number 0 starts at `align`. It serves all keys of a
    * task.
    */
  final class Grid(length: Long, offset: Long, align: Long) {
    private[KeyWindower] val grid: SliceGrid = AlignedWindow.sliding(length, offset, align).grid
    // Number 0 of the grid starts at `align` modulo `offset`.
    private[KeyWindower] val shift = Math.floorDiv(align, offset)
    private[KeyWindower] val overlaps = offset < length

    private[KeyWindower] def startOf(window: Long): Long = grid.windowStart(window + shift)

    private[KeyWindower] def endOf(window: Long): Long = grid.windowEnd(window + shift)
  }

  /** The open windows of a grid. */
  final class Aligned(of: Grid, state: Item) extends KeyWindower {
    private var next = state match {
      case Item.Nothing => Never
      case ids          => firstEnd(numbers(ids))
    }
    private var (newestStart, newestEnd) = (Never, Never)

    private def firstEnd(windows: Iterable[Long]): Long =
      if (windows.isEmpty) Never else windows.iterator.map(of.endOf).min

    override def openFor(timeUs: Long)(enter: Long => Unit): Unit = {
      val slice = of.grid.ordinalOf(timeUs)
      var window = of.grid.firstWindow(slice)
      val last = of.grid.lastWindow(slice)
      next = Math.min(next, of.grid.windowEnd(window))
      if (!of.overlaps) {
        newestStart = of.grid.windowStart(last)
        newestEnd = of.grid.windowEnd(last)
      }
      while (window <= last) {
        enter(window - of.shift)
        window += 1
      }
    }

    override def lateFor(timeUs: Long): Seq[Long] = {
      val slice = of.grid.ordinalOf(timeUs)
      of.grid.firstWindow(slice) - of.shift to of.grid.lastWindow(slice) - of.shift
    }

    // A window that opens for such a value ends after it.
    override def rests(watermark: Long): Boolean = watermark < next

    override def isInNewest(timeUs: Long): Boolean = newestStart <= timeUs && timeUs < newestEnd

    override def merged(): Seq[(Long, Long)] = Nil

    override def closeFor(watermark: Long, open: Iterable[Long]): Seq[Closed] =
      if (watermark < next) Nil
      else {
        val (closed, remaining) = open.toVector.partition(of.endOf(_) <= watermark)
        next = firstEnd(remaining)
        newestStart = Never
        closed.map(window => new Closed(window, of.startOf(window), of.endOf(window), Array.empty))
      }

    override def nextClose: Long = next

    override def isForgotten: Boolean = true

    override def snapshot(open: Iterable[Long]): Item = Item.Many(open.iterator.map[Item](Item.Int(_)).toArray)
  }

  private final class Named(val id: Long, val merged: mutable.Set[Long])

  private val LateId = -1L

  // Sessions of Bytewax fire only when they close, so the readings of a new one are not used.
  private val noClock = BatchClock(0L, 0L, 0L, rowsCame = true)

  /** Sessions, whose ids count from 0. One that starts later merges into one that starts earlier. */
  final class Sessions(gap: Long, state: Item) extends KeyWindower {
    private val open = OpenSessions.empty
    private val nameOf = mutable.LongMap.empty[Named]
    private var lastId = state match {
      case Item.Nothing                                         => LateId
      case Item.Tuple(Array(Item.Int(id), Item.Many(sessions))) =>
        sessions.foreach {
          case Item.Tuple(Array(Item.Int(window), Item.Int(first), Item.Int(last), merged)) =>
            // With a longer gap than before, stored sessions may touch, and Python merges them with the next value.
            if (open.touches(first, last + gap)) throw Untranslatable
            open.add(first, last + gap, 1L, noClock)(_ => ())
            nameOf(first) = new Named(window, mutable.TreeSet.from(numbers(merged)))
          case _ => throw Untranslatable
        }
        id
      case _ => throw Untranslatable
    }
    private val pairs = mutable.ArrayBuffer.empty[(Long, Long)]

    override def openFor(timeUs: Long)(enter: Long => Unit): Unit = {
      var target = Option.empty[Named]
      // A value enters the session that opened first. Its contents merge into those of the target later.
      var entered = Never
      val session = open.add(timeUs, timeUs + gap, 1L, noClock) { absorbed =>
        val touched = nameOf.remove(absorbed.first)
        for (later <- touched) {
          entered = Math.min(entered, later.id)
          target.foreach { earlier =>
            earlier.merged += later.id
            pairs += later.id -> earlier.id
          }
        }
        target = target.orElse(touched)
      }
      val named = target.getOrElse {
        lastId += 1
        new Named(lastId, mutable.TreeSet.empty)
      }
      nameOf(session.first) = named
      enter(Math.min(entered, named.id))
    }

    override def lateFor(timeUs: Long): Seq[Long] = Seq(LateId)

    override def rests(watermark: Long): Boolean = false

    override def isInNewest(timeUs: Long): Boolean = false

    override def merged(): Seq[(Long, Long)] =
      if (pairs.isEmpty) Nil
      else {
        val result = pairs.toVector
        pairs.clear()
        result
      }

    // A session closes once the watermark has passed its end: a value at the end still belongs to it.
    override def closeFor(watermark: Long, ids: Iterable[Long]): Seq[Closed] =
      if (watermark < nextClose) Nil
      else {
        val closed = mutable.ArrayBuffer.empty[Closed]
        while (!open.isEmpty && open(0).end < watermark) {
          val session = open(0)
          val named = nameOf.remove(session.first).get
          closed += new Closed(named.id, session.first, session.end - gap, named.merged.toArray)
          open.removeFirst()
        }
        closed.sortBy(_.window).toSeq
      }

    override def nextClose: Long = if (open.isEmpty) Never else open(0).end + 1

    // A reused id would be that of an earlier session.
    override def isForgotten: Boolean = false

    override def snapshot(ids: Iterable[Long]): Item = {
      val sessions = open.iterator.toVector.sortBy(session => nameOf(session.first).id).map[Item] { session =>
        val named = nameOf(session.first)
        val merged = Item.Many(named.merged.toArray.map[Item](Item.Int(_)))
        Item.tuple(Item.Int(named.id), Item.Int(session.first), Item.Int(session.end - gap), merged)
      }
      Item.tuple(Item.Int(lastId), Item.Many(sessions.toArray))
    }
  }
}
