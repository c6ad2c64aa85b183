package org.apache.spark.sql.mullion.pyfunction.keyed

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{
  Distribution,
  Partitioning,
  UnknownPartitioning,
  UnspecifiedDistribution
}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOperatorCustomMetric,
  StatefulOperatorPartitioning
}
import org.apache.spark.sql.mullion.operator.metrics.{MinAccumulator, WindowMetrics}
import org.apache.spark.sql.mullion.operator.{BranchBatch, Sources}
import org.apache.spark.sql.mullion.pyfunction.branch.{BranchExec, BranchState, ProcessedRowsExec, SharedClock}
import org.apache.spark.sql.mullion.pyfunction.state.{CallCounts, KeyedState, TimerClock}
import org.apache.spark.sql.mullion.query.{DriverClock, FollowsWallClock, RunningQuery}
import org.apache.spark.sql.mullion.shim.{BatchLimits, PythonFrames, SparkOperator, SparkVersionShim}
import org.apache.spark.sql.mullion.state.record.{FamilySpec, StatePartition}
import org.apache.spark.sql.mullion.state.{OwnStateExec, PartitionOpener, SettingsOfRun}
import org.apache.spark.sql.streaming.StateOperatorProgress
import org.apache.spark.util.CompletionIterator

import dev.mullion.MullionException
import dev.mullion.windows.spec.TimeMath

/** The operator of [[KeyedFunction]]: opens a partition's state, runs the stages, and commits after the last of them.
  *
  * {{{
  *   KeyedFunctionExec
  *    |- [shuffle by shard] - rows
  *    '- BranchesExec
  *        |- BranchExec - merge - partial aggregate - AssignSlices - ProcessedRowsExec 1
  *        '- ...
  * }}}
  *
  * The windows take the place of the base's initial state.
  */
