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

/** Runs a Python function in a worker of Spark's, with frames in and frames out: rows of a number, which says what a
  * frame is, and of bytes.
  *
  * The one place that touches Spark's evaluation of Python and its Arrow. It is that of `mapInArrow`, which is the only
  * one that hands a whole partition to one call of a function and takes any number of batches from it. Frames stand
  * between, because it knows one schema in and one out, while stages give and take rows of several kinds.
  */
private[mullion] final class PythonFrames(evaluators: MapInBatchEvaluatorFactory) extends Serializable {

  /** Calls the function; it has ended when what this gives has. */
  def run(partition: Int, frames: Iterator[InternalRow]): Iterator[InternalRow] =
    evaluators.createEvaluator().eval(partition, frames)
}

private[mullion] object PythonFrames {

  /** A function as PySpark hands it over. */
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
      SparkLineShim.mapInArrow(
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

  /** Fails where Arrow has no type for a column's, or two columns of a name. */
  def checkTypes(rows: StructType): Unit = {
    // It looks for names in structs only.
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

  /** The rows in Arrow streams of one schema; each stands until the next. */
  def decode(streams: Iterator[Array[Byte]], context: TaskContext): Iterator[InternalRow] =
    SparkLineShim.rowsOf(streams, context)

  /** True if it is how Spark tells of an error in a worker. */
  def isOfPython(e: Throwable): Boolean = e.isInstanceOf[PythonException]
}

/** How much goes into one Arrow batch. */
private[mullion] final case class BatchLimits(rows: Long, bytes: Long)

private[mullion] object BatchLimits {
  // Frames wait for each other up to Spark's own limit of bytes, so each is a part of it.
  private val bytes = 4L << 20

  def apply(conf: SQLConf): BatchLimits = BatchLimits(conf.arrowMaxRecordsPerBatch.toLong, bytes)
}
