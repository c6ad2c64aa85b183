package org.apache.spark.sql.mullion.expressions.udf

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.metric.SQLMetric

/** A function that splits the buffered rows of keys into global windows. */
trait SplitBy extends Serializable {

  /** Its name for the user. */
  def name: String

  /** Its metrics, in addition to the operator's: by name, created on the driver. */
  def metrics(context: SparkContext): Map[String, SQLMetric] = Map.empty

  /** Created on the driver for one batch, called in its tasks.
    *
    * @param kept
    *   the columns of buffered rows
    * @param columns
    *   the function's input columns
    */
  def asker(kept: Seq[Attribute], columns: Seq[Attribute], metrics: Map[String, SQLMetric]): SplitAsker
}

/** Calls the function for buffers. */
trait SplitAsker extends Serializable {

  /** The answers for buffers, in order. It may consume several buffers before the first answer; a buffer's rows are
    * unchanged until its own answer.
    */
  def ask(buffers: Iterator[SplitBuffer]): Iterator[SplitAnswer]
}

/** The buffered rows of a key, in order of arrival.
  *
  * @param offset
  *   the index of the first row of this batch
  */
final case class SplitBuffer(rows: IndexedSeq[InternalRow], offset: Int)

sealed trait SplitAnswer

object SplitAnswer {

  /** New windows start at these rows of the buffer. */
  final case class At(indices: Array[Long]) extends SplitAnswer

  /** An invalid result.
    *
    * @param what
    *   the predicate of the error message
    */
  final case class Wrong(what: String) extends SplitAnswer

  /** An error in the function.
    *
    * @param what
    *   the predicate of the error message
    * @param trace
    *   the error's own report
    */
  final case class Failed(what: String, trace: String) extends SplitAnswer
}
