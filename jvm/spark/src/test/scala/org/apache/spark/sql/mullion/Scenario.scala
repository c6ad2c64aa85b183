package org.apache.spark.sql.mullion

import java.nio.file.{Files, Path}
import java.time.DayOfWeek
import java.util.Locale

import scala.collection.immutable.SortedMap
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.{JsonNodeFactory, ObjectNode}
import com.fasterxml.jackson.dataformat.yaml.YAMLMapper

import org.apache.spark.sql.mullion.plan.WindowsTogether

import dev.mullion.Asked
import dev.mullion.windows.spec.{AlignedWindow, CalendarWindow, CumulativeWindow, RowNumberWindow, WindowSpec}

/** A document of `tests/transcripts`: input rows, and the expected firings. The README there documents the format.
  * Times and lengths are microseconds here and seconds there.
  */
final case class Scenario(
    name: String,
    panes: PaneScenario,
    columns: String,
    watermark: Long,
    before: Option[String],
    next: Option[NextScenario],
    mode: String,
    refused: Option[String],
    steps: Seq[Step],
    open: Seq[Firing],
    end: Option[Seq[Firing]],
    flood: Boolean,
    records: Option[Long] = None,
    together: Seq[(String, PaneScenario)] = Nil,
    document: Option[JsonNode] = None,
    streams: Int = 1,
    batch: Option[Seq[Firing]] = None
) {

  /** The test case of the query that continues from this one's checkpoint. */
  def changed(by: JsonNode): Scenario = {
    val other =
      document.map(_.deepCopy[ObjectNode]()).getOrElse(throw new IllegalStateException(s"$name is no document"))
    Said.fieldsOf(by).foreach { case (field, value) =>
      if (value.isNull) other.remove(field) else other.set[JsonNode](field, value)
    }
    Scenario.scenario(other)
  }

  /** The number of panes of a row far in the future. */
  def windowsAtStart: Long =
    if (together.isEmpty) panes.windowsAtStart else together.map(_._2.windowsAtStart).sum

  /** The panes in a checkpoint: for several windows, in order of their names. */
  def inCheckpoint: PaneScenario = if (together.isEmpty) panes else Scenario.all(together.sortBy(_._1).map(_._2))

  /** The emitted panes. */
  def last: PaneScenario = next.fold(panes)(_.panes)

  /** Of rows in files; their time becomes a timestamp on reading. */
  def schema: String = s"ts bigint, $columns"
}

/** A window, and the contents of its panes. */
final case class PaneScenario(
    window: WindowSpec,
    gapByRow: Option[String],
    ranges: Option[String],
    by: Seq[String],
    aggregates: Seq[(String, String)],
    lateness: Long,
    early: Option[EarlyScenario],
    onTime: Boolean,
    accumulate: Boolean,
    late: String,
    emptyPolicy: String,
    onProcessingTime: Boolean,
    idleAfter: Option[Long],
    trigger: Option[String] = None,
    endsWith: Option[String] = None,
    split: Option[String] = None,
    perKey: Boolean = false,
    collect: Option[CollectScenario] = None,
    ids: Boolean = false,
    dedupeBy: Seq[String] = Nil,
    atEnd: Boolean = false,
    keysFollowWall: Boolean = false,
    lateBehindClock: Boolean = false,
    maxAhead: Option[Long] = None,
    forgetAfter: Option[Long] = None,
    onChange: String = "reject",
    knownKeys: Option[Seq[String]] = None
) {

  /** True if windows without rows close too. */
  def empty: Boolean = emptyPolicy != "skip"

  /** True if each row fires its panes. */
  def running: Boolean = early.exists(_.eachRow)

  /** True if windows are of row numbers. */
  def isNumbered: Boolean = window.isInstanceOf[RowNumberWindow]

  /** The columns of a pane. */
  def columns: Seq[String] = if (collect.isDefined) Seq(Firing.rows) else aggregates.map(_._1)

  /** The names of the key columns, which may be expressions: `upper(k) AS k`. */
  val keys: Seq[String] = by.map(_.split(" AS ").last)

  /** The start of the last window that holds a row at `ts`. */
  def lastStart(ts: Long): Long = window match {
    case aligned: AlignedWindow       => aligned.lastStart(ts)
    case cumulative: CumulativeWindow => cumulative.lastStart(ts)
    case _                            => ts
  }

  /** The number of windows that hold a row at the start of one. */
  def windowsAtStart: Long = window match {
    case AlignedWindow(size, slide, _)                                          => (size + slide - 1) / slide
    case CumulativeWindow(AlignedWindow(size, _, _), AlignedWindow(step, _, _)) => size / step
    case calendar: CalendarWindow                                               => calendar.slides.toLong
    case _                                                                      => 1
  }
}

