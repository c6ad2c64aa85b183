package org.apache.spark.sql.mullion.operator.assign

import java.util.UUID

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  EventTimeStats,
  EventTimeStatsAccum,
  EventTimeWatermarkExec
}
import org.apache.spark.sql.execution.{CodegenSupport, SparkPlan}
import org.apache.spark.sql.types.TimestampType
import org.apache.spark.unsafe.types.CalendarInterval

/** Spark's watermark in generated code.
  *
  * {{{
  *   Spark's    scan [row] - watermark - [row] partial aggregate     each row is materialised to read one long
  *   this       scan - watermark - partial aggregate                 it is a variable of the loop
  * }}}
  *
  * It extends Spark's node, because a query collects the times of its rows from these. It is never equal to another: if
  * Spark reused a shuffle above it for a second window, that would be a leaf without a watermark, and the second
  * window's watermark would stay at 1970 for ever.
  *
  * @param ahead
  *   the latest time that moves the watermark, in microseconds, if that is limited
  */
final class FusedWatermarkExec(
    node: UUID,
    time: Attribute,
    after: CalendarInterval,
    input: SparkPlan,
    ahead: Option[Long] = None
) extends EventTimeWatermarkExec(node, time, after, input)
    with CodegenSupport {

  /** This node where later times than `most` do not move the watermark: by several operators, than the earliest. */
  def upTo(most: Long): FusedWatermarkExec =
    new FusedWatermarkExec(nodeId, eventTime, delay, child, Some(ahead.fold(most)(Math.min(_, most))))

  override protected def otherCopyArgs: Seq[AnyRef] = Seq(ahead)

  // Otherwise Spark would keep this node in place of one with another limit.
  override def equals(other: Any): Boolean = other match {
    case that: FusedWatermarkExec => super.equals(that) && that.latest == latest
    case _                        => false
  }

  override def hashCode(): Int = super.hashCode()

  private def latest: Option[Long] = ahead

  private def below = child.asInstanceOf[CodegenSupport]

  // Otherwise Spark would move all later code into a method, even where a scan only reads the time.
  override def usedInputs: AttributeSet = AttributeSet.empty

  override def inputRDDs(): Seq[RDD[InternalRow]] = below.inputRDDs()

  override protected def doProduce(ctx: CodegenContext): String = below.produce(ctx, this)

  override def doConsume(ctx: CodegenContext, rowOf: Seq[ExprCode], row: ExprCode): String = {
    val stats = ctx.addReferenceObj("eventTimeStats", eventTimeStats)
    val name = classOf[EventTimesSeen].getName
    val times = ctx.addMutableState(name, "eventTimes", times => s"$times = new $name($stats);", forceInline = true)
    val at = rowOf(child.output.indexWhere(_.exprId == eventTime.exprId))
    val counts = ahead.fold(s"!${at.isNull}")(us => s"!${at.isNull} && ${at.value} <= ${LatestTime.variable(ctx, us)}")
    s"""
       |${evaluateRequiredVariables(child.output, rowOf, AttributeSet(eventTime))}
       |if ($counts) $times.add(${at.value});
       |${consume(ctx, rowOf)}
     """.stripMargin
  }

  override protected def doExecute(): RDD[InternalRow] = ahead.fold(super.doExecute()) { most =>
    val (stats, at) = (eventTimeStats, child.output.indexWhere(_.exprId == eventTime.exprId))
    child.execute().mapPartitions { rows =>
      val times = new EventTimesSeen(stats)
      rows.map { row =>
        if (!row.isNullAt(at) && row.getLong(at) <= most) times.add(row.getLong(at))
        row
      }
    }
  }

  override protected def doCanonicalize(): SparkPlan =
    new FusedWatermarkExec(
      UUID.randomUUID(),
      eventTime.canonicalized.asInstanceOf[Attribute],
      delay,
      child.canonicalized,
      ahead
    )

  override protected def withNewChildInternal(newChild: SparkPlan): FusedWatermarkExec =
    new FusedWatermarkExec(nodeId, eventTime, delay, newChild, ahead)
}

object FusedWatermarkExec {

  /** A plan whose watermarks are planned as this node. */
  def below(plan: LogicalPlan): LogicalPlan = plan.transform {
    case watermark: EventTimeWatermark if watermark.eventTime.dataType == TimestampType =>
      FusedWatermark(watermark, watermark.child)
  }
}

/** A watermark in a plan of Mullion: a node unknown to Spark's strategies, which Spark 4.0 tries first. */
final case class FusedWatermark(watermark: EventTimeWatermark, child: LogicalPlan) extends UnaryNode {

  /** Includes the delay in the time's metadata. */
  override def output: Seq[Attribute] = watermark.output

  override protected def withNewChildInternal(newChild: LogicalPlan): FusedWatermark = copy(child = newChild)
}

/** The event times of one task, reported to Spark's accumulator once at the end, because that uses boxed numbers. */
final class EventTimesSeen(stats: EventTimeStatsAccum) {
  private[this] var most = Long.MinValue
  private[this] var least = Long.MaxValue
  private[this] var sum = 0.0
  private[this] var count = 0L

  TaskContext.get().addTaskCompletionListener[Unit](_ => tell())

  /** Adds a time in microseconds. */
  def add(micros: Long): Unit = {
    most = Math.max(most, micros)
    least = Math.min(least, micros)
    sum += micros.toDouble
    count += 1
  }

  private def tell(): Unit = if (count > 0)
    stats.merge(
      new EventTimeStatsAccum(
        EventTimeStats(Math.floorDiv(most, 1000L), Math.floorDiv(least, 1000L), sum / count / 1000.0, count)
      )
    )
}
