package org.apache.spark.sql.mullion.plan.build

import org.apache.spark.sql.catalyst.expressions.NamedExpression
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.mullion.plan.Shown
import org.apache.spark.sql.mullion.plan.build.analysis.CallText
import org.apache.spark.sql.mullion.plan.options.WindowOptions
import org.apache.spark.sql.{AnalysisException, Column}

import dev.mullion.MullionException
import dev.mullion.windows.spec.Setting

/** The columns of a join's window, such as the gap of sessions: they are evaluated on each side, over its own columns.
  * In the rows of both sides they are columns whose names are their texts, which state is identified by.
  */
private[build] final class ColumnsOfWindow(sides: Seq[JoinSide], options: WindowOptions) {
  private val columns: Seq[(Setting, Column)] = Seq(
    options.gap.map(Setting("gap", "gap", "gap_column") -> _),
    options.trigger.map(Setting.EndsWith -> _),
    options.ranges.map(Setting("ranges", "ranges", "ranges") -> _)
  ).flatten

  private val texts = columns.map { case (setting, column) =>
    CallText.sqlOf(Shown.unalias(resolved(sides.head, setting, column)))
  }

  /** The columns on one side. */
  def on(side: JoinSide): Seq[Column] = columns.zip(texts).map { case ((setting, column), text) =>
    resolved(side, setting, column)
    column.as(text)
  }

  /** The options over the rows of both sides. */
  def overBoth: WindowOptions = {
    val texts = columns.map(_._2).zip(this.texts)
    def named(column: Column) =
      texts.collectFirst { case (of, text) if of eq column => col(JoinColumns.quoted(text)) }.getOrElse(column)
    options.copy(
      time = Some(col(WindowedJoinBuilder.timeName)),
      gap = options.gap.map(named),
      trigger = options.trigger.map(named),
      ranges = options.ranges.map(named)
    )
  }

  private def resolved(side: JoinSide, setting: Setting, column: Column): NamedExpression =
    try
      side.timed.select(column).queryExecution.analyzed match {
        case Project(Seq(one), _) => one
        case _                    =>
          throw MullionException.invalid(
            s"$setting of the window is not one value of each row. Compute it before the join, as a column of both sides."
          )
      }
    catch {
      case theirs: AnalysisException if isUnknown(theirs) =>
        val parameters = theirs.getMessageParameters
        val name = Seq("objectName", "fieldName").flatMap(of => Option(parameters.get(of))).mkString.replace("`", "")
        throw MullionException.unknownColumn(
          s"$setting of the window reads the column '$name', which the ${side.name} side does not have. It is evaluated for " +
            s"the rows of both sides: add the column to that side before the join. The ${side.name} side has " +
            s"${side.df.columns.mkString("'", "', '", "'")}."
        )
    }

  private def isUnknown(theirs: AnalysisException): Boolean =
    Option(theirs.getCondition).exists(of => of.startsWith("UNRESOLVED_COLUMN") || of.startsWith("FIELD_NOT_FOUND"))
}
