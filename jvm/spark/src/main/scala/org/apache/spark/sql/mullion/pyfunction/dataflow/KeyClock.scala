package org.apache.spark.sql.mullion.pyfunction.dataflow

import org.apache.spark.sql.mullion.pyfunction.expression.{Item, Untranslatable}

/** The clock of one key, in microseconds, as `bytewax/_key_windows/clocks.py` has it: what it says there holds here. */
private[dataflow] sealed abstract class KeyClock {
  def beforeBatch(nowUs: Long): Unit

  /** The watermark that there would be after a value of a time. */
  def after(timeUs: Long): Long

  /** The watermark after a value of a time. */
  def onItem(timeUs: Long): Long

  def onNotify(nowUs: Long): Long

  /** The system time at which the watermark comes there, or when to look again. */
  def due(watermark: Long, nowUs: Long): Long

  def snapshot: Item
}

private[dataflow] object KeyClock {

  /** Of `datetime.min` and `datetime.max`, in UTC. */
  val MinUs: Long = -62135596800000000L
  val MaxUs: Long = 253402300799999999L

  private val LookAgainUs = 1000000L

  /** The system's time, for each value and as the watermark. */
  final class OfSystem(nowUs: Long) extends KeyClock {
    private var at = nowUs

    def now: Long = at

    override def beforeBatch(nowUs: Long): Unit = at = Math.max(at, nowUs)

    override def after(timeUs: Long): Long = at

    override def onItem(timeUs: Long): Long = at

    override def onNotify(nowUs: Long): Long = {
      beforeBatch(nowUs)
      at
    }

    override def due(watermark: Long, nowUs: Long): Long = watermark

    override def snapshot: Item = Item.Nothing
  }

  /** The time of the values, which goes on with the system's.
    *
    * @param stands
    *   the system's time, where the program says that it stands still
    */
  final class OfEvents(waitUs: Long, stands: Option[Long], kept: Item, nowUs: Long) extends KeyClock {
    private var now = stands.getOrElse(nowUs)
    private var (base, seen) = kept match {
      case Item.Nothing                                                     => (MinUs, now)
      case Item.Tuple(Array(Item.Int(base), Item.Int(seen), Item.Int(was))) =>
        now = Math.max(now, was)
        (base, seen)
      case _ => throw Untranslatable
    }

    override def beforeBatch(nowUs: Long): Unit = now = Math.max(now, stands.getOrElse(nowUs))

    override def after(timeUs: Long): Long = {
      val watermark = base + now - seen
      val own = timeUs - waitUs
      if (own > watermark && own >= MinUs) own else watermark
    }

    override def onItem(timeUs: Long): Long = {
      val watermark = base + now - seen
      val own = timeUs - waitUs
      if (own > watermark && own >= MinUs) {
        base = own
        seen = now
        own
      } else watermark
    }

    override def onNotify(nowUs: Long): Long = {
      beforeBatch(nowUs)
      base + now - seen
    }

    override def due(watermark: Long, nowUs: Long): Long =
      if (stands.isEmpty) seen + watermark - base
      else Math.max(Math.max(MinUs, Math.min(watermark, MaxUs)), nowUs + LookAgainUs)

    override def snapshot: Item = Item.tuple(Item.Int(base), Item.Int(seen), Item.Int(now))
  }
}