/** Panes that collect their rows, in order of time or of arrival. */
final case class CollectScenario(byTime: Boolean, maxRows: Long)

/** The early firings of a test case: by an interval, by a count of rows, or by both. */
final case class EarlyScenario(
    every: Option[Long],
    count: Option[Long],
    unchanged: Boolean,
    wall: Option[Long] = None,
    eachRow: Boolean = false
)

/** A second window over the closes of the first, Mullion's or Spark's own, and its open panes after the steps. */
final case class NextScenario(panes: PaneScenario, ours: Boolean, open: Seq[Firing])

/** An event for a query, and the expected output.
  *
  * @param fires
  *   the output, in any batches
  * @param batches
  *   the output batch by batch, if the test case has it
  */
final case class Step(
    rows: Option[Seq[JsonNode]],
    advance: Long,
    restart: Boolean,
    crash: Boolean,
    fires: Seq[Firing],
    batches: Option[Seq[Seq[Firing]]],
    late: Long,
    withoutTime: Long,
    inNoWindow: Long,
    open: Option[Long],
    drain: Boolean = false,
    change: Option[JsonNode] = None,
    other: Option[Seq[JsonNode]] = None,
    ahead: Long = 0
) {
  def startsAgain: Boolean = restart || crash || drain || change.isDefined
}

/** A firing, or an open pane, with a text for each field: `{close: 0, k: "a", window: [0, 10000000], n: 1}`. Equal
  * values have equal texts, and a null is a missing field.
  */
final case class Firing(fields: SortedMap[String, String]) {
  def is(kind: String): Boolean = fields.contains(kind)

  def pane(keys: Seq[String]): SortedMap[String, String] = fields.filter { case (n, _) =>
    n == "window" || keys.contains(n)
  }

  /** The end of its window. */
  def end: Option[Long] = fields.get("window").map(_.stripSuffix("]").split(", ").last.toLong)

  def as(kind: String, index: Int): Firing = Firing(fields.removedAll(Firing.kinds) + (kind -> index.toString))

  /** As in a batch DataFrame, without an id. */
  def withoutId: Firing = Firing(fields.removedAll(Seq("id", "merged")))

  override def toString: String = fields.map { case (n, v) => s"$n: $v" }.mkString("{", ", ", "}")
}

object Firing {
  val kinds: Seq[String] = Seq("early", "on_time", "update", "running", "close", "late", "ahead")

