package org.apache.spark.sql.mullion.operator.engine.timers

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.operator.engine.Iterators.Rows
import org.apache.spark.sql.mullion.operator.engine.{PaneCounts, PaneProgram}
import org.apache.spark.sql.mullion.state.record.{Family, FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types.{DataType, StructType}

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.EarlyFiring

/** A key that may have panes waiting to fire early. */
private[operator] trait WaitingKey {
  def key: UnsafeRow

  /** The readings under which it is queued in state, if it is. */
  def queued: Option[(Long, Long)]

  /** The readings of the pane that fires early first, if one waits. */
  def firstReadings(early: EarlyFiring): Option[(Long, Long)]
}

/** The keys with a pane that waits to fire early, in order of their due times: by the clock readings when that pane
  * opened or last fired (see [[EarlyFiring]]).
  *
  * {{{
  *   early   (event, wall, key)
  * }}}
  */
private[operator] abstract class EarlyKeys[K <: WaitingKey](
    early: EarlyFiring,
    family: Family,
    keyTypes: Seq[DataType],
    clock: BatchClock,
    counts: PaneCounts
) {
  private val queued = new TimedKey(keyTypes, RecordOrder.ByFirst(2))
  private val toKey = queued.toKey

  /** Loads a key. */
  protected def load(key: UnsafeRow): K

  /** The early firings of a key. */
  protected def fire(active: K): Iterator[InternalRow]

  /** Writes a key after its firings, and queues it again. */
  protected def store(active: K): Unit

  /** Moves a key to the place of its first waiting pane. */
  def move(active: K): Unit = {
    val now = active.firstReadings(early)
    if (now != active.queued) {
      active.queued.foreach { case (event, wall) => family.remove(queued(event, wall, active.key)) }
      now.foreach { case (event, wall) => family.insert(queued(event, wall, active.key), KeyOnly.value) }
    }
  }

  /** Queues a key, which is not queued, at the place of its first waiting pane. */
  def add(active: K): Unit = active.firstReadings(early).foreach { case (event, wall) =>
    family.insert(queued(event, wall, active.key), KeyOnly.value)
  }

  /** The early firings of a key that has all its rows, after its closes. */
  def firing(active: K): Iterator[InternalRow] =
    if (active.firstReadings(early).exists { case (event, wall) => early.isDue(event, wall, clock) }) fire(active)
    else Iterator.empty

  /** All other early firings of this batch, after all closes. */
  def firing(): Iterator[InternalRow] = new Due().firing()

  private final class Due extends DueScan(family.scan(Long.MinValue)) {
    // The first of those that have fired.
    private var waiting = Option.empty[(Long, Long)]

    override protected def isDue(key: UnsafeRow): Boolean = {
      val (event, wall) = queued.timesOf(key)
      early.isDue(event, wall, clock)
    }

    override protected def rest(firstLeft: Option[UnsafeRow]): Unit =
      (firstLeft.map(queued.timesOf) ++ waiting).reduceOption(first).foreach { case (event, wall) =>
        counts.nextEarlyEvent = early.eventDue(event, clock)
        counts.nextByWall = early.wallDue(wall)
      }

    override protected def fire(key: UnsafeRow, value: UnsafeRow): Iterator[InternalRow] = {
      val active = load(toKey(key).copy())
      EarlyKeys.this.fire(active).andThen {
        active.firstReadings(early).foreach(r => waiting = Some(waiting.fold(r)(first(_, r))))
        store(active)
      }
    }

    private def first(a: (Long, Long), b: (Long, Long)): (Long, Long) = (Math.min(a._1, b._1), Math.min(a._2, b._2))
  }
}

private[operator] object EarlyKeys {
  def family(program: PaneProgram): FamilySpec = FamilySpec(
    "early",
    StructType(Seq(PaneProgram.time("event"), PaneProgram.time("wall")) ++ program.keyFields),
    KeyOnly.schema,
    RecordOrder.ByFirst(2)
  )

  def of(program: PaneProgram, partition: StatePartition): Family = partition.family(family(program))
}
