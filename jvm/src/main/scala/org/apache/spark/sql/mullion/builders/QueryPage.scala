package org.apache.spark.sql.mullion.builders

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.{
  RocksDBStateStoreProvider,
  StateStoreCustomMetric,
  StateStoreCustomSumMetric
}
import org.apache.spark.sql.mullion.exec.metrics.WindowMetrics

/** Spark's page of a streaming query draws the metrics that `spark.sql.streaming.ui.enabledCustomMetricList` names, and
  * knows those of the session's state store alone: for one of an operator, or of another store, it fails with an error
  * of its own. So it is told of ours, and of RocksDB's.
  */
private[mullion] object QueryPage extends Logging {

  def tellOfMetrics(spark: SparkSession): Unit =
    try {
      // The page is made with it, when a session's first query is started if not now.
      spark.sharedState.streamingQueryStatusListener
      for {
        ui <- spark.sparkContext.ui.toSeq
        tab <- ui.getTabs if tab.prefix == "StreamingQuery"
        page <- tab.pages if page.prefix.endsWith("statistics")
      } tell(page)
    } catch {
      case NonFatal(error) =>
        logWarning(
          "Spark's page of a streaming query cannot be told of Mullion's metrics: it fails where " +
            "spark.sql.streaming.ui.enabledCustomMetricList names one.",
          error
        )
    }

  private def tell(page: AnyRef): Unit = {
    val field = page.getClass.getDeclaredField("supportedCustomMetrics")
    field.setAccessible(true)
    val known = field.get(page).asInstanceOf[Seq[StateStoreCustomMetric]]
    field.set(page, (known ++ ours).distinctBy(_.name))
  }

  private def ours: Seq[StateStoreCustomMetric] =
    WindowMetrics.all.map(metric => StateStoreCustomSumMetric(metric.name, metric.desc)) ++
      new RocksDBStateStoreProvider().supportedCustomMetrics
}
