package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.catalyst.encoders.{AgnosticEncoders, ExpressionEncoder}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet, Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical.LogicalGroupState
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streaming.{GroupStateTimeout, OutputMode}
import org.apache.spark.sql.types.IntegerType

/** The base of Mullion's operators with state: the one class of Spark's that can be extended for them.
  *
  * Two rules of Spark's `IncrementalExecution` give state and watermarks to its own classes only. They match by class
  * and call `copy`, which is overridden here. Everything else of the base is replaced. Of its 21 parameters only those
  * in [[SparkOperator.Facts]] mean anything; the others have the constant values of [[SparkOperator.unused]].
  */
abstract class SparkOperator(facts: SparkOperator.Facts)
    extends SparkVersionShim.StatefulBase(
      func = SparkOperator.unused.func,
      keyDeserializer = SparkOperator.unused.expression,
      valueDeserializer = SparkOperator.unused.expression,
      initialStateDeserializer = SparkOperator.unused.expression,
      groupingAttributes = facts.groupingAttributes,
      initialStateGroupAttrs = Nil,
      dataAttributes = Nil,
      initialStateDataAttrs = Nil,
      outputObjAttr = SparkOperator.unused.attribute,
      stateInfo = facts.stateInfo,
      stateEncoder = SparkOperator.unused.encoder,
      stateFormatVersion = 2,
      outputMode = OutputMode.Append(),
      timeoutConf = GroupStateTimeout.NoTimeout,
      batchTimestampMs = facts.batchTimestampMs,
      eventTimeWatermarkForLateEvents = facts.eventTimeWatermarkForLateEvents,
      eventTimeWatermarkForEviction = facts.eventTimeWatermarkForEviction,
      initialState = facts.initialState,
      hasInitialState = false,
      skipEmittingInitialStateKeys = false,
      child = facts.child
    )
    with DescribedExec {
  import SparkOperator._

  /** The same operator with other facts. */
  protected def withFacts(facts: Facts): SparkOperator

  /** The facts of a batch, extended by the operator for itself and for the nodes below it. */
  protected def forBatch(facts: Facts): Facts

  override def producedAttributes: AttributeSet = outputSet

  /** Called by Spark's planning with the facts of the batch. */
  final override def copy(
      func: Function,
      keyDeserializer: Expression,
      valueDeserializer: Expression,
      initialStateDeserializer: Expression,
      groupingAttributes: Seq[Attribute],
      initialStateGroupAttrs: Seq[Attribute],
      dataAttributes: Seq[Attribute],
      initialStateDataAttrs: Seq[Attribute],
      outputObjAttr: Attribute,
      stateInfo: Option[SparkVersionShim.StateInfo],
      stateEncoder: ExpressionEncoder[Any],
      stateFormatVersion: Int,
      outputMode: OutputMode,
      timeoutConf: GroupStateTimeout,
      batchTimestampMs: Option[Long],
      eventTimeWatermarkForLateEvents: Option[Long],
      eventTimeWatermarkForEviction: Option[Long],
      initialState: SparkPlan,
      hasInitialState: Boolean,
      skipEmittingInitialStateKeys: Boolean,
      child: SparkPlan
  ): SparkOperator = withFacts(
    forBatch(
      Facts(
        groupingAttributes,
        stateInfo,
        batchTimestampMs,
        eventTimeWatermarkForLateEvents,
        eventTimeWatermarkForEviction,
        initialState,
        child
      )
    )
  )

  /** Spark would call a constructor of 21 parameters by reflection. */
  final override def makeCopy(arguments: Array[AnyRef]): SparkPlan = {
    def argument[T](name: String): T = arguments(places(name)).asInstanceOf[T]
    copied(
      Facts(
        argument("groupingAttributes"),
        argument("stateInfo"),
        argument("batchTimestampMs"),
        argument("eventTimeWatermarkForLateEvents"),
        argument("eventTimeWatermarkForEviction"),
        argument("initialState"),
        argument("child")
      )
    )
  }

  final override def clone(): SparkPlan =
    copied(facts.copy(initialState = facts.initialState.clone(), child = facts.child.clone()))

  private lazy val places: Map[String, Int] = productElementNames.zipWithIndex.toMap

  private def copied(facts: Facts): SparkPlan = {
    val copied = withFacts(facts)
    copied.copyTagsFrom(this)
    copied
  }
}

object SparkOperator {

  /** The arguments that Spark sets.
    *
    * @param groupingAttributes
    *   the keys of its state
    * @param initialState
    *   a second child
    */
  final case class Facts(
      groupingAttributes: Seq[Attribute],
      stateInfo: Option[SparkVersionShim.StateInfo],
      batchTimestampMs: Option[Long],
      eventTimeWatermarkForLateEvents: Option[Long],
      eventTimeWatermarkForEviction: Option[Long],
      initialState: SparkPlan,
      child: SparkPlan
  )

  object Facts {

    /** The facts before a query runs. */
    def unknown(groupingAttributes: Seq[Attribute], initialState: SparkPlan, child: SparkPlan): Facts =
      Facts(groupingAttributes, None, None, None, None, initialState, child)
  }

  private type Function = (Any, Iterator[Any], LogicalGroupState[Any]) => Iterator[Any]

  /** The arguments for parameters that the operators do not use: none may be null. */
  private object unused {
    val func: Function = (_, _, _) => Iterator.empty
    val expression: Expression = Literal(0)
    val attribute: Attribute = AttributeReference("none", IntegerType)()
    // Cached: finding it by reflection took a tenth of the driver's time for a small batch.
    val encoder: ExpressionEncoder[Any] =
      ExpressionEncoder(AgnosticEncoders.PrimitiveIntEncoder).asInstanceOf[ExpressionEncoder[Any]]
  }
}
