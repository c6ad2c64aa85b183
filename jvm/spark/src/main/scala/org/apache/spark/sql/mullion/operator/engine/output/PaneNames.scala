package org.apache.spark.sql.mullion.operator.engine.output

import java.time.ZoneOffset

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Literal, ToPrettyString}
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.mullion.expressions.columns.KeyColumns
import org.apache.spark.sql.mullion.operator.engine.PaneProgram

import dev.mullion.windows.rules.{AlignedRules, AroundRules, NumberedRules, PaneRules, SlicedRules}

/** The name of a pane in errors: `The pane [0, 3) of k=a`.
  *
  * @param layout
  *   the columns of the rows with the keys
  */
private[operator] final class PaneNames(keys: Seq[Attribute], rules: PaneRules, layout: Seq[Attribute]) {
  def this(program: PaneProgram, layout: Seq[Attribute]) = this(program.keys, program.rules, layout)

  def this(program: PaneProgram) = this(program, program.keys)

  private val numbered = rules.isInstanceOf[NumberedRules]

  def apply(start: Long, end: Long, key: InternalRow): String = s"The pane [${bound(start)}, ${bound(end)})${of(key)}"

  /** ` of k=a`, or an empty text if there is one key. */
  def of(key: InternalRow): String = PaneNames.ofKey(keys, layout, key)

  private def bound(at: Long) = if (numbered) at.toString else DateTimeUtils.microsToInstant(at).toString
}

private[mullion] object PaneNames {

  /** ` of k=a`, or an empty text if there is one key. */
  def ofKey(keys: Seq[Attribute], layout: Seq[Attribute], row: InternalRow): String = {
    val named = KeyColumns.named(keys).map { k =>
      val value = row.get(layout.indexWhere(_.exprId == k.exprId), k.dataType)
      s"${k.name}=${ToPrettyString(Literal(value, k.dataType), Some(ZoneOffset.UTC.getId)).eval(InternalRow.empty)}"
    }
    if (named.isEmpty) "" else named.mkString(" of ", ", ", "")
  }

  /** The name of the pane of a partial row, by its slice: of several panes, the first.
    *
    * @param layout
    *   the columns of the row
    */
  def ofPartial(program: PaneProgram, layout: Seq[Attribute], row: InternalRow): String = {
    val names = new PaneNames(program, layout)
    def at(column: Attribute) = layout.indexWhere(_.exprId == column.exprId)
    def time(of: Attribute) = row.getLong(at(of))
    def ofWindow(rules: SlicedRules, window: Long) = names(rules.windowStart(window), rules.windowEnd(window), row)
    val slice = time(program.slice)
    // A batch DataFrame has no late rows, and no column for them.
    def reopens = program.marked.map(at).exists(i => i >= 0 && row.getBoolean(i))
    program.rules match {
      case rules: AlignedRules if rules.numbersSlices && !rules.keepsApart && !reopens =>
        ofWindow(rules, rules.grid.firstWindow(slice))
      case rules: AlignedRules => names(rules.paneStart(slice), rules.paneEnd(slice), row)
      case rules: AroundRules  => ofWindow(rules, slice)
      case _                   => program.start.fold(s"A pane${names.of(row)}")(start => names(time(start), slice, row))
    }
  }
}
