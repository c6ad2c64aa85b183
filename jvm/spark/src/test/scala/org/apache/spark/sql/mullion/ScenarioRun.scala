package org.apache.spark.sql.mullion

import java.nio.file.{Files, Path, StandardCopyOption}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{JsonNodeFactory, ObjectNode}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.checkpoint.evolve.RecordsInState
import org.apache.spark.sql.mullion.operator.WindowExec
import org.apache.spark.sql.mullion.plan.options.WindowOptions
import org.apache.spark.sql.mullion.query.ClockedQuery
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.streaming.{StateOperatorProgress, StreamingQueryProgress}
import org.apache.spark.sql.types.{LongType, StructType, TimestampType}
import org.apache.spark.sql.{Column, DataFrame, Row}

import dev.mullion.windows.spec.AlignedWindow
import dev.mullion.{Asked, Facade}

/** The query of one test case. */
final class ScenarioRun(spark: SparkSession, begins: Scenario, folder: Path) {
  import ScenarioRun._

  private var now = begins

  /** The current test case of the query. */
  def scenario: Scenario = now

  private val folders = Seq("rows", "other").take(begins.streams).map(of => Files.createDirectories(folder.resolve(of)))
  private val checkpoint = folder.resolve("checkpoint")
  private val names = StructType.fromDDL(scenario.schema).fieldNames.toSeq
  private var panes = streamed()
  private var nowMs = 0L
  // One list per step with rows.
  private var files = Vector.empty[Seq[Path]]
  private var reported = -1L
  // Started after the first rows exist: a query with early firings runs a batch at its start.
  private var running = Option.empty[ClockedQuery]
  private var ended = false

  private def streamed() = over(folders.map(rows => spark.readStream.schema(scenario.schema).json(rows.toString)))

  private def query: ClockedQuery = running.getOrElse(throw new IllegalStateException("the scenario has not begun"))

  /** The metric of open panes in the last batch. */
  var panesOpen: Long = 0

  /** Starts the query, unless it is running. */
  def begin(): Unit = if (running.isEmpty) running = Some(start())

  def stop(): Unit = running.foreach(_.stop())

  /** The firings and counts of a step, batch by batch. */
  def run(step: Step): Ran = {
    // A query that drained its input has ended, and the next step restarts it.
    val down = step.startsAgain || ended
    if (down) running.foreach(_.stop())
    if (step.crash) forgetLastCommit()
    step.change.foreach { by =>
      now = now.changed(by)
      panes = streamed()
    }
    write(step)
    val starts = down || running.isEmpty
    if (!down) begin()
    nowMs += step.advance / 1000
    if (down) running = Some(start(step.drain))
    else query.advanceMs(step.advance / 1000)
    ended = step.drain
    val before = if (starts) -1L else query.lastBatch
    query.settle()

    val fired = query.since(before).collect().map(row => Firing.ofQuery(row.getString(0), names)).toSeq
    // Spark's idle reports repeat the numbers of the previous batch.
    val batches = query.query.recentProgress.toSeq.filter(_.durationMs.containsKey("addBatch"))
    val reports = batches.filter(_.batchId > reported)
    reported = reports.lastOption.fold(reported)(_.batchId)
    val ends = reports.scanLeft(0)(_ + _.sink.numOutputRows.toInt)
    require(ends.last == fired.size, s"${fired.size} rows arrived, and batches wrote ${ends.last}")
    val operators = reports.map(ours).filter(_.nonEmpty)
    operators.lastOption.foreach(batch => panesOpen = metric(batch.last, "panesOpen"))
    Ran(
      ends.zip(ends.tail).map { case (from, to) => fired.slice(from, to) },
      operators.map(batch => counts.map(name => name -> metric(batch.last, name)).toMap),
      operators.map(batch => counts.map(name => name -> metric(batch.head, name)).toMap)
    )
  }

