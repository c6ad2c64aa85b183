package org.apache.spark.sql.mullion.state.rocksdb

import scala.util.Using

import org.rocksdb.RocksDBException

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.packed.Segments
import org.apache.spark.sql.mullion.state.record.{
  BorrowedRow,
  Family,
  FamilyScan,
  FamilySpec,
  KeyFrom,
  RecordCounts,
  RemovingScan,
  StatePartition
}

/** State in RocksDB: one store per partition, a column family per kind of record, ordered by Spark's key encoders.
  *
  * @param layout
  *   the encoding of keys
  */
private[mullion] final class RocksDbPartition(
    override val store: StateStore,
    main: FamilySpec,
    others: Seq[FamilySpec],
    layout: KeyLayout = KeyLayout.own
) extends StatePartition {
  private val counts = new RecordCounts

  others.foreach(f => store.createColFamilyIfAbsent(f.name, f.key, f.value, layout.encoder(f)))

  override def family(spec: FamilySpec): Family = new RocksDbFamily(spec, nameOf(spec))

  /** The segments of a family. */
  private[state] def segments(spec: FamilySpec, from: Segments.Version): Segments =
    new Segments(store, spec, from, family(spec), counts)

  private val owned = CachedRocksDbStore.of(store)

  /** The cached records. */
  private[state] val hot: CachedRecords = owned.hot

  /** The rows of its last batch. */
  private[state] val rows: KeptRows = owned.rows

  /** The number of records, where it is counted under its own key. */
  private[state] def recordsIn(families: Seq[FamilySpec]): Option[Long] = for {
    spec <- families.find(_.countAt.isDefined)
    at <- spec.countAt
    count <- Using.resource(store.iterator(nameOf(spec)))(_.map(_.value.getLong(at)).nextOption())
  } yield count

  private def nameOf(spec: FamilySpec) = if (spec == main) StateStore.DEFAULT_COL_FAMILY_NAME else spec.name

  /** Fails if records that were read before are incomplete. */
  private[state] def requireSound(): Unit = owned.requireSound()

  /** The id of the committed version. */
  private[state] def committedId: Option[String] = store.getStateStoreCheckpointInfo().stateStoreCkptId

  override def rowsRead: Long = counts.read

  override def rowsAdded: Long = counts.added

  override def commit(): Unit = store.commit()

  private final class RocksDbFamily(spec: FamilySpec, name: String) extends Family {
    private lazy val from = new KeyFrom(spec)
    private val time = spec.times.headOption.getOrElse(0)
    private val stored = layout.keys(spec)
    // Results of a bulk lookup, until they are read or changed; null for a missing key.
    private val expected = new java.util.HashMap[UnsafeRow, UnsafeRow]

    override def get(key: UnsafeRow): BorrowedRow = {
      val value =
        if (!expected.isEmpty && expected.containsKey(key)) expected.remove(key) else store.get(stored.of(key), name)
      if (value ne null) counts.read += 1
      BorrowedRow(value)
    }

    override def findsManyAtOnce: Boolean = SparkVersionShim.findsManyAtOnce

    override def expect(keys: Array[UnsafeRow]): Unit = {
      expected.clear()
      try {
        val values = SparkVersionShim.findMany(store, stored.ofAll(keys), name)
        keys.foreach { key =>
          val value = values.next()
          expected.put(key, if (value eq null) value else value.copy())
        }
      } catch { case e: RocksDBException => throw LostFiles.described(store.id, store.version, e) }
    }

    private def changes(key: UnsafeRow): Unit = if (!expected.isEmpty) { expected.remove(key); () }

    override def insert(key: UnsafeRow, value: UnsafeRow): Unit = {
      changes(key)
      store.put(stored.of(key), value, name)
      counts.added += 1
    }

    override def update(key: UnsafeRow, value: UnsafeRow): Unit = {
      changes(key)
      store.put(stored.of(key), value, name)
    }

    override def remove(key: UnsafeRow): Unit = {
      changes(key)
      store.remove(stored.of(key), name)
      counts.added -= 1
    }

    override def scan(first: Long): RemovingScan = {
      // Other columns are encoded too, and nulls do not sort first: so start one earlier.
      val lower = if (first == Long.MinValue) None else Some(from(first - 1))
      val underlying = SparkVersionShim.scanFrom(store, lower, name)
      counted(underlying.dropWhile(_.key.getLong(time) < first), underlying)
    }

    override def all(): RemovingScan = {
      val underlying = store.iterator(name)
      counted(underlying.map { record => stored.restore(record.key); record }, underlying)
    }

    override def range(start: UnsafeRow, until: UnsafeRow): FamilyScan = {
      val (records, underlying) = stored.range(store, start, until, name)
      counted(records, underlying)
    }

    private def counted(records: Iterator[UnsafeRowPair], underlying: AutoCloseable): RemovingScan = new RemovingScan {
      private var on = new UnsafeRowPair

      override def next(): Boolean = records.hasNext && {
        counts.read += 1
        on = records.next()
        true
      }

      override def key: BorrowedRow = BorrowedRow(on.key)
      override def value: BorrowedRow = BorrowedRow(on.value)
      override def remove(): Unit = RocksDbFamily.this.remove(on.key)

      override def close(): Unit = underlying.close()
    }
  }
}
