package org.apache.spark.sql.mullion.plan.build.analysis

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.mullion.sqlfunctions.MullionPrevious

import dev.mullion.MullionException
import dev.mullion.windows.spec.{AroundWindow, CountWindow, CustomWindow, GridWindow, Setting, WindowSpec}

/** The aggregates of a call that `previous` names: their values in the pane of the key that closed before.
  *
  * The panes of a key must close one after the other, by windows that do not overlap. Sessions do: a closed session
  * merges with no other, and one that closes later ends later.
  */
private[build] object Previous {

  /** The calls of `previous` in expressions over aggregates. */
  def in(columns: Seq[Expression]): Seq[MullionPrevious] =
    columns.flatMap(_.collect { case previous: MullionPrevious => previous })

  /** The aggregates, over functions' results, each with the column of its previous value. */
  def columns(values: Seq[Expression]): Seq[(Expression, AttributeReference)] =
    in(values)
      .map(_.child)
      .foldLeft(Seq.empty[Expression]) { (all, e) => if (all.exists(isSame(_, e))) all else all :+ e }
      .map(e => e -> AttributeReference("previous", e.dataType)())

  /** An expression over these columns instead. */
  def replaced(value: Expression, columns: Seq[(Expression, AttributeReference)]): Expression = value.transform {
    case MullionPrevious(of) => columns.collectFirst { case (e, column) if isSame(e, of) => column }.get
  }

  private def isSame(a: Expression, b: Expression) = a.fastEquals(b) || a.semanticEquals(b)

  def check(call: AnalysedCall): Option[MullionException] =
    in(call.aggregateColumns)
      .flatMap(misplaced)
      .headOption
      .orElse(in(call.closesWhenOfRows.toSeq).headOption.map(inCondition))
      .orElse(
        in(call.aggregateColumns).headOption.flatMap(previous =>
          unsupported(call).map { case (what, why) =>
            MullionException.unsupported(s"${previous.sql} with $what: $why")
          }
        )
      )

  private def inCondition(previous: MullionPrevious) = MullionException.unsupported(
    s"${previous.sql} in the condition that closes a window: previous values are added to a pane when it closes, and the " +
      "condition decides about that before. Leave it out of the condition, or select by it in the output."
  )

  /** The error for a call with the wrong argument, or in the wrong place. */
  private def misplaced(previous: MullionPrevious): Option[MullionException] = {
    val of = previous.child
    if (of.exists(_.isInstanceOf[MullionPrevious]))
      Some(
        MullionException.unsupported(
          s"${previous.sql} needs the pane before the previous one, and state has one pane for each key. Apply lag " +
            "to the closes instead, in a batch query over their table."
        )
      )
    else if (!of.exists(_.isInstanceOf[AggregateExpression]))
      Some(
        MullionException.invalid(
          s"${previous.sql} has no aggregate, and a pane holds only aggregates. Write, for instance, ${Setting.PreviousSum}."
        )
      )
    else if (of.exists(AnalysedCall.isSparksOwn))
      Some(
        MullionException.unsupported(
          s"${previous.sql} is over a value that only Spark computes, after the window. Write the function around " +
            s"previous: f(${Setting.PreviousSum}) instead of previous(f(...))."
        )
      )
    else None
  }

  private def unsupported(call: AnalysedCall): Option[(Any, String)] = {
    val window = call.rules.window
    Option
      .when(overlaps(window))(
        window.describe -> ("windows of one key overlap, so the pane that closed before shares its rows. Use windows that " +
          "do not overlap, such as Tumbling.")
      )
      .orElse(
        Option.unless(call.rules.refinements.accumulate)(
          Setting.NotAccumulating -> "a close holds only the rows since the last firing. Leave one of them out."
        )
      )
      .orElse(
        Option.when(call.options.drains)(
          Setting.DrainWindow -> "panes of two windows would close at the same time. Leave one of them out."
        )
      )
      .orElse(
        Option.when(call.options.forgetAfter.isDefined)(
          Setting.ForgetAfter -> "the values of a key's last pane are kept as long as the query. Leave one of them out."
        )
      )
  }

  private def overlaps(window: WindowSpec): Boolean = window match {
    case grid: GridWindow                  => grid.overlaps
    case count: CountWindow                => count.every < count.size
    case _: AroundWindow | _: CustomWindow => true
    case _                                 => false
  }
}
