package org.apache.spark.sql.mullion.operator.engine.output

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.rows.Projections
import org.apache.spark.sql.mullion.operator.engine.{AddingPanes, OpenPane, PaneEngine, PaneProgram}
import org.apache.spark.sql.mullion.state.record.{FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types.StructType

/** Panes whose closes take values from the close of the same key before them.
  *
  * {{{
  *   last_closes  (key)  -> the end of the last closed pane, its values
  * }}}
  *
  * Panes of one key that do not overlap close in order of their ends, and a close is final. A pane that late rows
  * reopen may end before the last closed one: it then takes no values, and gives none.
  *
  * A record is kept as long as the query, because the next pane of the key may come at any time.
  *
  * @param panes
  *   the engine
  */
private[operator] final class LastClosePanes(
    program: PaneProgram,
    output: Seq[Attribute],
    rule: LastClose,
    panes: PaneEngine,
    partition: StatePartition
) extends AddingPanes {
  private val values = new LastCloseValues(output, program.keys.length, program.results.length, rule)
  private val records = partition.family(LastClosePanes.family(program, values.schema))
  private val keyOf =
    Projections(program.keys.indices.map(i => BoundReference(i, program.keys(i).dataType, nullable = true)))

  override def process(input: Iterator[InternalRow]): Iterator[InternalRow] = panes.process(input).map(replaced)

  override def add(row: InternalRow): Iterator[InternalRow] = {
    val firings = adding.add(row)
    if (firings.isEmpty) Iterator.empty else firings.map(replaced)
  }

  override def finish(): Iterator[InternalRow] = adding.finish().map(replaced)

  private def adding: AddingPanes = panes match {
    case adding: AddingPanes => adding
    case other               => throw new IllegalStateException(s"$other takes its rows in order of arrival")
  }

  override def know(keys: Iterator[UnsafeRow]): Unit = panes.know(keys)

  override def isLate(row: UnsafeRow): Boolean = panes.isLate(row)

  override def remaining(): Iterator[InternalRow] = panes.remaining().map(replaced)

  /** An open pane is shown as if it were the next of its key to close. */
  override def openPanes(): Iterator[OpenPane] = panes.openPanes().map { open =>
    val last = records.look(keyOf(open.row))
    open.copy(row = values.close(open.row, if (last.isAbsent) None.orNull else last.untilNextCall))
  }

  private def replaced(row: InternalRow): InternalRow =
    if (!values.isClose(row)) values.open(row)
    else {
      val key = keyOf(row)
      val stored = records.get(key)
      if (stored.isAbsent) {
        records.insert(key, values.recordOf(row, None.orNull))
        values.close(row, None.orNull)
      } else {
        val last = stored.untilNextCall
        if (values.endOf(row) <= last.getLong(0)) values.close(row, None.orNull)
        else {
          // The record is copied into the output before it may change.
          val closed = values.close(row, last)
          records.update(key, values.recordOf(row, last))
          closed
        }
      }
    }
}

private[operator] object LastClosePanes {
  def family(program: PaneProgram, value: StructType): FamilySpec =
    FamilySpec("last_closes", StructType(program.keyFields), value, RecordOrder.Unordered)

  /** The kind of record of a window. */
  def family(program: PaneProgram, output: Seq[Attribute], rule: LastClose): FamilySpec =
    family(program, new LastCloseValues(output, program.keys.length, program.results.length, rule).schema)
}
