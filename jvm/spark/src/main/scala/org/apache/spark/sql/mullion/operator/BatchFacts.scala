package org.apache.spark.sql.mullion.operator

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.mullion.expressions.columns.{BatchNumber, InShard}
import org.apache.spark.sql.mullion.operator.assign.{
  AssignsPanes,
  FusedWatermarkExec,
  PutAsideLateRowsExec,
  StampTimeExec
}
import org.apache.spark.sql.mullion.operator.bounded.SlicesToOpenWindowsExec
import org.apache.spark.sql.mullion.operator.program.OperatorProgram
import org.apache.spark.sql.mullion.query.DriverClock
import org.apache.spark.sql.mullion.shim.SparkVersionShim

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.spec.TimeMath

/** The facts of a batch for the nodes below an operator. Spark sets them one by one, with copies of the operator: a
  * fact that is not known yet is none.
  *
  * @param partitions
  *   the number of the operator's state partitions
  * @param before
  *   the clock by which rows are late, in microseconds: the event clock of the previous batch, or its substitute after
  *   a change of the lateness
  * @param ahead
  *   the latest time of rows that are not too far ahead of the wall clock, in microseconds, if that is limited
  * @param now
  *   the batch's processing time, in microseconds, if the operator is on it
  * @param batch
  *   the batch's number
  */
private[operator] final case class BatchFacts(
    partitions: Option[Int],
    before: Option[Long],
    ahead: Option[Long],
    now: Option[Long],
    batch: Option[Long]
) {

  /** The nodes below an operator, with these facts. Another operator of Mullion may be below them. */
  def informed(plan: SparkPlan, operator: String): SparkPlan = plan match {
    case assigner: AssignsPanes if assigner.operator == operator => below(assigner.forBatch(before, ahead), operator)
    case stamp: StampTimeExec if stamp.operator == operator      => below(stamp.copy(now = now), operator)
    case windows: SlicesToOpenWindowsExec if windows.operator == operator =>
      below(windows.copy(partitions = partitions, before = before), operator)
    case aside: PutAsideLateRowsExec if aside.operator == WindowExec.shuffled(operator) =>
      below(aside.copy(partitions = partitions), operator)
    case watermark: FusedWatermarkExec => below(ahead.fold(watermark)(watermark.upTo), operator)
    case other                         => below(other, operator)
  }

  private def below(node: SparkPlan, operator: String): SparkPlan = {
    val numbered = batch.zip(partitions).fold(node) { case (number, shards) =>
      node.transformExpressions(BatchNumber.forBatch(number) orElse InShard.forBatch(shards))
    }
    numbered.withNewChildren(numbered.children.map(informed(_, operator)))
  }
}

private[operator] object BatchFacts {

  /** @param since
    *   the batch in which the operator's state begins, for a branch
    */
  def of(
      session: SparkSession,
      program: OperatorProgram,
      info: Option[SparkVersionShim.StateInfo],
      since: Option[Long],
      batchTimestampMs: Option[Long],
      lateEventsMs: Option[Long]
  ): BatchFacts = {
    val batch = info.map(_.storeVersion + since.getOrElse(0L))
    BatchFacts(
      info.map(_.numPartitions),
      before =
        // On processing time no row is ever late.
        if (program.onProcessingTime) Some(BatchClock.BeforeAllTime)
        else
          lateEventsMs.map(clockBefore(info, _)).map { before =>
            val continued = info.filter(_ => since.isEmpty).flatMap { known =>
              Continued.of(session, program, known).flatMap(_.closedDue(known.storeVersion, before))
            }
            continued.getOrElse(before)
          },
      ahead = batchTimestampMs.flatMap(aheadOf(program, _)),
      now = for {
        known <- info if program.onProcessingTime
        timestamp <- batchTimestampMs
        number <- batch
      } yield DriverClock(session, known.queryRunId, known.operatorId).processingTime(number, timestamp)._2,
      batch
    )
  }

  /** The latest time of rows that are not too far ahead of the wall clock, in microseconds, if that is limited. */
  def aheadOf(program: OperatorProgram, batchTimestampMs: Long): Option[Long] =
    program.maxAhead.map(TimeMath.plus(TimeMath.fromMillis(batchTimestampMs), _))

  /** The event clock of the previous batch, in microseconds; batch 0 has none, and no late rows. */
  def clockBefore(info: Option[SparkVersionShim.StateInfo], lateEventsMs: Long): Long =
    if (info.exists(_.storeVersion == 0)) BatchClock.BeforeAllTime else TimeMath.fromMillis(lateEventsMs)
}
