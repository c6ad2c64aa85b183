package dev.mullion

import org.apache.spark.sql.execution.python.UserDefinedPythonFunction
import org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction
import org.apache.spark.sql.mullion.checkpoint.compare.Comparison
import org.apache.spark.sql.mullion.checkpoint.inspect.{OpenPanes, PanesReader, StateReader}
import org.apache.spark.sql.mullion.checkpoint.recover.Recovery
import org.apache.spark.sql.mullion.checkpoint.savepoint.Savepoint
import org.apache.spark.sql.mullion.expressions.columns.{BatchNumber, InShard, RowInBatch}
import org.apache.spark.sql.mullion.expressions.rows.{Counted, PerText}
import org.apache.spark.sql.mullion.plan.build.{
  AsOfBuilder,
  KeyedFunctionBuilder,
  TogetherBuilder,
  WindowedBuilder,
  WindowedJoinBuilder
}
import org.apache.spark.sql.mullion.plan.options.{AsOfOptions, CallDescription, WindowedJoinOptions}
import org.apache.spark.sql.mullion.plan.{DroppedBefore, PaneKeys}
import org.apache.spark.sql.mullion.pyfunction.dataflow.EntryLogProvider
import org.apache.spark.sql.mullion.pyfunction.keyed.StatefulOptions
import org.apache.spark.sql.mullion.query.{BatchesQuery, ClockedQuery, RunningQuery, TableNote, TestClock}
import org.apache.spark.sql.mullion.request.Installation
import org.apache.spark.sql.mullion.shim.{BuildInfo, Classic, Distribution}
import org.apache.spark.sql.mullion.tables.{JdbcUpsert, TableVersions}
import org.apache.spark.sql.mullion.topics.{JsonDecimals, JsonFit, JsonShape, JsonShard, TopicFileSystem}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Column, DataFrame, SparkSession}
import org.apache.spark.util.LongAccumulator

import dev.mullion.windows.spec.Language.Python

/** The entry point for Python: plain types in, DataFrames out. Lengths of time are microseconds. Messages spell options
  * as Python does.
  */
object Facade {

  /** The version of this JAR, which must equal the wheel's. */
  def version: String = BuildInfo.version

  /** The Spark version that this JAR is built for, such as `4.2`. */
  def sparkLine: String = BuildInfo.sparkLine

  /** Registers Mullion in a session that was built without its extension. A second call does nothing. A vendor's Spark
    * without an API that this JAR calls is rejected.
    */
  def install(spark: SparkSession): Unit = {
    Distribution.check(spark, sparkLine)
    Installation.install(spark)
  }

  /** The APIs that this JAR calls and the running Spark lacks, one per line. `scripts/try-on-databricks.py` calls it.
    */
  def lacks: String = Distribution.lacks

  /** Checks the arguments of a window before the aggregates are known.
    *
    * @param call
    *   the request as JSON; see `CallDescription`
    * @param columns
    *   the request's columns, in its order
    */
  def checkWindow(df: DataFrame, call: String, columns: Array[Column]): Unit = Python {
    val request = CallDescription.read(call, columns.toSeq)
    WindowedBuilder.check(Classic.frame(df), request.window, request.by, request.options)
  }

  /** Aggregates in panes.
    *
    * @param call
    *   the request as JSON; see `CallDescription`
    * @param columns
    *   the request's columns, in its order
    */
  def windowed(df: DataFrame, call: String, columns: Array[Column]): DataFrame = Python {
    install(df.sparkSession)
    val request = CallDescription.read(call, columns.toSeq)
    WindowedBuilder(Classic.frame(df), request.window, request.by, request.options, request.aggregates)
  }

  /** Warnings about rows that are lost before they reach a window over `df`, one per line; see `DroppedBefore`. */
  def droppedBefore(df: DataFrame): String =
    Python(DroppedBefore.warnings(Classic.frame(df).queryExecution.analyzed).mkString("\n"))

