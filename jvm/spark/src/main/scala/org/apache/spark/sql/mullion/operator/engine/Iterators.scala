package org.apache.spark.sql.mullion.operator.engine

import scala.annotation.tailrec

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.mullion.state.record.FamilyScan

/** Steps such as apply, fire and store, whose rows are streamed, never collected: a step runs after the rows of the
  * previous steps have been consumed.
  *
  * Scala's own iterators call each one below them several times per row, and a firing passes about six; these call
  * once.
  */
private[operator] object Iterators {
  implicit final class Rows(private val rows: Iterator[InternalRow]) extends AnyVal {

    /** The rows, and then a step without rows. */
    def andThen(step: => Unit): Iterator[InternalRow] = new ThenStep(rows, () => step)
  }

  /** The items of `of` for each record of a scan. The scan moves to the next record after the items of the current one
    * have been consumed, and is closed after the last one.
    *
    * @param of
    *   the items of the scan's current record; `OfRecords.enough` ends the scan
    * @param atEnd
    *   called when there are no more records, unless `of` has ended the scan
    */
  final class OfRecords[T](scan: FamilyScan)(of: FamilyScan => Iterator[T])(atEnd: => Unit) extends Iterator[T] {
    private var items = Iterator.empty[T]
    private var isAtEnd = false

    @tailrec override def hasNext: Boolean =
      if (items.hasNext) true
      else if (isAtEnd) false
      else {
        if (scan.next()) items = of(scan) else { isAtEnd = true; atEnd }
        if (items eq OfRecords.enough) isAtEnd = true
        if (isAtEnd) scan.close()
        hasNext
      }

    override def next(): T = {
      if (!items.hasNext) hasNext
      items.next()
    }
  }

  object OfRecords {

    /** The items of a record after which the scan ends. */
    val enough: Iterator[Nothing] = new Iterator[Nothing] {
      override def hasNext: Boolean = false
      override def next(): Nothing = throw new NoSuchElementException("the scan has ended")
    }
  }

  private final class ThenStep(rows: Iterator[InternalRow], step: () => Unit) extends Iterator[InternalRow] {
    private var isTaken = false

    override def hasNext: Boolean = rows.hasNext || {
      if (!isTaken) {
        isTaken = true
        step()
      }
      false
    }

    override def next(): InternalRow = rows.next()
  }

  /** A flatMap over the input, followed by the rows of `atEnd`, which is evaluated after the last input row. */
  final class OfEach(input: Iterator[InternalRow])(of: InternalRow => Iterator[InternalRow])(
      atEnd: => Iterator[InternalRow]
  ) extends Iterator[InternalRow] {
    private var rows = Iterator.empty[InternalRow]
    private var isAtEnd = false

    @tailrec override def hasNext: Boolean =
      if (rows.hasNext) true
      else if (isAtEnd) false
      else {
        if (input.hasNext) rows = of(input.next())
        else {
          isAtEnd = true
          rows = atEnd
        }
        hasNext
      }

    override def next(): InternalRow = {
      if (!rows.hasNext) hasNext
      rows.next()
    }
  }
}
