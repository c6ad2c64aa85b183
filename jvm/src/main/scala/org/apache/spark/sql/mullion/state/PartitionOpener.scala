package org.apache.spark.sql.mullion.state

import java.io.IOException
import java.util.UUID

import scala.annotation.tailrec

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.internal.config.SPECULATION_ENABLED
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.shim.SparkLineShim
import org.apache.spark.sql.mullion.state.records.{FamilyScan, FamilySpec, StatePartition}
import org.apache.spark.sql.mullion.state.store.{
  ExpiringPartition,
  HdfsPartition,
  HotMemory,
  HotPartition,
  KeptRows,
  KeyLayout,
  MemoryPartition,
  MemorySnapshots,
  MemoryStateStore,
  MemoryStateStoreProvider,
  RocksDbPartition,
  RowBytes
}
import org.apache.spark.sql.mullion.state.PartitionOpener.{cannotGoOn, readItAgain, startAgain}
import org.apache.spark.sql.mullion.state.versions.{SnapshotsAside, VersionNames, WrittenVersions}
import org.apache.spark.sql.types.StructType

import dev.mullion.MullionException

/** Opens the state of an operator's partitions, with a provider of the operator's own, whatever the session's is.
  *
  * @param version
  *   the version that the batch starts from
  * @param checkpointIds
  *   for each partition the unique id of that version, if the checkpoint has such
  * @param written
  *   what is known of it if not; none outside of a query
  * @param layout
  *   how keys are written in RocksDB
  */
