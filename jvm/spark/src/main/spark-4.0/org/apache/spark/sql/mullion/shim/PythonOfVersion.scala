package org.apache.spark.sql.mullion.shim

import dev.mullion.MullionException

import org.apache.spark.TaskContext
import org.apache.spark.api.python.{BasePythonRunner, ChainedPythonFunctions, PythonEvalType, PythonFunction}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPandas
import org.apache.spark.sql.execution.arrow.ArrowConverters
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch

/** The construction of Spark's Python runners, for 4.0, which has no scalar functions over Arrow. */
private[shim] trait PythonOfVersion {

  /** The node of Python's `transformWithState`. */
  type StatefulInPython = TransformWithStateInPandas

  /** Unsupported; the Python package rejects it earlier. */
  def pythonRunner(
      function: PythonFunction,
      arguments: Seq[Int],
      schema: StructType,
      timeZone: String,
      largeVarTypes: Boolean,
      runnerConf: Map[String, String],
      metrics: Map[String, SQLMetric],
      artifacts: Option[String]
  ): BasePythonRunner[Iterator[InternalRow], ColumnarBatch] =
    throw MullionException.unsupported("Global.split calls functions as Spark 4.0 cannot. Use Spark 4.1 or newer.")

  /** Runs a Python function like `mapInArrow`, with input and output rows of `schema`. */
  private[shim] def mapInArrow(
      output: Seq[Attribute],
      function: Seq[(ChainedPythonFunctions, Long)],
      schema: StructType,
      rowsInBatch: Int,
      timeZone: String,
      runnerConf: Map[String, String],
      metrics: Map[String, SQLMetric],
      artifacts: Option[String]
  ): MapInBatchEvaluatorFactory = new MapInBatchEvaluatorFactory(
    output,
    function,
    schema,
    rowsInBatch,
    PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
    timeZone,
    false,
    runnerConf,
    metrics,
    artifacts
  )

  /** The rows in Arrow streams of one schema; each is valid until the next. */
  private[shim] def rowsOf(streams: Iterator[Array[Byte]], context: TaskContext): Iterator[InternalRow] =
    streams.flatMap(stream => ArrowConverters.fromIPCStream(stream, context)._1)
}
