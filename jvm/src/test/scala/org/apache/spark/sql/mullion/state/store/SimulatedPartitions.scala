package org.apache.spark.sql.mullion.state.store

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, FileNotFoundException, IOException}
import java.lang.reflect.{InvocationHandler, Method, Proxy}
import java.util.concurrent.ConcurrentHashMap

import scala.collection.immutable.TreeMap
import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.shim.SparkLineShim
import org.apache.spark.sql.mullion.state.StateChoice
import org.apache.spark.sql.mullion.state.records.{FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.mullion.state.versions.VersionNames

/** The state of a simulated query: one checkpoint, and executors which come and go and have versions of their own. What
  * is below Mullion's own code is simulated: the disk, under snapshots of state in memory; Spark's store in RocksDB,
  * under records that are in memory too.
  */
private[mullion] trait SimulatedState {

  /** Opens a partition for an attempt of a task.
    *
    * @param room
    *   how many bytes of memory the executor may take beside its store
    */
  def open(executor: Int, partition: Int, version: Long, id: Option[String], room: Long): SimulatedState.Opened

  /** An executor is gone, with all that it had. */
  def lose(executor: Int): Unit

  /** The versions that a query can go on from, with their ids, once all executors are gone. */
  def newest(upTo: Long, ids: Long => Option[Array[String]]): Long

  def close(): Unit
}

private[mullion] object SimulatedState {

  /** What records beside RocksDB hold, of all executors. */
  def bytesInMemory: Long = HotMemory.inUse

  /** @param id
    *   of the version that was committed
    */
  final class Opened(val partition: StatePartition, val id: () => Option[String], val abort: () => Unit)

  def apply(
      choice: StateChoice,
      families: Seq[FamilySpec],
      partitions: Int,
      every: Int,
      inSegments: Boolean,
      disk: SimulatedDisk
  ): SimulatedState = choice match {
    case StateChoice.Memory => new InMemory(families, partitions, every, inSegments, disk)
    case _                  => new InRocksDb(families, inSegments)
  }

  private final class InMemory(
      families: Seq[FamilySpec],
      partitions: Int,
      every: Int,
      ids: Boolean,
      disk: SimulatedDisk
  ) extends SimulatedState {
    private val providers = mutable.Map.empty[(Int, Int), MemoryStateStoreProvider]
    private val hadoop = new Configuration(false)
    hadoop.set("spark.sql.streaming.checkpointFileManagerClass", classOf[SimulatedFiles].getName)
    private val conf = SimulatedState.conf(every, ids)

    private def provider(executor: Int, partition: Int) = providers.getOrElseUpdate(
      (executor, partition), {
        val made = new MemoryStateStoreProvider
        val main = families.head
        made.init(
          StateStoreId(disk.root, 0, partition),
          main.key,
          main.value,
          NoPrefixKeyStateEncoderSpec(main.key),
          useColumnFamilies = false,
          conf,
          hadoop,
          useMultipleValuesPerKey = false,
          None
        )
        made
      }
    )

    override def open(executor: Int, partition: Int, version: Long, id: Option[String], room: Long): Opened = {
      val store = provider(executor, partition).getStore(version, id)
      new Opened(
        new ExpiringPartition(new MemoryPartition(store, families)),
        () => store.getStateStoreCheckpointInfo().stateStoreCkptId,
        () => if (!store.hasCommitted) store.abort()
      )
    }

    override def lose(executor: Int): Unit = providers.keys.filter(_._1 == executor).toSeq.foreach { of =>
      providers.remove(of).foreach(_.close())
    }

    override def newest(upTo: Long, ids: Long => Option[Array[String]]): Long = {
      def has(partition: Int, version: Long) = new MemorySnapshots(
        StateStoreId(disk.root, 0, partition).storeCheckpointLocation(),
        hadoop
      ).isWhole(version, ids(version).map(_(partition)))
      Iterator.range(upTo, 0L, -1L).find(version => (0 until partitions).forall(has(_, version))).getOrElse(0L)
    }

    override def close(): Unit = providers.values.foreach(_.close())
  }

  private final class InRocksDb(families: Seq[FamilySpec], inSegments: Boolean) extends SimulatedState {
    private val checkpoint = mutable.Map.empty[(Int, Long, Option[String]), SimulatedRocksDb.Contents]
    private val memories = mutable.Map.empty[(Int, Int), HotRecords]
    private var made = 0L

    override def open(executor: Int, partition: Int, version: Long, id: Option[String], room: Long): Opened = {
      val from = if (version == 0) SimulatedRocksDb.empty else checkpoint((partition, version, id))
      val next = Option.when(inSegments) {
        made += 1
        s"id-$made"
      }
      val store = new SimulatedRocksDb(
        families,
        StateStoreId("sim", 0, partition),
        version,
        id,
        next,
        from,
        contents => checkpoint((partition, version + 1, next)) = contents
      )
      val hot = memories.getOrElseUpdate((executor, partition), new HotRecords)
      val owned = new HotRocksDbStore(store.proxy, hot, new KeptRows, isFromCheckpoint = false)
      val rocks = new RocksDbPartition(owned, families.head, families.tail)
      val names = if (inSegments) new VersionNames.BySpark(owned, id) else VersionNames.None
      val opened = HotPartition(rocks, families, version, names, room, inSegments)
      new Opened(new ExpiringPartition(opened), () => next, () => opened.abort())
    }

    override def lose(executor: Int): Unit = memories.keys.filter(_._1 == executor).toSeq.foreach { of =>
      memories.remove(of).foreach(_.close())
    }

    override def newest(upTo: Long, ids: Long => Option[Array[String]]): Long = upTo

    override def close(): Unit = memories.values.foreach(_.close())
  }

  // Thousands of queries a second ask for the same few.
  private val confs = new ConcurrentHashMap[(Int, Boolean), StateStoreConf]

  private def conf(every: Int, ids: Boolean): StateStoreConf = confs.computeIfAbsent(
    (every, ids),
    _ => {
      val conf = new SQLConf
      conf.setConfString(MemorySnapshots.Every, every.toString)
      conf.setConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION, if (ids) 2 else 1)
      new StateStoreConf(conf)
    }
  )

  /** Whether Spark's store in RocksDB, as this line asks for it, can be simulated. */
  val hasRocksDb: Boolean = SparkLineShim.timestampKeys.isDefined
}

