package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.classic.{DataFrame => ClassicDataFrame, Dataset, SparkSession => ClassicSession}

import dev.mullion.MullionException

/** Rejects sessions and DataFrames of Spark Connect, for which no plan can be built here. */
object Classic {

  def session(spark: SparkSession): ClassicSession = spark match {
    case session: ClassicSession => session
    case other                   => throw connect(other.getClass.getName)
  }

  def frame(df: DataFrame): ClassicDataFrame = df match {
    case dataset: Dataset[_] => dataset.toDF()
    case other               => throw connect(other.getClass.getName)
  }

  private def connect(found: String): MullionException = MullionException.unsupported(
    s"This session is a Spark Connect client ($found), and Mullion plans queries inside of the driver. Use a classic session: " +
      "one that is built without remote(...)."
  )
}
