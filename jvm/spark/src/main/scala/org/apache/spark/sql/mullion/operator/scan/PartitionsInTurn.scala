package org.apache.spark.sql.mullion.operator.scan

import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec
import org.apache.spark.sql.execution.{FilterExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.mullion.operator.WindowExec
import org.apache.spark.sql.mullion.operator.program.{OperatorProgram, WindowProgram}
import org.apache.spark.sql.mullion.query.RunningQuery
import org.apache.spark.sql.mullion.shim.SparkVersionShim

import dev.mullion.windows.rules.{AlignedRules, SessionRules}

/** The conditions under which one task may process all partitions of an operator's state: in a batch whose rows each
  * task could read, see [[ReadByEachTask]].
  *
  * Nodes above the operator then have one partition instead of the planned number. Only projections and filters, which
  * are independent of it, and the sink may be above the operator. No other stateful operator may, because its
  * partitions are numbers of stores.
  *
  * Two tasks process large state in half the time of one. The state must therefore be small, judging by the previous
  * batch, and a record may produce only a few rows. The state must also be loaded where the task runs, which is certain
  * if there is one executor.
  */
private[scan] object PartitionsInTurn {

  // Scanning this many records takes some milliseconds.
  private[scan] val MostRecords = 10000L

  // Opening and committing a partition takes as long as starting a task and opening a file: more of them would wait for
  // each other while cores are idle.
  private val MostPartitions = 2

  /** The operator of a batch's plan whose partitions may be in one task. */
  def operator(plan: SparkPlan): Option[WindowExec] = plan match {
    case write: WriteToDataSourceV2Exec                                                    => operator(write.query)
    case above @ (_: ProjectExec | _: FilterExec) if RepeatableExpressions.areAllOf(above) =>
      operator(above.children.head)
    case window: WindowExec if window.isKnown && mayBe(window) => Some(window)
    case _                                                     => None
  }

  private def mayBe(window: WindowExec): Boolean =
    window.session.sparkContext.isLocal && standsAlone(window.program) && window.stateInfo.exists { info =>
      info.numPartitions <= MostPartitions && isSmall(window, info)
    }

  private def standsAlone(program: OperatorProgram): Boolean = program match {
    case window: WindowProgram =>
      window.lateRow.isEmpty && (window.rules match {
        case aligned: AlignedRules => !aligned.knowsKeys
        case _: SessionRules       => true
        case _                     => false
      })
    case _ => false
  }

  /** True if the previous batch left few records, in all operators of its query. A run's first batch has no previous
    * one; it may have been begun by an earlier run, and must keep its tasks.
    */
  private def isSmall(window: WindowExec, info: SparkVersionShim.StateInfo): Boolean =
    RunningQuery.find(window.session, info.queryRunId).flatMap(query => Option(query.lastProgress)).exists { before =>
      before.batchId >= info.storeVersion - 1 && before.stateOperators.nonEmpty &&
      before.stateOperators.map(_.numRowsTotal).sum <= MostRecords
    }
}
