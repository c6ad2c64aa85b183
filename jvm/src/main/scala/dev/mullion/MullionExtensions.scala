package dev.mullion

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.mullion.functions.SqlFunctions
import org.apache.spark.sql.mullion.plan.{RefuseAtStart, WindowStrategy}
import org.apache.spark.sql.mullion.python.StatefulStrategy

/** Adds Mullion to a session: `spark.sql.extensions=dev.mullion.MullionExtensions`. */
class MullionExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectPlannerStrategy(_ => WindowStrategy)
    extensions.injectPlannerStrategy(_ => StatefulStrategy)
    // Before anything is resolved: Spark's own check of output modes comes with the resolution of the sink.
    extensions.injectHintResolutionRule(_ => RefuseAtStart)
    SqlFunctions.inject(extensions)
  }
}
