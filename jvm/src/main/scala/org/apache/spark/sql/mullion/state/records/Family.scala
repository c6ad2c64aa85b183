package org.apache.spark.sql.mullion.state.records

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.types.{LongType, StructType}

/** A kind of record in an operator's state: a column family, where the store is RocksDB.
  *
  * @param order
  *   in what order records are kept
  * @param countAt
  *   of a kind with one record, which says how many records the partition has: in which column of its value
  */
final case class FamilySpec(
    name: String,
    key: StructType,
    value: StructType,
    order: RecordOrder,
    countAt: Option[Int] = None
) {
  require(times.forall(key(_).dataType == LongType) && times.length < key.length)

  /** Where in the key the times are that records are kept in order of. */
  def times: Seq[Int] = order match {
    case RecordOrder.Unordered   => Nil
    case RecordOrder.WithinKey   => Nil
    case RecordOrder.ByLast      => Seq(key.length - 1)
    case RecordOrder.ByFirst(of) => 0 until of
  }
}

/** In what order the records of a family are kept. */
sealed trait RecordOrder

object RecordOrder {

  /** In none: they are only looked up. */
  case object Unordered extends RecordOrder

  /** By the last column of the key, a BIGINT, among records that agree in the others. */
  case object WithinKey extends RecordOrder

  /** By the last column of the key, a BIGINT: what RocksDB's keys are shortest with. */
  case object ByLast extends RecordOrder

  /** By the first `columns` of the key, each a BIGINT. */
  final case class ByFirst(columns: Int) extends RecordOrder
}

/** The records of one kind in one partition's state, at the version that a batch starts from and with the batch's own
  * changes. Rows passed in may be reused by the caller; rows returned are the caller's to change, but only borrowed:
  * RocksDB has one row for all values of a family. `ExpiringPartition` enforces the rule in tests.
  */
trait Family {

  /** The value of `key`, if there is one. */
  def get(key: UnsafeRow): BorrowedRow

  /** The same, not to be changed. */
  def look(key: UnsafeRow): BorrowedRow = get(key)

  /** True if many keys are found faster at once than one by one: they are in a store, and not in memory. */
  def findsManyAtOnce: Boolean = false

  /** Says which keys will be looked up next, where that is so. */
  def expect(keys: Array[UnsafeRow]): Unit = ()

  /** Puts a record that was not there. */
  def insert(key: UnsafeRow, value: UnsafeRow): Unit

  /** Replaces the value of a record that was there. */
  def update(key: UnsafeRow, value: UnsafeRow): Unit

  /** Removes a record that was there. */
  def remove(key: UnsafeRow): Unit

  /** The records in order, from the first whose time is at least `from`. Records removed meanwhile may still come. The
    * caller closes it.
    */
  def scan(from: Long): RemovingScan

  /** All records, in whatever order: for a look from outside. The caller closes it. */
  def all(): RemovingScan = scan(Long.MinValue)

  /** Removes all records. */
  def clear(): Unit = {
    val records = all()
    try records.foreach(_ => records.remove())
    finally records.close()
  }

  /** The records of a family kept `WithinKey` from the key `from` to before the key `until`, which agree in all but
    * their last columns, in order. The caller closes it.
    */
  def range(from: UnsafeRow, until: UnsafeRow): FamilyScan

  /** The same, not to be changed, for as long as nothing of the family changes. */
  def look(from: UnsafeRow, until: UnsafeRow): FamilyScan = range(from, until)
}

/** A running scan of a family, which stands on one record at a time. It is no iterator, for an iterator's `hasNext`
  * reads the next record, and its lazy operations keep records across calls.
  */
trait FamilyScan extends AutoCloseable {

  /** Goes to the next record; whether there is one. */
  def next(): Boolean

  /** The key of the record that it stands on. */
  def key: BorrowedRow

  /** The value of the record that it stands on. */
  def value: BorrowedRow

  /** Has `use` read the rest of the records, one by one. */
  final def foreach(use: FamilyScan => Unit): Unit = while (next()) use(this)

  /** Reads the rest of the records at once, each into a value of its own. */
  final def map[T](of: FamilyScan => T): Vector[T] = {
    val all = Vector.newBuilder[T]
    while (next()) all += of(this)
    all.result()
  }

  /** Counts the rest of the records. */
  final def size: Int = {
    var count = 0
    while (next()) count += 1
    count
  }
}

/** One that removes records, too. */
trait RemovingScan extends FamilyScan {

  /** Removes the record that it stands on, which is still there. Of many that lie side by side it takes less than to
    * have the family remove each.
    */
  def remove(): Unit
}

/** The state of one operator in one partition, open for one batch. */
trait StatePartition {
  def family(spec: FamilySpec): Family

  /** Records found or scanned so far. */
  def rowsRead: Long

  /** Records put less records removed so far. */
  def rowsAdded: Long

  /** Makes the changes of this batch the next version. */
  def commit(): Unit

  /** Gives back the memory that only this batch has. Comes when the task is done, whether it has committed or not. */
  def abort(): Unit = ()

  /** Fails if what it counts is not what there is: for tests. */
  def checkInvariants(): Unit = ()

  /** What its records take in memory from this batch to the next beside the store, once committed; none if they do not
    * stay there.
    */
  def bytesInMemory: Option[Long] = None

  /** Spark's store that holds the partition. */
  def store: StateStore
}
