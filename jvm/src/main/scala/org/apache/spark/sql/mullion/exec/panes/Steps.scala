package org.apache.spark.sql.mullion.exec.panes

import scala.annotation.tailrec

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.mullion.state.records.FamilyScan

/** Work in steps, as in apply, fire, store, whose rows are pulled one by one and never held together: a step is taken
  * once the rows of the steps before it are used up.
  *
  * Scala's own iterators ask each below them several times for a row, and a firing passes half a dozen: what is here
  * asks once.
  */
private[exec] object Steps {
  implicit final class Rows(private val rows: Iterator[InternalRow]) extends AnyVal {

    /** The rows, and then a step that gives none. */
    def andThen(step: => Unit): Iterator[InternalRow] = new ThenStep(rows, () => step)
  }

  /** The items that `of` makes of each record of a scan. The scan goes to the next record when the items of the one
    * before have been pulled, and is closed after the last one.
    *
    * @param of
    *   the items of the record that the scan stands on; `OfRecords.enough` ends the scan
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

    /** The items of a record after which no more are wanted. */
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

  /** What each row of `input` gives, and then what there is at the end, which is asked for once that is used up. */
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
