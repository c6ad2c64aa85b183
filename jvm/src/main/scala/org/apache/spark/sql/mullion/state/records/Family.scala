package org.apache.spark.sql.mullion.state.records

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{StateStore, UnsafeRowPair}
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
  * changes. Rows passed in may be reused by the caller; rows returned are the caller's to change, but are readable only
  * until the next call on the partition: on any of its families or scans, `hasNext` among them. RocksDB has one row for
  * all values of a family and reads the next record in `hasNext`. `ExpiringPartition` enforces the rule in tests.
  */
trait Family {

  /** The value of `key`, or null: a lookup is per row, and an Option each is what we save. */
  def get(key: UnsafeRow): UnsafeRow

  /** The same, not to be changed. */
  def look(key: UnsafeRow): UnsafeRow = get(key)

  /** Whether many keys are found faster at once than one by one: they are in a store, and not in memory. */
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

/** A running scan of a family. */
trait FamilyScan extends Iterator[UnsafeRowPair] with AutoCloseable

/** One that removes records, too. */
trait RemovingScan extends FamilyScan {

  /** Removes the record that was handed out last, which is still there. Of many that lie side by side it takes less
    * than to have the family remove each.
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
