package org.apache.spark.sql.mullion.checkpoint.inspect

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.Count
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamExecution, StreamingQueryWrapper}
import org.apache.spark.sql.functions.lit
import org.apache.spark.sql.mullion.checkpoint.layout.OperatorState
import org.apache.spark.sql.mullion.expressions.columns.{KeyColumns, PaneColumns}
import org.apache.spark.sql.mullion.expressions.rows.CollectRows
import org.apache.spark.sql.mullion.monitor.ui.PaneReader
import org.apache.spark.sql.mullion.operator.WindowExec
import org.apache.spark.sql.mullion.operator.engine.{OpenPane, PaneCounts}
import org.apache.spark.sql.mullion.operator.program.{
  NamedPartition,
  OperatorProgram,
  TogetherProgram,
  TogetherWindow,
  WindowProgram
}
import org.apache.spark.sql.mullion.query.{StreamWatermarks, WatermarkHolder}
import org.apache.spark.sql.mullion.shim.{Classic, SparkVersionShim}
import org.apache.spark.sql.mullion.state.header.{OperatorHeader, Regrouped}
import org.apache.spark.sql.mullion.state.record.StatePartition
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.SerializableConfiguration

import dev.mullion.MullionException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.{NumberedRules, PaneRules, RowByRow}
import dev.mullion.windows.spec.{CountWindow, Duration, GlobalTrigger, GlobalWindow, TimeMath}

/** The reason why each open pane has not closed: its closing time and clock, the clock's reading, and the source that
  * holds the clock back. The panes are those of the last committed batch; the clocks of a running query are current.
  *
  * {{{
  *   k    window           closes_at  clock       clock_at  waits_for                held_by
  *   AA   [10:00, 11:00)   11:05      event time  10:58     7 minutes of event time  FileStreamSource[flights]: no row after 11:08 yet, …
  * }}}
  */
object OpenPanes {

  /** For a running or stopped query. */
  def of(query: StreamingQuery, operator: Int, panes: Option[DataFrame], window: Option[String]): DataFrame = {
    val running = query match {
      case wrapper: StreamingQueryWrapper => wrapper.streamingQuery
      case execution: StreamExecution     => execution
      case other => throw MullionException.invalid(s"${other.getClass.getName} is not a query of a classic session.")
    }
    val checkpoint = running.resolvedCheckpointRoot
    read(Classic.session(query.sparkSession), checkpoint, operator, panes, window, Some(running).filter(_.isActive))
  }

  /** For a run of a query, and the query itself while it runs. */
  def ofRun(
      spark: SparkSession,
      checkpoint: String,
      operator: Int,
      window: Option[String],
      running: Option[StreamExecution]
  ): DataFrame = read(spark, checkpoint, operator, panes = None, window, running)

  /** For the query of a checkpoint. */
  def in(
      spark: SparkSession,
      checkpoint: String,
      operator: Int,
      panes: Option[DataFrame],
      window: Option[String]
  ): DataFrame = read(spark, checkpoint, operator, panes, window, running = None)

  private def read(
      spark: SparkSession,
      checkpoint: String,
      operator: Int,
      panes: Option[DataFrame],
      window: Option[String],
      running: Option[StreamExecution]
  ): DataFrame = spark.withActive {
    val (state, program) = PanesReader.stateAndProgram(spark, checkpoint, operator, panes, window)
    val clocks = Clocks(spark, checkpoint, state, running, isBranch = window.isDefined)
    val windows: Seq[(Option[String], WindowProgram, Option[TogetherWindow])] = program match {
      case one: WindowProgram       => Seq((None, one, None))
      case several: TogetherProgram =>
        several.windows.map { w =>
          (Option.when(several.drain.isEmpty && w.name != Regrouped.Alone)(w.name), w.program, Some(w))
        }
      case other => throw new IllegalStateException(s"${other.describe} keeps no panes")
    }
    val shown = windows.map { case (name, one, shared) =>
      val rows = panesOf(spark, state, program, one, shared, clocks)
      name.fold(rows)(name => rows.select(lit(name).as("window_name") +: columnsOf(rows): _*))
    }
    shown.reduce(_.unionByName(_, allowMissingColumns = true))
  }

  private def columnsOf(rows: DataFrame): Seq[Column] = rows.columns.toSeq.map(name => rows.col(quoteIfNeeded(name)))

