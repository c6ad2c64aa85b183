package org.apache.spark.sql.mullion.state.rocksdb

import java.nio.file.Path
import java.util.UUID

import scala.collection.mutable
import scala.util.Using

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.TemporaryFolder
import org.apache.spark.sql.mullion.state.PartitionOpener
import org.apache.spark.sql.mullion.state.packed.Segments
import org.apache.spark.sql.mullion.state.record.{FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types.{BinaryType, LongType, StructType}

/** One partition in RocksDB with cached records, batch after batch. */
private[rocksdb] final class PartitionBatches(folder: Path) {
  import PartitionBatches._

  private val families = Seq(Main, Large, Counted)
  private var id = newId
  private var provider = newProvider
  private var under = Option.empty[RocksDbPartition]
  private var version = 0L
  // Of each version, in order.
  private val versionIds = mutable.Map.empty[Long, String]
  private var modelBefore = Map.empty[Long, Long]
  var model: Map[Long, Long] = Map.empty

  /** The number of records that this batch has read from RocksDB. */
  def readInStore: Long = under.get.rowsRead

  def run(room: Long = 1L << 30)(work: StatePartition => Unit): Unit = {
    val opened = open(room)
    modelBefore = model
    try {
      work(opened)
      opened.checkInvariants()
    } catch { case e: Throwable => opened.abort(); opened.store.abort(); throw e }
    opened.commit()
    version += 1
    under.get.committedId.foreach(versionIds(version) = _)
  }

  def fail(room: Long = 1L << 30)(work: StatePartition => Unit): Unit = {
    val opened = open(room)
    work(opened)
    opened.abort()
    opened.store.abort()
  }

  /** The last batch runs again. */
  def goBack(): Unit = if (version > 0) {
    version -= 1
    model = modelBefore
  }

  /** The last batch does not run again. */
  def goOn(): Unit = version += 1

  def written: Written = {
    val store = provider.getStore(version, versionIds.get(version))
    val rocks = new RocksDbPartition(store, Main, Seq(Large, Counted))
    rocks.segments(Main, Segments.Version.empty)
    def count(family: String) = Using.resource(store.iterator(family))(_.size)
    try Written(Using.resource(rocks.family(Main).all())(_.size), count("main-segments"), count("main-gone"))
    finally store.abort()
  }

  def restart(): Unit = {
    provider.close()
    id = newId
    provider = newProvider
  }

  def close(): Unit = {
    provider.close()
    TemporaryFolder.delete(folder)
  }

  def open(room: Long): StatePartition = {
    val rocks = new RocksDbPartition(provider.getStore(version, versionIds.get(version)), Main, Seq(Large, Counted))
    under = Some(rocks)
    CachedPartition(rocks, families, version, versionIds.get(version), room)
  }

  private def newId = StateStoreProviderId(StateStoreId(folder.toUri.toString, 0, 0), UUID.randomUUID())

  private def newProvider = {
    val conf = PartitionOpener.confOf(new SQLConf)
    val hadoop = new Configuration()
    // Set by Spark for each run of a query.
    hadoop.set("sql.streaming.runId", UUID.randomUUID().toString)
    val encoder = KeyLayout.own.encoder(Main)
    StateStoreProvider
      .createAndInit(id, Main.key, Main.value, encoder, true, new StateStoreConf(conf), hadoop, false, None)
  }
}

private[rocksdb] object PartitionBatches {
  val Long1 = new StructType().add("time", LongType, nullable = false)
  val Main =
    FamilySpec("main", Long1.add("key", LongType, nullable = false), Long1, RecordOrder.ByFirst(1))
  val Large =
    FamilySpec("large", Long1, new StructType().add("value", BinaryType, nullable = false), RecordOrder.Unordered)
  val Counted = FamilySpec("counted", Long1, Long1, RecordOrder.Unordered, countAt = Some(0))

  /** A value of this length. */
  def bytes(length: Int): UnsafeRow = {
    val writer = new UnsafeRowWriter(1, length)
    writer.reset()
    writer.write(0, new Array[Byte](length))
    writer.getRow
  }

  def row(values: Long*): UnsafeRow = {
    val row = UnsafeRow.createFromByteArray(8 + 8 * values.length, values.length)
    values.zipWithIndex.foreach { case (value, i) => row.setLong(i, value) }
    row
  }

  /** The content of RocksDB: records under their own keys, segments, and segments with removed records. */
  final case class Written(alone: Int, segments: Int, marked: Int)
}
