package org.apache.spark.sql.mullion.operator.engine

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.mullion.operator.engine.Iterators.Rows
import org.apache.spark.sql.mullion.state.record.{FamilySpec, StatePartition}

/** The end of the input in one partition: all open panes close after the last batch, and all state is deleted. Another
  * run of the query finds no panes, no row numbers and no clocks of keys; only Spark's watermark is kept.
  *
  * {{{
  *   panes open     a [0, 10)  b [0, 10)  b [10, 20)
  *   the end        close      close      close           and state is empty
  * }}}
  *
  * @param families
  *   the partition's kinds of record, except for its totals
  */
private[operator] final class EndOfInput(
    engine: PaneEngine,
    partition: StatePartition,
    families: Seq[FamilySpec],
    counts: PaneCounts
) {

  /** The closes. After the last one, state is empty. */
  def closes(): Iterator[InternalRow] = engine
    .remaining()
    .map { row =>
      counts.firedClose += 1
      counts.panesClosed += 1
      row
    }
    .andThen(clear())

  private def clear(): Unit = {
    families.foreach(partition.family(_).clear())
    counts.nothingDue()
  }
}
