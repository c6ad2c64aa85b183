package org.apache.spark.sql.mullion.expressions

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.metric.SQLMetric

/** What says where the buffered rows of keys are split into global windows. */
trait SplitBy extends Serializable {

  /** What a user calls it. */
  def name: String

  /** What it counts, beside what its operator does: by name, made on the driver. */
  def metrics(context: SparkContext): Map[String, SQLMetric] = Map.empty

  /** Made on the driver for one batch, asked in its tasks.
    *
    * @param kept
    *   the columns of rows as they are buffered
    * @param columns
    *   those that it sees
    */
  def asker(kept: Seq[Attribute], columns: Seq[Attribute], metrics: Map[String, SQLMetric]): SplitAsker
}

/** Asks where buffers are split. */
trait SplitAsker extends Serializable {

  /** The answers for buffers, in their order. It may take several buffers before it gives the first answer; a buffer's
    * rows stay as they are until its own is given.
    */
  def ask(buffers: Iterator[SplitBuffer]): Iterator[SplitAnswer]
}

/** The buffered rows of a key, in order of arrival.
  *
  * @param offset
  *   where the rows of this batch begin
  */
final case class SplitBuffer(rows: IndexedSeq[InternalRow], offset: Int)

sealed trait SplitAnswer

object SplitAnswer {

  /** New windows start at these rows of the buffer. */
  final case class At(indices: Array[Long]) extends SplitAnswer

  /** It gave what it may not.
    *
    * @param what
    *   a predicate of the function
    */
  final case class Wrong(what: String) extends SplitAnswer

  /** It raised an error.
    *
    * @param what
    *   a predicate of the function
    * @param trace
    *   the error's own report
    */
  final case class Failed(what: String, trace: String) extends SplitAnswer
}