  /** The results of several windows in one DataFrame, each under its name; see `TogetherBuilder`. */
  def together(names: Array[String], windows: Array[DataFrame]): DataFrame =
    Python(TogetherBuilder(names.toSeq.zip(windows.toSeq.map(Classic.frame))))

  /** The rows of `left`, each with the row of `right` that is nearest in time; see `AsOfBuilder`.
    *
    * @param call
    *   the request as JSON; see `AsOfOptions`
    */
  def asOfJoin(left: DataFrame, right: DataFrame, call: String): DataFrame = Python {
    install(left.sparkSession)
    AsOfBuilder(Classic.frame(left), Classic.frame(right), AsOfOptions.read(CallDescription.parsed(call)))
  }

  /** The rows of both sides that are in the same window; see `WindowedJoinBuilder`.
    *
    * @param call
    *   the request as JSON: `CallDescription`, with `WindowedJoinOptions` under `join`
    * @param columns
    *   the request's columns, in its order
    */
  def windowedJoin(left: DataFrame, right: DataFrame, call: String, columns: Array[Column]): DataFrame = Python {
    install(left.sparkSession)
    val request = CallDescription.parsed(call)
    val (window, join) =
      (CallDescription.read(request, columns.toSeq), WindowedJoinOptions.read(request \ "join"))
    WindowedJoinBuilder(Classic.frame(left), Classic.frame(right), window.window, window.options, join)
  }

  /** The columns that identify a pane together with its id; see `PaneKeys`. */
  def paneKeys(panes: DataFrame): Array[String] = Python(PaneKeys.of(Classic.frame(panes)).toArray)

  /** Replaces the rows of a database table that have the same keys; see `JdbcUpsert`. */
  def upsertJdbc(rows: DataFrame, keys: DataFrame, options: java.util.Map[String, String]): Unit =
    JdbcUpsert(Classic.frame(rows), Classic.frame(keys), options)

  /** The rows of a database table, or null if it does not exist. */
  def readJdbc(spark: SparkSession, options: java.util.Map[String, String]): DataFrame =
    JdbcUpsert.read(Classic.session(spark), options).orNull

  /** The note of a running query about the table that it maintains, or an empty text; see `TableNote`. */
  def tableNote(spark: SparkSession, query: String): String = TableNote.read(Classic.session(spark), query)

  def noteTable(spark: SparkSession, query: String, text: String): Unit =
    TableNote.write(Classic.session(spark), query, text)

  /** The newest version of a table that is rewritten each time, or -1; see `TableVersions`. */
  def newestVersion(spark: SparkSession, table: String): Long = TableVersions.newest(Classic.session(spark), table)

  /** The name of a version's folder in its table's folder. */
  def versionFolder(version: Long): String = TableVersions.folder(version)

  def removeVersionsBefore(spark: SparkSession, table: String, version: Long): Unit =
    TableVersions.removeBefore(Classic.session(spark), table, version)

  /** The open panes of a checkpoint: keys, `window`, and the aggregates so far.
    *
    * @param operator
    *   the operator's number in the checkpoint, or -1 for the only one of Mullion's
    */
  def readPanes(spark: SparkSession, checkpoint: String, operator: Int): DataFrame =
    Python(PanesReader.read(Classic.session(spark), checkpoint, operator))

  /** The open panes of a window between stages of functions with state.
    *
    * @param operator
    *   the number of the functions' operator, or -1 for the only one
    */
  def readBranchPanes(spark: SparkSession, checkpoint: String, operator: Int, window: String): DataFrame =
    Python(PanesReader.readBranch(Classic.session(spark), checkpoint, operator, window))

  /** `readPanes` with the aggregates of the query's own DataFrame, for aggregates that SQL text cannot express. */
  def readPanesOf(panes: DataFrame, checkpoint: String, operator: Int): DataFrame =
    Python(PanesReader.readOf(Classic.frame(panes), checkpoint, operator))