  /** The same panes over a batch DataFrame of the rows of the first `n` steps with rows. */
  def asBatch(n: Int): Seq[Firing] = {
    // One by one: of several files Spark reads the longest first.
    val rows = files.take(n).flatten.map(file => spark.read.schema(scenario.schema).json(file.toString): DataFrame)
    shown(over(Seq(rows.reduce(_.union(_)))))
      .collect()
      .map(r => Firing.ofQuery(r.getString(0), names))
      .toSeq
  }

  def filesWritten: Int = files.length

  /** The open panes of each Mullion window, the one downstream first. */
  def openPanes(): Seq[Seq[Firing]] = {
    val scenarios = scenario.next.filter(_.ours).map(_.panes).toSeq :+ scenario.inCheckpoint
    scenarios.zip(RecordsInState.operators(checkpoint)).map { case (panes, operator) =>
      val read = Facade.readPanes(spark, checkpoint.toString, operator)
      val pane = if (panes.ids) Seq("pane") else Nil
      requireColumns(read, (panes.keys :+ "window") ++ pane ++ panes.columns, panes.isNumbered)
      asJson(read, panes, ids(panes)).collect().map(r => Firing.ofQuery(r.getString(0), names)).toSeq
    }
  }

  /** The metrics of a batch that count its firings. */
  private def counts = ScenarioRun.counts ++ Option.when(scenario.panes.running)("firingsRunning")

  def recordsInState(): Seq[Map[String, Int]] = {
    RecordsInState.of(spark, Classic.frame(panes), checkpoint)
  }

  private def start(drain: Boolean = false): ClockedQuery = {
    reported = -1L
    Facade.startClocked(shown(panes), checkpoint.toString, scenario.mode, nowMs, drain)
  }

  /** The panes of the test case over its rows, whose time is in microseconds. */
  private def over(streams: Seq[DataFrame]): DataFrame = {
    val timed = streams
      .map(_.withColumn("ts", timestamp_micros(col("ts"))).withWatermark("ts", s"${scenario.watermark} microseconds"))
      .reduce(_.union(_))
    val rows = scenario.before.fold(timed) {
      case "dropDuplicates" => timed.dropDuplicates("ts", "k")
      case "join"           =>
        val table = spark.sql("SELECT * FROM VALUES ('a', 'Anna'), ('b', 'Bob') AS t(k, name)")
        timed.join(table, Seq("k"), "left").select((names :+ "name").map(col): _*)
      case other => throw new IllegalArgumentException(s"nothing comes before a window as '$other'")
    }
    val first =
      if (scenario.together.isEmpty) windowed(rows, scenario.panes, "ts")
      else {
        val windows = scenario.together.map { case (_, panes) => windowed(rows, panes, "ts") }
        Facade.together(scenario.together.map(_._1).toArray, windows.toArray)
      }
    scenario.next.fold(first) { next =>
      if (next.ours) windowed(first, next.panes, "window") else windowedBySpark(first, next.panes)
    }
  }

