package org.apache.spark.sql.mullion.state

import java.util.UUID

import scala.annotation.tailrec

import org.apache.hadoop.conf.Configuration

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
  HotMemory,
  HotPartition,
  HotRocksDbProvider,
  KeptRows,
  KeyLayout,
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
  *   how keys are written
  */
private[mullion] final class PartitionOpener(
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
    val rocks = get(partition, hadoopConf)
    if (conf.enableStateStoreCheckpointIds)
      hot(rocks, new VersionNames.BySpark(rocks.store, checkpointIds.map(_(partition).head)))
    // Copies of a task write at the same time, and any of them last.
    else if (SparkEnv.get.conf.get(SPECULATION_ENABLED)) hot(rocks, VersionNames.None)
    else {
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

  private def get(partition: Int, hadoopConf: Configuration): RocksDbPartition = {
    val opened = of { (key, value, encoder) =>
      StateStore.get(
        id(partition),
        key,
        value,
        encoder,
        version,
        checkpointIds.map(_(partition).head),
        None,
        true,
        conf,
        hadoopConf
      )
    }
    TaskContext.get().addTaskCompletionListener[Unit] { _ =>
      if (!opened.store.hasCommitted) opened.store.abort()
    }
    opened.rows.list(id(partition))
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
    opened.store.abort()
    get(partition, hadoopConf)
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
      val opened = of { (key, value, encoder) =>
        val provider = ownProvider(partition, key, value, encoder, hadoopConf)
        providers += provider
        provider.getStore(version, checkpointIds.map(_(partition).head))
      }
      try {
        opened.versionIds.brokenAt.foreach(at => throw torn(partition, at, readItAgain))
        use(ExpiringPartition(HotPartition.look(opened, families, version), conf))
      } finally opened.store.abort()
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
    opened.versionIds.brokenAt.foreach(at => throw torn(partition, at, readItAgain))
    families.iterator.zipWithIndex.flatMap { case (spec, i) =>
      val read = HotPartition.inSegments(opened, spec)(closing) ++ of(opened.family(spec).all())
      read.map { case (key, value) => (i, key, value) }
    }
  }

  /** A partition without any record, whatever there is, for a task outside of a query. Once it is committed it is the
    * version after the one that this opens.
    */
  def empty(partition: Int, hadoopConf: Configuration): StatePartition =
    ofProviders(partition, hadoopConf) { provider =>
      SparkLineShim
        .emptyStore(provider, version)
        .getOrElse(throw new IllegalStateException("this line of Spark makes no store but the first that is empty"))
    }

  /** With providers of its own, until the task ends. */
  private def ofProviders(partition: Int, hadoopConf: Configuration)(open: StateStoreProvider => StateStore) = of {
    (key, value, encoder) =>
      val provider = ownProvider(partition, key, value, encoder, hadoopConf)
      TaskContext.get().addTaskCompletionListener[Unit](_ => provider.close())
      val store = open(provider)
      TaskContext.get().addTaskCompletionListener[Unit](_ => if (!store.hasCommitted) store.abort())
      store
  }

  /** A provider that Spark does not know of: the caller closes it. */
  private def ownProvider(
      partition: Int,
      key: StructType,
      value: StructType,
      encoder: KeyStateEncoderSpec,
      hadoopConf: Configuration
  ): StateStoreProvider = StateStoreProvider.createAndInit(
    id(partition),
    key,
    value,
    encoder,
    true,
    conf,
    hadoopConf,
    useMultipleValuesPerKey = false,
    None
  )

  def id(partition: Int): StateStoreProviderId =
    StateStoreProviderId(StateStoreId(root, operator, partition), runId)

  private def of(store: (StructType, StructType, KeyStateEncoderSpec) => StateStore): RocksDbPartition = {
    val main = families.head
    new RocksDbPartition(store(main.key, main.value, layout.encoder(main)), main, families.tail, layout)
  }
}

private[mullion] object PartitionOpener {

  def apply(
      families: Seq[FamilySpec],
      info: SparkLineShim.StateInfo,
      session: SparkSession,
      conf: SQLConf
  ): PartitionOpener =
    new PartitionOpener(
      families,
      info.checkpointLocation,
      info.operatorId,
      info.queryRunId,
      info.storeVersion,
      info.stateStoreCkptIds,
      new StateStoreConf(conf),
      Some(WrittenVersions.of(session, info.queryRunId, info.operatorId, info.storeVersion)),
      StateLine.layoutOf(info, session)
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

  private val changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
  private val writeBuffer = "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB"

  /** The session's settings, with the operator's own provider. */
  def confOf(session: SQLConf): SQLConf = {
    val conf = session.clone()
    conf.setConf(SQLConf.STATE_STORE_PROVIDER_CLASS, classOf[HotRocksDbProvider].getName)
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
    conf
  }
}
