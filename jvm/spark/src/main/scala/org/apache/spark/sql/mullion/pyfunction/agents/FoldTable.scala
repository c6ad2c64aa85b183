package org.apache.spark.sql.mullion.pyfunction.agents

import java.nio.ByteBuffer

import org.apache.spark.sql.mullion.pyfunction.expression.{Operator, Untranslatable, Value}
import org.apache.spark.sql.mullion.pyfunction.state.{KeyedState, TimerClock}

import dev.mullion.windows.sets.KeptRanges

/** One windowed table in one partition, for one batch: ranges are read once, changed here, and written when the batch
  * has succeeded.
  *
  * Its clock is the largest time applied in this partition, event by event. A stale range accepts no changes, and
  * expires at the end of the batch.
  */
private[agents] final class FoldTable(val spec: FoldTable.Spec, state: KeyedState, current: LastRange) {
  import FoldTable._

  private val ranges = spec.ranges
  private val records = new TableRecords(spec.name)
  private val touched = new java.util.HashMap[RangeOfKey, Held]()
  private val probe = new RangeOfKey(None, 0L)
  private val stored = Option(state.get(records.clocks)).map(ByteBuffer.wrap)
  private var clock = stored.fold(Never)(_.getLong(0))
  private var applied = stored.fold(Never)(_.getLong(8))
  private val before = (clock, applied)

  /** All ranges due by this time have expired; timers before it are not read. */
  private var expired = stored.filter(_.capacity > 16).fold(Never)(_.getLong(16))
  private var late = 0L

  val id: ByteBuffer = ByteBuffer.wrap(records.timers)

  def clockUs: Long = clock

  /** The value of a key at a time, in the range that starts last; the default if there is none. */
  def read(key: Value, us: Long, to: Value): Unit = {
    requireTime(us)
    current.touch(ranges, us)
    val range = if (ranges.holds(us)) rangeOf(key, ranges.lastStart(us)) else Missing
    if (range.there) to.set(range) else to.set(spec.default)
  }

  /** Updates each range of a time that is not stale. */
  def update(key: Value, us: Long, operator: Option[Operator], value: Value): Unit = {
    requireTime(us)
    current.touch(ranges, us)
    if (us > applied) applied = us
    if (us > clock) clock = us
    var start = ranges.firstStart(us)
    val last = ranges.lastStart(us)
    var isLate = start <= last
    while (start <= last) {
      if (!ranges.isStale(start, clock)) {
        isLate = false
        val range = rangeOf(key, start)
        operator match {
          case None                    => range.set(value)
          case Some(of) if range.there => of(range, value, range)
          case Some(of)                => of(spec.default, value, range)
        }
        if (range.kind != Value.Int && range.kind != Value.Float) throw Untranslatable
        range.there = true
        range.changed = true
      }
      start += ranges.step
    }
    if (isLate) late += 1
  }

  /** Discards the changes of the batch. */
  def discard(): Unit = {
    touched.clear()
    clock = before._1
    applied = before._2
    late = 0L
  }

  /** Throws for values that cannot be written, before any are. */
  def check(): Unit = touched.values.forEach(range => if (range.changed) TableRecords.number(range))

  /** Writes the changes of the batch. */
  def save(): Unit = {
    state.countLate(spec.name, late)
    touched.forEach { (at, range) =>
      if (range.changed) {
        state.put(range.record, TableRecords.number(range), Some(range.existed))
        if (!range.existed) opened(at.start, range.record)
      }
    }
    if ((clock, applied) != before) putClocks(stored.isDefined)
  }

  private def putClocks(there: Boolean): Unit = {
    val times = ByteBuffer.allocate(24).putLong(clock).putLong(applied).putLong(expired).array
    state.put(records.clocks, times, Some(there))
  }

  /** Records the expiry time. */
  private def noteExpired(): Unit = if (expired != clock) {
    expired = clock
    putClocks(there = true)
  }

  /** Removes a range whose timer is due. */
  def close(due: Long, timer: Array[Byte], record: Array[Byte]): Unit = {
    state.removeTimer(TimerClock.Event, due, timer)
    if (Option(state.get(record)).isDefined) {
      state.remove(record, Some(true))
      count(TableRecords.keyOf(record), -1)
    }
  }

  /** True if a range is stale when its timer is due: the timer may be older than a change of the program's window. */
  private def isOfWindow(record: Array[Byte], due: Long): Boolean =
    ranges.due(TableRecords.endOf(record) - ranges.size).contains(due)

  private def opened(start: Long, record: Array[Byte]): Unit = {
    ranges.due(start).foreach { due =>
      state.putTimer(TimerClock.Event, TimerOrder.at(records.order, due), records.timerOf(record))
    }
    count(TableRecords.keyOf(record), 1)
  }

  /** Updates the number of ranges of a key, if the table has a key index. */
  private def count(key: Array[Byte], by: Int): Unit = if (spec.indexed) {
    val record = records.ofKey(key)
    val before = Option(state.get(record))
    val remaining = before.fold(0)(ByteBuffer.wrap(_).getInt) + by
    if (remaining > 0) state.put(record, ByteBuffer.allocate(4).putInt(remaining).array, Some(before.isDefined))
    else state.remove(record, Some(before.isDefined))
  }

  private def rangeOf(key: Value, start: Long): Held = {
    probe.key = key.kind match {
      case Value.Text  => key.text
      case Value.Int   => key.long
      case Value.Bool  => key.isTrue
      case Value.Float => TableRecords.integer(key.double)
      case _           => throw Untranslatable
    }
    probe.start = start
    val cached = touched.get(probe)
    if (cached ne null) cached
    else {
      val record = records.ofRange(TableRecords.key(key), start, start + ranges.size)
      val json = Option(state.get(record))
      val loaded = new Held(record, json.isDefined)
      json.foreach(TableRecords.readNumber(_, loaded))
      // A text is part of its row.
      val own = if (key.kind == Value.Text) key.text.copy() else probe.key
      touched.put(new RangeOfKey(own, start), loaded)
      loaded
    }
  }
}

