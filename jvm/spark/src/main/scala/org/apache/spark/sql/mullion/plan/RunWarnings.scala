package org.apache.spark.sql.mullion.plan

import java.util.WeakHashMap

import scala.collection.mutable

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.streaming.InternalOutputModes
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.mullion.query.RunningQuery

import dev.mullion.windows.spec.Setting

/** Warnings about a running query, logged once per run: a query is planned anew for every batch. */
private[plan] object RunWarnings extends Logging {

  // Entries are removed with their query.
  private val logged = new WeakHashMap[StreamExecution, mutable.Set[String]]()

  /** Logs the warnings that this run has not logged yet. */
  def log(warnings: Seq[String]): Unit = if (warnings.nonEmpty) RunningQuery.current.foreach { query =>
    val before = logged.synchronized(logged.computeIfAbsent(query, _ => mutable.Set.empty[String]))
    before.synchronized(warnings.filter(before.add)).foreach(text => logWarning(text))
  }

  /** Logs what differs from Spark's own aggregation in the output mode `update`. */
  def logUpdateMode(node: WindowedAggregate): Unit =
    if (RunningQuery.current.exists(_.outputMode == InternalOutputModes.Update)) log(updateMode(node).toSeq)

  /** A warning for panes that fire only when they close, under a query in the output mode `update`. */
  def updateMode(node: WindowedAggregate): Option[String] = {
    val firesBefore = node.rules.firesEarly || node.rules.refinements.onTime || node.rows.exists(_.running)
    Option.unless(firesBefore)(
      s"In the output mode 'update' Spark's own windows emit each change, and these panes (${node.rules.window.describe}) " +
        "are emitted once, when they close. For a firing in each batch that changes a pane, write " +
        s"${Setting.earlyCount(1)}."
    )
  }
}
