package org.apache.spark.sql.mullion.shim

import java.util.UUID

import org.apache.spark.SparkContext
import org.apache.spark.api.python.{BasePythonRunner, ChainedPythonFunctions, PythonEvalType, PythonFunction}
import org.apache.spark.sql.catalyst.{FunctionIdentifier, InternalRow}
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.{ExternalAppendOnlyUnsafeRowArray, LocalTableScanExec, SparkPlan}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.python.{ArrowPythonRunner, PythonSQLMetrics}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, WatermarkTracker}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StateOperatorProgress
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch

/** What differs between the lines of Spark: this is 4.2 and later. */
object SparkLineShim {

  /** The only operator that Spark's planning of state and watermarks lets us extend; its package moved after 4.0. */
  type StatefulBase = flatmapgroupswithstate.FlatMapGroupsWithStateExec

  type StateInfo = StatefulOperatorStateInfo

  /** What a function of SQL is found by that is named without a schema. */
  def builtinFunction(name: String): FunctionIdentifier = FunctionRegistry.builtinFunctionIdentifier(name)

  /** A scan of nothing: the initial state that the base operator wants. */
  def emptyScan: SparkPlan = LocalTableScanExec(Nil, Nil, None)

  /** Records from `from` on, in order. */
  def scanFrom(store: StateStore, from: Option[UnsafeRow], family: String): StateStoreIterator[UnsafeRowPair] =
    store.rangeScan(from, None, family)

  /** Records from `from` to before `until`, in order. */
  def scanRange(
      store: StateStore,
      from: UnsafeRow,
      until: UnsafeRow,
      family: String
  ): StateStoreIterator[UnsafeRowPair] =
    store.rangeScan(Some(from), Some(until), family)

  /** Keys in order of their last column, a BIGINT, among those that agree in the others. */
  def byLastColumnWithinKey(key: StructType): KeyStateEncoderSpec = TimestampAsPostfixKeyStateEncoderSpec(key)

  /** Keys in order of their last column, a BIGINT: eight bytes before the others, where the range encoder of the lines
    * before this takes forty.
    */
  def byLastColumn(key: StructType): KeyStateEncoderSpec = TimestampAsPrefixKeyStateEncoderSpec(key)

  /** Of each watermark in a query's plan, by the id of its node, how far it has come, in milliseconds. Spark keeps it
    * for classes of its own, though not in its byte code.
    */
  def watermarks(query: MicroBatchExecution): Map[UUID, Option[Long]] = {
    val tracker = classOf[MicroBatchExecution].getMethod("watermarkTracker").invoke(query)
    tracker.asInstanceOf[WatermarkTracker].watermarkMap
  }

  /** What an operator reports, with another count of rows that the watermark dropped. */
  def withDropped(progress: StateOperatorProgress, rows: Long): StateOperatorProgress =
    progress.copy(progress.numRowsUpdated, newNumRowsDroppedByWatermark = rows, progress.numRowsRemoved)

  /** What Spark's Python runner counts. */
  def pythonMetrics(context: SparkContext): Map[String, SQLMetric] = {
    def made(of: Map[String, String])(make: String => SQLMetric) = of.map { case (name, words) => name -> make(words) }

    made(PythonSQLMetrics.pythonSizeMetricsDesc)(SQLMetrics.createSizeMetric(context, _)) ++
      made(PythonSQLMetrics.pythonTimingMetricsDesc)(SQLMetrics.createTimingMetric(context, _)) ++
      made(PythonSQLMetrics.pythonOtherMetricsDesc)(SQLMetrics.createMetric(context, _))
  }

  /** Runs a scalar Python UDF over Arrow on batches of rows of `schema`, as Spark itself does before and after other
    * operators.
    *
    * @param arguments
    *   the ordinals of the function's arguments
    */
  def pythonRunner(
      function: PythonFunction,
      arguments: Seq[Int],
      schema: StructType,
      timeZone: String,
      largeVarTypes: Boolean,
      runnerConf: Map[String, String],
      metrics: Map[String, SQLMetric],
      artifacts: Option[String]
  ): BasePythonRunner[Iterator[InternalRow], ColumnarBatch] = new ArrowPythonRunner(
    Seq(ChainedPythonFunctions(Seq(function)) -> 0L),
    PythonEvalType.SQL_SCALAR_ARROW_UDF,
    Array(arguments.toArray),
    schema,
    timeZone,
    largeVarTypes,
    runnerConf,
    metrics,
    artifacts,
    None
  )

  /** A list of rows that spills as Spark's window functions do: they too hold rows of the input, whole. */
  def spillable(limits: SpillLimits): ExternalAppendOnlyUnsafeRowArray =
    new ExternalAppendOnlyUnsafeRowArray(
      limits.rowsInMemory,
      limits.bytesInMemory,
      limits.rowsToSpill,
      limits.bytesToSpill
    )

  def spillLimits(conf: SQLConf): SpillLimits = SpillLimits(
    conf.windowExecBufferInMemoryThreshold,
    conf.windowExecBufferSpillSizeThreshold,
    conf.windowExecBufferSpillThreshold,
    conf.windowExecBufferSpillSizeThreshold
  )
}

/** When rows held aside go to disk. */
final case class SpillLimits(rowsInMemory: Int, bytesInMemory: Long, rowsToSpill: Int, bytesToSpill: Long)
