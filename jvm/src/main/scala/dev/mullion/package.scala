package dev

import org.apache.spark.sql.{Column, DataFrame, SparkSession}
import org.apache.spark.sql.mullion.builders.WindowOptions
import org.apache.spark.sql.mullion.checkpoint.OpenPanes
import org.apache.spark.sql.streaming.StreamingQuery

import dev.mullion.windows.rules.LatePolicy

/** Windows for Scala: `import dev.mullion._` gives a DataFrame `windowed`.
  * {{{
  *   clicks
  *     .withWatermark("at", "5 minutes")
  *     .windowed(Tumbling("1 hour"), time = "at", by = Seq(col("user")), early = Early.every("15 minutes"))
  *     .agg(count("*").as("n"))
  * }}}
  *
  * Others call by name: [[Facade]], all that Python calls, in plain types; [[MullionExtensions]], for
  * `spark.sql.extensions`; [[MullionException]], every error of ours.
  *
  * The rooms below know nothing of those above them. `LayoutSuite` holds the order and checks every import.
  * {{{
  *   dev.mullion.windows            decisions: which panes there are, when they fire and close; no Spark
  *   dev.mullion.files              a local file system without processes, for tests and laptops
  *
  *   org.apache.spark.sql.mullion   what must see Spark's private parts
  *     shim                         what differs between Spark's lines
  *     expressions  functions       Catalyst expressions; those that SQL can call
  *     topics  tables               JSON text and files of topics; tables that panes are written to
  *     query                        a running query, seen from the driver: its clock, its ticks, files of its checkpoint
  *     state                        records of panes, in RocksDB
  *     exec                         the operator, and the nodes below it
  *     python                       functions of Python between the source and windows
  *     plan                         logical nodes, and how they become plans
  *     builders                     from a call in Python to a logical plan
  *     checkpoint                   a checkpoint read, recovered or shown
  *     calls                        the same asked for inside of a plan, by SQL and clients of Spark Connect
  * }}}
  */
package object mullion {

  implicit final class RowsInWindows(private val df: DataFrame) extends AnyVal {

    /** Puts rows into panes, one for each window and key. The options mean what those of `mullion.windowed` mean in
      * Python.
      *
      * @param time
      *   the event time, of a stream with a watermark on it; or `Time.Processing`
      * @param by
      *   the key columns
      * @param allowedLateness
      *   how long a pane stays open after its end, beside the watermark's delay
      * @param onTime
      *   whether a pane with lateness fires at its end too
      * @param accumulate
      *   whether a firing holds the rows of the firings before it
      * @param emitEmpty
      *   whether windows without rows close too, for known keys
      * @param ids
      *   whether panes have ids that survive the merging of sessions
      * @param dedupeBy
      *   columns in which rows of a pane agree that count once
      * @param closeAtEnd
      *   whether all panes close when a query with `Trigger.AvailableNow` has read its input
      * @param clock
      *   the event clock that closes panes
      * @param upgrade
      *   what happens to the open panes of a checkpoint whose query had other aggregates or another window
      */
    def windowed(
        window: Window,
        time: Time,
        by: Seq[Column] = Nil,
        allowedLateness: Span = Span.zero,
        early: Early = Early.never,
        onTime: Boolean = false,
        accumulate: Boolean = true,
        late: LatePolicy = Late.Drop,
        emitEmpty: Boolean = false,
        closeAtEnd: Boolean = false,
        dedupeBy: Seq[Column] = Nil,
        ids: Boolean = false,
        clock: Clock = Watermark(),
        upgrade: Upgrade = Upgrade()
    ): Windowed = {
      def when(asked: Boolean)(change: WindowOptions => WindowOptions): WindowOptions => WindowOptions =
        if (asked) change else identity
      val changes = Seq[WindowOptions => WindowOptions](
        options =>
          time match {
            case Time.Event(column) => options.withTime(column)
            case Time.Processing    => options
          },
        _.withAllowedLateness(allowedLateness.micros)
          .withOnTime(onTime)
          .withAccumulate(accumulate)
          .withEmpty(emitEmpty),
        _.copy(late = late, dedupeBy = dedupeBy).withIds(ids),
        clock.asked,
        early.asked,
        when(closeAtEnd)(_.withCloseAtEnd),
        upgrade.asked,
        window.asked
      )
      new Windowed(df, window, by, changes.foldLeft(WindowOptions())((options, change) => change(options)))
    }
  }

  /** Several windows over one stream in one operator, each under its name: `pane` is theirs, and the columns of each
    * are null in the rows of the others.
    */
  def together(windows: (String, DataFrame)*): DataFrame =
    Facade.together(windows.map(_._1).toArray, windows.map(_._2).toArray)

  /** The panes that are open in a checkpoint: keys, `window`, and the aggregates so far. */
  def readPanes(spark: SparkSession, checkpoint: String): DataFrame = Facade.readPanes(spark, checkpoint, operator = -1)

  /** Writes a savepoint: a checkpoint that a query starts from with another number of partitions. Gives the number of
    * the last batch in it.
    *
    * @param checkpoint
    *   of a query that runs, or of one that has stopped
    * @param to
    *   a folder that is not there yet
    * @param partitions
    *   how many state is to have: as many as it has if not said
    * @param panes
    *   the query's own DataFrame, where its aggregates have no text in SQL; with `was`, the query that goes on
    * @param was
    *   where the checkpoint is of Spark's own `window(...)` or `session_window(...)`: the DataFrame whose query wrote
    *   it
    */
  def savepoint(
      spark: SparkSession,
      checkpoint: String,
      to: String,
      partitions: Option[Int] = None,
      panes: Option[DataFrame] = None,
      was: Option[DataFrame] = None
  ): Long = Facade.savepoint(
    spark,
    checkpoint,
    to,
    partitions.getOrElse(-1),
    -1,
    panes.orNull,
    was.orNull
  )

  /** Why the panes of a running query are open, as of its last committed batch. */
  def openPanes(query: StreamingQuery): DataFrame =
    OpenPanes.of(query, operator = -1, panes = None, window = None)

  /** What would become of a checkpoint if `panes` were started over it: `operator`, `window`, `verdict` (`goes on` or
    * `refused`) and `what`. It writes nothing.
    */
  def compare(panes: DataFrame, checkpoint: String): DataFrame = Facade.compare(panes, checkpoint)

  /** Takes a checkpoint that has lost state back to an earlier batch; how many batches the query will do again. */
  def recover(spark: SparkSession, checkpoint: String): Long = Facade.recover(spark, checkpoint)
}
