package org.apache.spark.sql.mullion.state.store

import java.util.TreeMap

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.mullion.state.records.{
  Family,
  FamilyScan,
  FamilySpec,
  RecordOrder,
  RemovingScan,
  StatePartition
}
import org.apache.spark.sql.types.{LongType, StructField, StructType}

/** State in Spark's HDFS-backed store, which has no column families and no order. So each kind of record has a store of
  * its own, and an ordered kind has a second one that lists the leading columns in use, with the number of records
  * under each: a scan goes through that list, sorted, and reads the records under each entry by prefix.
  */
final class HdfsPartition(
    open: (String, StructType, StructType, KeyStateEncoderSpec) => StateStore,
    families: Seq[FamilySpec]
) extends StatePartition {
  private var read = 0L
  private var added = 0L

  private val opened: Map[String, HdfsFamily] = families.map { spec =>
    val name = if (spec == families.head) StateStoreId.DEFAULT_STORE_NAME else spec.name
    val store = open(name, spec.key, spec.value, HdfsPartition.encoder(spec))
    val order =
      if (spec.times.isEmpty) None
      else {
        val key = HdfsPartition.leading(spec)
        Some(open(s"${spec.name}_order", key, HdfsPartition.count, NoPrefixKeyStateEncoderSpec(key)))
      }
    spec.name -> new HdfsFamily(spec, store, order.map(new Order(spec, _)))
  }.toMap

  override def family(spec: FamilySpec): Family = opened(spec.name)

  // Its deltas lie under the numbers of versions alone.
  override def tellsAttemptsApart: Boolean = false

  override def rowsRead: Long = read

  override def rowsAdded: Long = added

  override def commit(): Unit = {
    opened.values.foreach(_.order.foreach(_.flush()))
    stores.foreach(_.commit())
  }

  override def stores: Seq[StateStore] = opened.values.toSeq.flatMap(f => f.store +: f.order.map(_.store).toSeq)

  private final class HdfsFamily(spec: FamilySpec, val store: StateStore, val order: Option[Order]) extends Family {

    override def get(key: UnsafeRow): UnsafeRow = {
      val value = store.get(key)
      if (value eq null) value
      else {
        read += 1
        // The store hands out the row that it keeps for this and for older versions.
        value.copy()
      }
    }

    override def insert(key: UnsafeRow, value: UnsafeRow): Unit = {
      store.put(key, value)
      added += 1
      order.foreach(_.add(key, 1L))
    }

    override def update(key: UnsafeRow, value: UnsafeRow): Unit = store.put(key, value)

    override def remove(key: UnsafeRow): Unit = {
      store.remove(key)
      added -= 1
      order.foreach(_.add(key, -1L))
    }

    override def all(): RemovingScan =
      copies(store.iterator().map(p => (p.key.copy(), p.value.copy())).toVector.iterator)

    override def range(from: UnsafeRow, until: UnsafeRow): FamilyScan = {
      val last = spec.key.length - 1
      val wanted = store
        .prefixScan(withoutLast(from))
        .filter(p => p.key.getLong(last) >= from.getLong(last) && p.key.getLong(last) < until.getLong(last))
      copies(wanted.map(p => (p.key.copy(), p.value.copy())).toVector.sortBy(_._1.getLong(last)).iterator)
    }

    override def scan(from: Long): RemovingScan = {
      val entries = order.fold(throw new IllegalStateException(s"${spec.name} is kept in no order"))(_.from(from))
      copies(entries.flatMap { prefix =>
        // Copied first: the caller may remove records as it goes, and the store's own iterator does not bear that.
        store.prefixScan(prefix).map(p => (p.key.copy(), p.value.copy())).toVector
      })
    }

    private lazy val withoutLast = UnsafeProjection.create(
      spec.key.init.zipWithIndex.map { case (f, i) => BoundReference(i, f.dataType, f.nullable): Expression }
    )

    private def copies(records: Iterator[(UnsafeRow, UnsafeRow)]): RemovingScan = {
      val pair = new UnsafeRowPair()
      new RemovingScan {
        override def hasNext: Boolean = records.hasNext
        override def next(): UnsafeRowPair = {
          read += 1
          val (key, value) = records.next()
          pair.withRows(key, value)
        }
        override def remove(): Unit = HdfsFamily.this.remove(pair.key)
        override def close(): Unit = ()
      }
    }
  }

  /** The leading columns in use, in order, and how many records are under each. */
  private final class Order(spec: FamilySpec, val store: StateStore) {
    private val leading = HdfsPartition.leading(spec)
    private val toLeading =
      UnsafeProjection.create(leading.zipWithIndex.map { case (f, i) => BoundReference(i, f.dataType, f.nullable) })
    private val toCount = UnsafeProjection.create(HdfsPartition.count)
    private val byLeading: Ordering[UnsafeRow] = (a: UnsafeRow, b: UnsafeRow) =>
      spec.times.iterator.map(i => java.lang.Long.compare(a.getLong(i), b.getLong(i))).find(_ != 0).getOrElse(0)
    private val counts = new TreeMap[UnsafeRow, Array[Long]](byLeading)
    private val changed = new java.util.HashSet[UnsafeRow]()

    store.iterator().foreach(p => counts.put(p.key.copy(), Array(p.value.getLong(0))))

    def add(key: UnsafeRow, n: Long): Unit = {
      val prefix = toLeading(key)
      val known = counts.get(prefix)
      if (known eq null) {
        val kept = prefix.copy()
        counts.put(kept, Array(n))
        changed.add(kept)
      } else {
        known(0) += n
        changed.add(prefix.copy())
      }
    }

    def from(first: Long): Iterator[UnsafeRow] =
      counts.keySet.asScala.toVector.iterator
        .filter(prefix => prefix.getLong(0) >= first && counts.get(prefix)(0) > 0)

    def flush(): Unit = changed.forEach { prefix =>
      val n = counts.get(prefix)(0)
      if (n > 0) store.put(prefix, toCount(InternalRow(n)))
      else if (store.get(prefix) ne null) store.remove(prefix)
    }
  }
}

object HdfsPartition {
  private val count = StructType(Seq(StructField("count", LongType, nullable = false)))

  private def leading(spec: FamilySpec): StructType = StructType(spec.key.take(spec.times.length))

  def encoder(spec: FamilySpec): KeyStateEncoderSpec = spec.order match {
    case RecordOrder.Unordered   => NoPrefixKeyStateEncoderSpec(spec.key)
    case RecordOrder.ByFirst(of) => PrefixKeyScanStateEncoderSpec(spec.key, of)
    case RecordOrder.WithinKey   => PrefixKeyScanStateEncoderSpec(spec.key, spec.key.length - 1)
    case RecordOrder.ByLast      =>
      throw new IllegalArgumentException(s"${spec.name}: this store finds records by prefix only")
  }

  /** The names of the stores that the families live in, as Spark's metadata lists them. */
  def storeNames(families: Seq[FamilySpec]): Seq[String] = families.flatMap { spec =>
    val name = if (spec == families.head) StateStoreId.DEFAULT_STORE_NAME else spec.name
    if (spec.times.isEmpty) Seq(name) else Seq(name, s"${spec.name}_order")
  }
}