  /** The open panes of one window. */
  private def panesOf(
      spark: SparkSession,
      state: OperatorState[OperatorHeader],
      program: OperatorProgram,
      window: WindowProgram,
      shared: Option[TogetherWindow],
      clocks: Clocks
  ): DataFrame = {
    val counted =
      window.copy(results = rowsIn(window).toSeq.map(rows => Alias(Cast(rows, LongType), "rows")()), last = None)
    val keys = KeyColumns.named(window.keys)
    val windowType = counted.window.dataType
    val schema = StructType(
      keys.map(k => StructField(keyName(k.name), k.dataType, k.nullable)) ++ Seq(
        StructField("window", windowType),
        StructField("closes_at", TimestampType),
        StructField("clock", StringType),
        StructField("clock_at", TimestampType),
        StructField("waits_for", StringType),
        StructField("held_by", StringType),
        StructField("fired", IntegerType),
        StructField("last_fired", TimestampType),
        StructField("rows", LongType)
      )
    )
    def at(column: NamedExpression) = counted.output.indexWhere(_.exprId == column.exprId)
    val keyAt = keys.map(at)
    val (windowAt, paneAt, rowsAt) = (at(counted.window), at(counted.pane), counted.results.headOption.map(at))
    val paneWidth = PaneColumns.paneType(window.rules.refinements.ids).length
    val why = new Why(window.rules, window.rows.map(_.byRow), clocks)
    val opener = state.opener(spark, program.families)
    val conf = spark.sparkContext.broadcast(new SerializableConfiguration(spark.sessionState.newHadoopConf()))
    val rows = spark.sparkContext.parallelize(0 until state.partitions, state.partitions).mapPartitions { partitions =>
      val types = schema.map(_.dataType)
      val project = UnsafeProjection.create(schema)
      partitions.flatMap { partition =>
        opener.look(partition, conf.value.value) { opened =>
          val own: StatePartition = shared.fold(opened)(new NamedPartition(_, opened))
          // Eager: the store closes afterwards.
          counted
            .engine(BatchClock.Inspection, own, new PaneCounts)
            .openPanes()
            .map { open =>
              val fired = open.row.getStruct(paneAt, paneWidth).getInt(PaneColumns.seqAt)
              val bounds = open.row.getStruct(windowAt, 2)
              val reason = why(bounds.getLong(PaneColumns.endAt), open)
              val rowCount = rowsAt.map(open.row.getLong).orElse(open.rows)
              val values = keyAt.zip(types).map { case (at, of) => open.row.get(at, of) } ++ Seq[Any](
                bounds,
                orNull(reason.closesAt),
                UTF8String.fromString(reason.clock),
                orNull(reason.clockAt),
                UTF8String.fromString(reason.waitsFor),
                reason.heldBy.map(UTF8String.fromString).orNull,
                fired,
                orNull(open.firedAt.filter(_ => fired > 0)),
                orNull(rowCount)
              )
              project(InternalRow.fromSeq(values)).copy(): InternalRow
            }
            .toVector
        }
      }
    }
    spark.internalCreateDataFrame(rows, schema)
  }

  /** The name of a key's column, which differs from those of the other columns. */
  private def keyName(name: String): String = if (PaneReader.Facts(name)) s"key_$name" else name

  private def orNull(number: Option[Long]): Any = number.map(Long.box).orNull

  /** The number of rows of a pane: its own count of all rows, or its collected rows. */
  private def rowsIn(window: WindowProgram): Option[Expression] = {
    val results = window.functions.zip(window.functionResults)
    val counted = results.collectFirst {
      case (count: Count, result)
          if window.rowsCounted.exists(_.exprId == count.inputAggBufferAttributes.head.exprId) =>
        result
    }
    counted.orElse(results.collectFirst {
      case (rows: CollectRows, result) if rows.collected.inParts => GetStructField(result, 0)
      case (_: CollectRows, result)                              => Size(result, legacySizeOfNull = false)
    })
  }

  /** The readings of a query's clocks.
    *
    * @param event
    *   the event clock of the next batch, in microseconds
    * @param wall
    *   the wall clock: for a stopped query, as of its last batch
    * @param isRunning
    *   whether the query is running
    * @param heldBy
    *   the source that holds the event clock back, if known
    * @param idleAfter
    *   the time without rows after which the event clock follows the wall clock; none if it does so already
    */
  private[mullion] final case class Clocks(
      event: Long,
      wall: Long,
      isRunning: Boolean,
      heldBy: Option[String],
      idleAfter: Option[Long]
  )

