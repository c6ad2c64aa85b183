package org.apache.spark.sql.mullion.checkpoint.evolve

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LogicalPlan, Union}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.mullion.checkpoint.layout.{CheckpointClock, Commits, StateOperators}
import org.apache.spark.sql.mullion.plan.{OneWindow, Refusals, WindowedAggregate, Windows, WindowsTogether}
import org.apache.spark.sql.mullion.query.Tick
import org.apache.spark.sql.mullion.state.header.{DrainHeader, OperatorHeader, StateChange, StateHeader}
import org.apache.spark.sql.mullion.state.{SavepointNote, StateSettings}

import dev.mullion.MullionException
import dev.mullion.windows.spec.{Duration, Setting}

/** The plan of a query that continues from a checkpoint of a similar plan. Details of the plan alone stay as in the
  * checkpoint where that does not change the output:
  *
  *   - The order of keys. It determines the partition of a key's state.
  *   - The source of ticks. Spark identifies sources by number. A query that now needs ticks and began without them
  *     continues without: panes that fall due by the wall clock during its downtime fire with its first batch, and not
  *     at once. A query that no longer needs them keeps them.
  *   - The types of columns that became narrower: see [[CastColumns]].
  *
  * A window that replaces another runs next to it until the old panes have closed: see [[Draining]]. If windows are
  * new, removed or renamed, the records of the others keep their places: see [[Regrouping]].
  *
  * @param notes
  *   the details that stay, as text, with their operators
  * @param refused
  *   the reasons why operators cannot continue, as text
  */
private[checkpoint] final case class ContinuedPlan(
    plan: LogicalPlan,
    notes: Seq[(Long, String)],
    refused: Seq[(Long, String)]
)

private[checkpoint] object ContinuedPlan {

  def apply(spark: SparkSession, plan: LogicalPlan, checkpoint: String): ContinuedPlan = {
    val nodes = plan.collect { case node @ Windows(_) => node }
    val headers = if (nodes.isEmpty) Nil else headersIn(spark, checkpoint).getOrElse(Nil)
    if (headers.isEmpty || headers.length != nodes.length) ContinuedPlan(plan, Nil, Nil)
    else {
      val notes, refused = Seq.newBuilder[(Long, String)]
      val clock = CheckpointClock.of(spark, checkpoint)
      val of = headers.iterator
      val feeding = plan.collect {
        case above if Draining.isStateful(above) => above.children.flatMap(Windows.in)
      }.flatten
      // The operators of a plan and of a checkpoint have the same order, which is Spark's numbering.
      val continued = AnalysisHelper.allowInvokingTransformsInAnalyzer {
        plan.transformDown { case node @ Windows(_) =>
          val (operator, header) = of.next()
          val messages = new Messages(note => notes += operator -> note, why => refused += operator -> why)
          if (feeding.exists(_ eq node) && clock.isDefined) setsBack(node, header).foreach(messages.refuse)
          ofNode(spark, node, header, clock, messages)
        }
      }
      ContinuedPlan(continued, notes.result(), refused.result())
    }
  }

  /** The reason why several windows in one query cannot continue below another operator, if any: the watermark that
    * they pass to it never moves back.
    *
    * {{{
    *   clock                    12:00              12:00   a window with an hour of lateness is added
    *   downstream watermark     12:00              11:00   a pane that ended at 11:30 and has closed would open again
    * }}}
    */
  private def setsBack(node: LogicalPlan, was: OperatorHeader): Option[String] = node match {
    case several: WindowsTogether =>
      val (before, now) =
        (was.windows.map(_._2.allowedLateness).max, several.parts.map(_.rules.allowedLateness).max)
      Option.when(now > before)(
        s"a window with ${Setting.allowedLateness(Duration.describe(now))} is new, which is longer than any before it " +
          s"(${Duration.describe(before)}): the operator after these windows would open panes again that it has closed. Give " +
          "it no longer one, or start with a new checkpointLocation"
      )
    case _ => None
  }

  /** The headers in a checkpoint, by operator; none if it has no state. */
  def headersIn(spark: SparkSession, checkpoint: String): Option[Seq[(Long, OperatorHeader)]] = {
    val home = new Path(checkpoint)
    val hadoopConf = spark.sessionState.newHadoopConf()
    val root = new Path(home, "state")
    StateOperators.find(home, hadoopConf).map { ids =>
      val version = Commits.of(spark, home).flatMap(_.getLatestBatchId()).fold(0L)(_ + 1)
      ids.flatMap(id => OperatorHeader.readAt(new Path(root, id.toString), hadoopConf, version).map(id -> _))
    }
  }

  /** The receivers of messages about one operator. */
  private final class Messages(val note: String => Unit, val refuse: String => Unit)

  private def ofNode(
      spark: SparkSession,
      node: LogicalPlan,
      was: OperatorHeader,
      clock: Option[CheckpointClock],
      messages: Messages
  ): LogicalPlan = {
    def regrouped(of: LogicalPlan) = orReject(of, messages)(Regrouping(spark, of, was, clock, messages.note))
    val ordered = (node, was) match {
      case (one: WindowedAggregate, header: StateHeader) =>
        windowsOf(keysOf(one, header, messages.note), header, clock, messages) match {
          case same: WindowedAggregate => regrouped(same)
          case drains                  => drains
        }
      case (one: WindowedAggregate, header: DrainHeader) =>
        val same = cast(Carried(keysOf(one, header.next, messages.note), header.next), header.next, messages)
        clock.fold[LogicalPlan](same)(at => orReject(same, messages)(Draining.goOn(same, header, at, messages.note)))
      case (several: WindowsTogether, header: DrainHeader) =>
        messages.refuse(
          s"${header.next.describe} replaces ${header.draining.describe}, and is now one of several windows " +
            "in a query: make one change at a time. Start the query once with that window alone when the clock has reached " +
            s"${DrainHeader.instant(header.until)}"
        )
        several
      case _ => regrouped(node)
    }
    val recordedTicks = was.windows.map(_._2.ticks)
    if (recordedTicks.contains(None)) ordered
    else ticksOf(spark, ordered, recordedTicks.contains(Some(true)), messages.note)
  }

  private def windowsOf(
      node: WindowedAggregate,
      was: StateHeader,
      clock: Option[CheckpointClock],
      messages: Messages
  ): LogicalPlan = {
    val (before, now) = (was.window.describe, Draining.windowOf(node).describe)
    val change =
      Option.when(before != now)(s"window was [$before] and is now [$now]") orElse was.timeChange(node.text.time)
    val drained = for (words <- change; at <- clock if node.terms.drains) yield orReject(node, messages) {
      Draining.begin(cast(node, was, messages), was, at).left.map(why => s"$words, which cannot drain: $why")
    }
    drained.getOrElse(node)
  }

  private def cast(node: WindowedAggregate, was: StateHeader, messages: Messages): WindowedAggregate = {
    val (casting, casts) = CastColumns(node, node.child, was)
    casts.foreach(messages.note)
    casting
  }

  private def orReject(node: LogicalPlan, messages: Messages)(result: Either[String, LogicalPlan]): LogicalPlan =
    result.fold(why => { messages.refuse(why); node }, identity)

  private def keysOf(node: WindowedAggregate, was: StateHeader, note: String => Unit): WindowedAggregate = {
    val requested = node.text.keys
    StateChange.keyOrder(was.by, requested.toList).filter(_ != requested.indices).fold(node) { order =>
      def in[T](of: Seq[T]): Seq[T] = order.map(of)
      def names(of: Seq[String]) = of.mkString("[", ", ", "]")
      note(s"keys are given as ${names(requested)} and kept as ${names(in(requested))}: state stays where it is")
      node.copy(keys = in(node.keys), terms = node.terms.copy(text = node.text.copy(keys = in(requested))))
    }
  }

  private def ticksOf(spark: SparkSession, node: LogicalPlan, had: Boolean, note: String => Unit): LogicalPlan = {
    val has = Windows.unapply(node).exists(_.exists(_.terms.ticks))
    if (had == has) node
    else {
      val rows = node.children.head
      val child = rows match {
        case Union(Seq(own, ticks), _, _) if has && Tick.isAll(ticks) => own
        case _                                                        => Tick.beside(spark, rows)
      }
      if (!had)
        note(
          "the query began without a batch at its start: panes that are due by the wall clock while it is down close " +
            "with the first batch afterwards"
        )
      def withTicks(of: WindowedAggregate) = of.copy(terms = of.terms.copy(ticks = had))
      node match {
        case one: WindowedAggregate   => withTicks(one).copy(child = child).overNullable
        case several: WindowsTogether =>
          val inChild = child.output.map(a => a.exprId -> a).toMap
          several.copy(
            windows =
              several.windows.map(w => OneWindow.of(w.name, withTicks(w.node).copy(child = child).overNullable)),
            keys = several.keys.map(key => inChild.getOrElse(key.exprId, key)),
            child = child
          )
        case other => other
      }
    }
  }
}