  /** The reasons why panes of a query are open, as of its last committed batch; see `OpenPanes`.
    *
    * @param panes
    *   the query's own DataFrame, or null
    * @param window
    *   the name of a window between the stages of functions with state, or null
    */
  def openPanesOf(query: StreamingQuery, operator: Int, panes: DataFrame, window: String): DataFrame =
    Python(OpenPanes.of(query, operator, Option(panes).map(Classic.frame), Option(window)))

  /** `openPanesOf` for the query of a checkpoint. */
  def openPanes(
      spark: SparkSession,
      checkpoint: String,
      operator: Int,
      panes: DataFrame,
      window: String
  ): DataFrame =
    Python(OpenPanes.in(Classic.session(spark), checkpoint, operator, Option(panes).map(Classic.frame), Option(window)))

  /** The effect of starting a query over a checkpoint: `operator`, `window`, `verdict`, `what`; see `Comparison`. */
  def compare(panes: DataFrame, checkpoint: String): DataFrame = Python(Comparison(Classic.frame(panes), checkpoint))

  /** The options of functions with state.
    *
    * @param schema
    *   of the output, as JSON
    */
  def stateful(process: UserDefinedPythonFunction, schema: String): StatefulOptions =
    StatefulOptions(process, schemaOf(schema))

  /** The rows that a function produces for its window number `target`, from 1. */
  def statefulRows(spark: SparkSession, target: Int, schema: String): DataFrame = {
    install(spark)
    KeyedFunctionBuilder.rows(Classic.session(spark), target, schemaOf(schema))
  }

  private def schemaOf(json: String): StructType = StatefulOptions.schemaOf(json)

  /** Functions with state over a stream. */
  def statefulOver(df: DataFrame, options: StatefulOptions): DataFrame = {
    install(df.sparkSession)
    KeyedFunctionBuilder(Classic.frame(df), options)
  }

  /** The entries of the log of a dataflow's inputs, as a stream: `number`, `data`. */
  def flowInputs(spark: SparkSession, folder: String, gathers: Boolean): DataFrame =
    spark.readStream
      .format(classOf[EntryLogProvider].getName)
      .option("path", folder)
      .option("gathers", gathers)
      .load()

  /** The number of lines of a file that Python is certain to read as that many, from an offset on: their end, and their
    * count.
    *
    * @param delimiter
    *   of a CSV file; empty where a line is a text
    */
  def flowLines(path: String, from: Long, delimiter: String, batchSize: Int, most: Int): Array[Long] =
    KeyedFunctionBuilder.flowLines(path, from, delimiter, batchSize, most)

  /** The stateless steps of a Bytewax dataflow, over the entries of its input log.
    *
    * @param process
    *   does the same in Python, for entries that the JVM cannot decode
    */
  def flowEntries(df: DataFrame, process: UserDefinedPythonFunction, schema: String, program: String): DataFrame = {
    install(df.sparkSession)
    KeyedFunctionBuilder.flowEntries(Classic.frame(df), process, schemaOf(schema), program)
  }

  /** The state records of functions in a checkpoint: `shard`, `key`, `value`.
    *
    * @param operator
    *   the operator's number in the checkpoint, or -1 for the only one
    */
  def readState(spark: SparkSession, checkpoint: String, operator: Int): DataFrame =
    Python(StateReader.read(Classic.session(spark), checkpoint, operator))

  /** Resets a checkpoint that has lost state to an earlier batch. Returns the number of batches that will run again. */
  def recover(spark: SparkSession, checkpoint: String): Long = Recovery.recover(Classic.session(spark), checkpoint)

  /** Writes a savepoint of a checkpoint. Returns the number of its last batch; see `Savepoint`.
    *
    * @param partitions
    *   the new number of state partitions, or -1
    * @param format
    *   the checkpoint format to write, or -1
    * @param panes
    *   the query's own DataFrame, or null
    * @param sparkQuery
    *   the DataFrame of the query with Spark's own windows that wrote the checkpoint, or null
    */
  def savepoint(
      spark: SparkSession,
      checkpoint: String,
      to: String,
      partitions: Int,
      format: Int,
      panes: DataFrame,
      sparkQuery: DataFrame
  ): Long = {
    install(spark)
    val request = Savepoint.Asked(Some(partitions).filter(_ > 0), Some(format).filter(_ > 0))
    def frame(of: DataFrame) = Option(of).map(Classic.frame)
    Python(Savepoint.write(Classic.session(spark), checkpoint, to, request, frame(panes), frame(sparkQuery)))
  }