private[mullion] object FoldTable {

  /** @param default
    *   the value of a missing range
    * @param indexed
    *   whether the table has a key index
    * @param tells
    *   whether a function is called for each expired range
    */
  private[agents] final case class Spec(
      name: String,
      ranges: KeptRanges,
      default: Value,
      indexed: Boolean,
      tells: Boolean
  )

  private val Never = Long.MinValue

  /** Times that floats of seconds represent exactly, with room for additions. */
  private val Longest = 1L << 52

  private def requireTime(us: Long): Unit = if (us > Longest || us < -Longest) throw Untranslatable

  /** The value of a range. */
  private[agents] final class Held(val record: Array[Byte], val existed: Boolean) extends Value {
    var there: Boolean = existed
    var changed: Boolean = false
  }

  private val Missing = new Held(Array.emptyByteArray, existed = false)

  /** A key and the start of a range, for lookups; one instance is reused. */
  private[agents] final class RangeOfKey(var key: Any, var start: Long) {
    override def hashCode: Int = 31 * key.hashCode + java.lang.Long.hashCode(start)

    override def equals(other: Any): Boolean = other match {
      case that: RangeOfKey => start == that.start && key == that.key
      case _                => false
    }
  }

  /** Removes the stale ranges of some tables. Removes none if a function must be called for one, or if one may not be
    * stale in the table's current window. Returns whether that is so.
    */
  private[agents] def expire(tables: Seq[FoldTable], state: KeyedState): Boolean = {
    val due = for {
      table <- tables.iterator
      if table.clockUs != Never
      (from, until) <- TimerOrder.ranges(table.records.order, table.expired, table.clockUs)
      (at, timer) <- state.due(TimerClock.Event, until, from).map(due => (state.dueOf(due.key), state.keyOf(due.key)))
      if TableRecords.tableOf(timer) == table.id && TimerOrder.timeOf(at) <= table.clockUs
      record <- TableRecords.closedBy(timer)
    } yield (table, at, timer, record)
    // Collected first, because removal changes the scan.
    val all = due.toVector
    val isPythons = all.exists { case (table, at, _, record) =>
      table.spec.tells || !table.isOfWindow(record, TimerOrder.timeOf(at))
    }
    if (!isPythons) {
      all.foreach { case (table, at, timer, record) => table.close(at, timer, record) }
      tables.foreach(_.noteExpired())
    }
    isPythons
  }
}
