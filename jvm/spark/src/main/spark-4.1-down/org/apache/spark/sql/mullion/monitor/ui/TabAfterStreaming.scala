package org.apache.spark.sql.mullion.monitor.ui

import org.apache.spark.ui.{SparkUI, SparkUITab}

/** A tab next to Structured Streaming, up to 4.1: tabs are in the order of their creation. */
private[ui] abstract class TabAfterStreaming(ui: SparkUI, path: String) extends SparkUITab(ui, path)