  /** Starts a query whose clock is moved by a test; see `ClockedQuery`.
    *
    * @param startMs
    *   null for the machine's time
    */
  def startClocked(
      panes: DataFrame,
      checkpoint: String,
      outputMode: String,
      startMs: java.lang.Long,
      drain: Boolean
  ): ClockedQuery =
    ClockedQuery.start(Classic.frame(panes), checkpoint, outputMode, Option(startMs).map(_.toLong), drain)

  /** The number of a row in its micro-batch, in the source's reading order. */
  def rowInBatch: Column = RowInBatch.column

  /** The number of a row's micro-batch, below a window of a stream; see `BatchNumber`. */
  def batchNumber: Column = BatchNumber.column

  /** A condition that is true for rows in the shard of their key, and fails for others; see `InShard`. */
  def inShard(key: Column, shown: Column, before: String, after: String): Column =
    InShard.column(key, shown, before, after)

  /** A condition on a text alone, evaluated only when the text changes; see `PerText`. */
  def perText(text: Column, condition: Column): Column = PerText.column(text, condition)

  /** The shape of a JSON text: `{` and an object's field names, `n` for null, `.` for another value, null for invalid
    * JSON.
    */
  def jsonShape(text: Column): Column = JsonShape.column(text)

  /** `jsonShape` where columns hold the text's exact value, and `!` where they do not. Ints in columns of floats have a
    * zero character before their names.
    *
    * @param schema
    *   of the columns, as JSON
    * @param isScalar
    *   whether values are scalars, in the only column
    */
  def jsonFit(text: Column, schema: String, isScalar: Boolean): Column =
    JsonFit.column(text, schemaOf(schema), isScalar)

  /** The shard of a JSON value by one of its fields; null if it has no such field. */
  def jsonShard(text: Column, field: String): Column = JsonShard.column(text, field)

  /** True if a JSON text has numbers with more digits after the point than the decimals of its columns.
    *
    * @param schema
    *   of the columns, as JSON
    */
  def jsonDecimals(text: Column, schema: String): Column = JsonDecimals.column(text, schemaOf(schema))

  /** The path under which a session reads the folder of a `dir:` topic, with its listing in order; see
    * `TopicFileSystem`.
    */
  def topicPath(spark: SparkSession, folder: String): String =
    TopicFileSystem.pathOf(Classic.session(spark), folder)

  /** The plan that a running query logged before a batch: the offsets of each source, and the time.
    *
    * @param query
    *   the id in the query's checkpoint
    */
  def planOf(spark: SparkSession, query: String, batch: Long): String =
    RunningQuery.planOf(Classic.session(spark), query, batch)

  /** The checkpoint of a running query; empty if there is no query of that id. */
  def checkpointOf(spark: SparkSession, query: String): String =
    RunningQuery.checkpointOf(Classic.session(spark), query)

  /** The counter for `counted`, from 0: its `value` is the count. */
  def counter(spark: SparkSession): LongAccumulator = Classic.session(spark).sparkContext.longAccumulator

  /** A condition that counts the rows for which it is false; see `Counted`. */
  def counted(condition: Column, counter: LongAccumulator): Column = Counted.column(condition, counter)

  /** A clock for `startBatches` that is moved by a test. */
  def manualClock(startMs: Long): TestClock = new TestClock(startMs)

  /** Starts a query that passes its batches to Python, on a clock that is moved by a test; see `BatchesQuery`. */
  def startBatches(
      outputs: DataFrame,
      name: String,
      checkpoint: String,
      function: PythonForeachBatchFunction,
      clock: TestClock,
      drain: Boolean
  ): StreamingQuery = BatchesQuery.start(Classic.frame(outputs), name, checkpoint, function, clock, drain)
}