final class KeyedFunctionExec private (facts: SparkOperator.Facts, val stages: KeyedFunctionStages)
    extends SparkOperator(facts)
    with OwnStateExec
    with FollowsWallClock {
  import stages.program

  override protected def withFacts(facts: SparkOperator.Facts): KeyedFunctionExec =
    new KeyedFunctionExec(facts, stages)

  override protected def forBatch(facts: SparkOperator.Facts): SparkOperator.Facts = {
    // The leaf nodes of the windows are not connected with the rows in the plan, so they need their facts.
    val branches = facts.stateInfo.fold(facts.initialState) { info =>
      val rowsCame = Sources.gaveRows(facts.child)
      facts.initialState.transformUp {
        case rows: ProcessedRowsExec if rows.stages == stages.id =>
          rows.copy(partitions = Some(info.numPartitions), rowsCame = rowsCame)
      }
    } match {
      case all: BranchesExec =>
        all.copy(children = all.children.zip(program.windows).map { case (plan, name) =>
          branchForBatch(
            plan,
            name,
            facts.stateInfo,
            facts.batchTimestampMs,
            facts.eventTimeWatermarkForLateEvents,
            facts.eventTimeWatermarkForEviction
          )
        })
      case other => other
    }
    facts.copy(initialState = branches)
  }

  /** A branch, with Spark's facts of the batch once complete. */
  private def branchForBatch(
      plan: SparkPlan,
      name: String,
      info: Option[SparkVersionShim.StateInfo],
      timestampMs: Option[Long],
      lateEventsMs: Option[Long],
      evictionMs: Option[Long]
  ): SparkPlan = {
    val branchBatch = for {
      of <- info
      timestamp <- timestampMs
      late <- lateEventsMs
      eviction <- evictionMs
      state <- BranchState.of(session, of.queryRunId, of.operatorId).get(name)
    } yield BranchBatch(name, state.info(of), state.since, timestamp, late, eviction)
    branchBatch.fold(plan)(batch => plan.transformUp { case b: BranchExec if b.batch.isEmpty => b.forBatch(batch) })
  }

  /** The plans of the branches, in the order of their names. */
  private def windows: Seq[SparkPlan] = right match {
    case all: BranchesExec => all.children
    case _                 => Nil
  }

  private def branches: Seq[(String, BranchExec)] = program.windows.zip(windows).flatMap { case (name, plan) =>
    plan.collectFirst { case branch: BranchExec => name -> branch }
  }

  // The base would keep its initial state unchanged after the first batch.
  override protected def withNewChildrenInternal(newLeft: SparkPlan, newRight: SparkPlan): SparkOperator =
    copy(child = newLeft, initialState = newRight)

  override def nodeName: String = "KeyedFunction"

  override def simpleString(maxFields: Int): String = s"$nodeName ${program.describe}"

  override def output: Seq[Attribute] = stages.output

  override def outputPartitioning: Partitioning = UnknownPartitioning(child.outputPartitioning.numPartitions)

  override def shortName: String = KeyedFunctionExec.operatorName

  override protected def families: Seq[FamilySpec] = KeyedState.families

  override def requiredChildDistribution: Seq[Distribution] = Seq(
    StatefulOperatorPartitioning.getCompatibleDistribution(stages.shards, getStateInfo, conf),
    UnspecifiedDistribution
  )

  override def requiredChildOrdering: Seq[Seq[SortOrder]] = Seq(Nil, Nil)

  override def customStatefulOperatorMetrics: Seq[StatefulOperatorCustomMetric] = WindowMetrics.ofFunctions

  @transient private lazy val nextDue =
    TimerClock.all.map(clock => clock -> MinAccumulator.register(sparkContext, s"next due, ${clock.name}")).toMap

  /** Another batch is useful if a timer is due by the clocks that it would have. */
  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean = {
    def wallMs = RunningQuery.timeMs(session, getStateInfo.queryRunId)
    def isDue(clock: TimerClock, ms: Long) =
      nextDue(clock).value != KeyedState.Never && nextDue(clock).value <= TimeMath.fromMillis(ms)

    // Called for each: they count from their first call.
    val ofWindows = branches.map(_._2.window.shouldRunAnotherBatch(newInputWatermark))
    ofWindows.contains(true) || isDue(TimerClock.Event, newInputWatermark) || wallMs.exists(isDue(TimerClock.Wall, _))
  }

  // The output of functions has no watermark.
  override def produceOutputWatermark(inputWatermarkMs: Long): Option[Long] = None

  override protected def checkState(hadoopConf: Configuration): Unit = {
    KeyedFunctionHeader.check(program, getStateInfo, hadoopConf)
    val plans = branches.toMap
    BranchState.settle(session, getStateInfo, program.windows, hadoopConf) { branch =>
      val first = BranchBatch(branch.name, branch.info(getStateInfo), branch.since, 0L, 0L, 0L)
      plans(branch.name).copy(batch = Some(first)).window.checkBranch(hadoopConf)
    }
    val info = getStateInfo
    val root = new Path(info.checkpointLocation, info.operatorId.toString)
    program.keys.foreach(RecordKeys.note(root, hadoopConf, info.storeVersion, _))
  }

  /** Includes the metrics of the branches, each under its name. */
  override def getProgress(): StateOperatorProgress = {
    val progress = super.getProgress()
    for ((name, plan) <- branches if plan.batch.isDefined) {
      val of = plan.window.getProgress()
      progress.customMetrics.put(s"$name.numRowsTotal", of.numRowsTotal)
      of.customMetrics.forEach { (metric, value) =>
        progress.customMetrics.put(s"$name.$metric", value)
        ()
      }
    }
    progress
  }

  // A window's own plan contains only part of the inputs of its clock.
  override def idleAfterMs: Option[Long] = branches.flatMap(_._2.program.idleAfter).map(TimeMath.toMillis(_)).minOption

  override protected def doExecute(): RDD[InternalRow] = {
    windows.zip(program.windows).foreach { case (plan, name) => checkInOneTask(plan, name) }
    followStreams(getStateInfo.storeVersion, idleAfterMs.isDefined, Sources.gaveRows)
    val clocks = SharedClock.of(windows, program.clocks)
    val info = getStateInfo
    val (_, wallUs) =
      DriverClock(session, info.queryRunId, info.operatorId).processingTime(info.storeVersion, batchTimestampMs.get)
    val task = new KeyedFunctionTask(
      stages,
      child.output,
      PythonFrames(program.process, conf, pythonMetrics),
      program.callbacks.map(PythonFrames(_, conf, pythonMetrics)),
      info.storeVersion,
      eventUs = TimeMath.fromMillis(eventTimeWatermarkForEviction.get),
      wallUs,
      BatchLimits(conf),
      SparkVersionShim.spillLimits(conf).copy(rowsInMemory = KeyedFunctionExec.framesInMemory),
      SparkVersionShim.spillLimits(conf)
    )
    val (due, count) = (nextDue, counter)
    metrics // created on the driver, used in the tasks
    new StagesRDD(
      child.execute(),
      windows.map(_.execute()),
      PartitionOpener(families, info, session, conf, checkpointInfoAccumulator),
      SettingsOfRun(info.queryRunId, session),
      Some(session.streams.stateStoreCoordinator),
      (index, partition, input, panes, context) => {
        val state = new KeyedState(
          partition,
          {
            case TimerClock.Event => task.eventUs
            case TimerClock.Wall  => task.wallUs
          }
        )
        // Closes scans that a function left open, before the store is released.
        context.addTaskCompletionListener[Unit](_ => state.closeScans())
        val calls = new CallCounts
        val rows = task.run(index, input, state, panes, calls, context)
        val numOutputRows = longMetric("numOutputRows")
        val counted = rows.map { row => numOutputRows += 1; row }
        CompletionIterator[InternalRow, Iterator[InternalRow]](
          counted, {
            val ended = System.nanoTime()
            clocks.foreach(_.spread(context))
            due.foreach { case (clock, least) => least.add(state.nextDue(clock)) }
            count(index) {
              commit(partition, state)
              longMetric("callsProcess") += calls.process
              longMetric("callsCallbacks") += calls.callbacks
              longMetric("rowsFolded") += calls.folded
              longMetric("commitTimeMs") += (System.nanoTime() - ended) / 1000000L
            }
          }
        )
      }
    )
  }

  private def checkInOneTask(plan: SparkPlan, name: String): Unit =
    plan.find(_.isInstanceOf[Exchange]).foreach { exchange =>
      throw MullionException.unsupported(
        s"The window '$name' is between two stages of one task, and an operation on its rows or panes needs a shuffle " +
          s"(${exchange.simpleString(10)}). Move it before the first stage or after the last."
      )
    }

  private def commit(partition: StatePartition, state: KeyedState): Unit = {
    val total = state.commit()
    longMetric("stateRowsRead") += state.rowsRead
    longMetric("numUpdatedStateRows") += state.recordsWritten
    longMetric("numRemovedStateRows") += state.recordsRemoved
    longMetric("rowsLate") += state.rowsLate
    state.lateLines.foreach(line => logWarning(line))
    longMetric("numRowsDroppedByWatermark") += state.rowsLate
    countStores(partition, total)
  }
}

object KeyedFunctionExec {

  /** The name of this operator in Spark's checkpoints. */
  val operatorName = "mullionFunction"

  // Each may have megabytes.
  private val framesInMemory = 16

  def apply(stages: KeyedFunctionStages, child: SparkPlan, windows: BranchesExec): KeyedFunctionExec =
    new KeyedFunctionExec(SparkOperator.Facts.unknown(stages.shards, initialState = windows, child), stages)
}

/** The branches, windows between two stages of [[KeyedFunctionExec]], which runs them itself. */
case class BranchesExec(children: Seq[SparkPlan]) extends SparkPlan {
  override def output: Seq[Attribute] = Nil

  override protected def doExecute(): RDD[InternalRow] =
    throw new UnsupportedOperationException("windows between stages run in the tasks of the stages")

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[SparkPlan]): BranchesExec =
    copy(children = newChildren)
}
