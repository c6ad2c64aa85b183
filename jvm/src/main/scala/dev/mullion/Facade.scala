package dev.mullion

import org.apache.spark.sql.{Column, DataFrame, SparkSession}
import org.apache.spark.sql.execution.python.UserDefinedPythonFunction
import org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction
import org.apache.spark.sql.mullion.builders.{
  CallDescription,
  Installation,
  StatefulBuilder,
  TogetherBuilder,
  WindowedBuilder
}
import org.apache.spark.sql.mullion.checkpoint.{Comparison, OpenPanes, PanesReader, Recovery, Savepoint, StateReader}
import org.apache.spark.sql.mullion.expressions.{BatchNumber, Counted, InShard, PerText, RowInBatch}
import org.apache.spark.sql.mullion.plan.{DroppedBefore, PaneKeys}
import org.apache.spark.sql.mullion.python.StatefulOptions
import org.apache.spark.sql.mullion.python.flows.EntryLogProvider
import org.apache.spark.sql.mullion.query.{BatchesQuery, ClockedQuery, RunningQuery, TableNote, TestClock}
import org.apache.spark.sql.mullion.shim.{BuildInfo, Classic, Distribution}
import org.apache.spark.sql.mullion.tables.{JdbcUpsert, TableVersions}
import org.apache.spark.sql.mullion.topics.{JsonDecimals, JsonFit, JsonShape, JsonShard, TopicFileSystem}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.util.LongAccumulator

/** The door to Python: plain types in, DataFrames out. Lengths of time are microseconds. */
object Facade {

  /** The version of this JAR, which must be the wheel's. */
  def version: String = BuildInfo.version

  /** The line of Spark that this JAR is built for, such as `4.2`. */
  def sparkLine: String = BuildInfo.sparkLine

  /** Makes Mullion known to a session that was built without its extension; again does nothing. A vendor's Spark that
    * lacks what this JAR calls is refused.
    */
  def install(spark: SparkSession): Unit = {
    Distribution.check(spark, sparkLine)
    Installation.install(spark)
  }

  /** What the Spark that runs lacks of all that this JAR calls, a line each: for scripts/try-on-databricks.py. */
  def lacks: String = Distribution.lacks

  /** Refuses what shows to be wrong of windows before anybody has said what their panes hold.
    *
    * @param call
    *   what is asked, as JSON; see `CallDescription`
    * @param columns
    *   the columns that it names, in their order
    */
  def checkWindow(df: DataFrame, call: String, columns: Array[Column]): Unit = {
    val asked = CallDescription.read(call, columns.toSeq)
    WindowedBuilder.check(Classic.frame(df), asked.window, asked.by, asked.options)
  }

  /** Aggregates in panes.
    *
    * @param call
    *   what is asked, as JSON; see `CallDescription`
    * @param columns
    *   the columns that it names, in their order
    */
  def windowed(df: DataFrame, call: String, columns: Array[Column]): DataFrame = {
    install(df.sparkSession)
    val asked = CallDescription.read(call, columns.toSeq)
    WindowedBuilder(Classic.frame(df), asked.window, asked.by, asked.options, asked.aggregates)
  }

  /** What is to be said of rows that never come to a window over `df`, a line each; see `DroppedBefore`. */
  def droppedBefore(df: DataFrame): String =
    DroppedBefore.warnings(Classic.frame(df).queryExecution.analyzed).mkString("\n")

  /** The results of several windows in one, each under its name; see `TogetherBuilder`. */
  def together(names: Array[String], windows: Array[DataFrame]): DataFrame =
    TogetherBuilder(names.toSeq.zip(windows.toSeq.map(Classic.frame)))

  /** The columns that name a pane together with its id; see `PaneKeys`. */
  def paneKeys(panes: DataFrame): Array[String] = PaneKeys.of(Classic.frame(panes)).toArray

  /** Puts rows into a table of a database in place of those of the same keys; see `JdbcUpsert`. */
  def upsertJdbc(rows: DataFrame, keys: DataFrame, options: java.util.Map[String, String]): Unit =
    JdbcUpsert(Classic.frame(rows), Classic.frame(keys), options)

  /** What a table of a database holds, or null where there is none. */
  def readJdbc(spark: SparkSession, options: java.util.Map[String, String]): DataFrame =
    JdbcUpsert.read(Classic.session(spark), options).orNull

  /** What a running query has noted of the table that it keeps, or an empty text; see `TableNote`. */
  def tableNote(spark: SparkSession, query: String): String = TableNote.read(Classic.session(spark), query)

  def noteTable(spark: SparkSession, query: String, text: String): Unit =
    TableNote.write(Classic.session(spark), query, text)

