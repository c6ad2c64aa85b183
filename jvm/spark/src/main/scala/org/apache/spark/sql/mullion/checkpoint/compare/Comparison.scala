package org.apache.spark.sql.mullion.checkpoint.compare

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LogicalPlan}
import org.apache.spark.sql.catalyst.streaming.{StreamingRelationV2 => Source}
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation
import org.apache.spark.sql.mullion.checkpoint.evolve.ContinuedPlan
import org.apache.spark.sql.mullion.checkpoint.inspect.PanesReader
import org.apache.spark.sql.mullion.checkpoint.layout.{Commits, StateOperators}
import org.apache.spark.sql.mullion.plan.StreamAsOfJoin
import org.apache.spark.sql.mullion.pyfunction.keyed.KeyedFunction
import org.apache.spark.sql.mullion.query.note.CheckpointFiles
import org.apache.spark.sql.mullion.state.header.{OperatorHeader, StateChange}
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.spec.Setting

/** The effect of starting a query over a checkpoint: one row per difference, or one row if there are none. Nothing is
  * written.
  *
  * {{{
  *   operator  window               verdict   what
  *          0  tumbling 10 seconds  goes on   aggregates are gone: [max(v) INT]
  *          0  tumbling 10 seconds  refused   window headers [tumbling 10 seconds] and is now [tumbling 1 minute]
  * }}}
  *
  * The operators of a plan and of a checkpoint have the same order, which is Spark's numbering.
  */
object Comparison {
  private val schema = new StructType()
    .add("operator", LongType, nullable = false)
    .add("window", StringType, nullable = false)
    .add("verdict", StringType, nullable = false)
    .add("what", StringType, nullable = false)

  def apply(panes: DataFrame, checkpoint: String): DataFrame = {
    val spark = panes.sparkSession
    val rows = spark.withActive(CheckpointFiles.reading(checkpoint)(compared(spark, panes, checkpoint)))
    val list = new java.util.ArrayList[Row]()
    rows.foreach(list.add)
    spark.createDataFrame(list, schema)
  }

  private def compared(spark: SparkSession, panes: DataFrame, checkpoint: String): Seq[Row] = {
    val home = new Path(checkpoint)
    val analyzed = panes.queryExecution.analyzed
    val functions = analyzed.collect { case function: KeyedFunction => function }
    val joins = analyzed.collect { case join: StreamAsOfJoin => join }
    val hasWindows = PanesReader.programsIn(analyzed).nonEmpty
    if (functions.isEmpty && joins.isEmpty && !hasWindows)
      throw MullionException.invalid(
        s"${Setting.Panes} is not a result of windowed(...).agg(...) or of a join by time."
      )
    val headers = ContinuedPlan.headersIn(spark, checkpoint).getOrElse(throw StateOperators.none(checkpoint))
    if (Commits.of(spark, home).flatMap(_.getLatestBatchId()).isEmpty)
      ofSources(spark, ContinuedPlan(spark, analyzed, checkpoint).plan, home) match {
        case Some(why) => Seq(Row(0L, "sources", Refused, why))
        case None      => Seq(Row(0L, "all", GoesOn, "no batch has been committed yet: the query begins as it is now"))
      }
    else if (functions.isEmpty) {
      val ofJoins = if (joins.isEmpty) Nil else AsOfComparison(spark, joins, home)
      if (hasWindows) ofWindows(spark, analyzed, checkpoint, headers) ++ ofJoins
      else ofSources(spark, analyzed, home).map(Row(0L, "sources", Refused, _)).toSeq ++ ofJoins
    } else {
      val outside = AnalysisHelper.allowInvokingTransformsInAnalyzer {
        analyzed.transformDown {
          case function: KeyedFunction if function.windows.nonEmpty => function.copy(windows = Nil, panes = Nil)
        }
      }
      val windows = if (PanesReader.programsIn(outside).isEmpty) Nil else ofWindows(spark, outside, checkpoint, headers)
      windows ++ FunctionComparison(spark, functions, home)
    }
  }

  private def ofWindows(
      spark: SparkSession,
      analyzed: LogicalPlan,
      checkpoint: String,
      headers: Seq[(Long, OperatorHeader)]
  ): Seq[Row] = {
    val home = new Path(checkpoint)
    val continued = ContinuedPlan(spark, analyzed, checkpoint)
    val now = PanesReader.programsIn(continued.plan).map(_.header)
    val sources = ofSources(spark, continued.plan, home)
    val notes = continued.notes.groupMap(_._1)(_._2)
    val refused = continued.refused.groupMap(_._1)(_._2)
    val operators =
      if (headers.length != now.length)
        Seq(
          row(
            0,
            now.head,
            Refused,
            s"the checkpoint has ${headers.length} of Mullion's operators (${headers.map(_._2.describe).mkString("; ")}), and the query " +
              s"has ${now.length}"
          )
        )
      else
        headers.zip(now).flatMap { case ((operator, before), after) =>
          refused.get(operator) match {
            case Some(why) => why.map(row(operator, before, Refused, _))
            case None      => ofOperator(operator, before, after, notes.getOrElse(operator, Nil))
          }
        }
    sources.map(row(headers.headOption.fold(0L)(_._1), now.head, Refused, _)).toSeq ++ operators
  }

  private def ofOperator(
      operator: Long,
      headers: OperatorHeader,
      now: OperatorHeader,
      notes: Seq[String]
  ): Seq[Row] = {
    def columns(of: OperatorHeader) = of.windows.map(_._2.aggregates)
    val change =
      if (headers.differences(now).nonEmpty) headers.changeTo(now)
      else if (columns(headers) != columns(now)) StateChange.goesOn("aggregates have other names")
      else StateChange.none
    val rows =
      change.refused.map(row(operator, headers, Refused, _)) ++ change.drains.map(row(operator, headers, Drains, _)) ++
        change.drops.map(row(operator, headers, Drops, _)) ++ (change.goesOn ++ notes).map(
          row(operator, headers, GoesOn, _)
        )
    if (rows.isEmpty) Seq(row(operator, headers, GoesOn, "the state means what it meant")) else rows
  }

  /** Spark identifies sources by their order, and rejects another number of them. */
  private def ofSources(spark: SparkSession, plan: LogicalPlan, home: Path): Option[String] = {
    val now = plan
      .collect {
        case source: StreamingRelation => source
        case source: Source            => source
      }
      .distinct
      .length
    val log = new OffsetSeqLog(spark, new Path(home, "offsets").toString)
    log.getLatest().map(_._2.offsets.size).filter(_ != now).map { headers =>
      s"the query had $headers sources and has $now (${Setting.EarlyEvery}, ${Setting.IdleAfter} and ${Setting.CloseAtEnd} count as one more)"
    }
  }

  private[checkpoint] val Refused = "refused"
  private[checkpoint] val GoesOn = "goes on"
  private val Drains = "drains"
  private val Drops = "drops"

  private def row(operator: Long, header: OperatorHeader, verdict: String, what: String): Row =
    Row(operator, header.describe, verdict, what)
}
