package org.apache.spark.sql.mullion.state

import java.io.ObjectOutputStream

import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.store.{KeptRows, RowBytes}
import org.apache.spark.util.AccumulatorV2

/** The rows that an operator returns in a batch on which several actions may run: a function of `foreachBatch` that
  * asks whether there are rows and then writes them runs the batch's plan twice.
  *
  * {{{
  *   first action     input -> state -> rows, all of them -> memory; the state is committed; rows -> action
  *   next action                                             memory                           rows -> action
  *   no room          input -> state -> rows -> action, as far as the action asks for rows; the next one does it again
  * }}}
  *
  * An action may stop before the last row. The state is committed nevertheless, for it was complete before the first.
  *
  * Rows are returned again only if they are of the attempt whose version of the state counts. It has reported itself to
  * the driver, and each stage that begins carries the last attempt of each partition to its tasks. The rows of a failed
  * attempt are never used, nor those on an executor whose partition has been worked on elsewhere since.
  */
private[mullion] final class BatchOutput(attempts: BatchOutput.Attempts, opener: PartitionOpener, columns: Int)
    extends Serializable {
  import BatchOutput._

  // By partition, as of when a stage began.
  private var counted = Map.empty[Int, Long]

  private def writeObject(out: ObjectOutputStream): Unit = {
    counted = attempts.value
    out.defaultWriteObject()
  }

  /** The rows of a partition, in a task.
    *
    * @param run
    *   works on the partition's state, and commits it after the last row
    */
  def rows(partition: Int)(run: => Iterator[InternalRow]): Rows = {
    val before = opener.rowsOf(partition)
    val kept = for {
      rows <- before
      attempt <- counted.get(partition)
      found <- rows.of(attempt)
    } yield Rows(found.iterator, isAll = true)
    kept.getOrElse {
      before.foreach(_.drop())
      val out = run
      opener.rowsOf(partition).fold(Rows(out, isAll = false))(collect(partition, out, _))
    }
  }

  private def collect(partition: Int, out: Iterator[InternalRow], kept: KeptRows): Rows = {
    val rows = opener.roomForRows(columns)
    val task = TaskContext.get()
    task.addTaskCompletionListener[Unit](_ => rows.release())
    // Whether it keeps its rows or not: those of attempts before it count no more.
    attempts.add(partition -> task.taskAttemptId())
    var over = Option.empty[InternalRow]
    while (over.isEmpty && out.hasNext) {
      val row = out.next()
      if (!rows.add(row.asInstanceOf[UnsafeRow])) over = Some(row)
    }
    over match {
      case None =>
        kept.keep(task.taskAttemptId(), rows)
        Rows(rows.iterator, isAll = true)
      case Some(row) => Rows(new Rest(rows, row, out), isAll = false)
    }
  }
}

private[mullion] object BatchOutput {
  def apply(context: SparkContext, opener: PartitionOpener, columns: Int): BatchOutput = {
    val attempts = new Attempts
    context.register(attempts)
    new BatchOutput(attempts, opener, columns)
  }

  /** @param isAll
    *   whether there are all rows, and the partition's state is committed
    */
  final case class Rows(iterator: Iterator[InternalRow], isAll: Boolean)

  /** The attempt of each partition's task that counts: the last of those that succeeded. */
  private[state] final class Attempts extends AccumulatorV2[(Int, Long), Map[Int, Long]] {
    private var ofPartitions = Map.empty[Int, Long]

    override def isZero: Boolean = ofPartitions.isEmpty
    override def copy(): Attempts = { val c = new Attempts; c.ofPartitions = ofPartitions; c }
    override def reset(): Unit = ofPartitions = Map.empty
    override def add(of: (Int, Long)): Unit =
      ofPartitions += of._1 -> ofPartitions.get(of._1).fold(of._2)(Math.max(_, of._2))
    override def merge(other: AccumulatorV2[(Int, Long), Map[Int, Long]]): Unit = other.value.foreach(add)
    override def value: Map[Int, Long] = ofPartitions
  }

  /** The rows for which there was room, the first for which there was none, and those after it. */
  private final class Rest(rows: RowBytes, row: InternalRow, after: Iterator[InternalRow])
      extends Iterator[InternalRow] {
    private var copies = rows.iterator
    private var isBeforeRow = true

    override def hasNext: Boolean = isBeforeRow || after.hasNext

    override def next(): InternalRow =
      if (!isBeforeRow) after.next()
      else if (copies.hasNext) copies.next()
      else {
        isBeforeRow = false
        copies = Iterator.empty
        rows.free()
        row
      }
  }
}
