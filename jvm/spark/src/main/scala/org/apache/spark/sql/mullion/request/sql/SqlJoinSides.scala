package org.apache.spark.sql.mullion.request.sql

import org.json4s._

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.mullion.request.Several

import dev.mullion.MullionException

/** The two sides of a join in SQL: `left => TABLE(...)` and `right => TABLE(...)`. */
private[request] object SqlJoinSides {

  def apply(arguments: SqlArguments): Several = Several(Seq("left", "right").map { side =>
    val rows = arguments.table(side)
    if (rows.partitionByExpressions.nonEmpty || rows.orderByExpressions.nonEmpty || rows.withSinglePartition)
      throw MullionException.invalid(
        s"$side => TABLE(...) of ${arguments.function} has PARTITION BY, ORDER BY or WITH SINGLE PARTITION. Leave them out, " +
          "and name the keys with by => '...'."
      )
    rows.plan
  })

  /** The names of the keys. */
  def keys(arguments: SqlArguments): JArray = JArray(arguments.columns("by").toList.map {
    case UnresolvedAttribute(Seq(column)) => JString(column)
    case other                            =>
      throw MullionException.invalid(
        s"by => '${other.sql}' of ${arguments.function} is not the name of a column. Name columns that both sides have."
      )
  })
}
