package org.apache.spark.sql.mullion.exec.scan

import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec
import org.apache.spark.sql.execution.{FilterExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.mullion.exec.WindowExec
import org.apache.spark.sql.mullion.exec.programs.{OperatorProgram, WindowProgram}
import org.apache.spark.sql.mullion.query.RunningQuery
import org.apache.spark.sql.mullion.shim.SparkLineShim

import dev.mullion.windows.rules.{AlignedRules, SessionRules}

/** Where a task may work on all partitions of an operator's state: in a batch whose rows each task could read, see
  * [[ReadByEachTask]].
  *
  * What stands above the operator then has its rows in one partition where it was planned for several. So nothing may
  * stand there but selections and filters, whose rows do not depend on it, and the writing of what comes out. No other
  * operator with state does, for which partitions are numbers of stores.
  *
  * Two tasks go through much state in half the time of one. So there must be little of it, by what the batch before
  * said, and a record may give no more than a few rows. And state must be loaded where the task runs, which is known
  * where there is one place.
  */
private[scan] object PartitionsInTurn {

  // To go through so many records takes some milliseconds.
  private[scan] val MostRecords = 10000L

  // To open and to commit one partition takes as long as to begin a task and to open a file: more of them would wait
  // for one another where cores are idle.
  private val MostPartitions = 2

  /** The operator of a batch's plan that may have its partitions in one task. */
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

  /** True if the batch before this one left few records, in all operators of its query. A run's first batch has none
    * before it. It may be one that an earlier run has begun, and then has the tasks that it had.
    */
  private def isSmall(window: WindowExec, info: SparkLineShim.StateInfo): Boolean =
    RunningQuery.find(window.session, info.queryRunId).flatMap(query => Option(query.lastProgress)).exists { before =>
      before.batchId >= info.storeVersion - 1 && before.stateOperators.nonEmpty &&
      before.stateOperators.map(_.numRowsTotal).sum <= MostRecords
    }
}
