package org.apache.spark.sql.mullion.exec.panes

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.mullion.exec.panes.Steps.Rows
import org.apache.spark.sql.mullion.state.records.{FamilySpec, StatePartition}

/** The end of the input in one partition: all that is open closes, once the batch with which the input ends is worked
  * on, and nothing is kept. So another run of the query finds no panes, no row numbers and no clocks of keys; only
  * Spark's watermark stands where it stood.
  *
  * {{{
  *   panes open     a [0, 10)  b [0, 10)  b [10, 20)
  *   the end        close      close      close           and state is empty
  * }}}
  *
  * @param families
  *   the kinds of record that the partition has, but for its totals
  */
private[exec] final class EndOfInput(
    engine: PaneEngine,
    partition: StatePartition,
    families: Seq[FamilySpec],
    counts: PaneCounts
) {

  /** What closes. State is empty once it is used up. */
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
