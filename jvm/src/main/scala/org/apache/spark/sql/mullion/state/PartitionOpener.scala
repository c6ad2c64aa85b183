package org.apache.spark.sql.mullion.state

import java.util.UUID

import org.apache.hadoop.conf.Configuration

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.{SparkLineShim, StateChoice}
import org.apache.spark.sql.types.StructType

/** Opens the state of an operator's partitions, with a provider of the operator's own, whatever the session's is.
  *
  * @param version
  *   the version that the batch starts from
  * @param checkpointIds
  *   for each partition the unique id of that version, if the checkpoint has such
  */
final class PartitionOpener(
    choice: StateChoice,
    families: Seq[FamilySpec],
    root: String,
    operator: Long,
    runId: UUID,
    version: Long,
    checkpointIds: Option[Array[Array[String]]],
    conf: StateStoreConf
) extends Serializable {

  /** Opens a partition in a task, which aborts it unless it commits. */
  def open(partition: Int, hadoopConf: Configuration): StatePartition = {
    if (choice == StateChoice.Memory) requireHere(partition, hadoopConf)
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
      case rocks: RocksDbPartition =>
        val id = providerId(partition, StateStoreId.DEFAULT_STORE_NAME)
        HotPartition(
          rocks,
          families,
          id,
          version,
          checkpointIds.map(_(partition).head),
          HotRecords.limit(conf),
          inSegments = conf.enableStateStoreCheckpointIds
        )
      case other => other
    }
  }

  /** Opens a partition for a look, outside of a query; `use` must not keep it. */
  def look[T](partition: Int, hadoopConf: Configuration)(use: StatePartition => T): T = {
    val providers = Seq.newBuilder[StateStoreProvider]
    try {
      val opened = of { (name, key, value, encoder, columnFamilies) =>
        val provider = StateStoreProvider.createAndInit(
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
        providers += provider
        provider.getStore(version, checkpointIds.map(_(partition).head))
      }
      try
        use(opened match {
          case rocks: RocksDbPartition =>
            HotPartition.look(rocks, families, providerId(partition, StateStoreId.DEFAULT_STORE_NAME), version)
          case other => other
        })
      finally opened.stores.foreach(_.abort())
    } finally providers.result().foreach(_.close())
  }

  /** Fails where the state is not. First of all, for a store that is asked for becomes the one that Spark knows of, and
    * the one that has the state would be unloaded.
    */
  private def requireHere(partition: Int, hadoopConf: Configuration): Unit = {
    val id = providerId(partition, StateStoreId.DEFAULT_STORE_NAME)
    val snapshots = new MemorySnapshots(id.storeId.storeCheckpointLocation(), hadoopConf)
    if (version > 0 && !StateStore.isLoaded(id) && !snapshots.has(version, checkpointIds.map(_(partition).head)))
      throw MemoryStateStoreProvider.lost(root, operator, version)
  }

  def providerId(partition: Int, store: String): StateStoreProviderId =
    StateStoreProviderId(StateStoreId(root, operator, partition, store), runId)

  private def of(
      store: (String, StructType, StructType, KeyStateEncoderSpec, Boolean) => StateStore
  ): StatePartition = choice match {
    case StateChoice.RocksDb =>
      val main = families.head
      val opened =
        store(StateStoreId.DEFAULT_STORE_NAME, main.key, main.value, RocksDbPartition.encoder(main), true)
      new RocksDbPartition(opened, main, families.tail)
    case StateChoice.Hdfs =>
      new HdfsPartition((name, key, value, encoder) => store(name, key, value, encoder, false), families)
    case StateChoice.Memory =>
      val main = families.head
      val encoder = NoPrefixKeyStateEncoderSpec(main.key)
      store(StateStoreId.DEFAULT_STORE_NAME, main.key, main.value, encoder, false) match {
        case memory: MemoryStateStore => new MemoryPartition(memory, families)
        case other                    => throw new IllegalStateException(s"$other is no store in memory")
      }
  }
}

object PartitionOpener {

  def apply(
      choice: StateChoice,
      families: Seq[FamilySpec],
      info: SparkLineShim.StateInfo,
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
      new StateStoreConf(conf)
    )

  private val changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

  /** The session's settings, with the operator's own provider. */
  def confOf(choice: StateChoice, session: SQLConf): SQLConf = {
    val conf = session.clone()
    conf.setConf(SQLConf.STATE_STORE_PROVIDER_CLASS, choice.providerClass)
    // RocksDB would look up each key that is put, to count keys. We count our own records, and know which are new.
    conf.setConfString("spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows", "false")
    // A batch writes what it changed, and not the files of the whole store, unless the session says otherwise.
    if (!session.contains(changelog)) conf.setConfString(changelog, "true")
    // What is unloaded from memory is gone.
    if (choice == StateChoice.Memory) conf.setConf(SQLConf.STATE_STORE_UNLOAD_ON_COMMIT, false)
    conf
  }

  /** The stores of an operator, as Spark's metadata lists them. */
  def storeNames(choice: StateChoice, families: Seq[FamilySpec]): Seq[String] = choice match {
    case StateChoice.RocksDb | StateChoice.Memory => Seq(StateStoreId.DEFAULT_STORE_NAME)
    case StateChoice.Hdfs                         => HdfsPartition.storeNames(families)
  }
}
