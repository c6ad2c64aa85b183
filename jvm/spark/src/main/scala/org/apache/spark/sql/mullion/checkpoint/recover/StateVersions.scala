package org.apache.spark.sql.mullion.checkpoint.recover

import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.mullion.checkpoint.imports.SparkState
import org.apache.spark.sql.mullion.checkpoint.layout.{OperatorState, StateOperators}
import org.apache.spark.sql.mullion.checkpoint.savepoint.{NewState, SavepointLogs, WritingJobs}
import org.apache.spark.sql.mullion.operator.asof.AsOfHeader
import org.apache.spark.sql.mullion.pyfunction.keyed.KeyedFunctionHeader
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.PartitionOpener
import org.apache.spark.sql.mullion.state.attempt.{AttemptFiles, RunNumber}
import org.apache.spark.sql.mullion.state.header.OperatorHeader
import org.apache.spark.util.SerializableConfiguration

import dev.mullion.MullionException

/** The versions of state that a recovery can use.
  *
  * {{{
  *   version      ..  S+1  ..  N    N+1            ..  S+1  ..   N    N+1
  *   partition 0      a1       b1   c1     ->          a1       x1    y1    unchanged after S+1
  *   partition 1      a2       b2   lost               a2       x2    y2
  * }}}
  */
private[checkpoint] final class StateVersions(spark: SparkSession, home: Path) extends KeptVersions {
  private val hadoopConf = spark.sessionState.newHadoopConf()
  private val root = new Path(home, "state")
  private val operators: Seq[Long] = StateOperators.in(home.toString, hadoopConf)

  operators.foreach(requireOurs)

  override def upTo(last: Long): Set[Long] = (for {
    operator <- operators
    partition <- 0 until partitions(operator)
  } yield AttemptFiles.ids(new Path(root, s"$operator/$partition"), hadoopConf).map(_._1).filter(_ <= last).toSet)
    .reduceOption(_.intersect(_))
    .getOrElse(Set.empty)

  override def isWhole(version: Long): Boolean = operators.forall { operator =>
    val opener = openerOf(operator, version, run = 0L)
    inTasks(operator)(opener.canRead(_, _)).forall(identity)
  }

  override def carry(from: Long, to: Long): KeptVersions.Ids = {
    val ids = operators.map { operator =>
      val opener = openerOf(operator, from, RunNumber.take(rootOf(operator), UUID.randomUUID(), hadoopConf))
      operator -> inTasks(operator)(opener.carry(_, to, _))
    }
    (from + 1 to to).zipWithIndex.map { case (version, i) =>
      version -> ids.map { case (operator, ids) => operator -> ids.map(_(i)) }
    }.toMap
  }

  private def inTasks[T: scala.reflect.ClassTag](operator: Long)(work: (Int, Configuration) => T): Seq[T] = {
    val conf = spark.sparkContext.broadcast(new SerializableConfiguration(hadoopConf))
    val count = partitions(operator)
    new WritingJobs(spark.sparkContext).run {
      spark.sparkContext.parallelize(0 until count, count).map(work(_, conf.value.value)).collect().toSeq
    }
  }

  private def openerOf(operator: Long, version: Long, run: Long): PartitionOpener = {
    // Stores report to the coordinator, which a session without queries has not created yet.
    spark.streams.stateStoreCoordinator
    val conf = NewState.confOf(spark, new SavepointLogs(spark, home.toString, version - 1).settings)
    conf.setConfString(RunNumber.Setting, run.toString)
    val commit = SparkVersionShim.commits(spark, new Path(home, "commits")).get(version - 1)
    new PartitionOpener(
      Nil,
      root.toString,
      operator,
      UUID.randomUUID(),
      version,
      commit.flatMap(_.stateUniqueIds).flatMap(_.get(operator)),
      new StateStoreConf(conf)
    )
  }

  private def rootOf(operator: Long) = new Path(root, operator.toString)

  private lazy val partitions: Map[Long, Int] =
    operators.map(id => id -> OperatorState.partitionsOf(root, id, hadoopConf, Long.MaxValue)).toMap

  private def requireOurs(operator: Long): Unit = {
    val root = rootOf(operator)
    val isFunction = KeyedFunctionHeader.read(root, hadoopConf).isDefined
    val isOurs = OperatorHeader.read(root, hadoopConf).isDefined || AsOfHeader.read(root, hadoopConf).isDefined
    if (isFunction || !isOurs) {
      val what =
        if (isFunction) "a function with state"
        else s"Spark's own (${SparkState.nameOf(root, hadoopConf).getOrElse("of an unknown name")})"
      throw MullionException.unsupported(
        s"Operator $operator of $home is $what, and recover() sets back only windows and as-of joins. Restore the checkpoint from a copy; " +
          "or start the query with a new checkpointLocation, and a new place for its output."
      )
    }
  }
}
