package org.apache.spark.sql.mullion.state

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.encoders.{AgnosticEncoders, ExpressionEncoder}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.{SparkLineShim, StateChoice}

/** An operator of ours that keeps state: in a provider of its own, wherever Spark's base and its traits ask for the
  * session's, under a header of its own.
  */
private[mullion] trait OwnStateExec extends SparkLineShim.StatefulBase {

  protected def choice: StateChoice

  /** The kinds of record in state; the first is the one that Spark is told of. */
  protected def families: Seq[FamilySpec]

  /** Fails if the state in the checkpoint is not what this operator would make of it, before anything is written. */
  protected def checkState(hadoopConf: Configuration): Unit

  /** Whether Spark knows of this operator, and so may keep ids of its versions, if the session asks for them. */
  protected def isKnown: Boolean = true

  @transient private lazy val ownConf: SQLConf = {
    val own = PartitionOpener.confOf(choice, super.conf)
    if (!isKnown) own.setConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION, 1)
    own
  }

  // In tasks there is no session, and nothing to replace: the opener carries the settings there.
  override def conf: SQLConf = if (session == null) super.conf else ownConf

  override val stateStoreNames: Seq[String] = PartitionOpener.storeNames(choice, families)

  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration,
      batchId: Long,
      stateSchemaVersion: Int
  ): List[StateSchemaValidationResult] = {
    // Ours first: Spark compares neither names nor what an aggregate is.
    checkState(hadoopConf)
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
      stateStoreNames.map(StateStoreMetadataV1(_, 0, info.numPartitions)).toArray
    )
  }

  /** Counts what was committed; `total` is how many records there are. */
  protected def countStores(partition: StatePartition, total: Long): Unit = {
    partition.stores.zipWithIndex.foreach { case (store, i) => setStoreMetrics(store, setCheckpointInfo = i == 0) }
    // In place of what the stores counted: HDFS-backed ones count their lists of leading columns too, RocksDB nothing.
    longMetric("numTotalStateRows").set(total)
    setOperatorMetrics(partition.stores.length)
  }
}

private[mullion] object OwnStateExec {

  /** For what Spark's base asks for and we have no use of. Made once: to find one by reflection took a tenth of the
    * driver's time for a small batch.
    */
  val unusedEncoder: ExpressionEncoder[Any] =
    ExpressionEncoder(AgnosticEncoders.PrimitiveIntEncoder).asInstanceOf[ExpressionEncoder[Any]]
}
