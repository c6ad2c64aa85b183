package dev

import org.apache.spark.sql.mullion.checkpoint.compare.Comparison
import org.apache.spark.sql.mullion.checkpoint.inspect.{OpenPanes, PanesReader}
import org.apache.spark.sql.mullion.checkpoint.savepoint.Savepoint
import org.apache.spark.sql.mullion.plan.build.{AsOfBuilder, TogetherBuilder, WindowedJoinBuilder}
import org.apache.spark.sql.mullion.plan.options.{AsOfOptions, WindowOptions, WindowedJoinOptions}
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.{DataFrame, Dataset, SparkSession}

import dev.mullion.windows.rules.{AsOfDirection, JoinKind, LatePolicy}

/** Windows for Scala: `import dev.mullion._` adds `windowed` to DataFrames and Datasets.
  * {{{
  *   clicks
  *     .withWatermark("at", "5 minutes")
  *     .windowed(Tumbling("1 hour"), time = "at", by = Seq("user"), early = Early.every("15 minutes"))
  *     .agg(count("*").as("n"))
  * }}}
  *
  * Entry points for other callers: [[Facade]] for Python, in plain types; [[MullionExtensions]] for
  * `spark.sql.extensions`; [[MullionException]] for all errors.
  *
  * No package depends on a package below it in this list. `LayoutSuite` checks every import.
  * {{{
  *   dev.mullion.windows                the rules of windows; no Spark
  *   dev.mullion.files                  a local file system without processes, for tests and laptops
  *
  *   org.apache.spark.sql.mullion       code that needs Spark's internal APIs
  *     shim                             the differences between Spark versions
  *     expressions  sqlfunctions        Catalyst expressions; those that SQL can call
  *     topics  tables                   JSON text and files of topics; tables that panes are written to
  *     query                            a running query, as the driver sees it: its clock, its ticks, files of its checkpoint
  *     monitor                          reports of running queries: metrics, log messages, the tab of the web UI
  *     state                            records of panes, in RocksDB and cached in memory
  *     operator                         the operator of windows, and the nodes below it
  *     pyfunction                       Python functions with state, and their evaluation in the JVM
  *     plan                             options, logical nodes, and their planning
  *     checkpoint                       checkpoints inspected, compared, evolved, saved and recovered
  *     request                          requests of SQL and of clients of Spark Connect
  * }}}
  */
