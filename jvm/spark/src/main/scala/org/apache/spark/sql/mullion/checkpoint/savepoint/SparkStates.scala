package org.apache.spark.sql.mullion.checkpoint.savepoint

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.{FilterExec, ProjectExec, SortExec, SparkPlan}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.checkpoint.imports.{MovedWindow, SparkAggregate, SparkState}
import org.apache.spark.sql.mullion.expressions.functions.ApproxDistinct
import org.apache.spark.sql.mullion.operator.engine.PaneCounts
import org.apache.spark.sql.mullion.state.PartitionOpener
import org.apache.spark.sql.types._
import org.apache.spark.util.SerializableConfiguration

import dev.mullion.MullionException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.spec.Setting

/** Panes of Mullion converted from the state of Spark's own windows. The pane engine treats the windows in that state
  * as partial rows of one batch, none of them late, and with no pane due afterwards:
  *
  * {{{
  *   Spark's state        (window, key) -> buffers
  *   as partial rows       key, slice, buffers        by `partial`
  *   [shuffle by key]
  *   engine               panes, sessions, timers     as after a batch of the query
  * }}}
  *
  * The buffers of a function are those of Spark's partial aggregate in both, except for those of [[ApproxDistinct]],
  * which are converted. Windows that have ended by Spark's watermark, which only a query in complete mode keeps, are
  * omitted, because they have been output.
  */
private[checkpoint] final class SparkStates private (
    spark: SparkSession,
    state: SparkState,
    was: SparkAggregate,
    moved: MovedWindow,
    asked: Savepoint.Asked
) extends SavepointStates {
  private val program = moved.program
  private val logs = new SavepointLogs(spark, state.checkpoint, state.batch)
  // Bypasses the optimizer, which merges fields of equal names; few buffers have names.
  private val read = state.read(spark).queryExecution.executedPlan
  private val columns = columnsOf(read.output)

  override val batch: Long = state.batch
  override val partitions: Int = asked.partitions.getOrElse(state.partitions)
  override val format: Int = asked.format.getOrElse(if (state.hasIds) 2 else 1)

  Savepoint.requireLine(batch)

  override def write(to: Path, settings: Seq[(String, String)]): Seq[(Long, Seq[Option[String]])] = {
    val at = NewState(new Path(to, "state"), operator = 0L, batch, partitions, settings)
    Seq(0L -> at.write(spark, program, program.header)(fill(_, arranged(partialRows))))
  }

  private def fill(opener: PartitionOpener, rows: SparkPlan): Seq[StateCopy.Written] = {
    val (of, startAt, where) = (moved, program.partial.length, state.checkpoint)
    val conf = spark.sparkContext.broadcast(new SerializableConfiguration(spark.sessionState.newHadoopConf()))
    StateCopy.written(rows.execute(), opener, conf) { (index, partition, rows) =>
      val clock = BatchClock(BatchClock.BeforeAllTime, BatchClock.BeforeAllTime, 0L, rowsCame = true)
      val checked = rows.map { row =>
        of.require(row.getLong(startAt), row.getLong(startAt + 1), where)
        row
      }
      val fired = of.program.engine(clock, partition, new PaneCounts).process(checked)
      if (fired.hasNext) throw new IllegalStateException(s"panes of $where fire before the earliest time")
      StateCopy.finish(index, partition, of.program)
    }
  }

  /** The windows in state as rows of `program.partial`, with their starts and ends after those. */
  private def partialRows: SparkPlan = {
    def micros(edge: Int) =
      PreciseTimestampConversion(GetStructField(columns(was.windowAt), edge), TimestampType, LongType)
    val (start, end) = (micros(0), micros(1))
    val watermark = logs.watermark
    // Without a watermark it is 0, and windows that end before the epoch are open.
    val open = if (watermark == 0L) read else FilterExec(GreaterThan(end, Literal(watermark)), read)
    val buffers = columns.drop(was.grouping.length)
    val sums = moved.functionsAt.zip(program.functions).flatMap { case (at, function) =>
      val from = was.functions.take(at).map(_.buffers.length).sum
      ApproxDistinct.buffersOf(function, buffers.slice(from, from + was.functions(at).buffers.length))
    }
    // Windows over the entire stream have one key.
    val keys = if (moved.keysAt.isEmpty) Seq(Literal(0)) else moved.keysAt.map(columns)
    val values = keys ++ moved.grouping(start, end) ++ sums ++ moved.extras(start, end)
    val named = program.partial.zip(values).map { case (a, value) => Alias(value, a.name)(a.exprId) }
    ProjectExec(named ++ Seq(Alias(start, "start")(), Alias(end, "end")()), open)
  }

  /** In the form of a batch's rows for the engine. */
  private def arranged(rows: SparkPlan): SparkPlan = {
    val exchange = ShuffleExchangeExec(HashPartitioning(program.keys, partitions), rows)
    if (program.ordering.isEmpty) exchange else SortExec(program.ordering, global = false, exchange)
  }

  /** The columns of state: those of the grouping, and the buffers. */
  private def columnsOf(output: Seq[Attribute]): Seq[Expression] = {
    def fields(name: String): Seq[(StructField, Expression)] = output.filter(_.name == name).flatMap { of =>
      of.dataType match {
        case struct: StructType => struct.fields.toSeq.zipWithIndex.map { case (f, i) => f -> GetStructField(of, i) }
        case other              => throw new IllegalStateException(s"$name is ${other.sql}")
      }
    }
    // In the first format of aggregations, and for sessions, values contain all columns.
    val isFirst = logs.settings.contains(SQLConf.STREAMING_AGGREGATION_STATE_FORMAT_VERSION.key -> "1")
    val columns = if (state.isSession || isFirst) fields("value") else fields("key") ++ fields("value")
    val wanted = was.grouping.map(StructField("", _)) ++ was.buffers
    val isSame = columns.length == wanted.length && columns.map(_._1).zip(wanted).forall { case (is, of) =>
      DataType.equalsIgnoreNullability(is.dataType, of.dataType) && (of.name.isEmpty || is.name == of.name)
    }
    if (!isSame) {
      def listed(fields: Seq[StructField]) = fields.map(f => s"${f.name} ${f.dataType.sql}".trim).mkString(", ")
      throw MullionException.incompatibleState(
        s"${Setting.SparkQuery} is not what wrote ${state.checkpoint}: its state has [${listed(columns.map(_._1))}], and ${Setting.SparkQuery} would have " +
          s"[${listed(wanted)}]. Pass the DataFrame whose query wrote it, with all that came after the aggregation."
      )
    }
    columns.map(_._2)
  }
}

private[checkpoint] object SparkStates {

  /** @param was
    *   the DataFrame whose query wrote the checkpoint
    * @param panes
    *   that of the query that is to continue
    */
  def apply(
      spark: SparkSession,
      checkpoint: String,
      asked: Savepoint.Asked,
      panes: Option[DataFrame],
      was: DataFrame
  ): SparkStates = {
    val state = SparkState(spark, checkpoint)
    val to =
      panes.getOrElse(
        throw SparkState.needsBoth(s"The state in $checkpoint is Spark's own, and ${Setting.Panes} is missing")
      )
    val aggregate = SparkAggregate.of(was)
    new SparkStates(spark, state, aggregate, MovedWindow(aggregate, to), asked)
  }
}
