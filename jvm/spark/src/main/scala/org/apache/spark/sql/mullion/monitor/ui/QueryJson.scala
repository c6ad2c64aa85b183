package org.apache.spark.sql.mullion.monitor.ui

import java.util.UUID

import scala.util.Try

import org.json4s.JsonAST._
import org.json4s.jackson.JsonMethods.{compact, render}

import org.apache.spark.sql.mullion.monitor._

import dev.mullion.windows.clock.Lateness
import dev.mullion.windows.sets.EndCounts
import dev.mullion.windows.spec.{Duration, TimeMath}

/** The reports of an application as JSON: the list of its queries, and the operators of one of them. Its size does not
  * depend on the number of panes, rows or batches.
  */
private[ui] object QueryJson {

  /** The number of partitions that are listed: those with the largest state. */
  private val Partitions = 50

  /** @param run
    *   the run of the chosen query; by default the newest one
    * @param key
    *   the id of the key whose closed panes are wanted
    */
  def apply(monitor: QueryMonitor, run: Option[String], key: Option[String]): String = {
    val queries = monitor.queries
    val chosen = run.flatMap(id => Try(UUID.fromString(id)).toOption).flatMap(monitor.query).orElse(queries.headOption)
    val id = key.flatMap(_.toLongOption)
    compact(render(page(queries.map(query => identity(query)), chosen.map(detailed(_, id)))))
  }

  /** The reports of a run. */
  def ofRun(query: MonitoredQuery): String = compact(render(detailed(query, key = None)))

  def page(queries: Seq[JValue], chosen: Option[JValue]): JValue =
    JObject("queries" -> JArray(queries.toList), "query" -> chosen.getOrElse(JNull))

  def identity(run: String, title: String, isRunning: Boolean): JObject =
    JObject("run" -> JString(run), "title" -> JString(title), "isRunning" -> JBool(isRunning))

  private def identity(query: MonitoredQuery): JObject =
    identity(query.runId.toString, query.title, query.running.isDefined)

  private def detailed(query: MonitoredQuery, key: Option[Long]): JValue = JObject(
    identity(query).obj ++ List[JField](
      "hasOpenState" -> JBool(query.session.isDefined),
      "failure" -> orNull(query.failure)(JString(_)),
      "operators" -> JArray(query.operators.map(operator(query, _, key)).toList)
    )
  )

  private def operator(query: MonitoredQuery, history: OperatorHistory, key: Option[Long]): JValue = {
    val description = history.description
    JObject(
      "number" -> JLong(description.number),
      "title" -> JString(description.title),
      "windows" -> JString(description.windows),
      "clock" -> JString(description.clock.text),
      "batches" -> JLong(history.batches),
      "report" -> orNull(history.last)(last(query, history, _)),
      "closed" -> JArray(key.toList.flatMap(history.watched.of).map(closed))
    )
  }

  private def last(query: MonitoredQuery, history: OperatorHistory, report: BatchReport): JValue = {
    JObject(
      "batch" -> JLong(report.batch),
      "timeMs" -> JLong(report.timeMs),
      "clockMs" -> orNull(report.clock.atMs)(JLong(_)),
      "lag" -> orNull(OperatorSource.lagMs(query, history))(lag => JString(duration(lag / 1000 * 1000))),
      "reason" -> JString(OpenReason(history.description, report, query.running.isDefined)),
      "nextDueMs" -> orNull(report.nextDueMs)(JLong(_)),
      "streams" -> JArray(report.clock.streams.map(stream).toList),
      "panesOpen" -> JLong(report.panesOpen),
      "ends" -> ends(report),
      "recent" -> JObject(history.recent.map { case (name, values) => name -> longs(values) }.toList),
      "totals" -> JObject(Count.all.map(count => count.name -> JLong(history.total(count))).toList),
      "rowsRead" -> JLong(history.rowsRead),
      "lateness" -> JObject(
        "labels" -> JArray(Lateness.Labels.map(JString(_)).toList),
        "rows" -> longs(history.lateRows),
        "advice" -> JString(LatenessAdvice(history.lateRows, history.rowsRead, report.clock.streams))
      ),
      "state" -> state(report)
    )
  }

  /** The open panes by the end of their windows; null if they are not tracked, as for windows of row numbers. */
  private def ends(report: BatchReport): JValue = {
    val (width, bars) = report.openEnds.bars
    if (bars.isEmpty) JNull
    else
      JObject(
        "widthMs" -> JLong(TimeMath.toMillis(width)),
        "isCut" -> JBool(bars.length == EndCounts.Bars),
        "bars" -> JArray(bars.map { case (from, panes) => longs(Seq(TimeMath.toMillis(from), panes)) }.toList)
      )
  }

  private def closed(pane: ClosedPane): JValue = longs(Seq(pane.start, pane.end, pane.fired.toLong))

  private def stream(of: StreamReading): JValue = JObject(
    "name" -> JString(of.name),
    "delay" -> JString(duration(of.delayMs)),
    "watermarkMs" -> orNull(of.watermarkMs)(JLong(_)),
    "isIdle" -> JBool(of.isIdle)
  )

  private def state(report: BatchReport): JValue = {
    val largest = report.partitions.sortBy(size => -(size.cachedBytes + size.diskBytes)).take(Partitions)
    JObject(
      "records" -> JLong(report.state.records),
      "bytes" -> JLong(report.state.bytes),
      "cachedBytes" -> JLong(report.state.cachedBytes),
      "diskBytes" -> JLong(report.state.diskBytes),
      "numPartitions" -> JLong(report.partitions.length.toLong),
      "partitions" -> JArray(
        largest.map(size => longs(Seq(size.partition.toLong, size.cachedBytes, size.diskBytes))).toList
      )
    )
  }

  private def duration(ms: Long): String = Duration.describe(TimeMath.fromMillis(ms))

  private def longs(values: Seq[Long]): JValue = JArray(values.map(JLong(_)).toList)

  private def orNull[A](value: Option[A])(json: A => JValue): JValue = value.fold[JValue](JNull)(json)
}
