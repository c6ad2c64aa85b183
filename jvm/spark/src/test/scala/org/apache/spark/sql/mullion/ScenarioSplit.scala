package org.apache.spark.sql.mullion

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.mullion.expressions.udf.{SplitAnswer, SplitAsker, SplitBuffer, SplitBy}

/** The function that splits windows of test cases: a row with 0 in a column is the last of a window, and a negative one
  * the first. `scenario.py` has it in Python.
  */
final case class ScenarioSplit(column: String) extends SplitBy {
  override def name: String = "split"

  override def asker(kept: Seq[Attribute], columns: Seq[Attribute], metrics: Map[String, SQLMetric]): SplitAsker =
    new ScenarioSplit.Asker(kept.indexWhere(k => k.name == column && columns.exists(_.exprId == k.exprId)))
}

object ScenarioSplit {
  private final class Asker(at: Int) extends SplitAsker {

    override def ask(buffers: Iterator[SplitBuffer]): Iterator[SplitAnswer] =
      // Two at a time, like an asynchronous function.
      buffers.grouped(2).flatMap(_.map(buffer => SplitAnswer.At(split(buffer.rows))))

    private def split(rows: IndexedSeq[InternalRow]): Array[Long] =
      rows.zipWithIndex
        .filterNot(_._1.isNullAt(at))
        .flatMap { case (row, i) =>
          val value = row.getInt(at)
          if (value == 0) Some(i + 1L) else Option.when(value < 0)(i.toLong)
        }
        .distinct
        .sorted
        .toArray
  }
}