  /** The column of collected rows. */
  val rows = "rows"
  private val json = new ObjectMapper().enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)

  /** From a test case, in seconds. */
  def ofTestCase(node: JsonNode): Firing = of(Said.fieldsOf(node).map {
    case ("window", bounds)               => "window" -> bounds.asScala.map(Said.micros).mkString("[", ", ", "]")
    case (kind @ ("late" | "ahead"), row) => kind -> rowText(Said.time(row.get(0)), row.asScala.drop(1))
    case (Firing.rows, all) => rows -> all.asScala.map(r => rowText(Said.time(r.get(0)), r.asScala.drop(1))).mkString
    case (name, value)      => name -> text(value)
  })

  /** From the query, in microseconds.
    *
    * @param names
    *   the columns of a row
    */
  def ofQuery(line: String, names: Seq[String]): Firing = {
    val fields = Said.fieldsOf(json.readTree(line)).toMap
    val seq = fields.get("seq").map(text).getOrElse("none")
    val kind = fields.get("firing").map(_.asText).map {
      case kind @ ("late" | "ahead") =>
        require(seq == "none", s"a late row has seq $seq")
        kind -> rowText(text(fields("late_row").path("ts")), names.tail.map(fields("late_row").path(_)))
      case firing => firing -> seq
    }
    def collected(all: JsonNode) = all.asScala.map(r => rowText(text(r.path("ts")), names.tail.map(r.path))).mkString
    of(fields.removedAll(Seq("firing", "seq", "late_row")).toSeq.map {
      case (Firing.rows, all) if !all.isNull => rows -> collected(all)
      case (n, v)                            => n -> text(v)
    } ++ kind)
  }

  private def of(fields: Iterable[(String, String)]): Firing = Firing(SortedMap.from(fields.filter(_._2 != "null")))

  private def rowText(time: String, others: Iterable[JsonNode]): String =
    (time +: others.map(text).toSeq).mkString("[", ", ", "]")

  private def text(value: JsonNode): String =
    if (value.isNull || value.isMissingNode) "null"
    else if (value.isNumber) value.decimalValue.stripTrailingZeros.toPlainString
    else if (value.isArray) value.asScala.map(text).mkString("[", ", ", "]")
    else if (value.isObject) of(Said.fieldsOf(value).map { case (n, v) => n -> text(v) }).toString
    else value.toString
}

