package org.apache.spark.sql.mullion

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode}
import com.fasterxml.jackson.databind.node.JsonNodeFactory
import com.fasterxml.jackson.dataformat.yaml.YAMLMapper

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.mullion.plan.options.{AsOfOptions, WindowedJoinOptions}
import org.apache.spark.sql.{DataFrame, Row}

import dev.mullion.windows.rules.LatePolicy
import dev.mullion.{asOfJoin, windowedJoin, Session, Sliding, Span, Tumbling, Window}

/** A document of `tests/transcripts/joins`; the README there documents the notation. Rows of the result are texts.
  *
  * @param join
  *   the join of both sides
  * @param delays
  *   of the sides' watermarks, in microseconds
  */
final case class JoinScenario(
    name: String,
    join: (DataFrame, DataFrame) => DataFrame,
    delays: Seq[Long],
    steps: Seq[JoinStep],
    end: Seq[String],
    records: Long
)

/** Rows of both sides, and the rows of the result. */
final case class JoinStep(
    sides: Seq[Option[Seq[JsonNode]]],
    restart: Boolean,
    crash: Boolean,
    rows: Seq[String],
    late: Long,
    withoutTime: Long
)

object JoinScenario {
  val sides: Seq[String] = Seq("left", "right")

  private val yaml = new YAMLMapper()
  yaml.enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)

  def all(folder: Path): Seq[JoinScenario] = {
    val listed = Files.list(folder)
    val files =
      try listed.iterator.asScala.filter(_.toString.endsWith(".yaml")).toVector.sorted
      finally listed.close()
    files.flatMap(f => yaml.readerFor(classOf[JsonNode]).readValues[JsonNode](f.toFile).asScala.toVector).map(scenario)
  }

  private def scenario(document: JsonNode): JoinScenario = {
    val fields = new Said(document)
    fields.get("rule")
    val by = fields.list("by").fold(Seq("k"))(_.map(_.asText))
    val join = fields.get("asof").map(asOf(_, by)).orElse(fields.get("windowed").map(windowed(_, by))).get
    val scenario = JoinScenario(
      fields.text("name").get,
      join,
      fields.list("watermarks").fold(Seq(0L, 0L))(_.map(Said.micros)),
      fields.list("steps").getOrElse(Nil).map(step),
      texts(fields, "end"),
      fields.number("records").getOrElse(0L)
    )
    fields.finish()
    scenario
  }

  private def asOf(node: JsonNode, by: Seq[String]): (DataFrame, DataFrame) => DataFrame = {
    val fields = new Said(node)
    val direction = AsOfOptions.direction(fields.text("direction").getOrElse("backward"))
    val tolerance = fields.get("tolerance").map(length)
    val allowExact = fields.flag("allow_exact", otherwise = true)
    fields.finish()
    asOfJoin(_, _, by, "ts", "ts", tolerance, direction, allowExact)
  }

  private def windowed(node: JsonNode, by: Seq[String]): (DataFrame, DataFrame) => DataFrame = {
    val fields = new Said(node)
    val of = window(fields.get("window").get)
    val how = WindowedJoinOptions.how(fields.text("how").getOrElse("inner"))
    val late = LatePolicy.named(fields.text("late").getOrElse("drop"))
    val lateness = fields.get("lateness").fold(Span.zero)(length)
    fields.finish()
    windowedJoin(_, _, of, by, "ts", how = how, allowedLateness = lateness, late = late)
  }

  private def window(node: JsonNode): Window = {
    val fields = new Said(node)
    val window = (fields.get("tumbling"), fields.get("sliding"), fields.get("session")) match {
      case (Some(size), _, _) => Tumbling(length(size))
      case (_, Some(size), _) => Sliding(length(size), length(fields.get("every").get))
      case (_, _, Some(gap))  =>
        val session = Session(length(gap))
        fields.text("ends_with").fold[Window](session)(sql => session.endsWith(expr(sql)))
      case _ => throw new IllegalArgumentException(s"no window: $node")
    }
    fields.finish()
    window
  }

  private def length(seconds: JsonNode): Span = s"${Said.micros(seconds)} microseconds"

  private def step(node: JsonNode): JoinStep = {
    val fields = new Said(node)
    val step = JoinStep(
      sides.map(fields.list),
      fields.flag("restart", otherwise = false),
      fields.flag("crash", otherwise = false),
      texts(fields, "rows"),
      fields.number("late").getOrElse(0L),
      fields.number("without_time").getOrElse(0L)
    )
    fields.finish()
    step
  }

  private def texts(fields: Said, name: String): Seq[String] = fields.list(name).getOrElse(Nil).map(text)

  /** A value of a test case as text. */
  private def text(node: JsonNode): String =
    if (node.isNull) "null"
    else if (node.isNumber) number(node.decimalValue)
    else if (node.isArray) node.asScala.map(text).mkString("[", ", ", "]")
    else if (node.isObject) Said.fieldsOf(node).map { case (name, value) => s"$name ${text(value)}" }.mkString
    else node.asText

  /** A row of the result as text. */
  def text(row: Row): String =
    if (!row.schema.fieldNames.contains("late_row")) value(row)
    else
      Option(row.getAs[Row]("late_row")) match {
        case None       => value(Row.fromSeq(row.toSeq.init))
        case Some(late) =>
          sides.flatMap(side => Option(late.getAs[Row](side)).map(of => s"$side ${value(of)}")).mkString
      }

  private def value(of: Any): String = Option(of).fold("null") {
    case row: Row                 => row.toSeq.map(value).mkString("[", ", ", "]")
    case time: java.sql.Timestamp =>
      number(
        java.math.BigDecimal.valueOf(time.getTime / 1000).add(java.math.BigDecimal.valueOf(time.getNanos.toLong, 9))
      )
    case other: Int => number(java.math.BigDecimal.valueOf(other.toLong))
    case other      => other.toString
  }

  private def number(value: java.math.BigDecimal): String = value.stripTrailingZeros.toPlainString

  /** A row with a time alone, which moves the watermark. */
  def ofTime(micros: Long): JsonNode =
    JsonNodeFactory.instance.arrayNode().add(java.math.BigDecimal.valueOf(micros, 6)).addNull().addNull()
}
