package org.apache.spark.sql.mullion.operator

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning, UnspecifiedDistribution}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorCustomMetric
import org.apache.spark.sql.mullion.monitor.{ClosedPane, MonitorSettings}
import org.apache.spark.sql.mullion.operator.assign.{AssignsPanes, ByKey, PutAsideLateRowsExec}
import org.apache.spark.sql.mullion.operator.engine.{
  EndOfInput,
  LateRows,
  OpenEnds,
  PaneCounts,
  PartitionTotals,
  RowProgram
}
import org.apache.spark.sql.mullion.operator.metrics.{LastOfPartitions, LatenessCounts, MinAccumulator, WindowMetrics}
import org.apache.spark.sql.mullion.operator.program.{OperatorProgram, WindowProgram}
import org.apache.spark.sql.mullion.query.{ClosesAtEnd, DriverClock, FollowsWallClock, RunningQuery, StreamWatermarks}
import org.apache.spark.sql.mullion.shim.{SparkOperator, SparkVersionShim}
import org.apache.spark.sql.mullion.state.header.OperatorHeader
import org.apache.spark.sql.mullion.state.record.{FamilySpec, StatePartition}
import org.apache.spark.sql.mullion.state.{BatchOutput, OwnStateExec, PartitionOpener, SettingsOfRun, StateRDD}
import org.apache.spark.sql.streaming.StateOperatorProgress
import org.apache.spark.util.CompletionIterator

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.spec.TimeMath

/** The operator: merges the partial aggregates of a batch into the panes in state, and emits panes that close or fire.
  *
  * {{{
  *   scan - AssignSlices - partial aggregate - [shuffle by key] - [merge] - WindowExec
  * }}}
  *
  * The merge combines the rows that several tasks produced for one group, if the operator requires that.
  *
  * @param branch
  *   its batch, for a branch; see `BranchExec`
  */
