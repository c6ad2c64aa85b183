package org.apache.spark.sql.mullion.operator.asof

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  BoundReference,
  Expression,
  JoinedRow,
  Literal,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.mullion.expressions.rows.Projections
import org.apache.spark.sql.mullion.operator.engine.Iterators
import org.apache.spark.sql.mullion.operator.engine.Iterators._
import org.apache.spark.sql.mullion.operator.engine.timers.{DueScan, KeyOnly}
import org.apache.spark.sql.mullion.state.record.{Family, StatePartition}

import dev.mullion.windows.clock.BatchClock

/** Joins the rows of one partition in one batch. Rows wait in order of time until the clock has passed them, and are
  * then processed in that order:
  *
  * {{{
  *   waiting   12:00 left k1   12:01 right k1   12:02 left k1   | clock |   12:05 left k2 ...
  *             emitted         is the latest    emitted with               waits
  *                             row of k1        that row
  * }}}
  *
  * Right rows that no left row needs any more are then removed.
  */
private[asof] abstract class AsOfEngine(
    program: AsOfProgram,
    clock: BatchClock,
    partition: StatePartition,
    counts: AsOfCounts
) {
  import AsOfEngine._

  protected val rules = program.rules
  private val waiting = partition.family(program.state.waiting)
  private val expiry: Option[Family] = rules.keep.map(_ => partition.family(program.state.expiry))

  private def indexOf(column: Attribute): Int = program.input.indexWhere(_.exprId == column.exprId)

  protected def ofInput(column: Attribute): Expression =
    BoundReference(indexOf(column), column.dataType, nullable = true)

  /** The key's columns in a record's key, from the first. */
  protected def keysFrom(first: Int): Seq[Expression] =
    program.keys.zipWithIndex.map { case (key, i) => BoundReference(first + i, key.dataType, nullable = true) }

  private val (timeAt, leftAt) = (indexOf(program.time), indexOf(program.left))
  private val keysAt = program.keys.map(indexOf).toArray
  private val waitingKey = Projections(Seq(Literal(0L), Literal(0L)) ++ program.keys.map(ofInput))
  private val waitingValue = Projections(Seq(program.left, program.right).map(ofInput))
  private val expiryKey = Projections(Literal(0L) +: keysFrom(0))
  private val output = UnsafeProjection.create(program.columns)
  private val joined = new JoinedRow
  // A left row that is due: its record is removed before its match is looked up.
  private val leftRow = UnsafeRow.createFromByteArray(64, 2)
  private var number = 0L
  // The first time of a waiting row.
  private var earliest = clock.before

  /** The match of a left row without one. */
  protected val noMatch: UnsafeRow = UnsafeProjection.create(program.state.rights.value)(InternalRow(0L, null)).copy()

  /** Stores a right row of the input. */
  protected def arrives(time: Long, row: UnsafeRow): Unit

  /** Applies a right row that waited, once the clock has passed it. */
  protected def passes(time: Long, key: UnsafeRow, value: UnsafeRow): Unit

  /** The match of a left row that is due. The next call may overwrite it. */
  protected def matchOf(time: Long, key: UnsafeRow): UnsafeRow

  /** Removes the right row of a key that expires at `due`. Returns the key's next expiry, or `Never`. */
  protected def expired(due: Long, key: UnsafeRow): Long

  /** The output of this batch. */
  final def process(input: Iterator[InternalRow]): Iterator[InternalRow] = new Iterators.OfEach(input)({ row =>
    add(row.asInstanceOf[UnsafeRow])
    Iterator.empty
  })(new Due().firing().andThen(expire()))

  private def add(row: UnsafeRow): Unit =
    if (row.isNullAt(timeAt)) counts.rowsWithoutTime += 1
    else {
      val time = row.getLong(timeAt)
      if (row.isNullAt(leftAt)) {
        // A null matches nothing.
        if (hasNullKey(row)) ()
        else if (rules.needless(time).exists(clock.hadClosed)) counts.rowsLate += 1
        else arrives(time, row)
      } else if (clock.hadClosed(rules.due(time))) counts.rowsLate += 1
      else {
        counts.leftsAdded += 1
        await(rules.due(time), row, isFirst = !rules.allowExact)
      }
    }

  private def hasNullKey(row: UnsafeRow): Boolean = {
    var i = 0
    while (i < keysAt.length && !row.isNullAt(keysAt(i))) i += 1
    i < keysAt.length
  }

  /** Stores a row until the clock has passed a time. Rows of one time keep their order of arrival.
    *
    * @param isFirst
    *   whether it comes before the other side's rows of the same time
    */
  protected def await(time: Long, row: UnsafeRow, isFirst: Boolean): Unit = {
    val key = waitingKey(row)
    key.setLong(0, time)
    key.setLong(1, (if (isFirst) 0L else Second) | clock.number << BatchAt | number)
    number += 1
    earliest = Math.min(earliest, time)
    waiting.insert(key, waitingValue(row))
  }

  /** Has `expired` called for a key once the clock has passed `due`. */
  protected def expires(due: Long, key: UnsafeRow): Unit = expiry.foreach { records =>
    val row = expiryKey(key)
    row.setLong(0, due)
    records.insert(row, KeyOnly.value)
  }

  private def expire(): Unit = expiry.foreach { records =>
    val toKey = Projections(keysFrom(1))
    val scan = records.scan(clock.before)
    try {
      var isDue = true
      while (isDue && scan.next()) {
        val due = scan.key.getLong(0)
        isDue = clock.closes(due)
        if (isDue) {
          val key = toKey(scan.key.untilNextCall)
          scan.remove()
          counts.due(expired(due, key))
        } else counts.due(due)
      }
    } finally scan.close()
  }

  private final class Due extends DueScan(waiting.scan(earliest)) {
    private val toKey = Projections(keysFrom(2))
    private val toRight = Projections(Seq(Literal(0L), BoundReference(1, program.right.dataType, nullable = true)))

    override protected def isDue(key: UnsafeRow): Boolean = clock.closes(key.getLong(0))

    override protected def rest(first: Option[UnsafeRow]): Unit = first.foreach(key => counts.due(key.getLong(0)))

    override protected def fire(key: UnsafeRow, value: UnsafeRow): Iterator[InternalRow] = {
      val due = key.getLong(0)
      val of = toKey(key)
      if (value.isNullAt(0)) {
        val right = toRight(value)
        right.setLong(0, due)
        remove()
        passes(due, of, right)
        Iterator.empty
      } else {
        leftRow.copyFrom(value)
        remove()
        counts.leftsEmitted += 1
        Iterator.single(output(joined(leftRow, matchOf(due - rules.ahead, of))))
      }
    }
  }
}

private[asof] object AsOfEngine {
  // The number of a waiting row: its place among the sides' rows of one time, its batch, its place in that.
  private final val Second = 1L << 62
  private final val BatchAt = 32

  final val Never = Long.MaxValue

  def apply(program: AsOfProgram, clock: BatchClock, partition: StatePartition, counts: AsOfCounts): AsOfEngine =
    if (program.state.isBackward) new BackwardJoin(program, clock, partition, counts)
    else new AheadJoin(program, clock, partition, counts)
}
