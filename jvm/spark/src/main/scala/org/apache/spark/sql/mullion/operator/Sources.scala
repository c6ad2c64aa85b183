package org.apache.spark.sql.mullion.operator

import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec
import org.apache.spark.sql.execution.{LocalTableScanExec, SparkPlan, StreamSourceAwareSparkPlan}
import org.apache.spark.sql.mullion.query.TickStream

/** The sources of a batch's plan. */
private[mullion] object Sources {

  /** True if a source of the stream had rows. In a batch without rows each source of the stream is an empty scan; a
    * joined table is not a source. A reused shuffle of another branch of the plan is a leaf here, with its sources
    * behind it.
    */
  def gaveRows(plan: SparkPlan): Boolean = plan.collectLeaves().exists {
    case scan: LocalTableScanExec           => scan.getStream.isDefined && scan.rows.nonEmpty
    case source: StreamSourceAwareSparkPlan => source.getStream.exists(!_.isInstanceOf[TickStream])
    case between: RowsOfStage               => between.rowsCame
    case reused: ReusedExchangeExec         => gaveRows(reused.child)
    case _                                  => false
  }

  /** True if the input ends with this batch: see `Tick`. */
  def end(plan: SparkPlan): Boolean = plan.collectLeaves().exists {
    case scan: MicroBatchScanExec   => TickStream.endsBetween(scan.start, scan.end)
    case reused: ReusedExchangeExec => end(reused.child)
    case _                          => false
  }
}