  private def windowed(rows: DataFrame, panes: PaneScenario, time: String): DataFrame = {
    val timed =
      if (panes.onProcessingTime || (panes.isNumbered && !panes.collect.exists(_.byTime))) Asked.options
      else Asked.options.withTime(col(time))
    val idling = panes.idleAfter.fold(timed)(timed.withIdleAfter)
    val limited = panes.maxAhead.fold(idling)(idling.withMaxAhead)
    val rules = limited.withAllowedLateness(panes.lateness).withLate(panes.late)
    val triggered = panes.trigger.fold(rules)(sql => rules.withTrigger(expr(sql)))
    val ending = panes.endsWith.fold(triggered)(sql => triggered.withEndsWith(expr(sql)))
    val split = panes.split.fold(ending)(column => ending.copy(split = Some(ScenarioSplit(column))))
    val running = if (panes.running) split.withRunning else split
    val perKey = if (panes.perKey) running.withClockPerKey(panes.keysFollowWall) else running
    val forgetting = panes.forgetAfter.fold(perKey)(perKey.withForgetAfter)
    val clocked = if (panes.lateBehindClock) forgetting.withLateBehindClock else forgetting
    val plain = panes.collect.fold(clocked)(c => clocked.withCollect(c.byTime, Firing.rows, c.maxRows))
    val withGap = panes.gapByRow.fold(plain)(gap => plain.withGap(expr(gap)))
    val withRanges = panes.ranges.fold(withGap)(ranges => withGap.withRanges(expr(ranges)))
    val once =
      if (panes.dedupeBy.isEmpty) withRanges else withRanges.withDedupeBy(panes.dedupeBy.map(expr).toArray)
    val refined =
      emptied(once, panes).withOnTime(panes.onTime).withAccumulate(panes.accumulate).withIds(panes.ids)
    val draining = panes.onChange match {
      case "drain" => refined.withDrainOnChange
      case "drop"  => refined.withDropOnChange
      case _       => refined
    }
    val atEnd = if (panes.atEnd) draining.withCloseAtEnd else draining
    val counting = panes.early.flatMap(_.count).fold(atEnd)(atEnd.withEarlyCount)
    val options =
      panes.early.fold(counting) { e =>
        val byWall = e.wall.fold(counting)(wall => counting.withEarlyByWall(wall, e.unchanged))
        e.every.fold(byWall)(every => counting.withEarly(every, e.unchanged))
      }
    Asked.windowed(rows, panes.window, panes.by.map(expr).toArray, options, panes.aggregates.map(column).toArray)
  }

  private def emptied(options: WindowOptions, panes: PaneScenario): WindowOptions =
    (panes.emptyPolicy, panes.knownKeys) match {
      case ("forward", _)  => options.withForward
      case (_, Some(keys)) =>
        val rows = keys.map(key => Row(key)).asJava
        options.withEmptyFor(Classic.frame(spark.createDataFrame(rows, StructType.fromDDL("k string"))))
      case (policy, None) => options.withEmpty(policy == "emit")
    }

  /** Closes of Spark's own windows, in the form of Mullion's. */
  private def windowedBySpark(rows: DataFrame, panes: PaneScenario): DataFrame = {
    val spec = panes.window match {
      case aligned: AlignedWindow => aligned
      case other                  => throw new IllegalArgumentException(s"no window of Spark's here: $other")
    }
    def length(us: Long) = s"$us microseconds"
    val aggregates = panes.aggregates.map(column)
    val pane = expr("named_struct('firing', 'close', 'seq', 0) AS pane")
    rows
      .groupBy(
        window(col("window"), length(spec.size), length(spec.slide), length(spec.offset)) +: panes.by.map(expr): _*
      )
      .agg(aggregates.head, aggregates.tail: _*)
      .select((panes.keys :+ "window").map(col) ++ (pane +: panes.aggregates.map(a => col(a._1))): _*)
  }

  private def shown(panes: DataFrame): DataFrame = {
    val columns = (scenario.last.keys ++ Seq("window", "pane")) ++ scenario.last.columns
    val late = if (scenario.last.late == "emit") Seq("late_row") else Nil
    requireColumns(panes, columns ++ late, scenario.last.isNumbered)
    val lateRow = late.map { _ =>
      val fields = "unix_micros(late_row.ts) AS ts" +: names.tail.map(n => s"late_row.`$n`")
      s"if(late_row IS NULL, NULL, struct(${fields.mkString(", ")})) AS late_row"
    }
    asJson(panes, scenario.last, Seq("pane.firing", "pane.seq") ++ ids(scenario.last) ++ lateRow)
  }

  /** Only the id of a pane without merges. */
  private def ids(panes: PaneScenario): Seq[String] =
    if (!panes.ids) Nil else Seq("pane.id", "if(size(pane.merged) = 0, NULL, pane.merged) AS merged")

