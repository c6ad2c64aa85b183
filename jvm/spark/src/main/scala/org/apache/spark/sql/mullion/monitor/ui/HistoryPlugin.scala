package org.apache.spark.sql.mullion.monitor.ui

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.json4s.JsonAST._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

import org.apache.spark.SparkConf
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.status.KVUtils.KVIndexParam
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore}
import org.apache.spark.ui.SparkUI
import org.apache.spark.util.kvstore.KVStore

/** The tab Windows of the history server, from the events of [[EventLog]]. The server loads this class as a service if
  * Mullion's JAR is on its class path.
  */
final class HistoryPlugin extends AppHistoryServerPlugin {
  override def createListeners(conf: SparkConf, store: ElementTrackingStore): Seq[SparkListener] = Seq(
    new HistoryPlugin.Listener(store)
  )

  override def setupUI(ui: SparkUI): Unit = {
    val runs = new HistoryPlugin.Runs(ui.store.store)
    if (runs.newestFirst.nonEmpty) WindowsTab.attach(ui, runs)
  }
}

/** The last reports of a run in the store of the history server. */
private[spark] final class StoredRun(
    @KVIndexParam val run: String,
    val timeMs: Long,
    val title: String,
    val json: String
)

private object HistoryPlugin {

  /** The number of runs that are kept of an application. */
  private val Retained = 100

  final class Listener(store: ElementTrackingStore) extends SparkListener {
    private val runs = mutable.LinkedHashSet.empty[String]

    override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
      case QueryReported(run, timeMs, title, json) =>
        store.write(new StoredRun(run, timeMs, title, json))
        runs += run
        if (runs.size > Retained) {
          store.delete(classOf[StoredRun], runs.head)
          runs -= runs.head
        }
      case _ => ()
    }
  }

  final class Runs(store: KVStore) extends TabContent {
    def newestFirst: Seq[StoredRun] = {
      val all = store.view(classOf[StoredRun]).closeableIterator()
      try all.asScala.toSeq.sortBy(-_.timeMs)
      finally all.close()
    }

    override def queries(run: Option[String], key: Option[String]): String = {
      val runs = newestFirst
      val chosen = runs.find(of => run.contains(of.run)).orElse(runs.headOption)
      compact(render(QueryJson.page(runs.map(ended), chosen.map(of => asEnded(parse(of.json))))))
    }

    override def panes(run: Option[String], operator: Option[String], key: Option[String]): String =
      compact(render(PanesJson.failed("the application has ended. Call open_panes with the checkpoint of the query.")))

    private def ended(of: StoredRun): JValue = QueryJson.identity(of.run, of.title, isRunning = false)

    /** An application that was killed has no report after the end of its queries. */
    private def asEnded(report: JValue): JValue = report match {
      case JObject(fields) =>
        JObject(fields.map { case (name, value) =>
          name -> (if (name == "isRunning" || name == "hasOpenState") JBool(false) else value)
        })
      case other => other
    }
  }
}
