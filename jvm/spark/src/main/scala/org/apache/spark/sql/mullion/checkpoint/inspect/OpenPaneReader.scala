package org.apache.spark.sql.mullion.checkpoint.inspect

import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.mullion.monitor.OperatorDescription
import org.apache.spark.sql.mullion.monitor.ui.PaneReader

/** [[OpenPanes]] for the tab of the web UI. */
final class OpenPaneReader extends PaneReader {
  override def read(
      spark: SparkSession,
      checkpoint: String,
      operator: OperatorDescription,
      running: Option[StreamExecution]
  ): DataFrame = {
    // The operator of a window between stages has a number of its own.
    val number = operator.branch.fold(operator.number.toInt)(_ => -1)
    OpenPanes.ofRun(spark, checkpoint, number, operator.branch, running)
  }
}