private[mullion] final class PartitionOpener(
    choice: StateChoice,
    families: Seq[FamilySpec],
    root: String,
    operator: Long,
    runId: UUID,
    version: Long,
    checkpointIds: Option[Array[Array[String]]],
    conf: StateStoreConf,
    written: Option[WrittenVersions.OfBatch] = None,
    layout: KeyLayout = KeyLayout.own
) extends Serializable {

  /** Opens a partition in a task, which aborts it unless it commits. */
  def open(partition: Int, hadoopConf: Configuration): StatePartition =
    ExpiringPartition(opened(partition, hadoopConf), conf)

  private def opened(partition: Int, hadoopConf: Configuration): StatePartition = {
    if (choice == StateChoice.Memory) requireHere(partition, hadoopConf)
    get(partition, hadoopConf) match {
      case rocks: RocksDbPartition if conf.enableStateStoreCheckpointIds =>
        hot(rocks, new VersionNames.BySpark(rocks.stores.head, checkpointIds.map(_(partition).head)))
      // Copies of a task write at the same time, and any of them last.
      case rocks: RocksDbPartition if SparkEnv.get.conf.get(SPECULATION_ENABLED) =>
        hot(rocks, VersionNames.None)
      case rocks: RocksDbPartition =>
        val snapshots = new SnapshotsAside(id(partition).storeId.storeCheckpointLocation(), hadoopConf)
        val (sound, from) = soundVersion(partition, hadoopConf, rocks, rocks.isFromCheckpoint, snapshots)
        val names = new VersionNames.InState(
          sound.versionIds,
          version,
          from,
          id => {
            val task = TaskContext.get()
            val isOnlyOne = task.attemptNumber() == 0 && task.stageAttemptNumber() == 0
            written.foreach(_.left.add(partition -> (if (isOnlyOne) id else WrittenVersions.Doubtful)))
          }
        )
        hot(sound, names)
      case other => other
    }
  }

  /** Says, on the driver, that the task of a partition is about to start. */
  def begins(partition: Int): Unit = written.foreach(_.left.begins(partition))

  private def hot(rocks: RocksDbPartition, names: VersionNames): StatePartition =
    freedWithTask(HotPartition(rocks, families, version, names, HotMemory.limit(conf), names ne VersionNames.None))

  /** The rows that a partition's last batch returned on this executor; none before a task of the run has opened it. */
  private[state] def rowsOf(partition: Int): Option[KeptRows] = KeptRows.of(id(partition))

  /** Room for rows of the batch. */
  private[state] def roomForRows(columns: Int): RowBytes = new RowBytes(columns, HotMemory.Share(HotMemory.limit(conf)))

  private def freedWithTask(opened: StatePartition): StatePartition = {
    TaskContext.get().addTaskCompletionListener[Unit](_ => opened.abort())
    opened
  }

  private def get(partition: Int, hadoopConf: Configuration): StatePartition = {
    val opened = of { (name, key, value, encoder, columnFamilies) =>
      StateStore.get(
        providerId(partition, name),
        key,
        value,
        encoder,
        version,
        checkpointIds.map(_(partition).head),
        None,
        columnFamilies,
        conf,
        hadoopConf
      )
    }
    TaskContext.get().addTaskCompletionListener[Unit] { _ =>
      opened.stores.filterNot(_.hasCommitted).foreach(_.abort())
    }
    opened match {
      case rocks: RocksDbPartition => rocks.rows.list(id(partition))
      case _                       =>
    }
    opened
  }

  /** The version as one line of attempts made it, and its id. What another attempt left here, in this executor's
    * RocksDB, is given up and read from the checkpoint; and a snapshot there that another attempt left is put aside,
    * for those after it were not made from it: they are made from the one before it and the changes since.
    *
    * Only where these then are of one line was the snapshot another's, and is deleted. If they are not, it is put back:
    * Spark takes an older snapshot where it cannot read the newest, as while a disk fails, and what was made from the
    * newest looks torn then too.
    */
  @tailrec
  private def soundVersion(
      partition: Int,
      hadoopConf: Configuration,
      opened: RocksDbPartition,
      isRead: Boolean,
      snapshots: SnapshotsAside
  ): (RocksDbPartition, Long) = {
    val here = opened.versionIds.of(version)
    def isKnown = written.flatMap(_.before).forall(before => here != 0L && before.get(partition).contains(here))
    def broken =
      if (opened.hot.holds(version, Some(here.toString))) None else opened.versionIds.brokenAt
    if (!isRead && version > 0 && !isKnown)
      soundVersion(partition, hadoopConf, readAgain(partition, hadoopConf, opened), isRead = true, snapshots)
    else
      broken match {
        case None =>
          snapshots.forget()
          opened -> here
        case Some(at) =>
          if (!snapshots.move(at)) throw torn(partition, at, if (snapshots.putBack()) startAgain(at) else cannotGoOn)
          soundVersion(partition, hadoopConf, readAgain(partition, hadoopConf, opened), isRead = true, snapshots)
      }
  }

  /** What is not committed RocksDB reads anew. */
  private def readAgain(partition: Int, hadoopConf: Configuration, opened: RocksDbPartition): RocksDbPartition = {
    opened.stores.foreach(_.abort())
    get(partition, hadoopConf) match {
      case rocks: RocksDbPartition => rocks
      case other                   => throw new IllegalStateException(s"$other is not in RocksDB")
    }
  }

  private def torn(partition: Int, at: Long, advice: String): MullionException =
    MullionException.stateLost(
      s"In $root, version $at of partition $partition of operator $operator is not the one that version ${at + 1} " +
        s"was made from: an attempt of a task that Spark had given up has written over it$advice"
    )

  /** Opens a partition for a look, outside of a query; `use` must not keep it. */
  def look[T](partition: Int, hadoopConf: Configuration)(use: StatePartition => T): T = {
    val providers = Seq.newBuilder[StateStoreProvider]
    try {
      val opened = of { (name, key, value, encoder, columnFamilies) =>
        val provider = ownProvider(partition, name, key, value, encoder, columnFamilies, hadoopConf)
        providers += provider
        provider.getStore(version, checkpointIds.map(_(partition).head))
      }
      try
        use(opened match {
          case rocks: RocksDbPartition =>
            rocks.versionIds.brokenAt.foreach(at => throw torn(partition, at, readItAgain))
            ExpiringPartition(HotPartition.look(rocks, families, version), conf)
          case other => ExpiringPartition(other, conf)
        })
      finally opened.stores.foreach(_.abort())
    } finally providers.result().foreach(_.close())
  }

  /** All records of a partition, with the numbers of their families, for a task outside of a query. A record stands
    * until the next one.
    */
  def records(partition: Int, hadoopConf: Configuration): Iterator[(Int, UnsafeRow, UnsafeRow)] = {
    val opened = ofProviders(partition, hadoopConf)(_.getStore(version, checkpointIds.map(_(partition).head)))
    def closing(scan: AutoCloseable): Unit = {
      TaskContext.get().addTaskCompletionListener[Unit](_ => scan.close())
      ()
    }
    def of(scan: FamilyScan) = {
      closing(scan)
      scan.map(record => (record.key, record.value))
    }
    val read: FamilySpec => Iterator[(UnsafeRow, UnsafeRow)] = opened match {
      case rocks: RocksDbPartition =>
        rocks.versionIds.brokenAt.foreach(at => throw torn(partition, at, readItAgain))
        spec => HotPartition.inSegments(rocks, spec)(closing) ++ of(rocks.family(spec).all())
      case other => spec => of(other.family(spec).all())
    }
    families.iterator.zipWithIndex.flatMap { case (spec, i) => read(spec).map { case (key, value) => (i, key, value) } }
  }

  /** A partition without any record, whatever there is, for a task outside of a query. Once it is committed it is the
    * version after the one that this opens.
    */
  def empty(partition: Int, hadoopConf: Configuration): StatePartition =
    ofProviders(partition, hadoopConf) { provider =>
      // This store begins with the first version only: see `settle`.
      if (choice == StateChoice.Hdfs) provider.getStore(0, None)
      else
        SparkLineShim
          .emptyStore(provider, version)
          .getOrElse(throw new IllegalStateException("this line of Spark makes no store but the first that is empty"))
    }

  /** Puts a partition that was empty, and has been committed, in the place of its version. What Spark's HDFS-backed
    * store writes of a first version is all that there is: as a snapshot of any version has it.
    */
  def settle(partition: Int, hadoopConf: Configuration): Unit =
    if (choice == StateChoice.Hdfs && version > 0)
      PartitionOpener.storeNames(choice, families).foreach { name =>
        val folder = providerId(partition, name).storeId.storeCheckpointLocation()
        val fs = folder.getFileSystem(hadoopConf)
        // Spark keeps sums beside its files.
        for (ending <- Seq("", ".crc")) {
          val (from, to) = (new Path(folder, s"1.delta$ending"), new Path(folder, s"${version + 1}.snapshot$ending"))
          if (fs.exists(to)) fs.delete(to, false)
          if ((ending.isEmpty || fs.exists(from)) && !fs.rename(from, to))
            throw new IOException(s"$from could not be renamed to $to")
        }
      }

  /** With providers of its own, until the task ends. */
  private def ofProviders(partition: Int, hadoopConf: Configuration)(open: StateStoreProvider => StateStore) = of {
    (name, key, value, encoder, columnFamilies) =>
      val provider = ownProvider(partition, name, key, value, encoder, columnFamilies, hadoopConf)
      TaskContext.get().addTaskCompletionListener[Unit](_ => provider.close())
      val store = open(provider)
      TaskContext.get().addTaskCompletionListener[Unit](_ => if (!store.hasCommitted) store.abort())
      store
  }

  /** A provider that Spark does not know of: the caller closes it. */
  private def ownProvider(
      partition: Int,
      name: String,
      key: StructType,
      value: StructType,
      encoder: KeyStateEncoderSpec,
      columnFamilies: Boolean,
      hadoopConf: Configuration
  ): StateStoreProvider = StateStoreProvider.createAndInit(
    providerId(partition, name),
    key,
    value,
    encoder,
    columnFamilies,
    conf,
    hadoopConf,
    useMultipleValuesPerKey = false,
    None
  )

  /** Fails where the state is not. First of all, for a store that is asked for becomes the one that Spark knows of, and
    * the one that has the state would be unloaded.
    */
  private def requireHere(partition: Int, hadoopConf: Configuration): Unit = {
    val snapshots = new MemorySnapshots(id(partition).storeId.storeCheckpointLocation(), hadoopConf)
    if (
      version > 0 && !StateStore
        .isLoaded(id(partition)) && !snapshots.has(version, checkpointIds.map(_(partition).head))
    )
      throw MemoryStateStoreProvider.lost(root, operator, version)
  }

  private def id(partition: Int) = providerId(partition, StateStoreId.DEFAULT_STORE_NAME)

  def providerId(partition: Int, store: String): StateStoreProviderId =
    StateStoreProviderId(StateStoreId(root, operator, partition, store), runId)

  private def of(
      store: (String, StructType, StructType, KeyStateEncoderSpec, Boolean) => StateStore
  ): StatePartition = choice match {
    case StateChoice.RocksDb =>
      val main = families.head
      val opened =
        store(StateStoreId.DEFAULT_STORE_NAME, main.key, main.value, layout.encoder(main), true)
      new RocksDbPartition(opened, main, families.tail, layout)
    case StateChoice.Hdfs =>
      new HdfsPartition((name, key, value, encoder) => store(name, key, value, encoder, false), families)
    case StateChoice.Memory =>
      val main = families.head
      val encoder = NoPrefixKeyStateEncoderSpec(main.key)
      store(StateStoreId.DEFAULT_STORE_NAME, main.key, main.value, encoder, false) match {
        case memory: MemoryStateStore => new MemoryPartition(memory, families)
        case other                    => throw new IllegalStateException(s"$other is not a store in memory")
      }
  }
}

