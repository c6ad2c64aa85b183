package org.apache.spark.sql.mullion.pyfunction.dataflow

import scala.collection.mutable

import org.apache.spark.sql.mullion.pyfunction.expression.{Item, ItemReader, ItemWriter, Untranslatable}

/** Something that comes out of the windows of a key. */
private[dataflow] final case class FlowEvent(port: Int, window: Long, item: Item)

private[dataflow] object FlowEvent {
  val Down = 0
  val Late = 1
  val Meta = 2
}

/** The windows of one key, as `bytewax/_key_windows/keyed.py` has them: what it says there holds here.
  *
  * @param wanted
  *   by port, whether anything is done with what comes out there
  */
private[dataflow] final class KeyWindows(
    clock: KeyClock,
    windower: KeyWindower,
    make: MakeContents,
    isOrdered: Boolean,
    wanted: Array[Boolean]
) {
  import FlowEvent._
  import KeyWindows._

  private val contents = mutable.LinkedHashMap.empty[Long, WindowContents]
  // The newest of them that was asked for: mostly the next one too.
  private var newest = Option.empty[WindowContents]
  private var newestId = 0L
  private val queue = mutable.ArrayBuffer.empty[Waiting]
  private val events = mutable.ArrayBuffer.empty[FlowEvent]

  /** The state that was kept. */
  def keep(windows: Array[Item], waiting: Array[Item], layouts: Layouts): Unit = {
    windows.foreach {
      case Item.Tuple(Array(Item.Int(window), state)) => contents(window) = make.kept(state)
      case _                                          => throw Untranslatable
    }
    if (waiting.nonEmpty) {
      val (times, items) = waiting.map {
        case Item.Tuple(Array(Item.Int(us), item)) => (us, item)
        case _                                     => throw Untranslatable
      }.unzip
      // As they would have been read.
      val rows = layouts.rows(ItemReader.read(ItemWriter.write(items))._2)
      times.indices.foreach(i => queue += new Waiting(times(i), rows, i))
    }
  }

  /** Takes values from an entry on, each of which came alone at that system time: as many as enter their windows at
    * once while nothing comes out. What `onBatch` would do with each, one by one.
    *
    * @return
    *   the first entry that was not taken
    */
  def onRun(batch: FlowBatch, from: Int, nowUs: Long): Int = {
    var i = from
    if (queue.isEmpty && batch.nowOf(from) == nowUs) {
      clock.beforeBatch(nowUs)
      var isOn = true
      while (isOn && i < batch.length) {
        isOn = batch.isLastOfPlace(i) && batch.nowOf(i) == nowUs && taken(batch, i)
        if (isOn) {
          i += 1
          // A key of which nothing is left forgets its clock.
          isOn = !isEmpty
        }
      }
    }
    i
  }

  private def timeOf(batch: FlowBatch, entry: Int): Long = clock match {
    case system: KeyClock.OfSystem => system.now
    case _                         => batch.timeOf(entry)
  }

  private def taken(batch: FlowBatch, entry: Int): Boolean = {
    val us = timeOf(batch, entry)
    val watermark = clock.after(us)
    val isTaken = us >= watermark && (!isOrdered || us == watermark) && windower.rests(watermark)
    if (isTaken) {
      val (rows, row) = (batch.rowsOf(entry), batch.rowOf(entry))
      clock.onItem(us)
      if (newest.isDefined && windower.isWithin(newestId, us)) newest.get.add(rows, row)
      else add(us, rows, row)
    }
    isTaken
  }

  def onBatch(batch: FlowBatch, from: Int, until: Int, nowUs: Long): Seq[FlowEvent] = {
    clock.beforeBatch(nowUs)
    var watermark = 0L
    var i = from
    while (i < until) {
      val rows = batch.rowsOf(i)
      val row = batch.rowOf(i)
      val us = timeOf(batch, i)
      watermark = clock.onItem(us)
      if (us < watermark)
        windower.lateFor(us).foreach { window =>
          if (wanted(Late)) events += FlowEvent(Late, window, rows.item(row))
        }
      // What need not wait for another.
      else if (i == until - 1 && queue.isEmpty && (!isOrdered || us <= watermark)) add(us, rows, row)
      else if (!isOrdered || queue.isEmpty || queue.last.us <= us) queue += new Waiting(us, rows, row)
      else queue.insert(placeAfter(us), new Waiting(us, rows, row))
      i += 1
    }
    enter(watermark)
  }

  def onNotify(nowUs: Long): Seq[FlowEvent] = enter(clock.onNotify(nowUs))

  def onEnd(): Seq[FlowEvent] = enter(KeyClock.MaxUs)

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
    windower.closeFor(watermark).foreach { one =>
      val held = closed(one.window)
      if (wanted(Down)) events += FlowEvent(Down, one.window, held.closed)
      if (wanted(Meta)) events += FlowEvent(Meta, one.window, one.metadata)
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

private[dataflow] object KeyWindows {

  /** A value that waits until the watermark has come to its time. */
  private final class Waiting(val us: Long, val rows: Rows, val row: Int)
}
