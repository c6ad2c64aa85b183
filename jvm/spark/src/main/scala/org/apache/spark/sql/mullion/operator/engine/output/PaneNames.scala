package org.apache.spark.sql.mullion.operator.engine.output

import java.time.ZoneOffset

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Literal, ToPrettyString}
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.mullion.expressions.columns.KeyColumns
import org.apache.spark.sql.mullion.operator.engine.PaneProgram

import dev.mullion.windows.rules.NumberedRules

/** The name of a pane in errors: `The pane [0, 3) of k=a`.
  *
  * @param layout
  *   the columns of the rows with the keys
  */
private[operator] final class PaneNames(program: PaneProgram, layout: Seq[Attribute]) {
  def this(program: PaneProgram) = this(program, program.keys)

  private val numbered = program.rules.isInstanceOf[NumberedRules]

  def apply(start: Long, end: Long, key: InternalRow): String = s"The pane [${bound(start)}, ${bound(end)})${of(key)}"

  /** ` of k=a`, or an empty text if there is one key. */
  def of(key: InternalRow): String = {
    val named = KeyColumns.named(program.keys).map { k =>
      val value = key.get(layout.indexWhere(_.exprId == k.exprId), k.dataType)
      s"${k.name}=${ToPrettyString(Literal(value, k.dataType), Some(ZoneOffset.UTC.getId)).eval(InternalRow.empty)}"
    }
    if (named.isEmpty) "" else named.mkString(" of ", ", ", "")
  }

  private def bound(at: Long) = if (numbered) at.toString else DateTimeUtils.microsToInstant(at).toString
}
