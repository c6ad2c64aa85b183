package org.apache.spark.sql.mullion.monitor.ui

import java.util.UUID

import scala.util.control.NonFatal

import org.json4s.JsonAST._
import org.json4s.jackson.JsonMethods.{compact, render}

import org.apache.spark.sql.classic.{DataFrame, ExpressionUtils}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.monitor.{MonitoredQuery, OperatorDescription, QueryMonitor, WatchedKeys}
import org.apache.spark.sql.types.{LongType, StructType}
import org.apache.spark.sql.{Column, Row}

import dev.mullion.windows.spec.TimeMath

/** Open panes of an operator as JSON: those that end first and the largest keys, or the panes of one key. A person asks
  * for them, because Spark jobs read the state for the answer. Its size does not depend on the number of panes.
  *
  * The largest keys are counted only then. A count in each batch would cost work for each row; this one is exact, and
  * costs nothing while nobody asks.
  */
private[ui] final class PanesJson(monitor: QueryMonitor) {
  import PanesJson._

  private var last = Option.empty[(Question, String)]

  /** One at a time; the answer for the last batch is reused.
    *
    * @param key
    *   the id of the key whose panes are wanted, from the answer about all keys
    */
  def apply(run: Option[String], operator: Option[String], key: Option[String]): String = synchronized {
    val json = for {
      query <- run.flatMap(id => monitor.query(UUID.fromString(id)))
      number <- operator.map(_.toLong)
      history <- query.operator(number)
    } yield {
      key.foreach(id => history.watched.watch(id.toLong))
      val question = Question(query.runId, number, history.batches, key)
      last.collect { case (`question`, text) => text }.getOrElse {
        val text = compact(render(read(query, history.description, key)))
        last = Some(question -> text)
        text
      }
    }
    json.getOrElse(throw new IllegalArgumentException("The parameters run and operator name no operator of a query."))
  }

  private def read(query: MonitoredQuery, operator: OperatorDescription, key: Option[String]): JValue =
    try {
      val session = query.session.getOrElse(throw new IllegalStateException("the session of the query is gone"))
      val panes = new Panes(PaneReader.service.read(session, query.checkpoint, operator, query.running))
      key.fold(panes.overview(query.runId))(id => panes.ofKey(id.toLong))
    } catch {
      case NonFatal(error) => failed(error.getMessage)
    }
}

private[ui] object PanesJson {

  /** The answer if the state cannot be read. */
  def failed(reason: String): JValue = JObject("error" -> JString(s"The open panes cannot be read: $reason"))

  private val Oldest = 30
  private val Largest = 20
  private val OfKey = 100

  private final case class Question(run: UUID, operator: Long, batches: Long, key: Option[String])

  /** @param panes
    *   the columns of `open_panes`
    */
  private final class Panes(panes: DataFrame) {
    private val keys = panes.columns.filterNot(PaneReader.Facts).map(name => col(s"`$name`"))
    private val windowName = panes.columns.find(_ == "window_name").map(col)

    private val key =
      if (keys.isEmpty) lit("{}") else to_json(struct(keys.toSeq: _*), java.util.Map.of("ignoreNullFields", "false"))

    private val id = ExpressionUtils.column(WatchedKeys.idOf(keys.toSeq.map(ExpressionUtils.expression)))

    private val isOfTime = panes.schema("window").dataType match {
      case window: StructType => window("start").dataType != LongType
      case _                  => false
    }

    /** The panes that end first, and the keys with most rows: with most panes if panes do not count their rows. */
    def overview(run: UUID): JValue = {
      val shown = to_json(struct(windowName.toSeq ++ keys :+ col("window"): _*))
      val oldest = panes
        .orderBy(col("closes_at").asc_nulls_last)
        .limit(Oldest)
        .select(unix_micros(col("closes_at")), shown, col("waits_for"), col("held_by"))
      val largest = panes
        .groupBy(key.as("key"), id.as("id"))
        .agg(count(lit(1)).as("panes"), sum("rows").as("rows"))
        .select("key", "id", "panes", "rows")
        .orderBy(col("rows").desc_nulls_last, col("panes").desc, col("key"))
        .limit(Largest)
      JObject(
        "run" -> JString(run.toString),
        "oldest" -> JArray(oldest.collect().toList.map(oldPane)),
        "largest" -> JArray(largest.collect().toList.map(largeKey))
      )
    }

    private def oldPane(row: Row): JValue = JObject(
      "dueMs" -> millis(row, 0),
      "pane" -> JString(row.getString(1).take(MostText)),
      "waitsFor" -> JString(row.getString(2)),
      "heldBy" -> text(row, 3)
    )

    private def largeKey(row: Row): JValue = JObject(
      "key" -> JString(row.getString(0)),
      // Text: numbers of a browser have 53 bits.
      "id" -> JString(row.getLong(1).toString),
      "panes" -> JLong(row.getLong(2)),
      "rows" -> long(row, 3)
    )

    /** The last panes of a key, in order of time. */
    def ofKey(of: Long): JValue = {
      def at(bound: String): Column = if (isOfTime) unix_micros(col(s"window.$bound")) else col(s"window.$bound")
      val last = panes
        .where(id === of)
        .orderBy(col("window.end").desc, col("window.start").desc)
        .limit(OfKey)
        .select(
          at("start"),
          at("end"),
          unix_micros(col("closes_at")),
          unix_micros(col("clock_at")),
          col("waits_for"),
          col("fired").cast(LongType),
          col("rows"),
          windowName.getOrElse(lit("")),
          key
        )
        .collect()
        .toList
        .reverse
      JObject(
        "key" -> last.headOption.fold[JValue](JNull)(row => JString(row.getString(8))),
        "isOfTime" -> JBool(isOfTime),
        "panes" -> JArray(last.map(lane))
      )
    }

    private def lane(row: Row): JValue = JObject(
      "start" -> bound(row, 0),
      "end" -> bound(row, 1),
      "dueMs" -> millis(row, 2),
      "clockMs" -> millis(row, 3),
      "waitsFor" -> JString(row.getString(4)),
      "fired" -> long(row, 5),
      "rows" -> long(row, 6),
      "window" -> JString(row.getString(7))
    )

    private def bound(row: Row, at: Int): JValue = if (isOfTime) millis(row, at) else long(row, at)
  }

  private val MostText = 300

  private def millis(row: Row, at: Int): JValue =
    if (row.isNullAt(at)) JNull else JLong(TimeMath.toMillis(row.getLong(at)))

  private def long(row: Row, at: Int): JValue = if (row.isNullAt(at)) JNull else JLong(row.getLong(at))

  private def text(row: Row, at: Int): JValue = Option(row.getString(at)).fold[JValue](JNull)(JString(_))
}
