package org.apache.spark.sql.mullion.state.rocksdb

import java.lang.reflect.{InvocationHandler, Method, Proxy}

import scala.collection.immutable.TreeMap
import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.record.{FamilySpec, RecordOrder, StatePartition}

/** The state of a simulated query: one checkpoint, and transient executors with their own versions. Spark's store in
  * RocksDB, below Mullion's own code, is simulated.
  */
private[mullion] final class SimulatedState(families: Seq[FamilySpec]) {
  import SimulatedState.Opened

  private val checkpoint = mutable.Map.empty[(Int, Long, Option[String]), SimulatedRocksDb.Contents]
  private val memories = mutable.Map.empty[(Int, Int), CachedRecords]
  private var idsMade = 0L

  /** Opens a partition for an attempt of a task.
    *
    * @param room
    *   the memory of the executor for cached records
    */
  def open(executor: Int, partition: Int, version: Long, id: Option[String], room: Long): Opened = {
    val from = if (version == 0) SimulatedRocksDb.empty else checkpoint((partition, version, id))
    idsMade += 1
    val next = Some(s"id-$idsMade")
    val store = new SimulatedRocksDb(
      families,
      StateStoreId("sim", 0, partition),
      version,
      id,
      next,
      from,
      contents => checkpoint((partition, version + 1, next)) = contents
    )
    val hot = memories.getOrElseUpdate((executor, partition), new CachedRecords)
    val owned = new CachedRocksDbStore(store.proxy, hot, new KeptRows, SoundBlocks)
    val rocks = new RocksDbPartition(owned, families.head, families.tail)
    val opened = CachedPartition(rocks, families, version, id, room)
    new Opened(new ExpiringPartition(opened), () => next, () => opened.abort())
  }

  /** Removes an executor with its memory. */
  def lose(executor: Int): Unit = memories.keys.filter(_._1 == executor).toSeq.foreach { of =>
    memories.remove(of).foreach(_.close())
  }

  def close(): Unit = memories.values.foreach(_.close())
}

private[mullion] object SimulatedState {

  /** The memory of cached records of all executors. */
  def bytesInMemory: Long = CacheMemory.inUse

  /** @param id
    *   of the version that was committed
    */
  final class Opened(val partition: StatePartition, val id: () => Option[String], val abort: () => Unit)

  /** True if Spark's store in RocksDB can be simulated for this Spark version. */
  val hasRocksDb: Boolean = SparkVersionShim.timestampKeys.isDefined
}

/** A simulation of Spark's store in RocksDB by a sorted map, with the part that Mullion uses.
  *
  * It dispatches on the names of methods, because these differ between Spark versions.
  */
private final class SimulatedRocksDb(
    families: Seq[FamilySpec],
    id: StateStoreId,
    version: Long,
    from: Option[String],
    next: Option[String],
    start: SimulatedRocksDb.Contents,
    committed: SimulatedRocksDb.Contents => Unit
) extends InvocationHandler {
  import SimulatedRocksDb._

  private var contents = start
  private var isCommitted = false

  val proxy: StateStore =
    Proxy.newProxyInstance(getClass.getClassLoader, Array(classOf[StateStore]), this).asInstanceOf[StateStore]

  private def specOf(family: String): Option[FamilySpec] =
    if (family == StateStore.DEFAULT_COL_FAMILY_NAME) families.headOption else families.find(_.name == family)

  private def of(family: String): Records =
    contents.getOrElse(family, TreeMap.empty[Key, UnsafeRow](ordering(specOf(family))))

  override def invoke(self: AnyRef, method: Method, asked: Array[AnyRef]): AnyRef = method.getName match {
    case "createColFamilyIfAbsent" => None
    case "get"                     => of(family(asked(1))).getOrElse(new Key(row(asked(0))), None.orNull)
    case "multiGet"                =>
      val records = of(family(asked(1)))
      asked(0).asInstanceOf[Array[UnsafeRow]].iterator.map(key => records.getOrElse(new Key(key), None.orNull))
    case "put" =>
      val name = family(asked(2))
      contents += name -> of(name).updated(new Key(row(asked(0)).copy()), row(asked(1)).copy())
      None
    case "remove" =>
      val name = family(asked(1))
      contents += name -> of(name).removed(new Key(row(asked(0))))
      None
    case "iterator"  => pairs(of(family(asked(0))).iterator)
    case "rangeScan" =>
      val records = of(family(asked(2)))
      val least = asked(0).asInstanceOf[Option[UnsafeRow]].fold(records)(first => records.rangeFrom(new Key(first)))
      pairs(asked(1).asInstanceOf[Option[UnsafeRow]].fold(least)(end => least.rangeUntil(new Key(end))).iterator)
    case "commit" =>
      isCommitted = true
      committed(contents)
      java.lang.Long.valueOf(version + 1)
    case "hasCommitted"                => java.lang.Boolean.valueOf(isCommitted)
    case "id"                          => id
    case "version"                     => java.lang.Long.valueOf(version)
    case "getStateStoreCheckpointInfo" => StateStoreCheckpointInfo(id.partitionId, version + 1, next, from)
    case "abort" | "release"           => None
    case other                         => throw new UnsupportedOperationException(other)
  }

  private def family(asked: AnyRef): String = asked.asInstanceOf[String]

  private def row(asked: AnyRef): UnsafeRow = asked.asInstanceOf[UnsafeRow]

  private def pairs(records: Iterator[(Key, UnsafeRow)]): StateStoreIterator[UnsafeRowPair] = {
    val pair = new UnsafeRowPair()
    new StateStoreIterator(records.map { case (key, value) => pair.withRows(key.row.copy(), value.copy()) }, () => ())
  }
}

private object SimulatedRocksDb {
  final class Key(val row: UnsafeRow)
  type Records = TreeMap[Key, UnsafeRow]
  type Contents = Map[String, Records]

  val empty: Contents = Map.empty

  private val bytes: Ordering[Key] = (one, other) =>
    java.util.Arrays.compareUnsigned(one.row.getBytes, other.row.getBytes)

  private def long(at: Int): Ordering[Key] = (one, other) =>
    java.lang.Long.compare(one.row.getLong(at), other.row.getLong(at))

  /** Without the last column. */
  private def prefix(columns: Int): Ordering[Key] = (one, other) =>
    (0 until columns).iterator
      .map(at => java.lang.Long.compare(one.row.getLong(at), other.row.getLong(at)))
      .find(_ != 0)
      .getOrElse(0)

  private def ordering(spec: Option[FamilySpec]): Ordering[Key] = spec.map(s => (s.order, s.key.length)) match {
    case None | Some((RecordOrder.Unordered, _)) => bytes
    case Some((RecordOrder.ByLast, length))      => long(length - 1).orElse(bytes)
    case Some((RecordOrder.ByFirst(columns), _)) => prefix(columns).orElse(bytes)
    case Some((RecordOrder.WithinKey, length))   => prefix(length - 1).orElse(long(length - 1))
  }
}

/** A store without damaged blocks. */
private object SoundBlocks extends BlockChecks {
  override def damagedBlocks: Long = 0

  override def damagedBlocksInAll: Long = 0
}
