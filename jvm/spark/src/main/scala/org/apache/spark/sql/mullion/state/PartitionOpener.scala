package org.apache.spark.sql.mullion.state

import java.util.UUID

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.attempt.{AttemptFiles, AttemptId, ReportedAttempts, RunNumber}
import org.apache.spark.sql.mullion.state.record.{FamilyScan, FamilySpec, StatePartition}
import org.apache.spark.sql.mullion.state.rocksdb.{
  CacheMemory,
  CachedPartition,
  CachedRocksDbProvider,
  CachedRocksDbStore,
  ExpiringPartition,
  KeptRows,
  KeyLayout,
  LostFiles,
  RocksDbPartition,
  RowBytes
}
import org.apache.spark.sql.types.{LongType, StructType}

import dev.mullion.MullionException

/** Opens the state of an operator's partitions, with the operator's own provider.
  *
  * @param version
  *   the version that the batch starts from
  * @param checkpointIds
  *   the ids of that version by partition, if Spark's commit log has them
  * @param reported
  *   the ids that this run's tasks have reported for that version, by partition; none if another run wrote it
  * @param layout
  *   the encoding of keys
  */
private[mullion] final class PartitionOpener(
    families: Seq[FamilySpec],
    root: String,
    operator: Long,
    runId: UUID,
    version: Long,
    checkpointIds: Option[Array[Array[String]]],
    conf: StateStoreConf,
    reported: Option[Map[Int, String]] = None,
    layout: KeyLayout = KeyLayout.own
) extends Serializable {

  /** Opens a partition in a task, which aborts it unless it commits. */
  def open(partition: Int, hadoopConf: Configuration): StatePartition =
    ExpiringPartition(opened(partition, hadoopConf), conf)

  private def opened(partition: Int, hadoopConf: Configuration): StatePartition = {
    val versionId = idOf(partition, hadoopConf)
    versionId.foreach(requireOlder(partition, _))
    val opened =
      CachedPartition(get(partition, versionId, hadoopConf), families, version, versionId, CacheMemory.limit(conf))
    TaskContext.get().addTaskCompletionListener[Unit](_ => opened.abort())
    opened
  }

  /** The rows that a partition's last batch returned on this executor; none before a task of the run has opened it. */
  private[state] def rowsOf(partition: Int): Option[KeptRows] = KeptRows.of(id(partition))

  /** Memory for rows of the batch. */
  private[state] def roomForRows(columns: Int): RowBytes =
    new RowBytes(columns, CacheMemory.Share(CacheMemory.limit(conf)))

  /** The id of the version of a partition that counts; none for the first version. */
  private def idOf(partition: Int, hadoopConf: Configuration): Option[String] =
    checkpointIds.map(_(partition).head) orElse
      Option.when(version > 0) {
        reported.fold(AttemptFiles.last(id(partition).storeId.storeCheckpointLocation(), version, hadoopConf))(
          _.get(partition)
        ) getOrElse (throw missing(partition))
      }

  /** Fails for a version that a later run has written: run numbers are then out of order. */
  private def requireOlder(partition: Int, id: String): Unit =
    if (AttemptId.runOf(id) > RunNumber.in(conf))
      throw MullionException.damagedState(
        s"Version $version of partition $partition of operator $operator in $root was made by run ${AttemptId.runOf(id)} " +
          s"of the query, and this is run ${RunNumber.in(conf)}: another query uses this checkpoint now, or the file run.* in " +
          s"${new Path(root, s"$operator/_mullion")} was deleted. Stop the other query, or restore the file."
      )

  private def missing(partition: Int): MullionException = LostFiles.error(
    id(partition).storeId,
    version,
    s"is missing. Its files were deleted, or foreachBatch did not read its DataFrame to the end in batch ${version - 1}",
    None
  )

  /** Opens a store. Missing or damaged files become Mullion's error. */
  private def reading[T](partition: Int)(open: => T): T =
    try open
    catch {
      case e: MullionException => throw e
      case NonFatal(e)         => throw LostFiles.described(id(partition).storeId, version, e)
    }

  private def get(partition: Int, versionId: Option[String], hadoopConf: Configuration): RocksDbPartition = {
    val opened = of { (key, value, encoder) =>
      reading(partition) {
        StateStore.get(
          id(partition),
          key,
          value,
          encoder,
          version,
          versionId,
          None,
          true,
          conf,
          hadoopConf
        )
      }
    }
    TaskContext.get().addTaskCompletionListener[Unit] { _ =>
      if (!opened.store.hasCommitted) opened.store.abort()
    }
    opened.rows.list(id(partition))
    opened
  }

  /** Opens a partition read-only, outside of a query; `use` must not keep it. */
  def look[T](partition: Int, hadoopConf: Configuration)(use: StatePartition => T): T = {
    val providers = Seq.newBuilder[StateStoreProvider]
    try {
      val opened = of { (key, value, encoder) =>
        val provider = ownProvider(partition, key, value, encoder, hadoopConf)
        providers += provider
        reading(partition)(provider.getStore(version, idOf(partition, hadoopConf)))
      }
      try {
        val result = use(ExpiringPartition(CachedPartition.look(opened, families, version), conf))
        opened.requireSound()
        result
      } finally opened.store.abort()
    } finally providers.result().foreach(_.close())
  }

  /** All records of a partition, with the numbers of their families, for a task outside of a query. A record is valid
    * until the next one.
    */
  def records(partition: Int, hadoopConf: Configuration): Iterator[(Int, UnsafeRow, UnsafeRow)] = {
    val opened = ofProviders(partition, hadoopConf) { provider =>
      reading(partition)(provider.getStore(version, idOf(partition, hadoopConf)))
    }
    def closing(scan: AutoCloseable): Unit = {
      TaskContext.get().addTaskCompletionListener[Unit](_ => scan.close())
      ()
    }
    def of(scan: FamilyScan) = {
      closing(scan)
      Iterator
        .continually(scan.next())
        .takeWhile(identity)
        .map(_ => (scan.key.untilNextCall, scan.value.untilNextCall))
    }
    families.iterator.zipWithIndex.flatMap { case (spec, i) =>
      val read = CachedPartition.inSegments(opened, spec)(closing) ++ of(opened.family(spec).all())
      read.map { case (key, value) => (i, key, value) }
    } ++ {
      opened.requireSound()
      Nil
    }
  }

  /** An empty partition that ignores existing records, for a task outside of a query. Its commit writes the next
    * version.
    */
  def empty(partition: Int, hadoopConf: Configuration): StatePartition =
    ofProviders(partition, hadoopConf) { provider =>
      SparkVersionShim
        .emptyStore(provider, version)
        .getOrElse(throw new IllegalStateException("this Spark version creates no empty store but the first"))
    }

  /** True if all files of the version are present and complete. It reads all records. */
  def canRead(partition: Int, hadoopConf: Configuration): Boolean =
    try
      withoutRecords(partition, hadoopConf) { provider =>
        val store = provider.getStore(version, idOf(partition, hadoopConf))
        try CachedRocksDbStore.of(store).requireAllSound()
        finally store.abort()
        true
      }
    catch { case NonFatal(_) => false }

  /** Writes the versions after this one, up to `last`, without changes. Returns their ids. */
  def carry(partition: Int, last: Long, hadoopConf: Configuration): Seq[String] =
    withoutRecords(partition, hadoopConf) { provider =>
      (version until last).scanLeft(idOf(partition, hadoopConf)) { (before, from) =>
        val store = provider.getStore(from, before)
        try store.commit()
        finally if (!store.hasCommitted) store.abort()
        store.getStateStoreCheckpointInfo().stateStoreCkptId
      }
    }.tail.flatten

  /** Uses a provider that reads and writes no records, so its columns do not matter. */
  private def withoutRecords[T](partition: Int, hadoopConf: Configuration)(use: StateStoreProvider => T): T = {
    val any = new StructType().add("any", LongType)
    val provider = ownProvider(partition, any, any, NoPrefixKeyStateEncoderSpec(any), hadoopConf)
    try use(provider)
    finally provider.close()
  }

  private def ofProviders(partition: Int, hadoopConf: Configuration)(open: StateStoreProvider => StateStore) = of {
    (key, value, encoder) =>
      val provider = ownProvider(partition, key, value, encoder, hadoopConf)
      TaskContext.get().addTaskCompletionListener[Unit](_ => provider.close())
      val store = open(provider)
      TaskContext.get().addTaskCompletionListener[Unit](_ => if (!store.hasCommitted) store.abort())
      store
  }

  /** A provider that Spark does not track: the caller closes it. */
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

  /** For a batch of a query.
    *
    * @param reports
    *   collects the reports of the batch's tasks
    */
  def apply(
      families: Seq[FamilySpec],
      info: SparkVersionShim.StateInfo,
      session: SparkSession,
      conf: SQLConf,
      reports: SparkVersionShim.Reports
  ): PartitionOpener = {
    conf.setConfString(RunNumber.Setting, RunNumber.of(session, info).toString)
    new PartitionOpener(
      families,
      info.checkpointLocation,
      info.operatorId,
      info.queryRunId,
      info.storeVersion,
      info.stateStoreCkptIds,
      new StateStoreConf(conf),
      ReportedAttempts.begin(session, info.queryRunId, info.operatorId, info.storeVersion, reports),
      StateSparkVersion.layoutOf(info, session)
    )
  }

  private val fileChecksum = "spark.sql.streaming.checkpoint.fileChecksum.enabled"
  private val changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
  private val writeBuffer = "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB"

  /** True if Spark would write no checksum files for the session's own format, and changelogs need none. Such files
    * double the files of a micro-batch. Of the codecs only LZ4 detects each changed byte.
    */
  private def omitsChecksumFiles(session: SQLConf): Boolean =
    session.stateStoreCheckpointFormatVersion < 2 && !session.contains(fileChecksum) &&
      session.stateStoreCompressionCodec == "lz4"

  /** The session's settings, with the operator's own provider. */
  def confOf(session: SQLConf): SQLConf = {
    val conf = session.clone()
    conf.setConf(SQLConf.STATE_STORE_PROVIDER_CLASS, classOf[CachedRocksDbProvider].getName)
    // Version ids are part of file names even if Spark's commit log has none.
    conf.setConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION, 2)
    if (omitsChecksumFiles(session)) conf.setConfString(fileChecksum, "false")
    // RocksDB would look up each written key to count keys. Mullion counts its own records.
    conf.setConfString("spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows", "false")
    // A batch writes its changes, not the files of the store, unless the session's settings differ.
    if (!session.contains(changelog)) conf.setConfString(changelog, "true")
    // RocksDB keeps writes in memory until a buffer is full, by default 64 MB. Lookups are served from memory anyway,
    // and most writes are obsolete a batch or two later.
    if (!session.contains(writeBuffer)) conf.setConfString(writeBuffer, "16")
    // Rows older than a change of the query have other columns. The header records the columns of each version.
    conf.setConf(SQLConf.STATE_STORE_FORMAT_VALIDATION_ENABLED, false)
    ExpiringPartition.addSetting(conf)
    conf
  }
}