private[mullion] object PartitionOpener {

  def apply(
      choice: StateChoice,
      families: Seq[FamilySpec],
      info: SparkLineShim.StateInfo,
      session: SparkSession,
      conf: SQLConf
  ): PartitionOpener =
    new PartitionOpener(
      choice,
      families,
      info.checkpointLocation,
      info.operatorId,
      info.queryRunId,
      info.storeVersion,
      info.stateStoreCkptIds,
      new StateStoreConf(conf),
      Some(WrittenVersions.of(session, info.queryRunId, info.operatorId, info.storeVersion)),
      StateLine.layoutOf(choice, info, session)
    )

  private val anew =
    "start it with a new checkpointLocation, and a new place for what it puts out: it reads its sources " +
      "from their start."

  /** What to do about a version that is not whole. */
  private val cannotGoOn = s". The query cannot go on from there: $anew"

  private def startAgain(at: Long) =
    s", and its snapshot $at.zip is not that one either, or could not be read just now. Nothing was changed. Start the " +
      s"query again. If it says the same again, $anew"

  /** Who only reads does not try what a query tries. */
  private val readItAgain =
    ", or a snapshot of it could not be read just now. Nothing was changed. Read it again. If this " +
      "stays, start the query: it finds out whether it can go on, and says what to do else."

  // Not every line has it.
  private val unloadOnCommit = "spark.sql.streaming.stateStore.unloadOnCommit"
  private val changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
  private val writeBuffer = "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB"

  /** The session's settings, with the operator's own provider. */
  def confOf(choice: StateChoice, session: SQLConf): SQLConf = {
    val conf = session.clone()
    conf.setConf(SQLConf.STATE_STORE_PROVIDER_CLASS, choice.providerClass)
    // RocksDB would look up each key that is put, to count keys. We count our own records, and know which are new.
    conf.setConfString("spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows", "false")
    // A batch writes what it changed, and not the files of the whole store, unless the session says otherwise.
    if (!session.contains(changelog)) conf.setConfString(changelog, "true")
    // RocksDB then keeps what batches write in memory until a buffer is full, of 64 MB where nothing is said. What is
    // looked up is in memory anyway, and most of what was written has gone again a batch or two later.
    if (!session.contains(writeBuffer)) conf.setConfString(writeBuffer, "16")
    // Rows of versions before a change of the query have other columns. The header says which rows are of what.
    conf.setConf(SQLConf.STATE_STORE_FORMAT_VALIDATION_ENABLED, false)
    ExpiringPartition.addSetting(conf)
    // What is unloaded from memory is gone.
    if (choice == StateChoice.Memory) conf.setConfString(unloadOnCommit, "false")
    conf
  }

  /** The stores of an operator, as Spark's metadata lists them. */
  def storeNames(choice: StateChoice, families: Seq[FamilySpec]): Seq[String] = choice match {
    case StateChoice.RocksDb | StateChoice.Memory => Seq(StateStoreId.DEFAULT_STORE_NAME)
    case StateChoice.Hdfs                         => HdfsPartition.storeNames(families)
  }
}
