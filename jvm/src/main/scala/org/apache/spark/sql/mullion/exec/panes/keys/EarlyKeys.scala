package org.apache.spark.sql.mullion.exec.panes.keys

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.exec.panes.Steps.Rows
import org.apache.spark.sql.mullion.exec.panes.{PaneCounts, PaneProgram}
import org.apache.spark.sql.mullion.state.records.{Family, FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types.{DataType, StructType}

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.EarlyFiring

/** A key that may have panes waiting to fire early. */
private[exec] trait WaitingKey {
  def key: UnsafeRow

  /** The readings that it waits under in state, if it does. */
  def queued: Option[(Long, Long)]

  /** The readings of the pane that fires early first, if one waits. */
  def firstReadings(early: EarlyFiring): Option[(Long, Long)]
}

/** The keys with a pane that waits to fire early, in the order in which they fall due: by what the clocks read when
  * that pane opened or last fired (see [[EarlyFiring]]).
  *
  * {{{
  *   early   (event, wall, key)
  * }}}
  */
private[exec] abstract class EarlyKeys[K <: WaitingKey](
    early: EarlyFiring,
    family: Family,
    keyTypes: Seq[DataType],
    clock: BatchClock,
    counts: PaneCounts
) {
  private val queued = new TimedKey(keyTypes, RecordOrder.ByFirst(2))
  private val toKey = queued.toKey

  /** What is known of a key. */
  protected def load(key: UnsafeRow): K

  /** What of it fires early. */
  protected def fire(active: K): Iterator[InternalRow]

  /** Writes it back once that is used up, and puts it where it waits now. */
  protected def store(active: K): Unit

  /** Puts a key where its first waiting pane is now. */
  def move(active: K): Unit = {
    val now = active.firstReadings(early)
    if (now != active.queued) {
      active.queued.foreach { case (event, wall) => family.remove(queued(event, wall, active.key)) }
      now.foreach { case (event, wall) => family.insert(queued(event, wall, active.key), KeyOnly.value) }
    }
  }

  /** Puts a key where its first waiting pane is, which waits nowhere yet. */
  def add(active: K): Unit = active.firstReadings(early).foreach { case (event, wall) =>
    family.insert(queued(event, wall, active.key), KeyOnly.value)
  }

  /** What of a key that has all its rows fires early in this batch, once what closes of it has closed. */
  def firing(active: K): Iterator[InternalRow] =
    if (active.firstReadings(early).exists { case (event, wall) => early.isDue(event, wall, clock) }) fire(active)
    else Iterator.empty

  /** What else fires early in this batch, once all that closes has closed. */
  def firing(): Iterator[InternalRow] = new Due().firing()

  private final class Due extends DueScan(family.scan(Long.MinValue)) {
    // Of those that have fired.
    private var waiting = Option.empty[(Long, Long)]

    override protected def isDue(key: UnsafeRow): Boolean = {
      val (event, wall) = queued.timesOf(key)
      early.isDue(event, wall, clock)
    }

    override protected def rest(firstLeft: Option[UnsafeRow]): Unit =
      (firstLeft.map(queued.timesOf) ++ waiting).reduceOption(first).foreach { case (event, wall) =>
        counts.nextEarlyEvent = early.eventDue(event)
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

private[exec] object EarlyKeys {
  def family(program: PaneProgram): FamilySpec = FamilySpec(
    "early",
    StructType(Seq(PaneProgram.time("event"), PaneProgram.time("wall")) ++ program.keyFields),
    KeyOnly.schema,
    RecordOrder.ByFirst(2)
  )

  def of(program: PaneProgram, partition: StatePartition): Family = partition.family(family(program))
}
