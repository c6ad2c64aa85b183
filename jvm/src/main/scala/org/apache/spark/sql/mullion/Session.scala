package org.apache.spark.sql.mullion

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.classic.{DataFrame => ClassicDataFrame, Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.mullion.functions.SqlFunctions
import org.apache.spark.sql.mullion.stateful.StatefulStrategy

import dev.mullion.MullionException

/** Spark's sessions, as Mullion needs them. */
object Session {

  def classic(spark: SparkSession): ClassicSession = spark match {
    case session: ClassicSession => session
    case other                   => throw connect(other.getClass.getName)
  }

  def classic(df: DataFrame): ClassicDataFrame = df match {
    case dataset: Dataset[_] => dataset.toDF()
    case other               => throw connect(other.getClass.getName)
  }

  /** Adds what the extension would have added, as far as a session that runs already takes it. */
  def install(spark: SparkSession): Unit = {
    val experimental = classic(spark).experimental
    experimental.synchronized {
      Seq(WindowStrategy, StatefulStrategy)
        .filterNot(experimental.extraStrategies.contains)
        .foreach(experimental.extraStrategies :+= _)
      if (!experimental.extraOptimizations.contains(RefuseWithFirstBatch))
        experimental.extraOptimizations :+= RefuseWithFirstBatch
    }
    SqlFunctions.register(classic(spark))
    QueryPage.tellOfMetrics(classic(spark))
  }

  private def connect(found: String): MullionException = MullionException.unsupported(
    s"This session is a Spark Connect client ($found), and Mullion plans queries inside of the driver. Use a classic session: " +
      "one that is built without remote(...)."
  )
}
