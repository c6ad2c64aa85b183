package org.apache.spark.sql.mullion.plan

import org.apache.spark.sql.catalyst.plans.LeftSemi
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.{InternalOutputModes, WriteToStreamStatement}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.query.RunningQuery
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.streaming.OutputMode

import dev.mullion.MullionException
import dev.mullion.windows.rules.LatePolicy
import dev.mullion.windows.spec.Setting

/** Rejects plans that would produce wrong results, when a query starts. */
object RefuseAtStart extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case start: WriteToStreamStatement => Refusals.check(start.inputQuery, Some(start.outputMode))
      case _                             =>
    }
    plan
  }
}

/** The same for sessions without the extension: there it runs with each batch of a query, so that the first one fails.
  */
object RefuseWithFirstBatch extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (plan.isStreaming) Refusals.check(plan, RunningQuery.current.map(_.outputMode))
    plan
  }
}

/** The checks of plans with windows and other operators. */
private[mullion] object Refusals {

  /** @param outputMode
    *   of the query, if the plan is that of one
    */
  def check(plan: LogicalPlan, outputMode: Option[OutputMode]): Unit =
    if (plan.isStreaming) Windows.languageOf(plan)(plan.foreach(checkNode(_, outputMode)))

  private def checkNode(node: LogicalPlan, outputMode: Option[OutputMode]): Unit = node match {
    case Windows(nodes) if outputMode.contains(InternalOutputModes.Complete) => throw completeMode(nodes.head)
    case windows @ Windows(nodes)                                            =>
      nodes.foreach(checkSettings)
      if (outputMode.contains(InternalOutputModes.Update)) checkUpstream(nodes.head)
      checkDownstream(windows)
    case join: StreamAsOfJoin =>
      checkJoin(join, outputMode)
      checkDownstream(join)
    case watermark: EventTimeWatermark => checkWatermark(watermark)
    case join: Join                    =>
      checkSemiJoin(join)
      if (isStateful(join)) checkDownstream(join)
    case operator if isStateful(operator) => checkDownstream(operator)
    case _                                =>
  }

  private def completeMode(node: WindowedAggregate): MullionException = MullionException.unsupported(
    s"Output mode 'complete' would need every pane that ever closed (${node.rules.window.describe}). " +
      s"Use outputMode(${Setting.quoted("append")}) or outputMode(${Setting.quoted("update")})."
  )

  /** An as-of join emits each left row once, and needs both watermarks of a batch. */
  private def checkJoin(join: StreamAsOfJoin, outputMode: Option[OutputMode]): Unit = join.terms.language {
    if (outputMode.contains(InternalOutputModes.Complete))
      throw MullionException.unsupported(
        "Output mode 'complete' would need all rows that an as-of join ever emitted. " +
          s"Use outputMode(${Setting.quoted("append")})."
      )
    checkBothWatermarks()
  }

  private def checkBothWatermarks(): Unit = if (!SQLConf.get.getConf(SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE))
    throw MullionException.unsupported(
      s"${SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE.key} is false: then Spark gives a batch one watermark instead of two, and " +
        "late rows could not be distinguished from others. Set it to true, its default."
    )

  private def checkSettings(node: WindowedAggregate): Unit = {
    checkBothWatermarks()
    if (
      (node.rules.onProcessingTime || node.idleAfter.isDefined || node.rules.refinements.atEnd ||
        node.rows.exists(_.timedByWall)) &&
      !SQLConf.get.getConf(SQLConf.STREAMING_NO_DATA_MICRO_BATCHES_ENABLED)
    )
      throw MullionException.unsupported(
        s"${SQLConf.STREAMING_NO_DATA_MICRO_BATCHES_ENABLED.key} is false: then no batch runs without rows, and panes that close " +
          "by the wall clock, or at the end of the input, would wait for the next row. Set it to true, its default."
      )
  }

  /** In update mode Spark's own aggregates emit every change of a group, and a window over them would add all of them.
    * Spark rejects that for its own operators, and takes Mullion's for stateless.
    */
  private def checkUpstream(node: WindowedAggregate): Unit = node.child.foreach {
    case aggregate @ (_: Aggregate | _: Distinct) if aggregate.isStreaming =>
      throw MullionException.unsupported(
        s"In output mode 'update' the ${aggregate.nodeName} before the window (${node.rules.window.describe}) emits each " +
          s"change of a group, and the window would count them all. Use outputMode(${Setting.quoted("append")})."
      )
    case _ =>
  }

  /** The watermark of a query is the minimum of its watermarks. One over panes would wait for panes to close, and these
    * for it.
    */
  private def checkWatermark(watermark: EventTimeWatermark): Unit = watermark.child.foreach {
    case join: StreamAsOfJoin if join.hasWatermark =>
      throw MullionException.unsupported(
        s"${Setting.withWatermark(watermark.eventTime.name)} is called on the result of an as-of join. Both would wait for each " +
          "other, and no row would ever be emitted. Leave it out: the left side's time keeps its watermark."
      )
    case Windows(nodes) =>
      nodes.find(_.window.metadata.contains(EventTimeWatermark.delayKey)).foreach { node =>
        val name = watermark.eventTime.name
        throw MullionException.unsupported(
          s"${Setting.withWatermark(name)} is called on the result of a window that closes by a watermark " +
            s"(${node.rules.window.describe}). Both would wait for each other, and no pane would ever close. Leave it out: " +
            s"the column window carries the stream's watermark, so name that column in the next window, as in ${Setting.time("window")}; or write " +
            "the panes to a table and read it in a second query."
        )
      }
    case _ =>
  }

  /** A stateful operator downstream takes its input as final, and drops rows older than its watermark. That is right
    * for panes that close once, but wrong for early firings, which it would add to the close, and for late rows and
    * reopened panes, which it would drop silently.
    */
  private def checkDownstream(operator: LogicalPlan): Unit = if (operator.isStreaming) {
    operator.children.foreach(_.foreach {
      case Windows(nodes) =>
        nodes.foreach(node => whatIsNotFinal(node).foreach(what => throw notFinal(operator, node, what)))
      case _ =>
    })
  }

  /** Rejects a left semi join of streams whose left side has panes: it would emit nothing. Spark's join loses the
    * matches of left rows that leave its state in the batch in which they come, and panes come when they close. Below
    * an aggregate of its own Spark's optimizer pushes the join, and only where it may broadcast the right side.
    */
  private def checkSemiJoin(join: Join): Unit =
    if (join.joinType == LeftSemi && join.left.isStreaming && join.right.isStreaming)
      join.left.foreach {
        case Windows(nodes) =>
          throw MullionException.unsupported(
            s"A left_semi join of two streams emits nothing if its left side has panes (${nodes.head.rules.window.describe}): " +
              "Spark's join drops the matches of panes that close. Write an inner join with the keys of the right side, each " +
              "once: panes.join(other.select(keys).dropDuplicates(keys), keys)."
          )
        case _ =>
      }

  /** True if one of Spark's operators keeps state in a stream. */
  def isStateful(plan: LogicalPlan): Boolean = plan match {
    case _: StreamAsOfJoin | _: Aggregate | _: Deduplicate | _: DeduplicateWithinWatermark | _: Distinct |
        _: FlatMapGroupsWithState | _: FlatMapGroupsInPandasWithState | _: TransformWithState |
        _: SparkVersionShim.StatefulInPython | _: GlobalLimit =>
      true
    case join: Join => join.left.isStreaming && join.right.isStreaming
    case _          => false
  }

  private def whatIsNotFinal(node: WindowedAggregate): Option[String] =
    if (node.rules.firesEarly) Some("early firings")
    else if (node.rules.refinements.onTime) Some("the on_time and update firings")
    else if (node.rows.exists(_.running)) Some("running firings")
    else if (node.rows.exists(_.delayByKey.isDefined)) Some("panes that close by their keys' own clocks")
    else
      node.rules.late match {
        case LatePolicy.Drop                           => None
        case LatePolicy.Emit                           => Some("late rows")
        case LatePolicy.Reopen | LatePolicy.ReopenEach => Some("reopened panes")
      }

  private def notFinal(operator: LogicalPlan, node: WindowedAggregate, what: String): MullionException =
    MullionException.unsupported(
      s"${OperationName(operator)}(...) has state, and would count $what of the window before it (${node.rules.describe}) as final, or " +
        s"drop them. Window without ${Setting.Early} and ${Setting.OnTimeOption}, and with ${Setting.late("drop")}, before another stateful operator, or write the panes out and " +
        "read them in a second query."
    )
}