  private object Clocks {
    def apply(
        spark: SparkSession,
        checkpoint: String,
        state: OperatorState[OperatorHeader],
        running: Option[StreamExecution],
        isBranch: Boolean
    ): Clocks = {
      val home = new Path(checkpoint)
      val (batch, commit) = SparkVersionShim.commits(spark, new Path(home, "commits")).getLatest().get
      val noted = new OffsetSeqLog(spark, new Path(home, "offsets").toString)
        .get(batch)
        .flatMap(SparkVersionShim.batchTimestampMs(_))
      val executed = running.flatMap(query => Option(query.lastExecution))
      val operator = executed.toSeq
        .flatMap(_.executedPlan.collect { case exec: WindowExec => exec })
        .find(!isBranch && _.stateInfo.exists(_.operatorId == state.operator))
      // An operator below another of Mullion's has a clock that is behind the stream's, by the other's lateness.
      val behindMs = for {
        exec <- operator
        own <- exec.eventTimeWatermarkForEviction
        streams <- executed.map(_.offsetSeqMetadata.batchWatermarkMs)
      } yield Math.max(0L, streams - own)
      Clocks(
        event = TimeMath.fromMillis(Math.max(0L, commit.nextBatchWatermarkMs - behindMs.getOrElse(0L))),
        wall = TimeMath.fromMillis(running.fold(noted.getOrElse(0L))(_.triggerClock.getTimeMillis())),
        isRunning = running.isDefined,
        heldBy = running.fold(heldBy(spark, home, batch))(heldBy),
        idleAfter = operator.flatMap(_.program.idleAfter).filterNot(_ => running.exists(areIdle))
      )
    }

    private def areIdle(query: StreamExecution): Boolean = query match {
      case micro: MicroBatchExecution if micro.lastExecution ne null => WatermarkHolder.streams(micro).forall(_._2)
      case _                                                         => false
    }

    /** The same for a stopped query with several streams. */
    private def heldBy(spark: SparkSession, home: Path, batch: Long): Option[String] =
      StreamWatermarks.logOf(spark, home).before(batch + 1).flatMap(WatermarkHolder.of(spark, _, idle = Nil))

    /** The source with the least progress, as text. */
    private def heldBy(query: StreamExecution): Option[String] = query match {
      case micro: MicroBatchExecution if micro.lastExecution ne null => WatermarkHolder.of(micro)
      case _                                                         => None
    }
  }

  private final case class Reason(
      closesAt: Option[Long],
      clock: String,
      clockAt: Option[Long],
      waitsFor: String,
      heldBy: Option[String]
  )

  /** The reason why a pane is open, as text. */
  private final class Why(rules: PaneRules, byRow: Option[RowByRow], clocks: Clocks) extends Serializable {

    def apply(end: Long, pane: OpenPane): Reason = rules match {
      case numbered: NumberedRules     => Reason(None, "rows of its key", None, rowsFor(numbered, end, pane), rowsOfKey)
      case _ if rules.onProcessingTime => byWallClock(rules.closeDue(end))
      case _ if byRow.exists(_.delayByKey.isDefined) => byKeysClock(rules.closeDue(end), pane.clock)
      case _                                         => byEventClock(rules.closeDue(end))
    }

    private val rowsOfKey = Some("the rows of its key")

    private def rowsFor(numbered: NumberedRules, end: Long, pane: OpenPane): String = numbered.window match {
      case CountWindow(_, _, timeout) =>
        more(end, pane) + timeout.fold("")(us => s", or ${Duration.describe(us)} of wall time after its first row")
      case GlobalWindow(GlobalTrigger.Every(_), _)    => more(end, pane)
      case GlobalWindow(GlobalTrigger.When, _)        => "a row for which its condition holds"
      case GlobalWindow(GlobalTrigger.Changes, _)     => "a row with another value"
      case GlobalWindow(GlobalTrigger.Split(name), _) => s"a row after which $name splits it"
    }

    private def more(end: Long, pane: OpenPane): String =
      pane.rowsToCome.fold("the row that completes it")(n => s"$n more row${if (n == 1) "" else "s"} of its key")

    private def byWallClock(due: Long): Reason = {
      val waits =
        if (clocks.wall >= due) next
        else if (clocks.isRunning) s"${Duration.describe(due - clocks.wall)} of wall time"
        else s"${Duration.describe(due - clocks.wall)} of wall time from its last batch, and for the query to run"
      Reason(Some(due), "processing time", Some(clocks.wall), waits, None)
    }

    private def byKeysClock(due: Long, own: Option[Long]): Reason = {
      val at = own.filter(_ != BatchClock.BeforeAllTime)
      val passing = if (byRow.exists(_.keysFollowWall)) " or in time since the last of them" else ""
      val waits = at.fold("a row of its key") { now =>
        s"${Duration.describe(due - now)} of event time, in rows of its key$passing"
      }
      Reason(Some(due), "event time of its key", at, waits, rowsOfKey)
    }

    private def byEventClock(due: Long): Reason = {
      val waits =
        if (clocks.event >= due) next
        else if (clocks.event == 0L) "rows: there is no clock yet"
        else s"${Duration.describe(due - clocks.event)} of event time"
      val idle = clocks.idleAfter.fold("")(after => s", or for no row to come for ${Duration.describe(after)}")
      Reason(
        Some(due),
        "event time",
        Some(clocks.event),
        if (clocks.event >= due) waits else waits + idle,
        clocks.heldBy
      )
    }

    private def next = if (clocks.isRunning) "the next batch" else "the next batch, once the query runs"
  }
}
