package org.apache.spark.sql.mullion.checkpoint.imports

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.streaming.state.OperatorStateMetadataReader
import org.apache.spark.sql.mullion.checkpoint.layout.{OperatorState, StateOperators}
import org.apache.spark.sql.mullion.shim.SparkVersionShim

import dev.mullion.MullionException
import dev.mullion.windows.spec.Setting

/** The state of a query with Spark's own windows, as of its last committed batch.
  *
  * {{{
  *   stateStoreSave                    (window, key ...) -> buffers
  *   sessionWindowStateStoreSaveExec   (key ..., start)  -> session_window, key ..., buffers
  * }}}
  *
  * @param isSession
  *   whether it is of session windows
  * @param partitions
  *   its number of partitions
  * @param batch
  *   the last committed one
  * @param hasIds
  *   whether its versions have ids
  */
private[checkpoint] final case class SparkState(
    checkpoint: String,
    operator: Long,
    isSession: Boolean,
    partitions: Int,
    batch: Long,
    hasIds: Boolean
) {

  /** Its rows: `key` and `value`, from Spark's own reader. */
  def read(spark: SparkSession): DataFrame = spark.read
    .format("statestore")
    .option("path", checkpoint)
    .option("batchId", batch)
    .option("operatorId", operator)
    .load()
}

private[checkpoint] object SparkState {
  private val Aggregation = "stateStoreSave"
  private val Sessions = "sessionWindowStateStoreSaveExec"

  /** True if an operator of that name may be a window of Spark's own. */
  def isWindow(operator: String): Boolean = operator == Aggregation || operator == Sessions

  /** Spark's name of the operator of a state; none if unknown. */
  def nameOf(root: Path, hadoopConf: Configuration): Option[String] =
    try OperatorStateMetadataReader.createReader(root, hadoopConf, 1, 0L).read().map(_.operatorInfo.operatorName)
    catch { case NonFatal(_) => None }

  /** The error for a checkpoint of Spark's own windows if arguments are missing. */
  def needsBoth(what: String): MullionException = MullionException.invalid(
    s"$what. To move Spark's own windows to Mullion, name both queries: savepoint(checkpoint, to, ${Setting.SparkQueryGiven}, ${Setting.PanesGiven}), where " +
      s"${Setting.SparkQuery} is the DataFrame with window(...) or session_window(...) that wrote the checkpoint, and ${Setting.Panes} the result of " +
      "windowed(...).agg(...) over the same source."
  )

  /** For a checkpoint with no other state. */
  def apply(spark: SparkSession, checkpoint: String): SparkState = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val root = new Path(checkpoint, "state")
    val names = StateOperators.in(checkpoint, hadoopConf).map { id =>
      id -> nameOf(new Path(root, id.toString), hadoopConf).getOrElse("of an unknown name")
    }
    val (operator, name) = names match {
      case Seq((id, one)) if isWindow(one) => id -> one
      case several                         =>
        val listed = several.map { case (id, one) => s"$id ($one)" }.mkString(", ")
        throw MullionException.unsupported(
          s"${Setting.SparkQuery} is for a query whose only operator with state is Spark's own window, and $checkpoint has " +
            s"${if (several.isEmpty) "none" else listed}. Start the query of windowed(...) with a new checkpointLocation."
        )
    }
    val (batch, commit) = SparkVersionShim
      .commits(spark, new Path(checkpoint, "commits"))
      .getLatest()
      .getOrElse(
        throw MullionException.invalid(s"No batch in $checkpoint has been committed yet: there is nothing to read.")
      )
    SparkState(
      checkpoint,
      operator,
      name == Sessions,
      OperatorState.partitionsOf(root, operator, hadoopConf, batch),
      batch,
      commit.stateUniqueIds.isDefined
    )
  }
}