object Scenario {
  private val yaml = new YAMLMapper()
  yaml.enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)

  def all(folder: Path): Seq[Scenario] = {
    val listed = Files.list(folder)
    val files =
      try listed.iterator.asScala.filter(_.toString.endsWith(".yaml")).toVector.sorted
      finally listed.close()
    files.flatMap(f => yaml.readerFor(classOf[JsonNode]).readValues[JsonNode](f.toFile).asScala.toVector).map(scenario)
  }

  /** A test case of a single row, for comparing its state with another one's. */
  def ofOneRow(of: Scenario): Scenario =
    if (of.together.isEmpty) ofOneRow(of.panes) else of.copy(name = "one row", watermark = 0, steps = Nil, open = Nil)

  private def ofOneRow(panes: PaneScenario): Scenario = Scenario(
    "one row",
    panes.copy(
      dedupeBy = Nil,
      by = Seq("k"),
      aggregates = defaultAggregates,
      late = "drop",
      ranges = panes.ranges.map(_ => "mullion_windows(ts, '10 seconds')")
    ),
    defaultColumns,
    watermark = 0,
    before = None,
    next = None,
    mode = "append",
    refused = None,
    steps = Nil,
    open = Nil,
    end = None,
    flood = true
  )

  private val defaultColumns = "k string, v int"
  private val defaultAggregates = Seq("total" -> "sum(v)")

  private[mullion] def scenario(document: JsonNode): Scenario = {
    val fields = new Said(document)
    val together = fields.get("together").toSeq.flatMap(Said.fieldsOf).map { case (name, node) =>
      val of = new Said(node)
      val window = panes(of, Seq("k"))
      of.finish()
      name -> window
    }
    val scenario = Scenario(
      fields.text("name").get,
      if (together.isEmpty) panes(fields, Seq("k")) else all(together.map(_._2)),
      fields.text("columns").getOrElse(defaultColumns),
      fields.micros("watermark"),
      fields.text("before"),
      fields.get("then").map(next),
      fields.text("mode").getOrElse("append"),
      fields.text("refused"),
      fields.list("steps").getOrElse(Nil).map(step),
      fields.firings("open").getOrElse(Nil),
      fields.firings("end"),
      fields.flag("flood", otherwise = true),
      fields.number("records"),
      together,
      Some(document),
      fields.number("streams").fold(1)(_.toInt),
      fields.firings("batch")
    )
    fields.get("rule")
    fields.finish()
    scenario
  }

  /** The panes of several windows, with the name of their window among the keys. */
  private[mullion] def all(windows: Seq[PaneScenario]): PaneScenario = windows.head.copy(
    by = WindowsTogether.nameColumn +: windows.flatMap(_.keys).distinct,
    aggregates = windows.flatMap(_.aggregates).distinctBy(_._1),
    accumulate = windows.forall(_.accumulate),
    late = windows.map(_.late).find(_ == "emit").getOrElse("drop"),
    emptyPolicy = windows.map(_.emptyPolicy).find(_ != "skip").getOrElse("skip"),
    ids = windows.exists(_.ids)
  )

  private def panes(fields: Said, by: Seq[String]): PaneScenario = {
    val clock = new Said(fields.get("clock").getOrElse(JsonNodeFactory.instance.objectNode()))
    val upgrade = new Said(fields.get("upgrade").getOrElse(JsonNodeFactory.instance.objectNode()))
    val scenario = panes(fields, clock, upgrade, by)
    clock.finish()
    upgrade.finish()
    scenario
  }

  private def panes(fields: Said, clock: Said, upgrade: Said, by: Seq[String]): PaneScenario = PaneScenario(
    window(fields.get("window").get),
    fields.get("window").map(_.path("session")).filter(_.isTextual).map(_.asText),
    fields.get("window").map(_.path("custom")).filter(_.isTextual).map(_.asText),
    fields.list("by").fold(by)(_.map(_.asText)),
    fields.get("aggs").fold(defaultAggregates)(Said.fieldsOf(_).map { case (name, sql) => name -> sql.asText }),
    fields.micros("lateness"),
    fields.get("early").map { node =>
      val early = new Said(node)
      val rule =
        EarlyScenario(
          early.get("every").map(Said.micros),
          early.number("count"),
          early.flag("unchanged", otherwise = false),
          early.get("wall").map(Said.micros),
          early.flag("each_row", otherwise = false)
        )
      early.finish()
      rule
    },
    fields.flag("on_time", otherwise = false),
    fields.flag("accumulate", otherwise = true),
    fields.text("late").getOrElse("drop"),
    fields.get("empty").fold("skip")(node => if (node.isObject) "emit" else node.asText),
    fields.text("time").contains("processing"),
    clock.get("idle_after").map(Said.micros),
    fields
      .get("window")
      .map(_.path("global"))
      .flatMap(g => Seq("when", "changes").map(g.path).find(_.isTextual))
      .orElse(fields.get("window").map(_.path("ends_with")).filter(_.isTextual))
      .map(_.asText),
    fields.get("window").map(_.path("global").path("ends_with")).filter(_.isTextual).map(_.asText),
    fields.get("window").map(_.path("global").path("split")).filter(_.isTextual).map(_.asText),
    clock.text("kind").contains("per key"),
    fields.get("collect").map { node =>
      val collect = new Said(node)
      val rule = CollectScenario(collect.text("order").contains("time"), collect.number("max_rows").getOrElse(1000000L))
      collect.finish()
      rule
    },
    fields.flag("ids", otherwise = false),
    fields.list("dedupe_by").fold(Seq.empty[String])(_.map(_.asText)),
    fields.text("at_end").contains("close"),
    clock.flag("wall_time", otherwise = false),
    clock.text("late_by").contains("watermark"),
    clock.get("max_ahead").map(Said.micros),
    clock
      .get("forget_after")
      .orElse(fields.get("window").map(_.path("forget_after")).filterNot(_.isMissingNode))
      .map(Said.micros),
    upgrade.text("window").getOrElse("reject"),
    fields.get("empty").filter(_.isObject).map(_.path("for").asScala.map(_.asText).toSeq)
  )

  private def window(node: JsonNode): WindowSpec = {
    val fields = new Said(node)
    fields.get("forget_after")
    val spec =
      if (fields.text("starts").contains("first row")) Asked.fromFirstRow(fields.micros("tumbling"))
      else if (node.has("tumbling")) Asked.tumbling(fields.micros("tumbling"), fields.micros("offset"))
      else if (node.has("calendar")) {
        val size = fields.text("calendar").get.split(" ")
        val step = fields.text("every").fold(size)(_.split(" "))
        val months = fields.get("offset").filter(_.isTextual).map(_.asText.split(" ").head.toInt)
        Asked.calendar(
          step.head.toInt,
          step.last.stripSuffix("s"),
          fields.text("timezone").get,
          size.head.toInt / step.head.toInt,
          fields.text("week_start").fold(DayOfWeek.MONDAY)(day => DayOfWeek.valueOf(day.toUpperCase(Locale.ROOT))),
          months.getOrElse(0),
          if (months.isDefined) 0L else fields.micros("offset")
        )
      } else if (node.has("cumulate"))
        Asked.cumulate(fields.micros("cumulate"), fields.micros("every"), fields.micros("offset"))
      else if (node.has("count")) {
        val size = fields.number("count").get
        Asked.count(size, fields.number("every").getOrElse(size), fields.get("timeout").map(Said.micros))
      } else if (node.has("global")) global(fields.get("global").get)
      else if (node.has("sliding"))
        Asked.sliding(fields.micros("sliding"), fields.micros("every"), fields.micros("offset"))
      else if (fields.text("custom").isDefined) Asked.custom()
      else if (node.has("around")) Asked.around(fields.micros("around"), fields.micros("after"))
      else {
        val gap = fields.get("session").filterNot(_.isTextual).map(Said.micros)
        Asked.session(gap, fields.get("max_length").map(Said.micros), fields.text("ends_with").isDefined)
      }
    fields.finish()
    spec
  }

  private def global(node: JsonNode): WindowSpec =
    if (node.has("when")) Asked.globalWhen()
    else if (node.has("changes")) Asked.globalChanges(node.has("ends_with"))
    else if (node.has("split")) Asked.globalSplit("split")
    else Asked.globalEvery(node.get("every").asLong, node.has("ends_with"))

  private def next(node: JsonNode): NextScenario = {
    val fields = new Said(node)
    val scenario =
      NextScenario(panes(fields, Nil), !fields.text("engine").contains("spark"), fields.firings("open").getOrElse(Nil))
    fields.finish()
    scenario
  }

  private def step(node: JsonNode): Step = {
    val fields = new Said(if (node.isTextual) yaml.createObjectNode().put(node.asText, true) else node)
    val step = Step(
      fields.list("rows"),
      fields.micros("advance"),
      fields.flag("restart", otherwise = false),
      fields.flag("crash", otherwise = false),
      fields.firings("fires").getOrElse(Nil),
      fields.list("batches").map(_.map(_.asScala.map(Firing.ofTestCase).toSeq)),
      fields.number("late").getOrElse(0L),
      fields.number("without_time").getOrElse(0L),
      fields.number("in_no_window").getOrElse(0L),
      fields.number("open"),
      fields.flag("drain", otherwise = false),
      fields.get("change"),
      fields.list("other"),
      fields.number("ahead").getOrElse(0L)
    )
    require(node.isTextual || !(node.has("fires") && node.has("batches")), s"either fires or batches: $node")
    require(
      (step.rows.isEmpty && step.other.isEmpty) || step.advance == 0 || step.startsAgain,
      s"time may pass before rows come only while the query is down: $node"
    )
    fields.finish()
    step
  }
}

