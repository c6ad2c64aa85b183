package org.apache.spark.sql.mullion.state

import org.apache.spark.sql.catalyst.expressions.{UnsafeRow, XXH64}
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

/** A kind of record in memory, in order of what it is scanned by, then of a hash of its key.
  *
  * {{{
  *   Unordered    hash
  *   ByFirst      time [, time], hash
  *   ByLast       time, hash
  *   WithinKey    hash of the key without its time, time
  * }}}
  */
private[state] final class RecordsFamily(spec: FamilySpec, records: SortedRecords, counts: RecordCounts)
    extends Family {
  import RecordsFamily._

  private val columns = spec.key.length
  private val valueColumns = spec.value.length
  private val last = columns - 1
  private val lastOffset = UnsafeRow.calculateBitSetWidthInBytes(columns) + 8 * last
  private val kind = spec.order match {
    case RecordOrder.Unordered  => Hash
    case RecordOrder.WithinKey  => HashTime
    case RecordOrder.ByLast     => TimeHash
    case RecordOrder.ByFirst(1) => TimeHash
    case RecordOrder.ByFirst(2) => TimeTimeHash
    case RecordOrder.ByFirst(n) => throw new IllegalArgumentException(s"${spec.name} is in order of $n times")
  }
  private val timeAt = spec.times.headOption.getOrElse(last)

  override def get(key: UnsafeRow): UnsafeRow = {
    val value = records.get(first(key), second(key), third(key), key)
    if (value eq null) None.orNull
    else {
      counts.read += 1
      row(value.clone(), valueColumns)
    }
  }

  override def insert(key: UnsafeRow, value: UnsafeRow): Unit = {
    update(key, value)
    counts.added += 1
  }

  override def update(key: UnsafeRow, value: UnsafeRow): Unit =
    records.put(first(key), second(key), third(key), key, SortedRecords.bytesOf(value))

  /** Takes in a record as it is written. */
  def read(key: UnsafeRow, value: UnsafeRow, place: Long): Unit =
    records.append(
      first(key),
      second(key),
      third(key),
      SortedRecords.bytesOf(key),
      SortedRecords.bytesOf(value),
      place
    )

  /** Has a record written anew that has not changed. */
  def writeAnew(key: UnsafeRow): Unit = records.writeAnew(first(key), second(key), third(key), key)

  override def remove(key: UnsafeRow): Unit = {
    records.remove(first(key), second(key), third(key), key)
    counts.added -= 1
  }

  override def scan(from: Long): FamilyScan = {
    require(spec.times.nonEmpty, s"${spec.name} is kept in no order")
    scanFrom(from)
  }

  override def all(): FamilyScan = scanFrom(Long.MinValue)

  private def scanFrom(from: Long): FamilyScan = {
    val cursor = records.version().from(from, Long.MinValue, Long.MinValue)
    new Scan {
      override def hasNext: Boolean = cursor.isOn

      override protected def take(): UnsafeRowPair = {
        val pair = rows(cursor.key, cursor.value)
        cursor.move()
        pair
      }
    }
  }

  // Taken out at once: it is little, and a version for each would have each key's first change copy.
  override def range(from: UnsafeRow, until: UnsafeRow): FamilyScan = {
    val hash = first(from)
    val end = until.getLong(last)
    val keys = new java.util.ArrayDeque[Array[Byte]]()
    val values = new java.util.ArrayDeque[Array[Byte]]()
    val cursor = records.cursor(hash, from.getLong(last), Long.MinValue)
    while (cursor.isOn && cursor.a == hash && cursor.b < end) {
      if (sameButLast(cursor.key, from)) {
        keys.add(cursor.key)
        values.add(cursor.value)
      }
      cursor.move()
    }
    new Scan {
      override def hasNext: Boolean = !keys.isEmpty
      override protected def take(): UnsafeRowPair = rows(keys.poll(), values.poll())
    }
  }

  private abstract class Scan extends FamilyScan {
    private val pair = new UnsafeRowPair()

    protected def take(): UnsafeRowPair

    override def next(): UnsafeRowPair = {
      if (!hasNext) throw new NoSuchElementException(spec.name)
      counts.read += 1
      take()
    }

    override def close(): Unit = ()

    protected def rows(key: Array[Byte], value: Array[Byte]): UnsafeRowPair =
      pair.withRows(row(key.clone(), columns), row(value.clone(), valueColumns))
  }

  private def first(key: UnsafeRow): Long = kind match {
    case Hash     => hash(key, 0, key.getSizeInBytes, 42L)
    case HashTime =>
      val after = lastOffset + 8
      hash(key, after, key.getSizeInBytes - after, hash(key, 0, lastOffset, 42L))
    case _ => key.getLong(timeAt)
  }

  private def second(key: UnsafeRow): Long = kind match {
    case Hash         => 0L
    case HashTime     => key.getLong(last)
    case TimeHash     => hash(key, 0, key.getSizeInBytes, 42L)
    case TimeTimeHash => key.getLong(1)
  }

  private def third(key: UnsafeRow): Long =
    if (kind == TimeTimeHash) hash(key, 0, key.getSizeInBytes, 42L) else 0L

  private def hash(key: UnsafeRow, from: Int, length: Int, seed: Long): Long =
    XXH64.hashUnsafeWords(key.getBaseObject, key.getBaseOffset + from, length, seed)

  private def sameButLast(bytes: Array[Byte], key: UnsafeRow): Boolean = {
    val after = lastOffset + 8
    def same(from: Int, length: Int) = ByteArrayMethods.arrayEquals(
      key.getBaseObject,
      key.getBaseOffset + from,
      bytes,
      (Platform.BYTE_ARRAY_OFFSET + from).toLong,
      length.toLong
    )
    bytes.length == key.getSizeInBytes && same(0, lastOffset) && same(after, bytes.length - after)
  }
}

private[state] object RecordsFamily {
  // What the numbers of a record are; matched for each row.
  private final val Hash = 0
  private final val HashTime = 1
  private final val TimeHash = 2
  private final val TimeTimeHash = 3

  private def row(bytes: Array[Byte], columns: Int): UnsafeRow = {
    val row = new UnsafeRow(columns)
    row.pointTo(bytes, bytes.length)
    row
  }
}
