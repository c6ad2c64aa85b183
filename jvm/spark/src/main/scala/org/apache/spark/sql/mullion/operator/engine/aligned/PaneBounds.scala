package org.apache.spark.sql.mullion.operator.engine.aligned

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.mullion.operator.engine.PaneProgram

import dev.mullion.windows.rules.AlignedRules

/** The start and end of a pane, from the key of its record. Records are in order of one time, in which panes also
  * close.
  *
  * {{{
  *   windows on a grid      (start, key)        the end follows from the start
  *   overlapping ones       (number, key)       both follow from the number
  *   windows of any size    (end, key, start)
  * }}}
  */
private[operator] sealed trait PaneBounds {
  def start(key: InternalRow): Long

  def end(key: InternalRow): Long

  /** The time in the records of panes that end at `end`, or before it if none ends there. */
  def orderOf(end: Long): Long
}

private[operator] object PaneBounds {

  /** @param layout
    *   the columns of a record's key
    */
  def apply(program: PaneProgram, rules: Option[AlignedRules], layout: Seq[Attribute]): PaneBounds = {
    def at(column: Attribute) = layout.indexWhere(_.exprId == column.exprId)
    (rules, program.start) match {
      case (Some(aligned), _)  => new OnGrid(at(program.slice), aligned)
      case (None, Some(start)) => new OfRange(at(start), at(program.slice))
      case (None, None)        => throw new IllegalStateException(s"where do panes start: ${program.rules.describe}")
    }
  }

  private final class OnGrid(paneAt: Int, rules: AlignedRules) extends PaneBounds {
    override def start(key: InternalRow): Long = rules.paneStart(key.getLong(paneAt))
    override def end(key: InternalRow): Long = rules.paneEnd(key.getLong(paneAt))
    override def orderOf(end: Long): Long = rules.paneEndingBy(end)
  }

  private final class OfRange(startAt: Int, endAt: Int) extends PaneBounds {
    override def start(key: InternalRow): Long = key.getLong(startAt)
    override def end(key: InternalRow): Long = key.getLong(endAt)
    override def orderOf(end: Long): Long = end
  }
}
