package org.apache.spark.sql.execution.streaming.state

import java.io.File

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.rocksdb.TickerType

import org.apache.spark.sql.mullion.shim.{AttemptLineage, AttemptVersions}

/** Spark's RocksDB state provider with Mullion's version ids, for 4.1 and later. It is in Spark's package, because a
  * type in its interface is private to that.
  */
abstract class AttemptProvider extends RocksDBStateStoreProvider {

  /** An id for the version that the running task writes. */
  protected def nextId(conf: StateStoreConf): String

  /** Assigns the id of the version that a task writes, after the previous one has been opened. */
  protected def nameVersion(): Unit = ownDb.nameVersion()

  /** The number of blocks read so far that differ from their checksums. Spark's scans end at such a block, without an
    * error.
    */
  def damagedBlocks: Long = ownDb.damagedBlocks

  /** The same after all records have been read. */
  def damagedBlocksInAll: Long = ownDb.damagedBlocksInAll

  private def ownDb: AttemptRocksDb = rocksDB match {
    case own: AttemptRocksDb => own
    case other               => throw new IllegalStateException(s"$other gives its versions ids of its own")
  }

  override protected def createRocksDB(
      dfsRootDir: String,
      conf: RocksDBConf,
      localRootDir: File,
      hadoopConf: Configuration,
      loggingId: String,
      useColumnFamilies: Boolean,
      enableStateStoreCheckpointIds: Boolean,
      partitionId: Int,
      eventForwarder: Option[RocksDBEventForwarder],
      uniqueId: Option[String]
  ): RocksDB = new AttemptRocksDb(
    dfsRootDir,
    conf,
    localRootDir,
    hadoopConf,
    loggingId,
    useColumnFamilies,
    enableStateStoreCheckpointIds,
    partitionId,
    eventForwarder,
    uniqueId,
    new AttemptVersions(dfsRootDir, hadoopConf, () => nextId(conf.stateStoreConf))
  )
}

private final class AttemptRocksDb(
    dfsRootDir: String,
    conf: RocksDBConf,
    localRootDir: File,
    hadoopConf: Configuration,
    loggingId: String,
    useColumnFamilies: Boolean,
    enableStateStoreCheckpointIds: Boolean,
    partitionId: Int,
    eventForwarder: Option[RocksDBEventForwarder],
    uniqueId: Option[String],
    versions: AttemptVersions
) extends RocksDB(
      dfsRootDir,
      conf,
      localRootDir,
      hadoopConf,
      loggingId,
      useColumnFamilies,
      enableStateStoreCheckpointIds,
      partitionId,
      eventForwarder,
      uniqueId
    ) {

  override protected[sql] val lineageManager: RocksDBLineageManager =
    new AttemptLineage((version, id) => fileManager.existsSnapshotFile(version, Some(id)))

  def nameVersion(): Unit = sessionStateStoreCkptId = Some(versions.opened(lineageManager))

  def damagedBlocks: Long =
    Using.resource(rocksDbOptions.statistics())(_.getTickerCount(TickerType.BLOCK_CHECKSUM_MISMATCH_COUNT))

  def damagedBlocksInAll: Long = {
    iterator().foreach(_ => ())
    damagedBlocks
  }

  // Called before the fields of this object are initialised.
  override protected def createFileManager(
      dfsRootDir: String,
      localTempDir: File,
      hadoopConf: Configuration,
      codecName: String,
      loggingId: String,
      storeConf: StateStoreConf
  ): RocksDBFileManager = new RocksDBFileManager(
    dfsRootDir,
    localTempDir,
    hadoopConf,
    codecName,
    loggingId,
    storeConf,
    this.conf.fileChecksumEnabled,
    fileChecksumThreadPoolSize
  ) {
    override def getChangeLogWriter(
        version: Long,
        useColumnFamilies: Boolean,
        checkpointUniqueId: Option[String],
        stateStoreCheckpointIdLineage: Option[Array[LineageItem]]
    ): StateStoreChangelogWriter = super.getChangeLogWriter(
      version,
      useColumnFamilies,
      checkpointUniqueId.map(_ => versions.nameChangelog()),
      stateStoreCheckpointIdLineage
    )

    override def deleteOldVersions(
        numVersionsToRetain: Int,
        maxVersionsToDeletePerMaintenance: Int,
        minVersionsToDelete: Long
    ): Unit = super.deleteOldVersions(
      versions.retained(numVersionsToRetain),
      maxVersionsToDeletePerMaintenance,
      minVersionsToDelete
    )
  }
}
