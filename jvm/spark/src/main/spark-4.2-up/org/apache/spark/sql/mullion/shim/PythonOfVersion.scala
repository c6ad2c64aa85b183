package org.apache.spark.sql.mullion.shim

import org.apache.spark.TaskContext
import org.apache.spark.api.python.{BasePythonRunner, ChainedPythonFunctions, PythonEvalType, PythonFunction}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPySpark
import org.apache.spark.sql.execution.arrow.ArrowConverters
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.python.{ArrowPythonRunner, MapInBatchEvaluatorFactory}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch

/** The construction of Spark's Python runners, for 4.2 and later. */
private[shim] trait PythonOfVersion {

  /** The node of Python's `transformWithState`. */
  type StatefulInPython = TransformWithStateInPySpark

  /** Runs a scalar Python UDF over Arrow on batches of rows of `schema`, like Spark before and after other operators.
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
    schema,
    rowsInBatch,
    PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
    timeZone,
    false,
    runnerConf,
    metrics,
    artifacts,
    None
  )

  /** The rows in Arrow streams of one schema; each is valid until the next. */
  private[shim] def rowsOf(streams: Iterator[Array[Byte]], context: TaskContext): Iterator[InternalRow] =
    if (streams.isEmpty) Iterator.empty
    else {
      val rows = new ArrowConverters.InternalRowIteratorFromIPCStream(streams, context)
      // The first batch is read only after a call for the schema.
      rows.schema
      rows
    }
}
