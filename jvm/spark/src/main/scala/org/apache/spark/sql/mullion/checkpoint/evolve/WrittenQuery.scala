package org.apache.spark.sql.mullion.checkpoint.evolve

import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.mullion.expressions.columns.CustomRanges
import org.apache.spark.sql.mullion.expressions.udf.UnknownSplit
import org.apache.spark.sql.mullion.operator.program.WindowProgram
import org.apache.spark.sql.mullion.plan.build.WindowedBuilder
import org.apache.spark.sql.mullion.plan.options.{RowByRowBuilder, WindowOptions}
import org.apache.spark.sql.mullion.plan.{WindowStrategy, WindowedAggregate}
import org.apache.spark.sql.mullion.state.header.StateHeader
import org.apache.spark.sql.types.{DataType, StructType, TimestampType}

import dev.mullion.MullionException
import dev.mullion.windows.clock.PaneClock
import dev.mullion.windows.spec.Setting

/** The query that wrote a state, rebuilt from the texts in its header. */
private[checkpoint] object WrittenQuery {

  /** The program of a window with this header, from its text. */
  def programOf(spark: SparkSession, header: StateHeader): WindowProgram =
    rebuilt(spark, header, inputOf(header)).queryExecution.analyzed.collectFirst { case node: WindowedAggregate =>
      WindowStrategy.program(node)
    }.get

  /** The query that wrote the state, over no rows, from its text. */
  def rebuilt(spark: SparkSession, header: StateHeader, schema: StructType): DataFrame = {
    val empty =
      spark.createDataFrame(
        new java.util.ArrayList[org.apache.spark.sql.Row](),
        schema.add(RowByRowBuilder.eventTime, TimestampType)
      )
    val options = WindowOptions(
      time = Option.unless(header.clock == PaneClock.ProcessingTime.name)(expr(RowByRowBuilder.eventTime)),
      gap = header.window.gapByRow.map(expr),
      // Open panes contain their ranges; the function that computed them may be unavailable.
      ranges = header.window.ranges.map(_ => CustomRanges.none),
      allowedLateness = header.allowedLateness,
      early = header.early,
      refinements = header.refinements,
      trigger = header.window.trigger.map(expr),
      endsWith = header.window.endsWith.map(expr),
      running = header.rows.exists(_.running),
      perKey = header.rows.exists(_.delayByKey.isDefined),
      keysFollowWall = header.rows.exists(_.options.keysFollowWall),
      forgetAfter = header.rows.flatMap(_.options.forgetAfter),
      collect = header.rows.flatMap(_.options.collect),
      // Open panes are already split.
      split = header.rows.flatMap(_.splitOver).map(_ => UnknownSplit),
      splitColumns = header.rows.flatMap(_.splitOver).toSeq.flatten.map(c => expr(quoteIfNeeded(c))),
      dedupeBy = header.dedupe.toSeq.flatten.map(expr),
      fromNow = header.fromNow.contains(true)
    )
    try WindowedBuilder(empty, header.window.spec, header.by.map(expr), options, header.aggregates.map(expr))
    catch {
      case e: Exception =>
        throw new MullionException(
          "UNSUPPORTED",
          s"The aggregates of this checkpoint cannot be built from their text (${header.aggregates.mkString(", ")}): " +
            s"${e.getMessage} Pass the query's own DataFrame as ${Setting.Panes}.",
          Some(e)
        )
    }
  }

  def inputOf(header: StateHeader): StructType = DataType.fromJson(header.input).asInstanceOf[StructType]
}
