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
    val said = new Said(document)
    said.get("rule")
    val by = said.list("by").fold(Seq("k"))(_.map(_.asText))
    val join = said.get("asof").map(asOf(_, by)).orElse(said.get("windowed").map(windowed(_, by))).get
    val scenario = JoinScenario(
      said.text("name").get,
      join,
      said.list("watermarks").fold(Seq(0L, 0L))(_.map(Said.micros)),
      said.list("steps").getOrElse(Nil).map(step),
      texts(said, "end"),
      said.number("records").getOrElse(0L)
    )
    said.finish()
    scenario
  }

  private def asOf(node: JsonNode, by: Seq[String]): (DataFrame, DataFrame) => DataFrame = {
    val said = new Said(node)
    val direction = AsOfOptions.direction(said.text("direction").getOrElse("backward"))
    val tolerance = said.get("tolerance").map(length)
    val allowExact = said.flag("allow_exact", otherwise = true)
    said.finish()
    asOfJoin(_, _, by, "ts", "ts", tolerance, direction, allowExact)
  }

  private def windowed(node: JsonNode, by: Seq[String]): (DataFrame, DataFrame) => DataFrame = {
    val said = new Said(node)
    val of = window(said.get("window").get)
    val how = WindowedJoinOptions.how(said.text("how").getOrElse("inner"))
    val late = LatePolicy.named(said.text("late").getOrElse("drop"))
    val lateness = said.get("lateness").fold(Span.zero)(length)
    said.finish()
    windowedJoin(_, _, of, by, "ts", how = how, allowedLateness = lateness, late = late)
  }

  private def window(node: JsonNode): Window = {
    val said = new Said(node)
    val window = (said.get("tumbling"), said.get("sliding"), said.get("session")) match {
      case (Some(size), _, _) => Tumbling(length(size))
      case (_, Some(size), _) => Sliding(length(size), length(said.get("every").get))
      case (_, _, Some(gap))  =>
        val session = Session(length(gap))
        said.text("ends_with").fold[Window](session)(sql => session.endsWith(expr(sql)))
      case _ => throw new IllegalArgumentException(s"no window: $node")
    }
    said.finish()
    window
  }

  private def length(seconds: JsonNode): Span = s"${Said.micros(seconds)} microseconds"

  private def step(node: JsonNode): JoinStep = {
    val said = new Said(node)
    val step = JoinStep(
      sides.map(said.list),
      said.flag("restart", otherwise = false),
      said.flag("crash", otherwise = false),
      texts(said, "rows"),
      said.number("late").getOrElse(0L),
      said.number("without_time").getOrElse(0L)
    )
    said.finish()
    step
  }

  private def texts(said: Said, name: String): Seq[String] = said.list(name).getOrElse(Nil).map(text)

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
