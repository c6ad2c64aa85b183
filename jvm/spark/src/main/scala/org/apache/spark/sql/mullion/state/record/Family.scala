package org.apache.spark.sql.mullion.state.record

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.types.{LongType, StructType}

/** A kind of record in an operator's state: a column family in RocksDB.
  *
  * @param order
  *   the order of its records
  * @param countAt
  *   for the kind with one record that counts the partition's records: the column of the count in its value
  */
final case class FamilySpec(
    name: String,
    key: StructType,
    value: StructType,
    order: RecordOrder,
    countAt: Option[Int] = None
) {
  require(times.forall(key(_).dataType == LongType) && times.length < key.length)

  /** The columns of the key with the times that order records. */
  def times: Seq[Int] = order match {
    case RecordOrder.Unordered   => Nil
    case RecordOrder.WithinKey   => Nil
    case RecordOrder.ByLast      => Seq(key.length - 1)
    case RecordOrder.ByFirst(of) => 0 until of
  }
}

/** The order of the records of a family. */
sealed trait RecordOrder

object RecordOrder {

  /** No order: they are only looked up. */
  case object Unordered extends RecordOrder

  /** By the last column of the key, a BIGINT, among records that agree in the others. */
  case object WithinKey extends RecordOrder

  /** By the last column of the key, a BIGINT: the order with RocksDB's shortest keys. */
  case object ByLast extends RecordOrder

  /** By the first `columns` of the key, each a BIGINT. */
  final case class ByFirst(columns: Int) extends RecordOrder
}

/** The records of one kind in one partition's state, at the version that a batch starts from and with the batch's own
  * changes. Rows passed in may be reused by the caller. The caller may change returned rows, but only borrows them:
  * RocksDB has one row for all values of a family. `ExpiringPartition` enforces the rule in tests.
  */
trait Family {

  /** The value of `key`, if there is one. */
  def get(key: UnsafeRow): BorrowedRow

  /** The same, for reading only. */
  def look(key: UnsafeRow): BorrowedRow = get(key)

  /** True if looking up many keys at once is faster than one by one: they are in a store, and not in memory. */
  def findsManyAtOnce: Boolean = false

  /** Announces the keys of the next lookups. */
  def expect(keys: Array[UnsafeRow]): Unit = ()

  /** Puts a record with a new key. */
  def insert(key: UnsafeRow, value: UnsafeRow): Unit

  /** Replaces the value of an existing record. */
  def update(key: UnsafeRow, value: UnsafeRow): Unit

  /** Removes an existing record. */
  def remove(key: UnsafeRow): Unit

  /** The records in order, from the first whose time is at least `from`. Records removed meanwhile may still be
    * returned. The caller closes it.
    */
  def scan(from: Long): RemovingScan

  /** All records in any order, for inspection. The caller closes it. */
  def all(): RemovingScan = scan(Long.MinValue)

  /** Removes all records. */
  def clear(): Unit = {
    val records = all()
    try records.foreach(_ => records.remove())
    finally records.close()
  }

  /** The records of a `WithinKey` family from the key `from` to before the key `until`, in order. Both keys are equal
    * except for their last columns. The caller closes it.
    */
  def range(from: UnsafeRow, until: UnsafeRow): FamilyScan

  /** The same, for reading only, as long as nothing of the family changes. */
  def look(from: UnsafeRow, until: UnsafeRow): FamilyScan = range(from, until)
}

/** A running scan of a family, positioned on one record at a time. It is no iterator, because an iterator's `hasNext`
  * reads the next record, and its lazy operations keep records across calls.
  */
trait FamilyScan extends AutoCloseable {

  /** Moves to the next record. Returns whether there is one. */
  def next(): Boolean

  /** The key of the current record. */
  def key: BorrowedRow

  /** The value of the current record. */
  def value: BorrowedRow

  /** Calls `use` for each remaining record. */
  final def foreach(use: FamilyScan => Unit): Unit = while (next()) use(this)

  /** Reads the remaining records at once, each into its own value. */
  final def map[T](of: FamilyScan => T): Vector[T] = {
    val all = Vector.newBuilder[T]
    while (next()) all += of(this)
    all.result()
  }

  /** Counts the remaining records. */
  final def size: Int = {
    var count = 0
    while (next()) count += 1
    count
  }
}

/** A scan that can remove records. */
trait RemovingScan extends FamilyScan {

  /** Removes the current record, which must exist. For many adjacent records this is cheaper than `Family.remove`. */
  def remove(): Unit
}

/** The state of one operator in one partition, open for one batch. */
trait StatePartition {
  def family(spec: FamilySpec): Family

  /** The number of records found or scanned so far. */
  def rowsRead: Long

  /** The number of records put, less those removed, so far. */
  def rowsAdded: Long

  /** Makes the changes of this batch the next version. */
  def commit(): Unit

  /** Releases the memory of this batch. Called at the end of the task, whether it has committed or not. */
  def abort(): Unit = ()

  /** Fails if its counters are wrong: for tests. */
  def checkInvariants(): Unit = ()

  /** The memory of its records between batches, in addition to the store, once committed; none if they are not cached.
    */
  def bytesInMemory: Option[Long] = None

  /** Spark's store that holds the partition. */
  def store: StateStore
}
