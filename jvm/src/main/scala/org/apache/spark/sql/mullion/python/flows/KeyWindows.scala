package org.apache.spark.sql.mullion.python.flows

import scala.collection.mutable

import org.apache.spark.sql.mullion.python.folds.{Odd, Value}

/** Something that comes out of the windows of a key. */
private[flows] final case class FlowEvent(port: Int, window: Long, item: Item)

private[flows] object FlowEvent {
  val Down = 0
  val Late = 1
  val Meta = 2
}

/** The windows of one key, as `bytewax/_windows/keyed.py` has them: what it says there holds here.
  *
  * @param wanted
  *   by port, whether anything is done with what comes out there
  */
private[flows] final class KeyWindows(
    clock: KeyClock,
    windower: KeyWindower,
    make: MakeContents,
    timeOf: Option[OfRow],
    isOrdered: Boolean,
    wanted: Array[Boolean]
) {
  import FlowEvent._
  import KeyWindows._

  private val contents = mutable.LinkedHashMap.empty[Long, WindowContents]
  private val queue = mutable.ArrayBuffer.empty[Waiting]
  private val events = mutable.ArrayBuffer.empty[FlowEvent]

  /** The state that was kept. */
  def keep(windows: Array[Item], waiting: Array[Item], layouts: Layouts): Unit = {
    windows.foreach {
      case Item.Tuple(Array(Item.Int(window), state)) => contents(window) = make.kept(state)
      case _                                          => throw Odd
    }
    if (waiting.nonEmpty) {
      val (times, items) = waiting.map {
        case Item.Tuple(Array(Item.Int(us), item)) => (us, item)
        case _                                     => throw Odd
      }.unzip
      // As they would have been read.
      val rows = layouts.rows(ItemReader.read(ItemWriter.write(items))._2)
      times.indices.foreach(i => queue += new Waiting(times(i), rows, i))
    }
  }

  def onBatch(batch: FlowBatch, from: Int, until: Int, nowUs: Long): Seq[FlowEvent] = {
    clock.beforeBatch(nowUs)
    var watermark = 0L
    var i = from
    while (i < until) {
      val (rows, row) = (batch.rowsOf(i), batch.rowOf(i))
      val time = timeAt(rows, row)
      watermark = clock.onItem(time)
      if (time < watermark)
        windower.lateFor(time).foreach { window =>
          if (wanted(Late)) events += FlowEvent(Late, window, rows.item(row))
        }
      else if (!isOrdered || queue.isEmpty || queue.last.us <= time) queue += new Waiting(time, rows, row)
      else queue.insert(placeAfter(time), new Waiting(time, rows, row))
      i += 1
    }
    enter(watermark)
  }

  def onNotify(nowUs: Long): Seq[FlowEvent] = enter(clock.onNotify(nowUs))

  def onEnd(): Seq[FlowEvent] = enter(KeyClock.MaxUs)

  private def timeAt(rows: Rows, row: Int): Long = (timeOf, clock) match {
    case (Some(function), _) =>
      val found = function.call(rows, row)
      if (found.kind != Value.Time) throw Odd
      found.long
    case (_, system: KeyClock.OfSystem) => system.now
    case _                              => throw Odd
  }

  /** The place in the queue behind all that are not after a time. */
  private def placeAfter(us: Long): Int = {
    var (low, high) = (0, queue.length)
    while (low < high) {
      val middle = (low + high) >>> 1
      if (us < queue(middle).us) high = middle else low = middle + 1
    }
    low
  }

  private def enter(watermark: Long): Seq[FlowEvent] = {
    val due = if (!isOrdered || queue.isEmpty || queue.last.us <= watermark) queue.length else placeAfter(watermark)
    var i = 0
    while (i < due) {
      val one = queue(i)
      windower.openFor(one.us) { window =>
        contents.getOrElseUpdate(window, make.fresh()).add(one.rows, one.row)
      }
      i += 1
    }
    if (due == queue.length) queue.clear() else queue.remove(0, due)
    windower.merged().foreach { case (original, target) =>
      if (original != target) contents(target).merge(contents.remove(original).get)
    }
    windower.closeFor(watermark).foreach { case (window, metadata) =>
      val closed = contents.remove(window).get
      if (wanted(Down)) events += FlowEvent(Down, window, closed.closed)
      if (wanted(Meta)) events += FlowEvent(Meta, window, metadata)
    }
    if (events.isEmpty) Nil
    else {
      val found = events.toVector
      events.clear()
      found
    }
  }

  def isEmpty: Boolean = contents.isEmpty && queue.isEmpty && windower.isEmpty

  /** The system time at which `onNotify` has something to do. */
  def due(nowUs: Long): Option[Long] = {
    val first = Option.when(isOrdered && queue.nonEmpty)(queue.head.us)
    val next = windower.nextClose
    val watermark = if (first.isDefined && next.isDefined) Some(Math.min(first.get, next.get)) else first.orElse(next)
    watermark.map(clock.due(_, nowUs))
  }

  def snapshot: Item = Item.tuple(
    clock.snapshot,
    windower.snapshot,
    Item.Many(
      contents.iterator
        .map[Item] { case (window, held) =>
          Item.tuple(Item.Int(window), held.snapshot)
        }
        .toArray
    ),
    Item.Many(queue.iterator.map[Item](one => Item.tuple(Item.Int(one.us), one.rows.item(one.row))).toArray)
  )
}

private[flows] object KeyWindows {

  /** A value that waits until the watermark has come to its time. */
  private final class Waiting(val us: Long, val rows: Rows, val row: Int)
}