final class WindowExec private (facts: SparkOperator.Facts, val program: OperatorProgram, branch: Option[BranchBatch])
    extends SparkOperator(facts)
    with OwnStateExec
    with SortByKeyExec.Wanted
    with ClosesAtEnd
    with FollowsWallClock {

  override protected def withFacts(facts: SparkOperator.Facts): WindowExec = new WindowExec(facts, program, branch)

  /** The batch in which the state of a branch begins. */
  private def since: Option[Long] = branch.map(_.since)

  override protected def forBatch(facts: SparkOperator.Facts): SparkOperator.Facts = {
    val batchFacts = BatchFacts.of(
      session,
      program,
      facts.stateInfo,
      since,
      facts.batchTimestampMs,
      facts.eventTimeWatermarkForLateEvents
    )
    facts.copy(child = batchFacts.informed(facts.child, program.id))
  }

  override def nodeName: String = "WindowedAggregate"

  override def simpleString(maxFields: Int): String =
    s"$nodeName ${program.describe}"

  override def output: Seq[Attribute] = program.output

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def shortName: String = WindowExec.operatorName

  override def isKnown: Boolean = since.isEmpty

  override protected def families: Seq[FamilySpec] = program.families

  override def requiredChildDistribution: Seq[Distribution] = Seq(
    ByKey.distribution(program.distributed, getStateInfo.numPartitions, conf),
    UnspecifiedDistribution
  )

  /** Overlapping windows and sessions are processed key by key, and all kinds of window find cached records faster if
    * rows have the records' order. The order is by a number, which sorts faster than keys. Keys with the same number
    * may be interleaved: see `KeyRuns`.
    */
  override def requiredChildOrdering: Seq[Seq[SortOrder]] = Seq(
    program.ordering,
    Nil
  )

  override def customStatefulOperatorMetrics: Seq[StatefulOperatorCustomMetric] =
    WindowMetrics.ofPanes ++ assigner.toSeq.flatMap(a => WindowMetrics.countedBy(a.metrics)) ++ program.rows.toSeq
      .flatMap(_.metrics)

  override protected def ownMetrics: Map[String, SQLMetric] =
    metrics -- assigner.toSeq.flatMap(_.metrics.keys) ++ lateHere.map("rowsLate of sessions" -> _)

  /** Rows found to be late here, instead of by the assigner. */
  @transient private lazy val lateHere: Option[SQLMetric] =
    assigner.map(_ => SQLMetrics.createMetric(sparkContext, "late rows of sessions"))

  /** The lateness of these rows. */
  @transient private lazy val latenessHere: LatenessCounts = LatenessCounts.register(sparkContext)

  @transient private lazy val ends = LastOfPartitions.register[Array[Byte]](sparkContext)

  @transient private lazy val closedOfWatched = LastOfPartitions.register[Seq[ClosedPane]](sparkContext)

  private def lateness: Seq[Long] =
    assigner
      .fold(latenessHere.value)(node => latenessHere.value.zip(node.lateness.value).map { case (a, b) => a + b })
      .toSeq

  override def getProgress(): StateOperatorProgress = {
    val progress = super.getProgress()
    for (of <- assigner; late <- lateHere)
      progress.customMetrics.put("rowsLate", of.longMetric("rowsLate").value + late.value)
    val dropped = longMetric("numRowsDroppedByWatermark").value + assigner.fold(0L)(_.longMetric("rowsDropped").value)
    val counted = SparkVersionShim.withDropped(progress, dropped)
    stateInfo.foreach { info =>
      val closed = closedOfWatched.value.values.flatten.toSeq
      WindowReport.report(this, batch(info), counted, nextClose.value, lateness, ends.value, closed)(countsOfPartitions)
    }
    counted
  }

  @transient private lazy val splitMetrics =
    program.splits.fold(Map.empty[String, SQLMetric])(_.by.metrics(sparkContext))

  @transient private lazy val assigner: Option[AssignsPanes] = child.collectFirst {
    case a: AssignsPanes if a.operator == program.id => a
  }

  @transient private lazy val nextClose = MinAccumulator.register(sparkContext, "nextClose")
  @transient private lazy val nextEarlyEvent = MinAccumulator.register(sparkContext, "nextEarlyEvent")
  @transient private lazy val nextByWall = MinAccumulator.register(sparkContext, "nextByWall")

  private def driverClock(info: SparkVersionShim.StateInfo): DriverClock =
    DriverClock(session, info.queryRunId, info.operatorId)

  /** The transition from the state at the start of its query. */
  private def continued: Option[Continued] =
    stateInfo.filter(_ => since.isEmpty).flatMap(Continued.of(session, program, _))

  private def batch(info: SparkVersionShim.StateInfo): Long = info.storeVersion + since.getOrElse(0L)

  /** Another batch is useful if something is due by the clocks that it would have. */
  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean = {
    def wallMs = RunningQuery.timeMs(session, getStateInfo.queryRunId)
    def dueBy(clockMs: Long) = Math.min(nextClose.value, nextEarlyEvent.value) <= TimeMath.fromMillis(clockMs)
    def dueByWall(nowMs: Long) =
      nextByWall.value != PaneCounts.Never && nextByWall.value <= TimeMath.fromMillis(nowMs)

    if (mayHaveEnded) true
    else if (program.onProcessingTime) wallMs.exists(now => dueBy(now) || dueByWall(now))
    else
      dueBy(newInputWatermark) || wallMs.exists { now =>
        // Called in any case: the time without rows may begin here.
        val idling = program.idleAfter.flatMap(_ => StreamWatermarks.of(session, getStateInfo.queryRunId))
        val advance = idling.fold(0L)(streams => streams.withoutRows(now) - streams.currentWatermark)
        advance > 0 && dueBy(newInputWatermark + advance) || dueByWall(now)
      }
  }

  override def awaitsEnd: Boolean =
    program.closesAtEnd && !Sources.end(child) && longMetric("numTotalStateRows").value > 0

  override def hadRows: Boolean = Sources.gaveRows(child)

  /** True if a batch without rows must report the end of the input: see `InputEnd`. */
  private def mayHaveEnded: Boolean = awaitsEnd && hadRows &&
    RunningQuery.find(session, getStateInfo.queryRunId).exists(RunningQuery.isDraining)

  override def idleAfterMs: Option[Long] = program.idleAfter.map(TimeMath.toMillis(_))

  override def produceOutputWatermark(inputWatermarkMs: Long): Option[Long] =
    if (!program.keepsWatermark) None
    else if (program.onProcessingTime) Some(inputWatermarkMs)
    else {
      val watermarks = program.outputWatermark(TimeMath.fromMillis(inputWatermarkMs))
      Some(TimeMath.toMillis(continued.fold(watermarks)(_.outputWatermark(watermarks))))
    }

  /** The checks that Spark makes for operators that it tracks. */
  def checkBranch(hadoopConf: Configuration): Unit = {
    validateAndMaybeEvolveStateSchema(hadoopConf, batch(getStateInfo), stateSchemaVersion = 2)
    ()
  }

  override protected def checkState(hadoopConf: Configuration): Unit = program.language {
    MonitorSettings.of(conf)
    // Windows between functions may be added later.
    val isWritten = since.isEmpty && getStateInfo.storeVersion > 0
    OperatorHeader.check(
      program.header,
      getStateInfo,
      hadoopConf,
      isWritten,
      OperatorHeader.unbegun(conf),
      since.isEmpty
    )
  }

  /** Processing time before this batch and in it. */
  private def processingTime: (Long, Long) =
    driverClock(getStateInfo).processingTime(batch(getStateInfo), batchTimestampMs.get)

  /** The first reading of the event clock, if panes need it. */
  private def firstReading: Long =
    if (!program.readsStream) BatchClock.BeforeAllTime
    else {
      val (before, now) = (eventTimeWatermarkForLateEvents.get, eventTimeWatermarkForEviction.get)
      driverClock(getStateInfo).firstReading(batch(getStateInfo), before, now)
    }

  override protected def doExecute(): RDD[InternalRow] = {
    val rowsCame = Sources.gaveRows(child)
    val inputEnds = program.closesAtEnd && Sources.end(child)
    val reading =
      if (program.onProcessingTime) {
        val (before, now) = processingTime
        BatchClock(before, now, wall = now, rowsCame, batch(getStateInfo), inputEnds = inputEnds)
      } else {
        // Panes wait to fire in the order of their clock readings, so no clock may move back.
        val (wallBefore, wall) =
          if (program.keysTimedByWall || program.firesByWall) processingTime
          else (BatchClock.BeforeAllTime, TimeMath.fromMillis(batchTimestampMs.get))
        val before = BatchFacts.clockBefore(stateInfo, eventTimeWatermarkForLateEvents.get)
        BatchClock(
          before,
          now = TimeMath.fromMillis(eventTimeWatermarkForEviction.get),
          wall,
          rowsCame,
          batch(getStateInfo),
          if (program.keysTimedByWall) wallBefore else BatchClock.BeforeAllTime,
          inputEnds,
          continued.flatMap(_.closedDue(getStateInfo.storeVersion, before)),
          BatchFacts.aheadOf(program, batchTimestampMs.get).getOrElse(Long.MaxValue),
          firstReading
        )
      }
    WindowReport.begin(this, branch.map(_.name))
    followStreams(batch(getStateInfo), program.idleAfter.isDefined, Sources.gaveRows)
    val adaptation = program.language(continued.flatMap(_.begin(session, program, getStateInfo, reading)))
    val clock = reading.copy(rulesBegin = adaptation.isDefined)
    val kinds = program.families ++ adaptation.toSeq.flatMap(_.families)
    metrics // created on the driver, used in the tasks
    val due = (nextClose, nextEarlyEvent, nextByWall)
    val late = lateRows(clock)
    val ready = program.asking(splitMetrics)
    val keys = program.knownKeys.flatMap { knownKeys =>
      knownKeys.of(
        getStateInfo.queryRunId,
        getStateInfo.operatorId,
        getStateInfo.storeVersion,
        getStateInfo.numPartitions
      )
    }
    val (count, sessionsLate, lateness) = (counter, lateHere, latenessHere)
    val endsOfTasks = Option.when(MonitorSettings.of(conf).showsTab)(ends)
    val (watched, closedOfTasks) = (watchedPanes, closedOfWatched)
    val rows = child.execute()
    val opener = PartitionOpener(kinds, getStateInfo, session, conf, checkpointInfoAccumulator)
    val settings = SettingsOfRun(getStateInfo.queryRunId, session)
    val body = (index: Int, partition: StatePartition, input: Iterator[InternalRow]) => {
      val started = System.nanoTime()
      val counts = new PaneCounts(endsOfTasks.isDefined)
      var inputEnded = started
      val rows = CompletionIterator[InternalRow, Iterator[InternalRow]](input, { inputEnded = System.nanoTime() })
      adaptation.foreach(_(partition, clock, counts))
      val engine = ready.engine(clock, partition, counts)
      keys.foreach(of => engine.know(of.value(index).iterator))
      val end = Option.when(inputEnds)(new EndOfInput(engine, partition, program.families.init, counts))
      val fired = engine.process(ready.merged(rows))
      val ended = end.fold(fired)(fired ++ _.closes())
      val firings = late.fold(ended)(ended ++ _.rows(index, engine))
      val closed = mutable.Queue.empty[ClosedPane]
      new CountedRows(watched.fold(firings)(_.collect(firings, closed)), longMetric("numOutputRows"))({
        val fired = System.nanoTime()
        if (watched.isDefined) closedOfTasks.add(index -> closed.toSeq)
        count(index) {
          val ends = commit(partition, counts, inputEnds, isCounted = adaptation.isEmpty)
          for (all <- endsOfTasks; of <- ends) all.add(index -> of)
          sessionsLate.foreach(_ += counts.rowsLate)
          // Spark's own metric: alerts and its page of a query use it.
          longMetric("numRowsDroppedByWatermark") += counts.rowsDropped
          program.rows.foreach(countRows(_, counts))
          longMetric("allUpdatesTimeMs") += (inputEnded - started) / 1000000L
          longMetric("allRemovalsTimeMs") += (fired - inputEnded) / 1000000L
          longMetric("commitTimeMs") += (System.nanoTime() - fired) / 1000000L
        }
        lateness.setRows(index, counts.lateness)
        due._1.add(counts.nextClose)
        due._2.add(counts.nextEarlyEvent)
        due._3.add(counts.nextByWall)
      })
    }
    val outputOfBatch = Option.when(mayRunAgain)(BatchOutput(sparkContext, opener, output.length))
    PartitionsInTurnExec.below(child) match {
      case Some(by) => new PartitionsInTurnRDD(rows, by, child.output, opener, settings, body, outputOfBatch)
      case None     =>
        new StateRDD(rows, opener, settings, Some(session.streams.stateStoreCoordinator), body, outputOfBatch)
    }
  }

  /** True if several actions may run it in a batch. Nodes below a shuffle run once for all of them. */
  private def mayRunAgain: Boolean = since.isEmpty && RunningQuery
    .find(session, getStateInfo.queryRunId)
    .filter(RunningQuery.hasActions)
    .flatMap(query => Option(query.lastExecution))
    .exists(!_.executedPlan.exists { case shuffle: Exchange => shuffle.exists(_ eq this); case _ => false })

  /** Collects closed panes for the tab while a person looks at the panes of a key. */
  private def watchedPanes: Option[WatchedPanes] = program match {
    case one: WindowProgram => Some(WindowReport.watched(this)).filter(_.nonEmpty).map(WatchedPanes(one, _))
    case _                  => None
  }

  private def countRows(rows: RowProgram, counts: PaneCounts): Unit = {
    longMetric("rowsLate") += counts.rowsLate
    longMetric("rowsWithoutTime") += counts.rowsWithoutTime
    longMetric("rowsInNoWindow") += counts.rowsInNoWindow
    longMetric("rowsAhead") += counts.rowsAhead
    if (rows.byRow.running) longMetric("firingsRunning") += counts.firedRunning
  }

  private def lateRows(clock: BatchClock): Option[LateRows] = Option.when(program.late.nonEmpty) {
    val aside = child.collectFirst {
      case p: PutAsideLateRowsExec if p.operator == WindowExec.shuffled(program.id) => p
    }
    new LateRows(
      program.late,
      aside.get.operator,
      aside.get.child.output,
      SparkVersionShim.spillLimits(conf),
      clock.ahead
    )
  }

  /** Commits a partition. Returns its open panes by the end of their windows, if they are tracked.
    *
    * @param isCounted
    *   whether the counts contain all changes of open panes
    */
  private def commit(
      partition: StatePartition,
      counts: PaneCounts,
      inputEnds: Boolean,
      isCounted: Boolean
  ): Option[Array[Byte]] = {
    val records = partition.rowsAdded
    val read = partition.rowsRead
    val totals = new PartitionTotals(partition)
    val ends = Option.when(counts.tracksEnds && !inputEnds) {
      def openPanes = program.engine(BatchClock.Inspection, partition, new PaneCounts).openPanes()
      OpenEnds.after(totals.ends.filter(_ => isCounted), counts)(openPanes).toBytes
    }
    val (panes, total) =
      if (inputEnds) totals.clear() else totals.add(counts.panesOpened - counts.panesClosed, records, ends)
    partition.commit()
    longMetric("panesOpen") += panes
    longMetric("stateRowsRead") += read
    longMetric("firingsEarly") += counts.firedEarly
    longMetric("firingsOnTime") += counts.firedOnTime
    longMetric("firingsUpdate") += counts.firedUpdate
    longMetric("firingsClose") += counts.firedClose
    longMetric("numUpdatedStateRows") += counts.panesOpened
    longMetric("numRemovedStateRows") += counts.panesClosed
    countStores(partition, total)
    ends
  }
}

