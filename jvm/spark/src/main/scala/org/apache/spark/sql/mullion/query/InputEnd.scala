package org.apache.spark.sql.mullion.query

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/** An operator that closes its open panes when the input of its query ends. */
private[mullion] trait ClosesAtEnd { this: SparkPlan =>

  /** True if it waits for the end of the input after its batch: it has panes to close or records to delete. */
  def awaitsEnd: Boolean

  /** True if its batch had rows. */
  def hadRows: Boolean
}

/** The end of a query's input: see `Tick`. */
private[mullion] object InputEnd {

  /** True if the next batch of a query is the one with which its input ends. Called while Spark plans that batch. */
  def isNext(query: StreamExecution): Boolean = RunningQuery.isDraining(query) && {
    val operators = Option(query.lastExecution).toSeq.flatMap(_.executedPlan.collect { case of: ClosesAtEnd => of })
    operators.exists(_.awaitsEnd) && !operators.exists(_.hadRows)
  }
}
