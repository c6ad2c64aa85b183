package org.apache.spark.sql.mullion.pyfunction.dataflow

import scala.collection.mutable

import org.apache.spark.sql.mullion.pyfunction.expression.{Item, ItemReader, ItemWriter, Untranslatable}

/** An output event of the windows of a key. */
private[dataflow] final case class FlowEvent(port: Int, window: Long, item: Item)

private[dataflow] object FlowEvent {
  val Down = 0
  val Late = 1
  val Meta = 2
}

/** The windows of one key and its clock, which turn values into output events as `bytewax/_key_windows/keyed.py` does.
  *
  * @param wanted
  *   by port, whether its events have a target
  */
private[dataflow] final class KeyWindows(
    clock: FlowClock,
    windower: KeyWindower,
    make: MakeContents,
    isOrdered: Boolean,
    wanted: Array[Boolean]
) {
  import FlowEvent._
  import KeyWindows._

  // In the order in which windows opened.
  private val contents = mutable.LinkedHashMap.empty[Long, WindowContents]
  // The contents that the previous value entered, which the next value mostly enters too.
  private var newest = Option.empty[WindowContents]
  private var newestId = 0L
  private val queue = mutable.ArrayBuffer.empty[Waiting]
  private val events = mutable.ArrayBuffer.empty[FlowEvent]

  /** Restores stored state. */
  def restore(windows: Array[Item], waiting: Array[Item], layouts: Layouts): Unit = {
    windows.foreach {
      case Item.Tuple(Array(Item.Int(window), state)) => contents(window) = make.restore(state)
      case _                                          => throw Untranslatable
    }
    if (waiting.nonEmpty) {
      val (times, items) = waiting.map {
        case Item.Tuple(Array(Item.Int(us), item)) => (us, item)
        case _                                     => throw Untranslatable
      }.unzip
      // Encoded and read again, because functions read values from columns.
      val rows = layouts.rows(ItemReader.read(ItemWriter.write(items))._2)
      times.indices.foreach(i => queue += new Waiting(times(i), rows, i))
    }
  }

  /** Processes entries from index `from` on, as `onBatch` would do one by one: as many as arrived alone at this system
    * time, and enter their windows at once without an output event.
    *
    * @return
    *   the index of the first entry that is left
    */
  def onRun(batch: FlowBatch, from: Int, nowUs: Long): Int = {
    var i = from
    if (queue.isEmpty && batch.nowOf(from) == nowUs) {
      clock.advance(nowUs)
      var isOn = true
      while (isOn && i < batch.length) {
        isOn = batch.isLastOfPlace(i) && batch.nowOf(i) == nowUs && entersAtOnce(batch, i)
        if (isOn) {
          i += 1
          // The clock of an empty key is discarded.
          isOn = !isEmpty
        }
      }
    }
    i
  }

  private def entersAtOnce(batch: FlowBatch, entry: Int): Boolean = {
    val us = clock.timeOf(batch, entry)
    val watermark = clock.after(us)
    val enters = us >= watermark && (!isOrdered || us == watermark) && windower.rests(watermark)
    if (enters) {
      val (rows, row) = (batch.rowsOf(entry), batch.rowOf(entry))
      clock.see(us)
      if (newest.isDefined && windower.isInNewest(us)) newest.get.add(rows, row)
      else add(us, rows, row)
    }
    enters
  }

  def onBatch(batch: FlowBatch, from: Int, until: Int, nowUs: Long): Seq[FlowEvent] = {
    clock.advance(nowUs)
    var i = from
    while (i < until) {
      val rows = batch.rowsOf(i)
      val row = batch.rowOf(i)
      val us = clock.timeOf(batch, i)
      if (clock.isLate(us))
        windower.lateFor(us).foreach { window =>
          if (wanted(Late)) events += FlowEvent(Late, window, rows.item(row))
        }
      else {
        clock.see(us)
        // The last value does not wait if its time has come.
        if (i == until - 1 && queue.isEmpty && (!isOrdered || us <= clock.watermark)) add(us, rows, row)
        else if (!isOrdered || queue.isEmpty || queue.last.us <= us) queue += new Waiting(us, rows, row)
        else queue.insert(placeAfter(us), new Waiting(us, rows, row))
      }
      i += 1
    }
    enter(clock.watermark)
  }

  def onNotify(nowUs: Long): Seq[FlowEvent] = {
    clock.advance(nowUs)
    enter(clock.watermark)
  }

  def onEnd(): Seq[FlowEvent] = enter(FlowClock.MaxUs)

  private def add(us: Long, rows: Rows, row: Int): Unit = windower.openFor(us) { window =>
    if (newestId != window || newest.isEmpty) {
      newest = Some(contents.getOrElseUpdate(window, make.fresh()))
      newestId = window
    }
    newest.get.add(rows, row)
  }

  private def closed(window: Long): WindowContents = {
    newest = None
    contents.remove(window).get
  }

  /** The index in the queue after all values that are not later than a time. */
  private def placeAfter(us: Long): Int = {
    var (low, high) = (0, queue.length)
    while (low < high) {
      val middle = (low + high) >>> 1
      if (us < queue(middle).us) high = middle else low = middle + 1
    }
    low
  }

  private def enter(watermark: Long): Seq[FlowEvent] = {
    if (queue.nonEmpty) {
      val due = if (!isOrdered || queue.last.us <= watermark) queue.length else placeAfter(watermark)
      var i = 0
      while (i < due) {
        val one = queue(i)
        add(one.us, one.rows, one.row)
        i += 1
      }
      if (due == queue.length) queue.clear() else queue.remove(0, due)
    }
    windower.merged().foreach { case (original, target) =>
      if (original != target) contents(target).merge(closed(original))
    }
    windower.closeFor(watermark, contents.keys).foreach { one =>
      val windowContents = closed(one.window)
      if (wanted(Down)) events += FlowEvent(Down, one.window, windowContents.closed)
      if (wanted(Meta)) events += FlowEvent(Meta, one.window, one.metadata)
    }
    if (events.isEmpty) Nil
    else {
      val result = events.toVector
      events.clear()
      result
    }
  }

  /** True if the state of the key, including its clock, can be deleted. */
  def isEmpty: Boolean = contents.isEmpty && queue.isEmpty && windower.isForgotten

  /** The system time of the next call of `onNotify`, if any. */
  def due(nowUs: Long): Option[Long] = {
    val first = if (isOrdered && queue.nonEmpty) queue.head.us else KeyWindower.Never
    val watermark = Math.min(first, windower.nextClose)
    Option.when(watermark != KeyWindower.Never)(clock.due(watermark, nowUs))
  }

  def snapshot: Item = Item.tuple(
    clock.snapshot,
    windower.snapshot(contents.keys),
    Item.Many(
      contents.iterator
        .map[Item] { case (window, windowContents) =>
          Item.tuple(Item.Int(window), windowContents.snapshot)
        }
        .toArray
    ),
    Item.Many(queue.iterator.map[Item](one => Item.tuple(Item.Int(one.us), one.rows.item(one.row))).toArray)
  )
}

private[dataflow] object KeyWindows {

  /** A value that waits until the watermark reaches its time. */
  private final class Waiting(val us: Long, val rows: Rows, val row: Int)
}
