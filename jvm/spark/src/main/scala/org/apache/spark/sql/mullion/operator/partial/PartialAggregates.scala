package org.apache.spark.sql.mullion.operator.partial

import java.nio.ByteOrder

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.catalyst.expressions.{Attribute, PlanExpression}
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, DeclarativeAggregate, Partial}
import org.apache.spark.sql.execution.{CodegenSupport, SparkPlan}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.operator.assign.AssignsPanes
import org.apache.spark.sql.mullion.operator.bounded.AggregateExecs
import org.apache.spark.sql.mullion.operator.partial.group.GroupLayout

import dev.mullion.MullionException

/** Chooses the partial aggregate below an operator: Mullion's if it is known to give Spark's results; else Spark's,
  * with the reason in the node below.
  */
private[mullion] object PartialAggregates {

  /** The partial aggregate: `mullion`, or `spark`. */
  val Setting = "spark.sql.mullion.partialAggregate"

  /** The maximum number of bytes that a task acquires for its groups; for tests of memory exhaustion. */
  val LimitSetting = "spark.sql.mullion.partialAggregate.maxBytes"

  def apply(
      isStreaming: Boolean,
      grouping: Seq[Attribute],
      expressions: Seq[AggregateExpression],
      buffers: Seq[Attribute],
      child: SparkPlan
  ): SparkPlan = {
    val aggregates = expressions.map(_.copy(mode = Partial))
    whyNot(grouping, aggregates, child) match {
      case None =>
        val (called, expressed) = CalledAggregates.split(aggregates)
        PartialAggregateExec(isStreaming, grouping, expressed, called, buffers, limit(child.conf), child)
      case Some(reason) =>
        child match {
          case assigner: AssignsPanes => assigner.setTagValue(AssignsPanes.aggregatedBySpark, reason)
          case _                      =>
        }
        AggregateExecs(Partial, distribution = None, isStreaming, grouping, expressions, grouping ++ buffers, child)
    }
  }

  private def whyNot(
      grouping: Seq[Attribute],
      aggregates: Seq[AggregateExpression],
      child: SparkPlan
  ): Option[String] = {
    def ofKeys = grouping.collectFirst {
      case key if !GroupLayout.isFixed(key.dataType) && !GroupLayout.isText(key.dataType) =>
        s"the key ${key.name} is ${key.dataType.sql}"
    }
    def ofFunctions = aggregates.collectFirst(Function.unlift((_: AggregateExpression).aggregateFunction match {
      case function: DeclarativeAggregate =>
        function.aggBufferAttributes.find(b => !GroupLayout.isHeld(b)).map { buffer =>
          s"${function.prettyName} holds ${buffer.dataType.sql}"
        }
      case other if other.exists(_.isInstanceOf[PlanExpression[_]]) => Some(s"${other.prettyName} has a subquery")
      case other if ImperativeCalls.canCall(other)                  => None
      case other => Some(s"${other.prettyName} has no expressions that update it")
    }))
    def ofPlan = child match {
      case below: CodegenSupport if below.supportCodegen => None
      case _                                             => Some("code for the node below is not generated")
    }
    if (!isAsked(child.conf)) Some(s"$Setting is spark")
    else if (!child.conf.wholeStageEnabled) Some(s"${SQLConf.WHOLESTAGE_CODEGEN_ENABLED.key} is false")
    else if (grouping.length > GroupLayout.MostKeys) Some(s"there are more than ${GroupLayout.MostKeys} keys")
    else if (ByteOrder.nativeOrder() != ByteOrder.LITTLE_ENDIAN) Some("this machine writes the highest byte first")
    else ofKeys orElse ofFunctions orElse ofPlan
  }

  private def isAsked(conf: SQLConf): Boolean = conf.getConfString(Setting, "mullion").trim match {
    case "mullion" => true
    case "spark"   => false
    case other     =>
      throw MullionException.invalid(
        s"$Setting=$other names no partial aggregate: write 'mullion' for Mullion's own (the default), or " +
          "'spark' for Spark's."
      )
  }

  private def limit(conf: SQLConf): Long = {
    val limit = conf.getConfString(LimitSetting, None.orNull)
    if (limit eq null) Long.MaxValue
    else
      try JavaUtils.byteStringAsBytes(limit.trim)
      catch {
        case _: IllegalArgumentException =>
          throw MullionException.invalid(
            s"$LimitSetting=$limit is not a number of bytes: set the most that a task may use for its groups, such as '64m', or " +
              "leave it out for no limit but Spark's."
          )
      }
  }
}
