package org.apache.spark.sql.mullion.monitor.ui

import org.apache.spark.ui.{SparkUI, SparkUITab}

/** A tab next to Structured Streaming, from 4.2 on: tabs with equal numbers are in the order of their creation. */
private[ui] abstract class TabAfterStreaming(ui: SparkUI, path: String) extends SparkUITab(ui, path) {
  override def displayOrder: Int = 2
}
