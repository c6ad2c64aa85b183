package org.apache.spark.sql.mullion.request

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.{
  RocksDBStateStoreProvider,
  StateStoreCustomMetric,
  StateStoreCustomSumMetric
}
import org.apache.spark.sql.mullion.operator.metrics.WindowMetrics

/** Registers Mullion's metrics for Spark's page of a streaming query. The page draws the metrics in
  * `spark.sql.streaming.ui.enabledCustomMetricList`, but only has the definitions of the session's state store: for
  * those of an operator or another store it would fail. RocksDB's metrics are registered too.
  */
private[mullion] object QueryPage extends Logging {

  def tellOfMetrics(spark: SparkSession): Unit =
    try {
      // Creates the page, which otherwise happens when a session's first query is started.
      spark.sharedState.streamingQueryStatusListener
      for {
        ui <- spark.sparkContext.ui.toSeq
        tab <- ui.getTabs if tab.prefix == "StreamingQuery"
        page <- tab.pages if page.prefix.endsWith("statistics")
      } tell(page)
    } catch {
      case NonFatal(error) =>
        logWarning(
          "Mullion's metrics cannot be registered for Spark's page of a streaming query: the page fails if " +
            "spark.sql.streaming.ui.enabledCustomMetricList names one.",
          error
        )
    }

  private def tell(page: AnyRef): Unit = {
    val field = page.getClass.getDeclaredField("supportedCustomMetrics")
    field.setAccessible(true)
    val definitions = field.get(page).asInstanceOf[Seq[StateStoreCustomMetric]]
    field.set(page, (definitions ++ ours).distinctBy(_.name))
  }

  private def ours: Seq[StateStoreCustomMetric] =
    WindowMetrics.all.map(metric => StateStoreCustomSumMetric(metric.name, metric.desc)) ++
      new RocksDBStateStoreProvider().supportedCustomMetrics
}