/** The fields of a node, which must all be read. */
final class Said(node: JsonNode) {
  private var unread = Said.fieldsOf(node).map(_._1).toSet

  def get(name: String): Option[JsonNode] = {
    unread -= name
    Option(node.get(name)).filterNot(_.isNull)
  }

  def text(name: String): Option[String] = get(name).map(_.asText)

  def number(name: String): Option[Long] = get(name).map(_.asLong)

  def flag(name: String, otherwise: Boolean): Boolean = get(name).fold(otherwise)(_.asBoolean)

  def micros(name: String): Long = get(name).fold(0L)(Said.micros)

  def list(name: String): Option[Seq[JsonNode]] = get(name).map(_.asScala.toSeq)

  def firings(name: String): Option[Seq[Firing]] = list(name).map(_.map(Firing.ofTestCase))

  def finish(): Unit = require(unread.isEmpty, s"nothing is called ${unread.mkString(", ")} here: $node")
}

object Said {
  def fieldsOf(node: JsonNode): Seq[(String, JsonNode)] =
    node.properties.asScala.toSeq.map(field => field.getKey -> field.getValue)

  /** Seconds in microseconds. */
  def micros(seconds: JsonNode): Long = seconds.decimalValue.movePointRight(6).longValueExact

  /** The time of a row, as text, or null. */
  def time(seconds: JsonNode): String = if (seconds.isNull) "null" else micros(seconds).toString
}