  /** The newest version of a table that is written whole each time, or -1; see `TableVersions`. */
  def newestVersion(spark: SparkSession, table: String): Long = TableVersions.newest(Classic.session(spark), table)

  /** What a version's folder in its table's is called. */
  def versionFolder(version: Long): String = TableVersions.folder(version)

  def removeVersionsBefore(spark: SparkSession, table: String, version: Long): Unit =
    TableVersions.removeBefore(Classic.session(spark), table, version)

  /** The panes that are open in a checkpoint: keys, `window`, and the aggregates so far.
    *
    * @param operator
    *   the operator's number in the checkpoint, or -1 if there is one of ours
    */
  def readPanes(spark: SparkSession, checkpoint: String, operator: Int): DataFrame =
    PanesReader.read(Classic.session(spark), checkpoint, operator)

  /** The same of a window between the stages of functions with state.
    *
    * @param operator
    *   the number of the functions' operator, or -1 if there is one of these
    */
  def readBranchPanes(spark: SparkSession, checkpoint: String, operator: Int, window: String): DataFrame =
    PanesReader.readBranch(Classic.session(spark), checkpoint, operator, window)

  /** The same, with the aggregates of the query's own DataFrame: for those that have no text in SQL. */
  def readPanesOf(panes: DataFrame, checkpoint: String, operator: Int): DataFrame =
    PanesReader.readOf(Classic.frame(panes), checkpoint, operator)

  /** Why the panes of a query are open, as of its last committed batch; see `OpenPanes`.
    *
    * @param panes
    *   the query's own DataFrame, or null
    * @param window
    *   the name of a window between the stages of functions with state, or null
    */
  def openPanesOf(query: StreamingQuery, operator: Int, panes: DataFrame, window: String): DataFrame =
    OpenPanes.of(query, operator, Option(panes).map(Classic.frame), Option(window))

  /** The same of the query that a checkpoint is of. */
  def openPanes(
      spark: SparkSession,
      checkpoint: String,
      operator: Int,
      panes: DataFrame,
      window: String
  ): DataFrame =
    OpenPanes.in(Classic.session(spark), checkpoint, operator, Option(panes).map(Classic.frame), Option(window))

  /** What would become of a checkpoint under a query: `operator`, `window`, `verdict`, `what`; see `Comparison`. */
  def compare(panes: DataFrame, checkpoint: String): DataFrame = Comparison(Classic.frame(panes), checkpoint)

  /** What is asked of functions with state: a function, as yet.
    *
    * @param schema
    *   of the output, as JSON
    */
  def stateful(process: UserDefinedPythonFunction, schema: String): StatefulOptions =
    StatefulOptions(process, schemaOf(schema))

  /** The rows that a function makes for its window number `target`, from 1. */
  def statefulRows(spark: SparkSession, target: Int, schema: String): DataFrame = {
    install(spark)
    StatefulBuilder.rows(Classic.session(spark), target, schemaOf(schema))
  }

  private def schemaOf(json: String): StructType = DataType.fromJson(json) match {
    case struct: StructType => struct
    case other              => throw MullionException.invalid(s"${other.sql} is not a schema of rows.")
  }

  /** Functions with state over a stream. */
  def statefulOver(df: DataFrame, options: StatefulOptions): DataFrame = {
    install(df.sparkSession)
    StatefulBuilder(Classic.frame(df), options)
  }

  /** The entries of the log of a dataflow's inputs, as a stream: `number`, `data`. */
  def flowInputs(spark: SparkSession, folder: String, gathers: Boolean): DataFrame =
    spark.readStream
      .format(classOf[EntryLogProvider].getName)
      .option("path", folder)
      .option("gathers", gathers)
      .load()

  /** How many lines of a file Python surely reads as so many, from a place on: where they end, and their number.
    *
    * @param delimiter
    *   of a CSV file; empty where a line is a text
    */
  def flowLines(path: String, from: Long, delimiter: String, batchSize: Int, most: Int): Array[Long] =
    StatefulBuilder.flowLines(path, from, delimiter, batchSize, most)

  /** The steps of a dataflow of Bytewax without state, over the entries of its log of inputs.
    *
    * @param process
    *   does the same in Python, for entries that the JVM does not know
    */
  def flowEntries(df: DataFrame, process: UserDefinedPythonFunction, schema: String, program: String): DataFrame = {
    install(df.sparkSession)
    StatefulBuilder.flowEntries(Classic.frame(df), process, schemaOf(schema), program)
  }

  /** The records of functions' state in a checkpoint: `shard`, `key`, `value`.
    *
    * @param operator
    *   the operator's number in the checkpoint, or -1 if there is one of these
    */
  def readState(spark: SparkSession, checkpoint: String, operator: Int): DataFrame =
    StateReader.read(Classic.session(spark), checkpoint, operator)

