package org.apache.spark.sql.mullion.checkpoint.inspect

import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.mullion.monitor.ui.PaneReader

/** [[OpenPanes]] for the tab of the web UI. */
final class OpenPaneReader extends PaneReader {
  override def read(
      spark: SparkSession,
      checkpoint: String,
      operator: Int,
      running: Option[StreamExecution]
  ): DataFrame = OpenPanes.ofRun(spark, checkpoint, operator, running)
}
