package org.apache.spark.sql.mullion.state.btree

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.record.{
  BorrowedRow,
  Family,
  FamilyScan,
  FamilySpec,
  KeyOrder,
  RecordCounts,
  RecordOrder,
  RemovingScan
}
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.array.ByteArrayMethods

/** A kind of record in memory, in order of its scan columns, and of its key without times by [[KeyOrder]].
  *
  * {{{
  *   Unordered    key
  *   ByFirst      time, key      (of two times: time, time, key)
  *   ByLast       time, key
  *   WithinKey    key, time
  * }}}
  *
  * Rows of a batch have the same order, so consecutive lookups are close together. Where a number identifies the key,
  * keys need no comparison.
  */
private[state] final class RecordsFamily(spec: FamilySpec, records: VersionedBTree, counts: RecordCounts)
    extends Family {
  import RecordsFamily._

  private val columns = spec.key.length
  private val valueColumns = spec.value.length
  private val last = columns - 1
  private val lastOffset = UnsafeRow.calculateBitSetWidthInBytes(columns) + 8 * last
  private val kind = spec.order match {
    case RecordOrder.Unordered  => Key
    case RecordOrder.WithinKey  => KeyTime
    case RecordOrder.ByLast     => TimeKey
    case RecordOrder.ByFirst(1) => TimeKey
    case RecordOrder.ByFirst(2) => TimeTimeKey
    case RecordOrder.ByFirst(n) => throw new IllegalArgumentException(s"${spec.name} is in order of $n times")
  }
  private val timeAt = timeOf(spec)
  private val exact = ImplicitKeys.of(spec).isDefined
  private val keyAt = keyOf(spec)
  private val order = new KeyOrder(keyTypes(spec), keyAt)

  // The last returned row: in place, or a copy to change.
  private val looked = new UnsafeRow(valueColumns)
  // Unused, but prevents the JVM from eliminating the reads.
  private var touched = 0L
  private val lent = new RecordCopies(columns, valueColumns)
  // The buffers of a closed range, for reuse.
  private var spareCopies = Option.empty[RecordCopies]

  override def get(key: UnsafeRow): BorrowedRow = BorrowedRow(if (find(key)) lent.only(looked) else None.orNull)

  override def look(key: UnsafeRow): BorrowedRow = BorrowedRow(if (find(key)) looked else None.orNull)

  private def find(key: UnsafeRow): Boolean = {
    val exists = records.get(first(key), second(key), third(key), key, looked)
    if (exists) counts.read += 1
    exists
  }

  override def insert(key: UnsafeRow, value: UnsafeRow): Unit = {
    update(key, value)
    counts.added += 1
  }

  override def update(key: UnsafeRow, value: UnsafeRow): Unit =
    records.put(first(key), second(key), third(key), key, value)

  /** Adds a record that is already written. */
  def read(key: UnsafeRow, value: UnsafeRow, place: Place): Unit =
    records.append(first(key), second(key), third(key), key, value, place)

  /** Schedules an unchanged record to be written again. */
  def writeAnew(key: UnsafeRow): Unit = records.writeAnew(first(key), second(key), third(key), key)

  override def remove(key: UnsafeRow): Unit = {
    records.remove(first(key), second(key), third(key), key)
    counts.added -= 1
  }

  override def scan(from: Long): RemovingScan = {
    require(spec.times.nonEmpty, s"${spec.name} is kept in no order")
    scanFrom(from)
  }

  override def all(): RemovingScan = scanFrom(Long.MinValue)

  private def scanFrom(from: Long): RemovingScan = new Scan(new RecordCopies(columns, valueColumns)) with RemovingScan {
    private val cursor = records.scanned().from(from, Long.MinValue, Long.MinValue)
    // The leaf of the last returned record.
    private var leaf = Option.empty[Leaf]
    private var at = 0

    override def remove(): Unit = leaf.foreach { on =>
      records.remove(on, at)
      counts.added -= 1
    }

    override protected def take(): Boolean = cursor.isOn && {
      copies.clear()
      copies.add(cursor)
      if (!leaf.exists(_ eq cursor.onLeaf)) leaf = Some(cursor.onLeaf)
      at = cursor.onAt
      cursor.move()
      copies.next()
      true
    }

    override protected def end(): Unit = records.endScan()
  }

  // Copied at once: ranges are short, and with a version per range the first change of each key would copy leaves.
  override def range(from: UnsafeRow, until: UnsafeRow): FamilyScan = {
    val (a, b) = (first(from), second(from))
    val end = until.getLong(last)
    val exists = spareCopies.getOrElse(new RecordCopies(columns, valueColumns))
    spareCopies = None
    exists.clear()
    val cursor = records.cursor(a, b, from.getLong(last))
    while (cursor.isOn && cursor.a == a && cursor.b == b && cursor.c < end) {
      cursor.keyTo(looked)
      if (exact || sameButLast(looked, from)) exists.add(cursor)
      cursor.move()
    }
    new Scan(exists) {
      override protected def take(): Boolean = copies.hasNext && { copies.next(); true }
      override protected def end(): Unit = spareCopies = Some(copies)
    }
  }

  override def look(from: UnsafeRow, until: UnsafeRow): FamilyScan = new FamilyScan {
    private val a = first(from)
    private val b = second(from)
    private val end = until.getLong(last)
    private val cursor = records.cursor(a, b, from.getLong(last))
    private val keyRow = new UnsafeRow(columns)
    private val valueRow = new UnsafeRow(valueColumns)
    touched += cursor.touch(Ahead)
    settle()

    private def isOn = cursor.isOn && cursor.a == a && cursor.b == b && cursor.c < end

    /** Skips records of other keys with the same numbers. */
    private def settle(): Unit = if (!exact) {
      while (isOn && { cursor.keyTo(looked); !sameButLast(looked, from) }) cursor.move()
    }

    override def next(): Boolean = isOn && {
      counts.read += 1
      cursor.keyTo(keyRow)
      cursor.valueTo(valueRow)
      cursor.move()
      settle()
      true
    }

    override def key: BorrowedRow = BorrowedRow(keyRow)
    override def value: BorrowedRow = BorrowedRow(valueRow)
    override def close(): Unit = ()
  }

  private abstract class Scan(protected val copies: RecordCopies) extends FamilyScan {
    private var isOpen = true

    /** Points `copies` to the next record. Returns whether there is one. */
    protected def take(): Boolean

    /** Called once, on close. */
    protected def end(): Unit

    override def next(): Boolean = take() && {
      counts.read += 1
      true
    }

    override def key: BorrowedRow = BorrowedRow(copies.key)
    override def value: BorrowedRow = BorrowedRow(copies.value)

    override def close(): Unit = if (isOpen) {
      isOpen = false
      end()
    }
  }

  private def first(key: UnsafeRow): Long = kind match {
    case Key | KeyTime => order(key)
    case _             => key.getLong(timeAt)
  }

  private def second(key: UnsafeRow): Long = kind match {
    case Key | KeyTime => nullOf(key)
    case TimeKey       => order(key)
    case TimeTimeKey   => key.getLong(1)
  }

  private def third(key: UnsafeRow): Long = kind match {
    case Key         => 0L
    case KeyTime     => key.getLong(last)
    case TimeKey     => nullOf(key)
    case TimeTimeKey => order(key)
  }

  /** Distinguishes null from zero. */
  private def nullOf(key: UnsafeRow): Long = if (exact && key.isNullAt(keyAt)) 1L else 0L

  private def sameButLast(one: UnsafeRow, other: UnsafeRow): Boolean = {
    val after = lastOffset + 8
    def same(from: Int, length: Int) = ByteArrayMethods.arrayEquals(
      one.getBaseObject,
      one.getBaseOffset + from,
      other.getBaseObject,
      other.getBaseOffset + from,
      length.toLong
    )
    one.getSizeInBytes == other.getSizeInBytes && same(0, lastOffset) && same(after, one.getSizeInBytes - after)
  }
}

private[state] object RecordsFamily {
  // The number of a range's records that are touched in advance.
  private final val Ahead = 16

  // The kinds of number, as constants because they are matched for each row.
  private final val Key = 0
  private final val KeyTime = 1
  private final val TimeKey = 2
  private final val TimeTimeKey = 3

  /** The number of time columns of a key. */
  private[btree] def timesOf(spec: FamilySpec): Int =
    if (spec.order == RecordOrder.WithinKey) 1 else spec.times.length

  /** The index of a key's first time column, if any. */
  private[btree] def timeOf(spec: FamilySpec): Int = spec.times.headOption.getOrElse(spec.key.length - 1)

  /** The index of a key's first non-time column. */
  private[btree] def keyOf(spec: FamilySpec): Int = spec.order match {
    case RecordOrder.ByFirst(times) => times
    case _                          => 0
  }

  /** The types of the non-time columns. */
  private[btree] def keyTypes(spec: FamilySpec): Seq[DataType] =
    spec.key.slice(keyOf(spec), keyOf(spec) + spec.key.length - timesOf(spec)).map(_.dataType)
}
