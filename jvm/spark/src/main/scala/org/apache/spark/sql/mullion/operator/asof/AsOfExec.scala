package org.apache.spark.sql.mullion.operator.asof

import org.apache.hadoop.conf.Configuration

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{
  Distribution,
  Partitioning,
  UnknownPartitioning,
  UnspecifiedDistribution
}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOperatorCustomMetric,
  StatefulOperatorPartitioning
}
import org.apache.spark.sql.mullion.operator.engine.PartitionTotals
import org.apache.spark.sql.mullion.operator.metrics.{MinAccumulator, WindowMetrics}
import org.apache.spark.sql.mullion.operator.{BatchFacts, CountedRows, SortByKeyExec, Sources}
import org.apache.spark.sql.mullion.shim.{SparkOperator, SparkVersionShim}
import org.apache.spark.sql.mullion.state.record.{FamilySpec, StatePartition}
import org.apache.spark.sql.mullion.state.{OwnStateExec, PartitionOpener, SettingsOfRun, StateRDD}

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.spec.TimeMath

/** The operator of as-of joins: emits each left row with its match, once the watermark of both sides has passed the
  * times that can match.
  *
  * {{{
  *   left  - (key, time, left, null)  ─┐
  *                                     ├─ union - arrival - [shuffle by key] - [sort by time] - AsOfExec
  *   right - (key, time, null, right) ─┘
  * }}}
  */
final class AsOfExec private (facts: SparkOperator.Facts, val program: AsOfProgram)
    extends SparkOperator(facts)
    with OwnStateExec
    with SortByKeyExec.Wanted {

  override protected def withFacts(facts: SparkOperator.Facts): AsOfExec = new AsOfExec(facts, program)

  override protected def forBatch(facts: SparkOperator.Facts): SparkOperator.Facts = facts

  override def nodeName: String = "AsOfJoin"

  override def simpleString(maxFields: Int): String = s"$nodeName ${program.describe}"

  override def output: Seq[Attribute] = program.output

  // The keys are not among the output columns.
  override def outputPartitioning: Partitioning = UnknownPartitioning(child.outputPartitioning.numPartitions)

  override def shortName: String = AsOfExec.operatorName

  override protected def families: Seq[FamilySpec] = program.state.families

  override def requiredChildDistribution: Seq[Distribution] = Seq(
    StatefulOperatorPartitioning.getCompatibleDistribution(program.keys, getStateInfo, conf),
    UnspecifiedDistribution
  )

  override def requiredChildOrdering: Seq[Seq[SortOrder]] = Seq(program.ordering, Nil)

  override def customStatefulOperatorMetrics: Seq[StatefulOperatorCustomMetric] = WindowMetrics.ofJoins

  @transient private lazy val nextDue = MinAccumulator.register(sparkContext, "nextDue")

  /** Another batch is useful if a row is due by the watermark that it would have. */
  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean =
    nextDue.value != AsOfEngine.Never && nextDue.value <= TimeMath.fromMillis(newInputWatermark)

  override def produceOutputWatermark(inputWatermarkMs: Long): Option[Long] =
    Some(TimeMath.toMillis(program.rules.outputWatermark(TimeMath.fromMillis(inputWatermarkMs))))

  override protected def checkState(hadoopConf: Configuration): Unit =
    AsOfHeader.check(program, getStateInfo, hadoopConf)

  override protected def doExecute(): RDD[InternalRow] = {
    val info = getStateInfo
    followStreams(info.storeVersion, isIdling = false, Sources.gaveRows)
    val clock = BatchClock(
      BatchFacts.clockBefore(stateInfo, eventTimeWatermarkForLateEvents.get),
      now = TimeMath.fromMillis(eventTimeWatermarkForEviction.get),
      wall = TimeMath.fromMillis(batchTimestampMs.get),
      rowsCame = true,
      number = info.storeVersion
    )
    metrics // created on the driver, used in the tasks
    val (due, count, joins) = (nextDue, counter, program)
    val body = (index: Int, partition: StatePartition, input: Iterator[InternalRow]) => {
      val counts = new AsOfCounts
      val rows = AsOfEngine(joins, clock, partition, counts).process(input)
      new CountedRows(rows, longMetric("numOutputRows"))({
        val ended = System.nanoTime()
        due.add(counts.nextDue)
        count(index) {
          commit(partition, counts)
          longMetric("commitTimeMs") += (System.nanoTime() - ended) / 1000000L
        }
      })
    }
    new StateRDD(
      child.execute(),
      PartitionOpener(families, info, session, conf, checkpointInfoAccumulator),
      SettingsOfRun(info.queryRunId, session),
      Some(session.streams.stateStoreCoordinator),
      body,
      output = None
    )
  }

  private def commit(partition: StatePartition, counts: AsOfCounts): Unit = {
    val (records, read) = (partition.rowsAdded, partition.rowsRead)
    val (_, total) = new PartitionTotals(partition).add(counts.leftsAdded - counts.leftsEmitted, records)
    partition.commit()
    longMetric("stateRowsRead") += read
    longMetric("rowsLate") += counts.rowsLate
    longMetric("rowsWithoutTime") += counts.rowsWithoutTime
    // Spark's own metric: alerts and its page of a query use it.
    longMetric("numRowsDroppedByWatermark") += counts.rowsLate
    longMetric("numUpdatedStateRows") += counts.leftsAdded
    longMetric("numRemovedStateRows") += counts.leftsEmitted
    countStores(partition, total)
  }
}

object AsOfExec {

  /** The name of this operator in Spark's checkpoints. */
  val operatorName = "mullionAsOf"

  def apply(program: AsOfProgram, child: SparkPlan): AsOfExec =
    new AsOfExec(SparkOperator.Facts.unknown(program.keys, SparkVersionShim.emptyScan, child), program)
}
