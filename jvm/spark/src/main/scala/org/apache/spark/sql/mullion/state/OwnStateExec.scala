package org.apache.spark.sql.mullion.state

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.query.note.RecoveryNote
import org.apache.spark.sql.mullion.query.{DriverClock, RunningQuery, StreamWatermarks}
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.attempt.ReportedAttempts
import org.apache.spark.sql.mullion.state.record.{FamilySpec, StatePartition}
import org.apache.spark.sql.streaming.StateOperatorProgress

/** An operator of Mullion with state: it uses its own provider where Spark's base traits use the session's, and its own
  * header.
  */
private[mullion] trait OwnStateExec extends SparkVersionShim.StatefulBase {

  /** The kinds of record in state; the first is the one that Spark records. */
  protected def families: Seq[FamilySpec]

  /** Fails before anything is written if the state in the checkpoint does not match this operator. */
  protected def checkState(hadoopConf: Configuration): Unit

  /** True if Spark tracks this operator, and so keeps ids of its versions if the session requests them. */
  protected def isKnown: Boolean = true

  @transient private lazy val ownConf: SQLConf = PartitionOpener.confOf(super.conf)

  // Tasks have no session; there the opener carries the settings.
  override def conf: SQLConf = if (session == null) super.conf else ownConf

  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration,
      batchId: Long,
      stateSchemaVersion: Int
  ): List[StateSchemaValidationResult] = {
    val info = getStateInfo
    val home = new Path(info.checkpointLocation).getParent
    RecoveryNote.requireNone(CheckpointFileManager.create(home, hadoopConf), home)
    // An operator that Spark does not know uses format 1, whatever its query uses.
    def hasIds = isKnown && RunningQuery
      .find(session, info.queryRunId)
      .flatMap(_.commitLog.get(info.storeVersion - 1))
      .exists(_.stateUniqueIds.exists(_.nonEmpty))
    if (isKnown) SavepointNote.check(session, info)
    StateSettings.check(info, super.conf, isKnown, hasIds)
    // Must be first: the state check may delete Spark's schema file.
    StateSparkVersion.check(info, hadoopConf)
    // Before Spark's check, which compares neither names nor aggregates.
    checkState(hadoopConf)
    StateSparkVersion.settle(info, conf, hadoopConf)
    val main = families.head
    val schema = StateStoreColFamilySchema(StateStore.DEFAULT_COL_FAMILY_NAME, 0, main.key, 0, main.value)
    List(
      StateSchemaCompatibilityChecker.validateAndMaybeEvolveStateSchema(
        getStateInfo,
        hadoopConf,
        List(schema),
        session.sessionState,
        stateSchemaVersion
      )
    )
  }

  override def operatorStateMetadata(stateSchemaPaths: List[List[String]]): OperatorStateMetadata = {
    val info = getStateInfo
    OperatorStateMetadataV1(
      OperatorInfoV1(info.operatorId, shortName),
      Array(StateStoreMetadataV1(StateStoreId.DEFAULT_STORE_NAME, 0, info.numPartitions))
    )
  }

  /** Prepares the query's watermarks for this batch: those of its streams, and the value that a recovery recorded for
    * it, if any.
    *
    * @param isIdling
    *   whether streams without rows may be idle
    * @param gaveRows
    *   whether a source below a node has rows in this batch
    */
  protected def followStreams(batch: Long, isIdling: Boolean, gaveRows: SparkPlan => Boolean): Unit = {
    val info = getStateInfo
    StreamWatermarks.install(session, info.queryRunId, batch, isIdling, gaveRows)
    for {
      note <- DriverClock(session, info.queryRunId, info.operatorId).noteOf(batch)
      query <- RunningQuery.find(session, info.queryRunId)
    } note.follow(query)
  }

  /** The last attempt of each partition, for Spark's commit log in format 2. */
  override def getStateStoreCheckpointInfo(): Array[SparkVersionShim.Reported] = {
    val last = ReportedAttempts.last(checkpointInfoAccumulator.value.asScala)
    val partitions = getStateInfo.numPartitions
    if (last.length != partitions) {
      val missing = (0 until partitions).diff(last.map(_.partitionId))
      throw ReportedAttempts.notRead(getStateInfo.storeVersion, missing.head)
    }
    last.toArray
  }

  @transient private lazy val partitionCounts = PartitionCounts.register(sparkContext)

  /** The metrics that this operator counts itself, rather than a node below it. */
  protected def ownMetrics: Map[String, SQLMetric] = metrics

  private def countedMetrics: Array[SQLMetric] = ownMetrics.toArray.sortBy(_._1).map(_._2)

  /** For tasks: counts the work of a partition's task once, however often it runs. */
  protected def counter: OwnStateExec.Counter = new OwnStateExec.Counter(partitionCounts, countedMetrics)

  /** The amounts that the task of each partition has added to a metric in this batch. */
  protected def countsOfPartitions(metric: String): Map[Int, Long] = {
    val at = ownMetrics.keys.toArray.sorted.indexOf(metric)
    if (at < 0) Map.empty else partitionCounts.value.map { case (partition, counts) => partition -> counts(at) }
  }

  override def getProgress(): StateOperatorProgress = {
    partitionCounts.settle(countedMetrics)
    super.getProgress()
  }

  /** Reports the version that a task has written to the driver. Spark does so only if the session requests format 2. */
  private def report(store: StateStore): Unit = {
    val reported = store.getStateStoreCheckpointInfo()
    reported.stateStoreCkptId.foreach { id =>
      checkpointInfoAccumulator.add(
        SparkVersionShim.reported(reported.partitionId, reported.batchVersion, id, reported.baseStateStoreCkptId)
      )
    }
  }

  /** Counts a commit; `total` is the number of records. */
  protected def countStores(partition: StatePartition, total: Long): Unit = {
    partition.bytesInMemory.foreach { bytes =>
      longMetric("hotBytes") += bytes
      longMetric("hotPartitions") += 1
    }
    val rows = longMetric("numTotalStateRows")
    val before = rows.value
    setStoreMetrics(partition.store)
    report(partition.store)
    // RocksDB does not count rows. A task may have several partitions.
    rows.set(before + total)
    setOperatorMetrics(1)
  }
}

private[mullion] object OwnStateExec {

  /** Counts the work of a task, under the number of its partition. */
  final class Counter(counts: PartitionCounts, metrics: Array[SQLMetric]) extends Serializable {
    def apply(partition: Int)(count: => Unit): Unit = counts.noting(partition, metrics)(count)
  }
}
