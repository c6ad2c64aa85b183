package org.apache.spark.sql.mullion.state.store

import java.util.UUID

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.mullion.shim.{OwnProvider, OwnStore, SparkLineShim}
import org.apache.spark.sql.mullion.state.memory.{SortedRecords, ToldKeys}
import org.apache.spark.sql.types.StructType

import dev.mullion.MullionException

/** State in the memory of an executor, for `state="memory"`: nothing is written with a batch but, every so many of
  * them, a snapshot.
  *
  * {{{
  *   version   1   2   3   4  ...  9   10   11   12      snapshotEvery = 10
  *   memory                              *    *    *      the last two, and what a task is about to commit
  *   snapshot  *                    *                     the last two
  * }}}
  *
  * Versions never change (see [[SortedRecords]]): attempts of one task work side by side, each on its own copy of what
  * it touches, and whichever commits makes the next version from the same one before. A version that is in neither
  * place fails the task: nothing goes on from an empty store.
  */
final class MemoryStateStoreProvider extends OwnProvider[MemoryStateStore] {
  import MemoryStateStoreProvider._

  private var id = Option.empty[StateStoreId]
  private var snapshots = Option.empty[MemorySnapshots]
  private var conf = StateStoreConf.empty
  private var hadoop = Option.empty[Configuration]
  private var every = 0L
  private val versions = mutable.HashMap.empty[(Long, Option[String]), Contents]
  private var closed = false

  override def init(
      stateStoreId: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConfs: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]
  ): Unit = {
    id = Some(stateStoreId)
    conf = storeConfs
    hadoop = Some(hadoopConf)
    every = MemorySnapshots.every(storeConfs.sqlConfs.get)
    snapshots = Some(new MemorySnapshots(stateStoreId.storeCheckpointLocation(), hadoopConf))
  }

  override def stateStoreId: StateStoreId = id.get

  override protected def store(version: Long, checkpointId: Option[String], isEmpty: Boolean): MemoryStateStore = {
    val contents = if (isEmpty || version == 0) Contents.empty else contentsOf(version, checkpointId)
    new MemoryStateStore(this, version, checkpointId, contents)
  }

  override def close(): Unit = synchronized {
    closed = true
    versions.clear()
  }

  private def contentsOf(version: Long, checkpointId: Option[String]): Contents = synchronized {
    versions.getOrElse(
      (version, checkpointId),
      snapshots.get.read(version, checkpointId) match {
        case Some(read) =>
          versions((version, checkpointId)) = read
          read
        case None => throw lost(stateStoreId.checkpointRootLocation, stateStoreId.operatorId, version)
      }
    )
  }

  /** Makes `contents` a version; the id that it gets, if this checkpoint gives ids to versions. */
  private[state] def commit(version: Long, contents: Contents): Option[String] = {
    val checkpointId = Option.when(conf.enableStateStoreCheckpointIds)(UUID.randomUUID().toString)
    if (version == 1 || version % every == 0) snapshots.get.write(version, checkpointId, contents)
    synchronized {
      // Spark moved the partition elsewhere while this task worked: what it kept here is not asked for any more.
      if (closed) throw new IllegalStateException(s"$stateStoreId was unloaded before version $version was committed")
      versions((version, checkpointId)) = contents
      val newest = versions.keysIterator.map(_._1).max
      versions.filterInPlace { case ((v, _), _) => v > newest - Kept }
    }
    SparkLineShim.reportCommit(conf, stateStoreId, version, hadoop.get)
    checkpointId
  }
}

object MemoryStateStoreProvider {

  /** How many versions stay in memory: a batch that is tried again starts from the last but one. */
  private val Kept = 2

  /** What a store holds, by kind of record. */
  final case class Contents(families: Map[String, SortedRecords.Version]) {
    def apply(family: String): SortedRecords.Version = families.getOrElse(family, SortedRecords.Version.empty)

    /** How many records there are. */
    def size: Long = families.valuesIterator.map(_.size).sum

    /** What they take in memory. */
    def bytes: Long = families.valuesIterator.map(_.footprint).sum
  }

  object Contents {
    val empty: Contents = Contents(Map.empty)
  }

  /** Writes a snapshot of a version that a task of before left in this executor's memory; whether there is one now. */
  private[mullion] def keep(
      id: StateStoreProviderId,
      version: Long,
      checkpointId: Option[String],
      conf: StateStoreConf,
      hadoopConf: Configuration
  ): Boolean = {
    val snapshots = new MemorySnapshots(id.storeId.storeCheckpointLocation(), hadoopConf)
    snapshots.has(version, checkpointId) || StateStore.isLoaded(id) && {
      // Of a store that is loaded nobody asks how its rows are written.
      val rows = new StructType().add("key", "binary")
      val encoder = NoPrefixKeyStateEncoderSpec(rows)
      StateStore.get(id, rows, rows, encoder, version, checkpointId, None, false, conf, hadoopConf) match {
        case store: MemoryStateStore =>
          snapshots.write(version, checkpointId, store.base)
          store.abort()
          true
        case _ => false
      }
    }
  }

  /** The error that a version is nowhere any more. */
  def lost(root: String, operator: Long, version: Long): MullionException = {
    val checkpoint = new org.apache.hadoop.fs.Path(root).getParent
    MullionException.stateLost(
      s"""Operator $operator of $checkpoint keeps its state in memory, and version $version is gone: the query was """ +
        s"""stopped or killed, or Spark ran the task where the state is not. Stop the query, call mullion.recover("$checkpoint"), """ +
        "and start it again: it goes back to the newest snapshot and reads again what came after it, so some output comes " +
        "out twice. With several executors set spark.locality.wait to more than a batch takes."
    )
  }
}

/** The state of one partition from one version to the next. The operator reads and writes `records`; of Spark's own
  * interface it needs what opening and committing take.
  */
final class MemoryStateStore(
    provider: MemoryStateStoreProvider,
    override val version: Long,
    checkpointId: Option[String],
    private[state] val base: MemoryStateStoreProvider.Contents
) extends OwnStore {
  private val opened = mutable.LinkedHashMap.empty[String, SortedRecords]
  private var committed = Option.empty[Option[String]]

  /** The records of one kind, to read and change; `told` as in [[SortedRecords]]. */
  private[state] def records(family: String, told: Option[ToldKeys] = None): SortedRecords =
    opened.getOrElseUpdate(family, new SortedRecords(base(family), told = told))

  /** How many records there are, by kind. */
  def sizes: Map[String, Long] = contents.families.map { case (name, records) => name -> records.size }

  private def contents = MemoryStateStoreProvider.Contents(
    base.families ++ opened.map { case (name, records) => name -> records.version() }
  )

  override def id: StateStoreId = provider.stateStoreId

  override def commit(): Long = {
    require(committed.isEmpty, s"$id is committed already")
    committed = Some(provider.commit(version + 1, contents))
    version + 1
  }

  override def abort(): Unit = opened.clear()

  override def hasCommitted: Boolean = committed.isDefined

  override def metrics: StateStoreMetrics = {
    val kept = contents
    StateStoreMetrics(kept.size, kept.bytes, Map.empty)
  }

  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo =
    StateStoreCheckpointInfo(id.partitionId, version + 1, committed.flatten, checkpointId)

  override protected def families: Set[String] = contents.families.keySet

  override protected def refuse: Nothing = throw MullionException.unsupported(
    "Mullion's memory store serves Mullion's windows only. Take it out of " +
      "spark.sql.streaming.stateStore.providerClass, and say windowed(..., state='memory')."
  )
}