package object mullion {

  implicit final class RowsInWindows(private val rows: Dataset[_]) extends AnyVal {

    /** Assigns rows to panes, one per window and key. The options mean the same as in Python's `mullion.windowed`.
      *
      * @param time
      *   the event time, of a stream with a watermark on it; or `Time.Processing`
      * @param by
      *   the key columns
      * @param allowedLateness
      *   the time that a pane stays open after its end, in addition to the watermark's delay
      * @param onTime
      *   whether a pane with lateness also fires at its end
      * @param accumulate
      *   whether a firing includes the rows of earlier firings
      * @param empty
      *   the treatment of windows without rows, for known keys
      * @param ids
      *   whether panes have ids that survive the merging of sessions
      * @param dedupeBy
      *   columns that identify a row within its pane; duplicates count once
      * @param closeAtEnd
      *   whether all panes close when a query with `Trigger.AvailableNow` has read its input
      * @param clock
      *   the event clock that closes panes
      * @param upgrade
      *   the treatment of a checkpoint's open panes after a change of aggregates or window
      */
    def windowed(
        window: Window,
        time: Time,
        by: Columns = Columns.none,
        allowedLateness: Span = Span.zero,
        early: Early = Early.never,
        onTime: Boolean = false,
        accumulate: Boolean = true,
        late: LatePolicy = Late.Drop,
        empty: Empty = Empty.Skip,
        closeAtEnd: Boolean = false,
        dedupeBy: Columns = Columns.none,
        ids: Boolean = false,
        clock: Clock = Watermark(),
        upgrade: Upgrade = Upgrade()
    ): Windowed = {
      def when(isSet: Boolean)(change: WindowOptions => WindowOptions): WindowOptions => WindowOptions =
        if (isSet) change else identity
      val changes = Seq[WindowOptions => WindowOptions](
        options =>
          time match {
            case Time.Event(column) => options.withTime(column)
            case Time.Processing    => options
          },
        _.withAllowedLateness(allowedLateness.micros)
          .withOnTime(onTime)
          .withAccumulate(accumulate),
        empty.applyTo,
        _.copy(late = late, dedupeBy = dedupeBy.all).withIds(ids),
        clock.applyTo,
        early.applyTo,
        when(closeAtEnd)(_.withCloseAtEnd),
        upgrade.applyTo,
        window.applyTo
      )
      new Windowed(rows.toDF(), window, by.all, changes.foldLeft(WindowOptions())((options, change) => change(options)))
    }
  }

  /** Several windows over one stream in one operator, each under its name. They share `pane`; the columns of each are
    * null in the rows of the others.
    */
  def together(windows: (String, DataFrame)*): DataFrame =
    TogetherBuilder(windows.map { case (name, panes) => name -> Classic.frame(panes) })

  /** Joins each row of `left` with the row of `right` that is nearest in time, as Python's `mullion.asof_join`.
    *
    * @param by
    *   the names of the keys, which both sides have
    * @param leftTime
    *   the event time on the left: in a stream, with a watermark
    * @param tolerance
    *   the longest distance between rows that match
    * @param allowExact
    *   whether rows of equal times match
    * @param suffix
    *   for the names of right columns that the left side has too
    */
  def asOfJoin(
      left: DataFrame,
      right: DataFrame,
      by: Seq[String],
      leftTime: String,
      rightTime: String,
      tolerance: Option[Span] = None,
      direction: AsOfDirection = AsOf.Backward,
      allowExact: Boolean = true,
      suffix: String = AsOfOptions.Suffix
  ): DataFrame = {
    Facade.install(left.sparkSession)
    val options = AsOfOptions(by, leftTime, rightTime, tolerance.map(_.micros), direction, allowExact, suffix)
    AsOfBuilder(Classic.frame(left), Classic.frame(right), options)
  }

  /** Joins the rows of two DataFrames that are in the same window, as Python's `mullion.windowed_join`.
    *
    * @param window
    *   a tumbling, sliding, cumulating, session or custom window. Its columns are evaluated on each side
    * @param by
    *   the names of the keys, which both sides have
    * @param time
    *   the event time: in a stream, with a watermark
    * @param rightTime
    *   the event time on the right, if it has another name there
    * @param how
    *   the rows without a match that are emitted
    * @param late
    *   `Late.Drop` or `Late.Emit`
    * @param suffix
    *   for the names of right columns that the left side has too
    */
  def windowedJoin(
      left: DataFrame,
      right: DataFrame,
      window: Window,
      by: Seq[String],
      time: String,
      rightTime: Option[String] = None,
      how: JoinKind = How.Inner,
      clock: Watermark = Watermark(),
      allowedLateness: Span = Span.zero,
      late: LatePolicy = Late.Drop,
      suffix: String = AsOfOptions.Suffix
  ): DataFrame = {
    Facade.install(left.sparkSession)
    val shared = WindowOptions().withAllowedLateness(allowedLateness.micros).copy(late = late)
    val options = window.applyTo(clock.applyTo(shared))
    val join = WindowedJoinOptions(by, time, rightTime.getOrElse(time), how, suffix)
    WindowedJoinBuilder(Classic.frame(left), Classic.frame(right), window.spec, options, join)
  }

  /** The panes that are open in a checkpoint: keys, `window`, and the aggregates so far. */
  def readPanes(spark: SparkSession, checkpoint: String): DataFrame =
    PanesReader.read(Classic.session(spark), checkpoint, operator = -1)

  /** Writes a savepoint: a checkpoint from which a query can start with another number of partitions. Returns the
    * number of its last batch.
    *
    * @param checkpoint
    *   of a running or stopped query
    * @param to
    *   a folder that does not exist yet
    * @param partitions
    *   the new number of state partitions; unchanged by default
    * @param panes
    *   the query's own DataFrame, for aggregates that SQL text cannot express; with `sparkQuery`, the continuing query
    * @param sparkQuery
    *   the DataFrame of the query that wrote the checkpoint, if it used Spark's own `window(...)` or
    *   `session_window(...)`
    */
  def savepoint(
      spark: SparkSession,
      checkpoint: String,
      to: String,
      partitions: Option[Int] = None,
      panes: Option[DataFrame] = None,
      sparkQuery: Option[DataFrame] = None
  ): Long = {
    Facade.install(spark)
    val layout = Savepoint.Asked(partitions, format = None)
    Savepoint.write(
      Classic.session(spark),
      checkpoint,
      to,
      layout,
      panes.map(Classic.frame),
      sparkQuery.map(Classic.frame)
    )
  }

  /** The reasons why panes of a running query are open, as of its last committed batch. */
  def openPanes(query: StreamingQuery): DataFrame =
    OpenPanes.of(query, operator = -1, panes = None, window = None)

  /** The effect of starting `panes` over a checkpoint: `operator`, `window`, `verdict` (`goes on` or `refused`) and
    * `what`. It writes nothing.
    */
  def compare(panes: DataFrame, checkpoint: String): DataFrame = Comparison(Classic.frame(panes), checkpoint)

  /** Resets a checkpoint that has lost state to an earlier batch. Returns the number of batches that will run again. */
  def recover(spark: SparkSession, checkpoint: String): Long = Facade.recover(spark, checkpoint)
}