  /** Panes as JSON, with times as microseconds: the same in every language, over the entire range of time. */
  private def asJson(panes: DataFrame, of: PaneScenario, more: Seq[String]): DataFrame = {
    // Row numbers in the form of seconds, as in a test case.
    def bound(name: String) = if (of.isNumbered) s"window.$name * 1000000" else s"unix_micros(window.$name)"
    val window = s"if(window IS NULL, NULL, array(${bound("start")}, ${bound("end")})) AS window"
    val collected =
      s"transform(rows, r -> struct(${("unix_micros(r.ts) AS ts" +: names.tail.map(n => s"r.`$n`")).mkString(", ")})) AS rows"
    val values = of.columns.map(c => if (of.collect.isDefined) collected else s"`$c`")
    val fields = (of.keys.map(k => s"`$k`") :+ window) ++ values ++ more
    panes.select(to_json(struct(fields.map(expr): _*)).as("told"))
  }

  private def write(step: Step): Unit = {
    val written = folders.zip(Seq(step.rows, step.other)).flatMap { case (folder, rows) => rows.map(write(folder, _)) }
    if (written.nonEmpty) files :+= written
  }

  private def write(folder: Path, rows: Seq[JsonNode]): Path = {
    val lines = rows.map { row =>
      require(row.size == names.size, s"$row is no row of ${names.mkString(", ")}")
      val line = new ObjectNode(JsonNodeFactory.instance)
      names.zip(row.asScala).foreach { case (name, value) => line.set[JsonNode](name, value) }
      if (!row.get(0).isNull) line.put("ts", Said.micros(row.get(0)))
      line.toString
    }
    val hidden = folder.resolve("_next")
    Files.write(hidden, lines.asJava)
    Files.move(hidden, folder.resolve(f"${files.length}%04d.json"), StandardCopyOption.ATOMIC_MOVE)
  }

  /** Simulates a death after the last batch wrote its state and its output, but before its commit. */
  private def forgetLastCommit(): Unit = {
    val commits = checkpoint.resolve("commits")
    val last = RecordsInState.numbersIn(commits).last
    Seq(s"$last", s".$last.crc").foreach(name => Files.deleteIfExists(commits.resolve(name)))
  }
}

/** The result of a step.
  *
  * @param counts
  *   the metrics of each batch, for the window under test
  * @param lastCounts
  *   those of the window that emits
  */
final case class Ran(batches: Seq[Seq[Firing]], counts: Seq[Map[String, Long]], lastCounts: Seq[Map[String, Long]]) {
  def fired: Seq[Firing] = batches.flatten
}

object ScenarioRun {

  /** The kinds of firing, and the metrics that count them. */
  val firings: Seq[(String, String)] = Seq(
    "early" -> "firingsEarly",
    "on_time" -> "firingsOnTime",
    "update" -> "firingsUpdate",
    "close" -> "firingsClose"
  )
  private val counts = Seq("rowsLate", "rowsAhead", "rowsWithoutTime", "rowsInNoWindow") ++ firings.map(_._2)

  /** The Mullion windows in a batch, the one downstream first. */
  private def ours(report: StreamingQueryProgress): Seq[StateOperatorProgress] =
    report.stateOperators.toSeq.filter(_.operatorName == WindowExec.operatorName)

  private def metric(operator: StateOperatorProgress, name: String): Long = operator.customMetrics.get(name).longValue

  private def column(aggregate: (String, String)): Column = expr(aggregate._2).as(aggregate._1)

  private def requireColumns(panes: DataFrame, columns: Seq[String], numbered: Boolean): Unit = {
    require(panes.columns.toSeq == columns, s"${panes.columns.mkString(", ")} instead of ${columns.mkString(", ")}")
    val bounds = Seq("start", "end").map(f => panes.select(s"window.$f").schema.head.dataType).distinct
    require(bounds == Seq(if (numbered) LongType else TimestampType), s"a window of ${bounds.mkString(", ")}")
  }
}
