package org.apache.spark.sql.mullion.monitor.ui

import java.util.ServiceLoader

import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.mullion.monitor.OperatorDescription

/** Reads the open panes of an operator from its state. Its implementation is a service, because it belongs to a higher
  * layer.
  */
private[mullion] trait PaneReader {

  /** The columns of `open_panes`.
    *
    * @param running
    *   the query, while it runs
    */
  def read(
      spark: SparkSession,
      checkpoint: String,
      operator: OperatorDescription,
      running: Option[StreamExecution]
  ): DataFrame
}

private[mullion] object PaneReader {
  lazy val service: PaneReader =
    ServiceLoader.load(classOf[PaneReader], classOf[PaneReader].getClassLoader).findFirst.get

  /** The columns of `open_panes` that are no keys. */
  val Facts: Set[String] = Set(
    "window_name",
    "window",
    "closes_at",
    "clock",
    "clock_at",
    "waits_for",
    "held_by",
    "fired",
    "last_fired",
    "rows"
  )
}
