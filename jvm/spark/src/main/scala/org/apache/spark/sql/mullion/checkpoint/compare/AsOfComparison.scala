package org.apache.spark.sql.mullion.checkpoint.compare

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.Row
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.mullion.checkpoint.layout.StateOperators
import org.apache.spark.sql.mullion.operator.asof.AsOfHeader
import org.apache.spark.sql.mullion.plan.StreamAsOfJoin

/** The effect of a changed query on the state of as-of joins, before it starts. */
private[checkpoint] object AsOfComparison {
  import Comparison.{GoesOn, Refused}

  /** Rows in the form of [[Comparison]]. */
  def apply(spark: SparkSession, joins: Seq[StreamAsOfJoin], home: Path): Seq[Row] = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val existing = for {
      id <- StateOperators.find(home, hadoopConf).getOrElse(Nil)
      header <- AsOfHeader.read(new Path(home, s"state/$id"), hadoopConf)
    } yield id -> header
    if (existing.length != joins.length)
      Seq(
        Row(
          0L,
          AsOf,
          Refused,
          s"the checkpoint has ${existing.length} as-of joins, and the query has ${joins.length}"
        )
      )
    else
      existing.zip(joins).flatMap { case ((operator, was), now) =>
        val differences = was.differences(now.program.header)
        if (differences.isEmpty) Seq(Row(operator, AsOf, GoesOn, "the state means what it meant"))
        else differences.map(Row(operator, AsOf, Refused, _))
      }
  }

  private val AsOf = "as-of join"
}
