package org.apache.spark.sql.execution.streaming.state

import java.io.File

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.rocksdb.TickerType

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.sql.mullion.shim.{AttemptLineage, AttemptVersions}
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.Utils

/** Spark's RocksDB state provider with Mullion's version ids, for 4.0. It is in Spark's package like that for later
  * versions.
  */
abstract class AttemptProvider extends RocksDBStateStoreProvider {
  @volatile private var make: () => AttemptRocksDb = _

  /** An id for the version that the running task writes. */
  protected def nextId(conf: StateStoreConf): String

  /** Assigns the id of the version that a task writes, after the previous one has been opened. */
  protected def nameVersion(): Unit = rocksDB.nameVersion()

  /** The number of blocks read so far that differ from their checksums. Spark's scans end at such a block, without an
    * error.
    */
  def damagedBlocks: Long = rocksDB.damagedBlocks

  /** The same after all records have been read. */
  def damagedBlocksInAll: Long = rocksDB.damagedBlocksInAll

  override def init(
      stateStoreId: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConf: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]
  ): Unit = {
    make = () => {
      val folder = stateStoreId.storeCheckpointLocation().toString
      val name =
        s"StateStoreId(opId=${stateStoreId.operatorId},partId=${stateStoreId.partitionId},name=${stateStoreId.storeName})"
      val local = Utils.createTempDir(Utils.getLocalDir(Option(SparkEnv.get).fold(new SparkConf)(_.conf)), name)
      new AttemptRocksDb(
        folder,
        RocksDBConf(storeConf),
        local,
        hadoopConf,
        name,
        useColumnFamilies,
        storeConf.enableStateStoreCheckpointIds,
        stateStoreId.partitionId,
        new AttemptVersions(folder, hadoopConf, () => nextId(storeConf))
      )
    }
    super.init(
      stateStoreId,
      keySchema,
      valueSchema,
      keyStateEncoderSpec,
      useColumnFamilies,
      storeConf,
      hadoopConf,
      useMultipleValuesPerKey,
      stateSchemaProvider
    )
  }

  override private[sql] lazy val rocksDB: AttemptRocksDb = make()
}

private[sql] final class AttemptRocksDb(
    dfsRootDir: String,
    conf: RocksDBConf,
    localRootDir: File,
    hadoopConf: Configuration,
    loggingId: String,
    useColumnFamilies: Boolean,
    enableStateStoreCheckpointIds: Boolean,
    partitionId: Int,
    versions: AttemptVersions
) extends RocksDB(
      dfsRootDir,
      conf,
      localRootDir,
      hadoopConf,
      loggingId,
      useColumnFamilies,
      enableStateStoreCheckpointIds,
      partitionId
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

  override private[spark] val fileManager: RocksDBFileManager = new RocksDBFileManager(
    dfsRootDir,
    Utils.createTempDir(localRootDir.getAbsolutePath, "fileManager"),
    hadoopConf,
    conf.compressionCodec,
    loggingId
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

    override def deleteOldVersions(numVersionsToRetain: Int, minVersionsToDelete: Long): Unit =
      super.deleteOldVersions(versions.retained(numVersionsToRetain), minVersionsToDelete)
  }
}
