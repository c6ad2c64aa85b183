package org.apache.spark.sql.mullion.monitor.ui

import org.apache.spark.sql.mullion.monitor.QueryMonitor

/** The answers to requests of the tab, as JSON. */
private[ui] trait TabContent {

  /** The list of queries, and the reports of one of them.
    *
    * @param run
    *   by default the newest one
    * @param key
    *   the id of the key whose closed panes are wanted
    */
  def queries(run: Option[String], key: Option[String]): String

  /** Open panes of an operator, or those of a key. */
  def panes(run: Option[String], operator: Option[String], key: Option[String]): String
}

/** The queries of a running application. */
private[ui] final class LiveContent(monitor: QueryMonitor) extends TabContent {
  private val openPanes = new PanesJson(monitor)

  override def queries(run: Option[String], key: Option[String]): String = QueryJson(monitor, run, key)

  override def panes(run: Option[String], operator: Option[String], key: Option[String]): String =
    openPanes(run, operator, key)
}