/** Continues a starting query from its checkpoint: see [[ContinuedPlan]]. */
final class ContinueAtStart(spark: SparkSession) extends Rule[LogicalPlan] with Logging {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case start: WriteToStream => Windows.languageOf(start.inputQuery)(continued(start))
    case _                    => plan
  }

  private def continued(start: WriteToStream): LogicalPlan = {
    SavepointNote.checkLogs(spark, new Path(start.resolvedCheckpointLocation))
    checkFormat(new Path(start.resolvedCheckpointLocation))
    val continued = ContinuedPlan(spark, start.inputQuery, start.resolvedCheckpointLocation)
    continued.notes.foreach { case (operator, note) =>
      logWarning(s"The query over ${start.resolvedCheckpointLocation} continues (operator $operator): $note.")
    }
    continued.refused.headOption.foreach { case (operator, why) =>
      throw MullionException.incompatibleState(
        s"The checkpoint ${start.resolvedCheckpointLocation} holds state of another query (operator $operator). $why. Nothing " +
          "was written."
      )
    }
    if (continued.plan eq start.inputQuery) start
    else {
      Refusals.check(continued.plan, Some(start.outputMode))
      start.copy(inputQuery = continued.plan)
    }
  }

  /** Up to 4.1, Spark reports commits of another format as an internal error. */
  private def checkFormat(home: Path): Unit = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val files = CheckpointFileManager.create(home, hadoopConf)
    def isOurs(operator: Long) = files.exists(new Path(home, s"state/$operator/_mullion"))
    if (StateOperators.find(home, hadoopConf).exists(_.exists(isOurs)))
      Commits.of(spark, home).flatMap(_.getLatest()).foreach { case (_, commit) =>
        StateSettings.checkFormat(spark.sessionState.conf, home, commit.stateUniqueIds.exists(_.nonEmpty))
      }
  }
}