  /** Takes a checkpoint that has lost state back to an earlier batch; how many batches the query will do again. */
  def recover(spark: SparkSession, checkpoint: String): Long = Recovery.recover(Classic.session(spark), checkpoint)

  /** Writes a savepoint of a checkpoint, and gives the number of the last batch in it; see `Savepoint`.
    *
    * @param partitions
    *   how many state is to have, or -1
    * @param format
    *   of the checkpoint that it is to be, or -1
    * @param panes
    *   the query's own DataFrame, or null
    * @param was
    *   the DataFrame whose query of Spark's own windows wrote the checkpoint, or null
    */
  def savepoint(
      spark: SparkSession,
      checkpoint: String,
      to: String,
      partitions: Int,
      format: Int,
      panes: DataFrame,
      was: DataFrame
  ): Long = {
    install(spark)
    val asked = Savepoint.Asked(Some(partitions).filter(_ > 0), Some(format).filter(_ > 0))
    def frame(of: DataFrame) = Option(of).map(Classic.frame)
    Savepoint.write(Classic.session(spark), checkpoint, to, asked, frame(panes), frame(was))
  }

  /** Starts a query whose clock a test moves; see `ClockedQuery`. */
  def startClocked(
      panes: DataFrame,
      checkpoint: String,
      outputMode: String,
      startMs: Long,
      drain: Boolean
  ): ClockedQuery = ClockedQuery.start(Classic.frame(panes), checkpoint, outputMode, startMs, drain)

  /** The number of a row in its micro-batch, in the order in which the source is read. */
  def rowInBatch: Column = RowInBatch.column

  /** The number of the micro-batch that a row came in, below a window of a stream; see `BatchNumber`. */
  def batchNumber: Column = BatchNumber.column

  /** A condition that is true of rows in the shard of their key, and fails for others; see `InShard`. */
  def inShard(key: Column, shown: Column, before: String, after: String): Column =
    InShard.column(key, shown, before, after)

  /** A condition on a text alone, which is asked when that changes; see `PerText`. */
  def perText(text: Column, condition: Column): Column = PerText.column(text, condition)

  /** What a text is as JSON: `{` and the names of an object's fields, `n` for null, `.` for another value, null for no
    * JSON.
    */
  def jsonShape(text: Column): Column = JsonShape.column(text)

  /** The same where columns hold the text's value as it is, and `!` where they do not. Ints in columns of floats have a
    * zero character before their names.
    *
    * @param schema
    *   of the columns, as JSON
    * @param isScalar
    *   whether values are no records, and in the only column
    */
  def jsonFit(text: Column, schema: String, isScalar: Boolean): Column =
    JsonFit.column(text, schemaOf(schema), isScalar)

  /** The shard of a value in JSON, by a field of it; null where it has none. */
  def jsonShard(text: Column, field: String): Column = JsonShard.column(text, field)

  /** Whether a text in JSON has numbers with more digits after the point than the decimals of its columns.
    *
    * @param schema
    *   of the columns, as JSON
    */
  def jsonDecimals(text: Column, schema: String): Column = JsonDecimals.column(text, schemaOf(schema))

  /** How a session reads the folder of a `dir:` topic: what is listed of it is in order; see `TopicFileSystem`. */
  def topicPath(spark: SparkSession, folder: String): String =
    TopicFileSystem.pathOf(Classic.session(spark), folder)

  /** What a running query noted of a batch before it ran it: how far each source is read, and when.
    *
    * @param query
    *   the id that the query's checkpoint keeps
    */
  def planOf(spark: SparkSession, query: String, batch: Long): String =
    RunningQuery.planOf(Classic.session(spark), query, batch)

  /** Where a running query has its checkpoint; empty if there is none of that id. */
  def checkpointOf(spark: SparkSession, query: String): String =
    RunningQuery.checkpointOf(Classic.session(spark), query)

  /** What `counted` counts with, from 0: its `value` is the count. */
  def counter(spark: SparkSession): LongAccumulator = Classic.session(spark).sparkContext.longAccumulator

  /** A condition that counts the rows for which it is not true; see `Counted`. */
  def counted(condition: Column, counter: LongAccumulator): Column = Counted.column(condition, counter)

  /** A clock that a test moves, for `startBatches`. */
  def manualClock(startMs: Long): TestClock = new TestClock(startMs)

  /** Starts a query that hands its batches to Python, on a clock that a test moves; see `BatchesQuery`. */
  def startBatches(
      outputs: DataFrame,
      name: String,
      checkpoint: String,
      function: PythonForeachBatchFunction,
      clock: TestClock,
      drain: Boolean
  ): StreamingQuery = BatchesQuery.start(Classic.frame(outputs), name, checkpoint, function, clock, drain)
}
