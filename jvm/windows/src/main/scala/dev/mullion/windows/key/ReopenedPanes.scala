package dev.mullion.windows.key

import scala.collection.mutable

/** The panes that late rows of one key open in a batch, by the stream's clock. They are due at once, so they need no
  * state; late rows of one batch and pane share a pane.
  *
  * @param joins
  *   whether panes that touch merge, as sessions do
  */
final class ReopenedPanes[A](joins: Boolean) {
  private val opened = mutable.ArrayBuffer.empty[(ArrivalPane, A)]

  /** Adds a row, and a pane that it opens. */
  def add(pane: ArrivalPane, row: A): Unit = { opened += pane -> row; () }

  /** The panes in order of their starts, each with its rows in order of arrival. */
  def panes: Seq[(ArrivalPane, Seq[A])] = {
    val groups = mutable.ArrayBuffer.empty[(ArrivalPane, mutable.ArrayBuffer[Int])]
    opened.indices.sortBy(i => (opened(i)._1.start, opened(i)._1.end)).foreach { i =>
      val pane = opened(i)._1
      groups.lastOption match {
        case Some((last, rows)) if last == pane || (joins && pane.start <= last.end) =>
          groups(groups.length - 1) = last.copy(end = Math.max(last.end, pane.end)) -> (rows += i)
        case _ => groups += pane -> mutable.ArrayBuffer(i)
      }
    }
    groups.map { case (pane, rows) => pane -> rows.sorted.map(i => opened(i)._2).toSeq }.toSeq
  }
}
