package org.apache.spark.sql.mullion.expressions.udf

import scala.jdk.CollectionConverters._

import org.apache.spark.api.python.PythonFunction
import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.{Attribute, ExprId, GenericInternalRow, PythonUDF}
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.catalyst.{InternalRow, ProjectingInternalRow}
import org.apache.spark.sql.classic.ColumnNodeToExpressionConverter
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.python.ArrowPythonRunner
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.{JobArtifactSet, SparkContext, TaskContext}

import dev.mullion.MullionException

/** A Python function that splits global windows, called in Spark's Python workers over Arrow.
  *
  * {{{
  *   buffers of keys      [a: 3 rows] [b: 1 row] [c: 40 rows] ...
  *   a batch of Arrow     offset INT, rows ARRAY<STRUCT<...>>: one row per key, so a batch has many keys
  *   the answer           at ARRAY<BIGINT>, wrong STRING, trace STRING: one row per key
  * }}}
  *
  * It uses the protocol of scalar UDFs over Arrow, which Spark's runner and workers implement;
  * `mullion._bridge.global_splits` is the other end. The operator itself must call it, because its input is in state
  * and its answer changes state; a UDF before or after the operator could not.
  */
final case class PythonSplit(name: String, function: PythonFunction) extends SplitBy {

  override def metrics(context: SparkContext): Map[String, SQLMetric] = SparkVersionShim.pythonMetrics(context)

  override def asker(kept: Seq[Attribute], columns: Seq[Attribute], metrics: Map[String, SQLMetric]): SplitAsker =
    new PythonSplit.Asker(
      function,
      kept.map(_.exprId),
      columns,
      metrics,
      SQLConf.get.sessionLocalTimeZone,
      SQLConf.get.arrowUseLargeVarTypes,
      ArrowPythonRunner.getPythonRunnerConfMap(SQLConf.get),
      JobArtifactSet.getCurrentJobArtifactState.map(_.uuid)
    )
}

object PythonSplit {

  /** @param function
    *   a UDF of `mullion._bridge.global_splits`, applied to any columns: only its function is used
    */
  def apply(function: Column, name: String): PythonSplit =
    ColumnNodeToExpressionConverter(function.node)
      .collectFirst { case udf: PythonUDF => PythonSplit(name, udf.func) }
      .getOrElse(throw MullionException.invalid(s"$function calls no Python function that could split windows."))

  private val answer = new StructType()
    .add("at", ArrayType(LongType))
    .add("wrong", StringType)
    .add("trace", StringType)

  private final class Asker(
      function: PythonFunction,
      kept: Seq[ExprId],
      columns: Seq[Attribute],
      metrics: Map[String, SQLMetric],
      timeZone: String,
      largeVarTypes: Boolean,
      runnerConf: Map[String, String],
      artifacts: Option[String]
  ) extends SplitAsker {
    private val rowType = StructType(columns.map(c => StructField(c.name, c.dataType, c.nullable)))
    private val ordinals = columns.map(c => kept.indexOf(c.exprId)).toIndexedSeq
    private val question = new StructType()
      .add("offset", LongType, nullable = false)
      .add("rows", ArrayType(rowType, containsNull = false), nullable = false)
    checkTypes()

    override def ask(buffers: Iterator[SplitBuffer]): Iterator[SplitAnswer] = {
      val context = TaskContext.get()
      val runner =
        SparkVersionShim.pythonRunner(
          function,
          Seq(0, 1),
          question,
          timeZone,
          largeVarTypes,
          runnerConf,
          metrics,
          artifacts
        )
      val answers = runner.compute(new Batches(buffers.map(rowOf)), context.partitionId(), context)
      answers.flatMap(batch => batch.rowIterator.asScala.map(row => answerOf(row.getStruct(0, answer.length))))
    }

    private def rowOf(buffer: SplitBuffer): (InternalRow, Int) = {
      val rows = buffer.rows.map { row =>
        val projected = ProjectingInternalRow(rowType, ordinals)
        projected.project(row)
        projected: Any
      }
      (new GenericInternalRow(Array[Any](buffer.offset.toLong, new GenericArrayData(rows.toArray))), rows.length)
    }

    private def answerOf(row: InternalRow): SplitAnswer =
      if (!row.isNullAt(2)) SplitAnswer.Failed(row.getUTF8String(1).toString, row.getUTF8String(2).toString)
      else if (!row.isNullAt(1)) SplitAnswer.Wrong(row.getUTF8String(1).toString)
      else SplitAnswer.At(row.getArray(0).toLongArray())

    private def checkTypes(): Unit = columns.foreach { c =>
      val shown = new StructType().add(c.name, c.dataType)
      try ArrowUtils.toArrowSchema(shown, timeZone, errorOnDuplicatedFieldNames = false, largeVarTypes)
      catch {
        case _: org.apache.spark.SparkUnsupportedOperationException =>
          throw MullionException.unsupported(
            s"The column ${c.name} of type ${c.dataType.sql} cannot be sent to Python over Arrow, so Global.split cannot pass it " +
              "to its function. Name the columns that it needs, with columns=[...], or convert this one."
          )
      }
    }
  }

  /** Keys in Arrow batches, each of a number of buffered rows, or of one key with more. */
  private final class Batches(keys: Iterator[(InternalRow, Int)]) extends Iterator[Iterator[InternalRow]] {
    private val most = SQLConf.get.arrowMaxRecordsPerBatch match {
      case n if n > 0 => n
      case _          => Int.MaxValue
    }

    override def hasNext: Boolean = keys.hasNext

    override def next(): Iterator[InternalRow] = new Iterator[InternalRow] {
      private var rows = 0L

      override def hasNext: Boolean = rows < most && keys.hasNext

      override def next(): InternalRow = {
        val (row, more) = keys.next()
        rows += more
        row
      }
    }
  }
}

/** A placeholder for a missing function, for state that is only read. */
case object UnknownSplit extends SplitBy {
  override def name: String = "unknown"

  override def asker(kept: Seq[Attribute], columns: Seq[Attribute], metrics: Map[String, SQLMetric]): SplitAsker =
    throw new IllegalStateException("the function that split these windows is not here")
}