object WindowExec {

  /** The name of this operator in Spark's checkpoints. */
  val operatorName = "mullionWindow"

  def apply(program: OperatorProgram, child: SparkPlan): WindowExec = create(program, None, child)

  /** For a branch, in a batch whose facts the nodes below already have. */
  def ofBranch(program: OperatorProgram, batch: BranchBatch, child: SparkPlan): WindowExec =
    create(program, Some(batch), child)

  /** The nodes below a branch's operator, in a batch. */
  def childOfBranch(program: OperatorProgram, batch: BranchBatch, child: SparkPlan): SparkPlan = BatchFacts
    .of(
      child.session,
      program,
      Some(batch.info),
      Some(batch.since),
      Some(batch.batchTimestampMs),
      Some(batch.lateEventsMs)
    )
    .informed(child, program.id)

  private def create(program: OperatorProgram, branch: Option[BranchBatch], child: SparkPlan): WindowExec =
    new WindowExec(
      SparkOperator.Facts(
        program.keys,
        branch.map(_.info),
        branch.map(_.batchTimestampMs),
        branch.map(_.lateEventsMs),
        branch.map(_.evictionMs),
        initialState = SparkVersionShim.emptyScan,
        child
      ),
      program,
      branch
    )

  /** The id of rows put aside after the shuffle: that node may run in one task with those before it. */
  def shuffled(operator: String): String = s"$operator-shuffled"
}
