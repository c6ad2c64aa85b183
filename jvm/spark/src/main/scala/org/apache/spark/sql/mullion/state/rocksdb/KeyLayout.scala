package org.apache.spark.sql.mullion.state.rocksdb

import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.mullion.shim.{SparkVersionShim, TimestampKeys}
import org.apache.spark.sql.mullion.state.record.{FamilySpec, RecordBytes, RecordOrder, WordOrder}
import org.apache.spark.sql.types.StructType

/** The encoding of record keys in RocksDB, which compares them byte by byte, so that records are in order of their
  * times. A state keeps its original layout.
  *
  * @param name
  *   its name in a checkpoint
  */
private[mullion] sealed abstract class KeyLayout(val name: String) extends Serializable {
  protected def withinKey(key: StructType): KeyStateEncoderSpec

  protected def byLast(key: StructType): KeyStateEncoderSpec

  final def encoder(spec: FamilySpec): KeyStateEncoderSpec = spec.order match {
    case RecordOrder.Unordered   => NoPrefixKeyStateEncoderSpec(spec.key)
    case RecordOrder.WithinKey   => withinKey(spec.key)
    case RecordOrder.ByLast      => byLast(spec.key)
    case RecordOrder.ByFirst(of) => RangeKeyScanStateEncoderSpec(spec.key, 0 until of)
  }

  /** The encoder of a family's keys. */
  private[rocksdb] def keys(spec: FamilySpec): StoredKeys
}

private[mullion] object KeyLayout {

  /** By Spark's encoders of times, in the Spark versions that have them. */
  case object Timestamps extends KeyLayout("timestamps") {
    private def encoders: TimestampKeys =
      SparkVersionShim.timestampKeys.getOrElse(
        throw new IllegalStateException("this Spark version has no timestamp keys")
      )

    override protected def withinKey(key: StructType): KeyStateEncoderSpec = encoders.withinKey(key)
    override protected def byLast(key: StructType): KeyStateEncoderSpec = encoders.byLast(key)
    override private[rocksdb] def keys(spec: FamilySpec): StoredKeys = new AsTheyAre(encoders)
  }

  /** By encoders of every Spark version. Range encoders require the ordered columns first. Within a key, the common
    * part is a prefix, and the rest of the row (eight bytes of nulls and the time) is compared unencoded, so the time
    * is written big-endian.
    */
  case object Ranges extends KeyLayout("ranges") {
    override protected def withinKey(key: StructType): KeyStateEncoderSpec =
      PrefixKeyScanStateEncoderSpec(key, key.length - 1)

    override protected def byLast(key: StructType): KeyStateEncoderSpec =
      RangeKeyScanStateEncoderSpec(key, Seq(key.length - 1))

    override private[rocksdb] def keys(spec: FamilySpec): StoredKeys =
      if (spec.order == RecordOrder.WithinKey) new TimeReversed(spec) else InOrder
  }

  /** The layouts that this Spark version can read; it writes the first. */
  val readable: Seq[KeyLayout] = if (SparkVersionShim.timestampKeys.isDefined) Seq(Timestamps, Ranges) else Seq(Ranges)

  def own: KeyLayout = readable.head
}

/** The keys of a family in the form of the store: unchanged by default. */
private[rocksdb] sealed trait StoredKeys {

  /** The form of a record's key, valid until the next call. */
  def of(key: UnsafeRow): UnsafeRow = key

  def ofAll(keys: Array[UnsafeRow]): Array[UnsafeRow] = keys

  /** Converts a key of the store back to that of its record. */
  def restore(key: UnsafeRow): Unit = ()

  /** Records of a `WithinKey` family, from one key to before another. */
  def range(
      store: StateStore,
      from: UnsafeRow,
      until: UnsafeRow,
      family: String
  ): (Iterator[UnsafeRowPair], AutoCloseable)
}

private final class AsTheyAre(encoders: TimestampKeys) extends StoredKeys {
  override def range(
      store: StateStore,
      from: UnsafeRow,
      until: UnsafeRow,
      family: String
  ): (Iterator[UnsafeRowPair], AutoCloseable) = {
    val scan = encoders.scan(store, from, until, family)
    scan -> scan
  }
}

private object InOrder extends StoredKeys {
  override def range(
      store: StateStore,
      from: UnsafeRow,
      until: UnsafeRow,
      family: String
  ): (Iterator[UnsafeRowPair], AutoCloseable) = throw new IllegalStateException(s"$family is not kept within its keys")
}

/** Keys whose last column, a time, is big-endian, with a flipped sign so that negative times sort first. */
private final class TimeReversed(spec: FamilySpec) extends StoredKeys {
  private val last = spec.key.length - 1
  private val row = new UnsafeRow(spec.key.length)
  private var bytes = new Array[Byte](64)
  private lazy val prefix = UnsafeProjection.create(
    spec.key.init.zipWithIndex.map { case (f, i) => BoundReference(i, f.dataType, f.nullable): Expression }
  )

  override def of(key: UnsafeRow): UnsafeRow = {
    val size = key.getSizeInBytes
    if (bytes.length < size) bytes = new Array[Byte](2 * size)
    RecordBytes.copy(key, bytes, 0)
    row.pointTo(bytes, size)
    row.setLong(last, java.lang.Long.reverseBytes(key.getLong(last) ^ Long.MinValue))
    row
  }

  override def ofAll(keys: Array[UnsafeRow]): Array[UnsafeRow] = keys.map(of(_).copy())

  override def restore(key: UnsafeRow): Unit = key.setLong(last, WordOrder.of(key.getLong(last)))

  override def range(
      store: StateStore,
      from: UnsafeRow,
      until: UnsafeRow,
      family: String
  ): (Iterator[UnsafeRowPair], AutoCloseable) = {
    val (first, end) = (from.getLong(last), until.getLong(last))
    val scan = store.prefixScan(prefix(from), family)
    val records: Iterator[UnsafeRowPair] = scan.map { record => restore(record.key); record }
    records.dropWhile(_.key.getLong(last) < first).takeWhile(_.key.getLong(last) < end) -> scan
  }
}
