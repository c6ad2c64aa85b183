package org.apache.spark.sql.mullion.monitor.ui

import java.util.UUID

import scala.collection.mutable
import scala.util.control.NonFatal

import org.json4s.JsonAST._
import org.json4s.jackson.JsonMethods.{compact, render}

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions.{col, struct, to_json, unix_micros}
import org.apache.spark.sql.mullion.monitor.{MonitoredQuery, OperatorDescription, QueryMonitor}

import dev.mullion.windows.clock.DueHistogram
import dev.mullion.windows.spec.TimeMath

/** The open panes of an operator as JSON: their number by due time, and the panes that are due first. A person asks for
  * it, because it reads the state once, in a Spark job. Its size does not depend on the number of panes.
  */
private[ui] final class PanesJson(monitor: QueryMonitor) {
  import PanesJson._

  private var last = Option.empty[(Key, String)]

  /** One at a time; the answer for the last batch is reused. */
  def apply(run: Option[String], operator: Option[String]): String = synchronized {
    val json = for {
      query <- run.flatMap(id => monitor.query(UUID.fromString(id)))
      number <- operator.map(_.toLong)
      history <- query.operator(number)
    } yield {
      val key = Key(query.runId, number, history.batches)
      last.collect { case (`key`, text) => text }.getOrElse {
        val text = compact(render(read(query, history.description)))
        last = Some(key -> text)
        text
      }
    }
    json.getOrElse(throw new IllegalArgumentException("The parameters run and operator name no operator of a query."))
  }

  private def read(query: MonitoredQuery, operator: OperatorDescription): JValue =
    try {
      val session = query.session.getOrElse(throw new IllegalStateException("the session of the query is gone"))
      val panes = PaneReader.service.read(session, query.checkpoint, operator, query.running)
      val shown = Seq(unix_micros(col("closes_at")), to_json(struct("*")), col("waits_for"), col("held_by"))
      val keys = panes.columns.takeWhile(_ != "window").map(name => col(s"`$name`")).toSeq :+ col("window")
      val rows = panes.select(shown.updated(1, to_json(struct(keys: _*))): _*).rdd
      rows.treeAggregate(new Summary)(_.add(_), _.merge(_)).json
    } catch {
      case NonFatal(error) => JObject("error" -> JString(s"The open panes cannot be read: ${error.getMessage}"))
    }
}

private object PanesJson {
  private val Oldest = 30

  private final case class Key(run: UUID, operator: Long, batches: Long)

  /** The panes of some partitions. */
  private final class Summary extends Serializable {
    private val histogram = new DueHistogram
    private val oldest = mutable.PriorityQueue.empty[(Long, Row)](Ordering.by(_._1))
    private var panes = 0L

    def add(row: Row): this.type = {
      panes += 1
      val due = if (row.isNullAt(0)) Long.MaxValue else row.getLong(0)
      if (!row.isNullAt(0)) histogram.add(due)
      keep(due -> row)
      this
    }

    def merge(other: Summary): this.type = {
      panes += other.panes
      histogram.merge(other.histogram)
      other.oldest.foreach(keep)
      this
    }

    private def keep(row: (Long, Row)): Unit = {
      oldest += row
      if (oldest.length > Oldest) oldest.dequeue(): Unit
    }

    def json: JValue = {
      val (width, bars) = histogram.bars
      JObject(
        "panes" -> JLong(panes),
        "widthMs" -> JLong(TimeMath.toMillis(width)),
        "bars" -> JArray(bars.map { case (from, number) =>
          JArray(List(JLong(TimeMath.toMillis(from)), JLong(number)))
        }.toList),
        "oldest" -> JArray(oldest.toSeq.sortBy(_._1).map { case (due, row) => pane(due, row) }.toList)
      )
    }

    private def pane(due: Long, row: Row): JValue = JObject(
      "dueMs" -> (if (due == Long.MaxValue) JNull else JLong(TimeMath.toMillis(due))),
      "pane" -> JString(row.getString(1).take(300)),
      "waitsFor" -> JString(row.getString(2)),
      "heldBy" -> Option(row.getString(3)).fold[JValue](JNull)(JString(_))
    )
  }
}
