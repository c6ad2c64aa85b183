package org.apache.spark.sql.mullion.shim

import org.apache.spark.{JobArtifactSet, TaskContext}
import org.apache.spark.api.python.{ChainedPythonFunctions, PythonException, PythonFunction}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, NamedExpression}
import org.apache.spark.sql.execution.arrow.ArrowConverters
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.python.{ArrowPythonRunner, MapInBatchEvaluatorFactory, UserDefinedPythonFunction}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{BinaryType, IntegerType, StructType}
import org.apache.spark.sql.util.ArrowUtils

/** Runs a Python function in a worker of Spark, with frames as input and output: rows of a number, the frame's kind,
  * and bytes.
  *
  * The only class that uses Spark's evaluation of Python and Arrow. It uses `mapInArrow`, the only evaluation that
  * passes an entire partition to one call and accepts any number of batches from it. Frames are needed because it has
  * one input and one output schema, but stages exchange rows of several kinds.
  */
private[mullion] final class PythonFrames(evaluators: MapInBatchEvaluatorFactory) extends Serializable {

  /** Calls the function, which has ended when the result has. */
  def run(partition: Int, frames: Iterator[InternalRow]): Iterator[InternalRow] =
    evaluators.createEvaluator().eval(partition, frames)
}

private[mullion] object PythonFrames {

  /** A function, serialized by PySpark. */
  final case class Code(name: String, function: PythonFunction) {

    // The function's pickled bytes would fill a plan's text.
    override def toString: String = name
  }

  object Code {
    def apply(udf: UserDefinedPythonFunction): Code = Code(udf.name, udf.func)
  }

  private val schema = new StructType().add("kind", IntegerType).add("data", BinaryType)

  private val TimeZone = "UTC"

  def apply(code: Code, conf: SQLConf, metrics: Map[String, SQLMetric]): PythonFrames =
    apply(code, conf, metrics, currentArtifacts)

  /** The artifacts of the session whose code runs on this thread; only the driver has them. */
  def currentArtifacts: Option[String] = JobArtifactSet.getCurrentJobArtifactState.map(_.uuid)

  def apply(
      code: Code,
      conf: SQLConf,
      metrics: Map[String, SQLMetric],
      artifacts: Option[String]
  ): PythonFrames = {
    val output = schema.map(f => AttributeReference(f.name, f.dataType)())
    val chained = Seq((ChainedPythonFunctions(Seq(code.function)), NamedExpression.newExprId.id))
    new PythonFrames(
      SparkVersionShim.mapInArrow(
        output,
        chained,
        schema,
        conf.arrowMaxRecordsPerBatch,
        TimeZone,
        ArrowPythonRunner.getPythonRunnerConfMap(conf),
        metrics,
        artifacts
      )
    )
  }

  /** Fails for a column type that Arrow lacks, and for duplicate column names. */
  def checkTypes(rows: StructType): Unit = {
    // Spark only checks names in structs.
    val inStruct = new StructType().add("rows", rows)
    ArrowUtils.toArrowSchema(inStruct, TimeZone, errorOnDuplicatedFieldNames = true, largeVarTypes = false)
    ()
  }

  /** Rows as Arrow streams of one batch each. */
  def encode(rows: Iterator[InternalRow], schema: StructType, limits: BatchLimits): Iterator[Array[Byte]] =
    ArrowConverters.toBatchWithSchemaIterator(
      rows,
      schema,
      limits.rows,
      limits.bytes,
      TimeZone,
      errorOnDuplicatedFieldNames = true,
      largeVarTypes = false
    )

  /** The rows in Arrow streams of one schema; each is valid until the next. */
  def decode(streams: Iterator[Array[Byte]], context: TaskContext): Iterator[InternalRow] =
    SparkVersionShim.rowsOf(streams, context)

  /** True if it is Spark's error for a Python worker. */
  def isOfPython(e: Throwable): Boolean = e.isInstanceOf[PythonException]
}

/** The limits of one Arrow batch. */
private[mullion] final case class BatchLimits(rows: Long, bytes: Long)

private[mullion] object BatchLimits {
  // Frames are buffered up to Spark's own limit of bytes, so each is a fraction of it.
  private val bytes = 4L << 20

  def apply(conf: SQLConf): BatchLimits = BatchLimits(conf.arrowMaxRecordsPerBatch.toLong, bytes)
}
