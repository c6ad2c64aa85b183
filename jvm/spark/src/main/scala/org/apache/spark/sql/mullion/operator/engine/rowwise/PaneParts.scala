package org.apache.spark.sql.mullion.operator.engine.rowwise

import org.apache.spark.sql.mullion.expressions.rows.CollectedRows

/** The rows of a pane in parts of a bounded size, for a firing of several rows of output.
  *
  * @param runs
  *   the rows in their order, as many at a time as state has in a record
  * @param total
  *   their number
  * @param width
  *   the columns of a row
  */
private[engine] final class PaneParts private (runs: Iterator[CollectedRows], total: Long, width: Int)
    extends Iterator[CollectedRows] {
  import PaneParts._

  private var run = new CollectedRows(width)
  private var at = 0
  private var isFirst = true

  override def hasNext: Boolean = {
    while (at == run.size && runs.hasNext) { run = runs.next(); at = 0 }
    at < run.size
  }

  override def next(): CollectedRows = {
    val part = new CollectedRows(width)
    var bytes = 0L
    while (part.size < MostRows && bytes < MostBytes && hasNext) {
      part.add(run.number(at), run.time(at), run.row(at))
      bytes += run.row(at).getSizeInBytes
      at += 1
    }
    part.part = Some(CollectedRows.Part(Option.when(isFirst)(total)))
    isFirst = false
    part
  }
}

private[engine] object PaneParts {

  private final val MostRows = 10000
  private final val MostBytes = 4L << 20

  /** The parts of a pane: one, which sorts itself, if its rows are few.
    *
    * @param isOrdered
    *   true if the rows of `runs` are in order
    */
  def apply(
      runs: Iterator[CollectedRows],
      total: Long,
      isOrdered: Boolean,
      byTime: Boolean,
      width: Int
  ): Iterator[CollectedRows] = {
    val first = new CollectedRows(width)
    while (first.size <= MostRows && first.bytes < MostBytes && runs.hasNext) first.addAll(runs.next())
    if (first.size <= MostRows && !runs.hasNext) Iterator.single(first)
    else {
      val all = Iterator.single(first) ++ runs
      new PaneParts(if (isOrdered) all else new RowSorter(byTime, width).sort(all), total, width)
    }
  }
}
