package org.apache.spark.sql.mullion.checkpoint.savepoint

import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.operator.WindowExec
import org.apache.spark.sql.mullion.operator.program.OperatorProgram
import org.apache.spark.sql.mullion.state.attempt.RunNumber
import org.apache.spark.sql.mullion.state.header.OperatorHeader
import org.apache.spark.sql.mullion.state.record.FamilySpec
import org.apache.spark.sql.mullion.state.{PartitionOpener, StateSparkVersion}

/** The state of an operator for a savepoint, in the form that a query's own batch writes.
  *
  * @param to
  *   the folder of states in the savepoint, each under its number
  * @param batch
  *   the last batch of the savepoint
  * @param settings
  *   of the query, from Spark's log
  */
private[checkpoint] final case class NewState(
    to: Path,
    operator: Long,
    batch: Long,
    partitions: Int,
    settings: Seq[(String, String)]
) {

  /** The folder of this one. */
  def root: Path = new Path(to, operator.toString)

  /** Writes the records of windows by `records`, and their header. Returns the ids of the new version, by partition. */
  def write(spark: SparkSession, program: OperatorProgram, header: OperatorHeader)(
      records: PartitionOpener => Seq[StateCopy.Written]
  ): Seq[Option[String]] = {
    val ids = write(spark, WindowExec.operatorName, program.families)(records)
    OperatorHeader.write(root, spark.sessionState.newHadoopConf(), header)
    ids
  }

  /** The same for any kind of operator, without its header.
    *
    * @param name
    *   the operator's name in Spark's checkpoints
    */
  def write(spark: SparkSession, name: String, families: Seq[FamilySpec])(
      records: PartitionOpener => Seq[StateCopy.Written]
  ): Seq[Option[String]] = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    StateSparkVersion.begin(root, spark.sessionState.conf, hadoopConf)
    val opener = new PartitionOpener(
      families,
      root.getParent.toString,
      operator,
      UUID.randomUUID(),
      batch,
      None,
      new StateStoreConf(NewState.confOf(spark, settings)),
      layout = StateSparkVersion.layoutIn(root, hadoopConf)
    )
    val written = records(opener)
    val stores = Array(StateStoreMetadataV1(StateStoreId.DEFAULT_STORE_NAME, 0, partitions))
    OperatorStateMetadataWriter
      .createWriter(root, hadoopConf, 1, None)
      .write(OperatorStateMetadataV1(OperatorInfoV1(operator, name), stores))
    written.map(_.checkpointId)
  }
}

private[checkpoint] object NewState {

  /** The configuration with which a query's own batches open their stores.
    *
    * @param settings
    *   of the query, from Spark's log
    */
  def confOf(spark: SparkSession, settings: Seq[(String, String)]): SQLConf = {
    val conf = PartitionOpener.confOf(spark.sessionState.conf)
    val prefix = "spark.sql.streaming.stateStore."
    val own =
      Set(SQLConf.STATE_STORE_PROVIDER_CLASS.key, SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key, RunNumber.Setting)
    settings.foreach { case (key, value) =>
      if (key.startsWith(prefix) && !own(key)) conf.setConfString(key, value)
    }
    conf.setConfString(s"${prefix}commitValidation.enabled", "false")
    conf
  }
}
