package org.apache.spark.sql.mullion.checkpoint.evolve

import java.nio.file.{Files, Path}
import java.util.UUID

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.mullion.checkpoint.inspect.PanesReader
import org.apache.spark.sql.mullion.operator.engine.PartitionTotals
import org.apache.spark.sql.mullion.operator.program.{OperatorProgram, TogetherProgram}
import org.apache.spark.sql.mullion.state.PartitionOpener
import org.apache.spark.sql.mullion.state.header.DrainHeader

/** Counts the records of an operator's state by kind, by reading all of them without the operator. */
object RecordsInState {

  /** For each operator, the one downstream first: kinds of record, and their number. Excludes kinds with one record per
    * partition.
    */
  def of(spark: SparkSession, panes: DataFrame, checkpoint: Path): Seq[Map[String, Int]] = {
    // A replaced window exists next to the new one until the query restarts.
    val headers = ContinuedPlan.headersIn(spark, checkpoint.toUri.toString).getOrElse(Nil).map(_._2)
    val plan = headers.foldLeft(panes.queryExecution.analyzed)(Regrouping.over)
    PanesReader.programsIn(plan).zip(operators(checkpoint)).map { case (program, operator) =>
      of(spark, program, checkpoint, operator).map { case (kind, n) => called(program, kind) -> n }
    }
  }

  /** The name of a kind of record, where windows have theirs under their own names. */
  private def called(program: OperatorProgram, kind: String): String = {
    val own = program match {
      case several: TogetherProgram =>
        several.windows.flatMap(w => w.families.map(_.name).zip(w.copy(place = w.name).families.map(_.name))).toMap
      case _ => Map.empty[String, String]
    }
    own.getOrElse(kind, kind).stripPrefix(s"${DrainHeader.Next}.")
  }

  /** The ids of Mullion's operators in a checkpoint, the one downstream first. */
  def operators(checkpoint: Path): Seq[Int] =
    numbersIn(checkpoint.resolve("state")).filter(id => Files.exists(checkpoint.resolve(s"state/$id/_mullion")))

  /** The numbers in the names of a folder's files, in order. */
  def numbersIn(folder: Path): Seq[Int] = {
    val listed = Files.list(folder)
    try listed.iterator.asScala.map(_.getFileName.toString).filter(_.forall(_.isDigit)).map(_.toInt).toVector.sorted
    finally listed.close()
  }

  private def of(spark: SparkSession, program: OperatorProgram, checkpoint: Path, operator: Int): Map[String, Int] = {
    val opener = new PartitionOpener(
      program.families,
      checkpoint.resolve("state").toUri.toString,
      operator.toLong,
      UUID.randomUUID(),
      numbersIn(checkpoint.resolve("commits")).last + 1L,
      None,
      new StateStoreConf(PartitionOpener.confOf(spark.sessionState.conf))
    )
    val conf = spark.sessionState.newHadoopConf()
    val counts = numbersIn(checkpoint.resolve(s"state/$operator")).flatMap { partition =>
      opener.look(partition, conf) { opened =>
        program.families.map { family =>
          val records = Using.resource(opened.family(family).all())(_.size)
          // A segment without records is one too many.
          family.name -> (if (records == 0) opened.store.iterator(s"${family.name}-segments").size else records)
        }
      }
    }
    counts
      .groupMapReduce(_._1)(_._2)(_ + _)
      .filter { case (kind, n) => n > 0 && kind != PartitionTotals.family.name }
  }
}
