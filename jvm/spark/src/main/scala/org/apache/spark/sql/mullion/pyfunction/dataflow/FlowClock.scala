package org.apache.spark.sql.mullion.pyfunction.dataflow

import org.apache.spark.sql.mullion.pyfunction.expression.{Item, Untranslatable}

import dev.mullion.windows.key.KeyClock

/** The clock of one key of a step: a [[KeyClock]] that follows the system time, as in Bytewax. The state is the
  * watermark and the system time of that reading, as in `bytewax/_key_windows/clocks.py`.
  *
  * @param ofSystem
  *   whether the time of each value is the system time
  * @param constantUs
  *   the system time, if the program replaces it by a constant
  */
private[dataflow] final class FlowClock private (clock: KeyClock, ofSystem: Boolean, constantUs: Option[Long]) {
  import FlowClock._

  def watermark: Long = clock.now

  /** The time of an entry's value. */
  def timeOf(batch: FlowBatch, entry: Int): Long = if (ofSystem) clock.now else batch.timeOf(entry)

  def isLate(timeUs: Long): Boolean = clock.isAhead(timeUs)

  /** The watermark after a value that is not late. */
  def after(timeUs: Long): Long = clock.after(timeUs)

  def see(timeUs: Long): Unit = {
    clock.see(timeUs)
    ()
  }

  def advance(nowUs: Long): Unit = clock.advance(constantUs.getOrElse(nowUs))

  /** The system time at which the clock reaches `watermark`, or of the next check. */
  def due(watermark: Long, nowUs: Long): Long =
    if (constantUs.isEmpty) clock.whenDue(watermark)
    else Math.max(Math.max(MinUs, Math.min(watermark, MaxUs)), nowUs + CheckAgainUs)

  def snapshot: Item =
    if (ofSystem) Item.Nothing
    else clock.wallReading.fold[Item](Item.Nothing)(read => Item.tuple(Item.Int(clock.now), Item.Int(read)))
}

private[dataflow] object FlowClock {

  /** Python's `datetime.min` and `datetime.max` in UTC, in microseconds. */
  val MinUs: Long = -62135596800000000L
  val MaxUs: Long = 253402300799999999L

  private val CheckAgainUs = 1000000L

  def ofSystem(nowUs: Long): FlowClock =
    new FlowClock(KeyClock.ofKey(0L, nowUs, Some(nowUs), lateBehind = true), ofSystem = true, None)

  /** @param waitUs
    *   the delay behind the largest time
    * @param state
    *   the stored state, or `Item.Nothing` for a new key
    */
  def ofEvents(waitUs: Long, constantUs: Option[Long], state: Item, nowUs: Long): FlowClock = {
    val now = constantUs.getOrElse(nowUs)
    val (watermark, readAt) = state match {
      case Item.Nothing                                           => (MinUs, now)
      case Item.Tuple(Array(Item.Int(watermark), Item.Int(read))) => (watermark, read)
      case _                                                      => throw Untranslatable
    }
    val clock = new FlowClock(
      KeyClock.ofKey(waitUs, watermark, Some(readAt), lateBehind = true),
      ofSystem = false,
      constantUs
    )
    clock.advance(nowUs)
    clock
  }
}
