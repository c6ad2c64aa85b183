package org.apache.spark.sql.mullion.state

import java.io.ObjectOutputStream

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.rocksdb.{KeptRows, RowBytes}
import org.apache.spark.util.AccumulatorV2
import org.apache.spark.{SparkContext, TaskContext}

/** Caches the rows that an operator returns in a batch, because several actions may run on it: a `foreachBatch`
  * function that checks for rows and then writes them runs the batch's plan twice.
  *
  * {{{
  *   first action     input -> state -> all rows -> memory; the state is committed; rows -> action
  *   next action                                    memory                          rows -> action
  *   no room          input -> state -> rows -> action, as far as the action reads; the next one repeats the work
  * }}}
  *
  * An action may stop before the last row. The state is committed nevertheless, because it is complete before the
  * first.
  *
  * Rows are returned again only if they belong to the attempt whose version of the state counts. That attempt has
  * reported to the driver, and each stage carries the last attempt of each partition to its tasks. Rows of failed
  * attempts are never used, nor rows on an executor whose partition has since been processed elsewhere.
  */
private[mullion] final class BatchOutput(attempts: BatchOutput.Attempts, opener: PartitionOpener, columns: Int)
    extends Serializable {
  import BatchOutput._

  // By partition, at the start of a stage.
  private var counted = Map.empty[Int, Long]

  private def writeObject(out: ObjectOutputStream): Unit = {
    counted = attempts.value
    out.defaultWriteObject()
  }

  /** The rows of a partition, in a task.
    *
    * @param run
    *   processes the partition's state, and commits it after the last row
    */
  def rows(partition: Int)(run: => Iterator[InternalRow]): Rows = {
    val before = opener.rowsOf(partition)
    val cached = for {
      rows <- before
      attempt <- counted.get(partition)
      found <- rows.of(attempt)
    } yield Rows(found.iterator, isAll = true)
    cached.getOrElse {
      before.foreach(_.drop())
      val out = run
      opener.rowsOf(partition).fold(Rows(out, isAll = false))(collect(partition, out, _))
    }
  }

  private def collect(partition: Int, out: Iterator[InternalRow], cached: KeptRows): Rows = {
    val rows = opener.roomForRows(columns)
    val task = TaskContext.get()
    task.addTaskCompletionListener[Unit](_ => rows.release())
    // Added even if its rows are not cached: this attempt invalidates earlier ones.
    attempts.add(partition -> task.taskAttemptId())
    var over = Option.empty[InternalRow]
    while (over.isEmpty && out.hasNext) {
      val row = out.next()
      if (!rows.add(row.asInstanceOf[UnsafeRow])) over = Some(row)
    }
    over match {
      case None =>
        cached.keep(task.taskAttemptId(), rows)
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
    *   whether these are all rows, and the partition's state is committed
    */
  final case class Rows(iterator: Iterator[InternalRow], isAll: Boolean)

  /** The attempt of each partition's task that counts: the last successful one. */
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

  /** The rows that fit into memory, the first row that did not, and the rows after it. */
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
