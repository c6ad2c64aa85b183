package org.apache.spark.sql.mullion.request

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.mullion.plan.{PruneJson, RefuseWithFirstBatch, WindowStrategy}
import org.apache.spark.sql.mullion.pyfunction.keyed.KeyedFunctionStrategy
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.mullion.sqlfunctions.SqlFunctions

/** Adds the parts of the extension to a running session, as far as possible. */
object Installation {

  def install(spark: SparkSession): Unit = {
    val experimental = Classic.session(spark).experimental
    experimental.synchronized {
      Seq(WindowStrategy, KeyedFunctionStrategy)
        .filterNot(experimental.extraStrategies.contains)
        .foreach(experimental.extraStrategies :+= _)
      Seq(RefuseWithFirstBatch, PruneJson)
        .filterNot(experimental.extraOptimizations.contains)
        .foreach(experimental.extraOptimizations :+= _)
    }
    SqlFunctions.register(Classic.session(spark))
    QueryPage.tellOfMetrics(Classic.session(spark))
  }
}