/** What Spark's store in RocksDB does, in a sorted map: what it has of it is what Mullion asks for.
  *
  * It answers by the names of methods, for these differ by line of Spark.
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

  /** But for the last column. */
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

/** The disk of a simulated checkpoint. Its next operations may fail, or leave half a file and fail. */
private[mullion] final class SimulatedDisk(val root: String) extends AutoCloseable {
  private[store] val files = mutable.TreeMap.empty[String, Array[Byte]]

  /** After how many operations one fails, and whether it leaves half of a file. */
  var failsAfter: Option[Int] = None
  var tears = false
  var failures = 0

  SimulatedDisk.all.put(root, this)

  private[store] def operation(path: String, torn: => Option[Array[Byte]] = None): Unit = failsAfter match {
    case Some(0) =>
      failsAfter = None
      failures += 1
      if (tears) torn.foreach(half => files(path) = half)
      throw new IOException(s"$path: the disk fails")
    case Some(n) => failsAfter = Some(n - 1)
    case None    => ()
  }

  /** Cuts a file that is there, as a disk does that has lost what it was last told. */
  def cut(which: Int, left: Int): Unit = if (files.nonEmpty) {
    val name = files.keysIterator.drop(which % files.size).next()
    files(name) = files(name).take(left)
  }

  def clear(): Unit = files.clear()

  override def close(): Unit = { SimulatedDisk.all.remove(root); () }
}

private object SimulatedDisk {
  val all = new ConcurrentHashMap[String, SimulatedDisk]
}

/** A checkpoint's files on a simulated disk; Spark makes it by its name. */
final class SimulatedFiles(folder: Path, hadoopConf: Configuration) extends CheckpointFileManager {
  hadoopConf.size()
  private val disk = SimulatedDisk.all.get(Iterator.iterate(folder)(_.getParent).drop(2).next().toString)

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream = {
    disk.operation(path.toString)
    val bytes = new ByteArrayOutputStream
    new CancellableFSDataOutputStream(bytes) {
      private var isDone = false
      override def cancel(): Unit = isDone = true
      override def close(): Unit = if (!isDone) {
        isDone = true
        flush()
        disk.operation(path.toString, Some(bytes.toByteArray.take(bytes.size / 2)))
        disk.files(path.toString) = bytes.toByteArray
      }
    }
  }

  override def open(path: Path): FSDataInputStream = {
    val bytes = disk.files.getOrElse(path.toString, throw new FileNotFoundException(path.toString))
    new FSDataInputStream(new SimulatedFiles.Bytes(bytes))
  }

  override def list(path: Path, filter: PathFilter): Array[FileStatus] =
    disk.files.keysIterator
      .map(new Path(_))
      .filter(file => file.getParent == path && filter.accept(file))
      .map(file => new FileStatus(0L, false, 1, 0L, 0L, file))
      .toArray

  override def mkdirs(path: Path): Unit = ()
  override def exists(path: Path): Boolean =
    disk.files.contains(path.toString) || disk.files.keysIterator.exists(_.startsWith(s"$path/"))

  override def delete(path: Path): Unit = {
    disk.operation(path.toString)
    disk.files.remove(path.toString)
    ()
  }

  override def isLocal: Boolean = true
  override def createCheckpointDirectory(): Path = folder
}

private object SimulatedFiles {
  final class Bytes(bytes: Array[Byte]) extends ByteArrayInputStream(bytes) with Seekable with PositionedReadable {
    override def seek(at: Long): Unit = pos = at.toInt
    override def getPos: Long = pos.toLong
    override def seekToNewSource(at: Long): Boolean = false
    override def read(at: Long, into: Array[Byte], offset: Int, length: Int): Int = {
      val n = Math.min(length, bytes.length - at.toInt)
      if (n <= 0) -1
      else { System.arraycopy(bytes, at.toInt, into, offset, n); n }
    }
    override def readFully(at: Long, into: Array[Byte], offset: Int, length: Int): Unit = {
      if (read(at, into, offset, length) < length) throw new IOException("the end of the file")
    }
    override def readFully(at: Long, into: Array[Byte]): Unit = readFully(at, into, 0, into.length)
  }
}
