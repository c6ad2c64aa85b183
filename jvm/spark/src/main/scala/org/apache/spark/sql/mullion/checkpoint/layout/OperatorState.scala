package org.apache.spark.sql.mullion.checkpoint.layout

import java.io.FileNotFoundException
import java.util.UUID

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.mullion.query.note.CheckpointFiles
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.record.FamilySpec
import org.apache.spark.sql.mullion.state.{PartitionOpener, StateSparkVersion}

import dev.mullion.MullionException
import dev.mullion.windows.spec.Setting

/** One operator's state in a checkpoint, at the version of its last committed batch, for reading. */
private[mullion] final case class OperatorState[H](
    root: String,
    operator: Long,
    header: H,
    partitions: Int,
    version: Long,
    checkpointIds: Option[Array[Array[String]]]
) {
  def opener(spark: SparkSession, families: Seq[FamilySpec]): PartitionOpener = {
    // Stores report to the coordinator, which a session without queries has not created yet.
    spark.streams.stateStoreCoordinator
    val stores = PartitionOpener.confOf(spark.sessionState.conf)
    new PartitionOpener(
      families,
      root,
      operator,
      UUID.randomUUID(),
      version,
      checkpointIds,
      new StateStoreConf(stores),
      layout = StateSparkVersion.layoutIn(new Path(root, operator.toString), spark.sessionState.newHadoopConf())
    )
  }
}

private[mullion] object OperatorState {

  /** A kind of operator of Mullion, identified by the header next to its state.
    *
    * @param one
    *   its name in messages
    * @param read
    *   reads the header of a version
    */
  final case class Kind[H](
      one: String,
      many: String,
      read: (Path, Configuration, Long) => Option[H],
      describe: H => String
  )

  /** @param operator
    *   the operator's number in the checkpoint, or -1 for the only one of its kind
    */
  def locate[H](spark: SparkSession, checkpoint: String, operator: Int, kind: Kind[H]): OperatorState[H] =
    CheckpointFiles.reading(checkpoint)(located(spark, checkpoint, operator, kind))

  private def located[H](spark: SparkSession, checkpoint: String, operator: Int, kind: Kind[H]): OperatorState[H] = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val home = new Path(checkpoint)
    val root = new Path(home, "state")
    val candidates = StateOperators.in(checkpoint, hadoopConf, kind.one).flatMap { id =>
      kind.read(new Path(root, id.toString), hadoopConf, Long.MaxValue).map(id -> _)
    }
    val (id, header) = (candidates, operator) match {
      case (Seq(), _) => throw MullionException.invalid(s"No operator in $checkpoint is a ${kind.one} of Mullion's.")
      case (Seq(one), -1) => one
      case (several, -1)  =>
        val listed = several.map { case (i, h) => s"$i (${kind.describe(h)})" }.mkString(", ")
        throw MullionException.invalid(
          s"$checkpoint has several ${kind.many}: give the number of one as ${Setting.named("operator")}: $listed."
        )
      case (several, wanted) =>
        several.find(_._1 == wanted).getOrElse {
          val listed = several.map(_._1).mkString(", ")
          throw MullionException.invalid(
            s"Operator $wanted of $checkpoint is not a ${kind.one} of Mullion's; there is $listed."
          )
        }
    }
    val (batch, commit) = SparkVersionShim
      .commits(spark, new Path(home, "commits"))
      .getLatest()
      .getOrElse(
        throw MullionException.invalid(s"No batch in $checkpoint has been committed yet: there is nothing to read.")
      )
    val partitions = partitionsOf(root, id, hadoopConf, batch)
    val latest =
      OperatorState(root.toString, id, header, partitions, batch + 1, commit.stateUniqueIds.flatMap(_.get(id)))
    // A changed query may have begun its first batch.
    latest.copy(header = kind.read(new Path(root, id.toString), hadoopConf, latest.version).getOrElse(header))
  }

  /** The number of partitions of an operator's state. */
  def partitionsOf(root: Path, operator: Long, hadoopConf: Configuration, batch: Long): Int = {
    val file = OperatorStateMetadataV1.metadataFilePath(new Path(root, operator.toString))
    try
      OperatorStateMetadataReader
        .createReader(new Path(root, operator.toString), hadoopConf, 1, batch)
        .read()
        .collect { case OperatorStateMetadataV1(_, stores) => stores.head.numPartitions }
        .get
    catch {
      case NonFatal(e) =>
        throw MullionException.damagedState(
          s"In the checkpoint ${root.getParent} the file $file, in which Spark notes how many partitions the state of " +
            s"operator $operator has, is ${if (e.isInstanceOf[FileNotFoundException]) "missing" else "damaged"}. Nothing " +
            "was written. Restore the file from a copy of the checkpoint."
        )
    }
  }
}
