package org.apache.spark.sql.mullion.operator.assign

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.execution.SparkPlan

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.{CustomRules, RowRanges}

/** Emits one output row for each range of its own that a row enters, below the partial aggregate. It removes late rows,
  * rows without time and rows in no window. Late rows that reopen panes are `marked`.
  *
  * {{{
  *   ts, k, ranges                        ts, k, ranges, end, start
  *   3   a  [[0, 5), [2, 9)]      ->      3   a  ..      5    0
  *                                        3   a  ..      9    2
  * }}}
  *
  * @param ranges
  *   the column with the ranges, an array of structs of two TIMESTAMPs
  * @param end
  *   the end of a pane, which closes it and is its slice
  * @param before
  *   the event clock before this batch, in microseconds, once the batch is known
  * @param ahead
  *   the latest time of rows that are not too far ahead of the wall clock, if that is limited
  */
case class AssignRangesExec(
    operator: String,
    time: Attribute,
    ranges: Attribute,
    end: Attribute,
    start: Attribute,
    marked: Option[Attribute],
    rules: CustomRules,
    before: Option[Long],
    ahead: Option[Long],
    child: SparkPlan
) extends AssignsPanes {

  override def output: Seq[Attribute] = child.output ++ Seq(end) ++ marked ++ Seq(start)

  override protected def since(before: Option[Long], ahead: Option[Long]): SparkPlan =
    copy(before = before, ahead = ahead)

  override def needCopyResult: Boolean = true

  private def newRanges: RangesOfRow = new RangesOfRow(rules, before.getOrElse(BatchClock.BeforeAllTime))

  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String = {
    val of = ctx.addReferenceObj("ranges", newRanges)
    val (timeVar, listVar) = (variable(input, time), variable(input, ranges))
    // Evaluated first: a variable evaluated in one branch is undefined in the other. The loop's body may `continue`,
    // and is a block of its own.
    val evaluated = evaluateVariables(input)
    val aside = if (putsAside) putAside(ctx, input) else ""
    val (i, late) = (ctx.freshName("i"), ctx.freshName("late"))
    val (startVar, endVar) = (ctx.freshName("start"), ctx.freshName("end"))

    def long(name: String): ExprCode = ExprCode(code"", FalseLiteral, JavaCode.variable(name, end.dataType))
    val mark = ctx.freshName("mark")
    val flag = marked.map(m => ExprCode(code"", FalseLiteral, JavaCode.variable(mark, m.dataType)))
    s"""
       |// ranges of ${ctx.registerComment(rules.describe)}
       |do {
       |  $evaluated
       |  if (${timeVar.isNull}) {
       |    ${metricTerm(ctx, "rowsWithoutTime")}.add(1L);
       |    $aside
       |    continue;
       |  }
       |  ${aheadCode(ctx, timeVar.value.toString, aside)}
       |  $of.read(${listVar.isNull} ? null : ${listVar.value});
       |  if ($of.isEmpty()) {
       |    ${metricTerm(ctx, "rowsInNoWindow")}.add(1L);
       |    continue;
       |  }
       |  boolean $late = $of.isLate();
       |  if ($late) {
       |    ${countLate(ctx, s"$of.lateness()")}
       |    $aside
       |    ${if (marked.isEmpty) "continue;" else ""}
       |  }
       |  if ($of.missed() > 0) ${metricTerm(ctx, "panesMissed")}.add($of.missed());
       |  for (int $i = 0; $i < $of.count(); $i++) {
       |    boolean $mark = $of.hadClosed($i);
       |    long $endVar = $of.end($i);
       |    long $startVar = $of.start($i);
       |    ${consume(ctx, input ++ Seq(long(endVar)) ++ flag ++ Seq(long(startVar)))}
       |  }
       |} while (false);
       |""".stripMargin
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val (noTime, noWindow) = (longMetric("rowsWithoutTime"), longMetric("rowsInNoWindow"))
    val (lateRows, histogram) = (lateCounts, lateness)
    val (latest, rowsAhead) = (ahead.getOrElse(Long.MaxValue), longMetric("rowsAhead"))
    val panesMissed = longMetric("panesMissed")
    val reader = newRanges
    val aside = if (putsAside) Some(newSide) else None
    val marks = marked.isDefined
    val (childOutput, fullOutput) = (child.output, output)
    val timeAt = childOutput.indexWhere(_.exprId == time.exprId)
    val rangesAt = childOutput.indexWhere(_.exprId == ranges.exprId)
    child.execute().mapPartitionsWithIndex { (partition, rows) =>
      val of = reader.fresh
      val allColumns = UnsafeProjection.create(childOutput, childOutput)
      val project = UnsafeProjection.create(fullOutput, fullOutput)
      val added = new GenericInternalRow(fullOutput.length - childOutput.length)
      val both = new JoinedRow()
      lazy val side = aside.map(_.of(partition))

      def entered(row: InternalRow, i: Int): InternalRow = {
        added.update(0, of.end(i))
        if (marks) added.update(1, of.hadClosed(i))
        added.update(added.numFields - 1, of.start(i))
        project(both(row, added))
      }

      rows.flatMap { row =>
        if (row.isNullAt(timeAt)) {
          noTime += 1
          side.foreach(_.add(allColumns(row)))
          Iterator.empty
        } else if (row.getLong(timeAt) > latest) {
          rowsAhead += 1
          side.foreach(_.add(allColumns(row)))
          Iterator.empty
        } else {
          of.read(if (row.isNullAt(rangesAt)) None.orNull else row.getArray(rangesAt))
          if (of.isEmpty) { noWindow += 1; Iterator.empty }
          else {
            if (of.isLate) {
              lateRows.foreach(_ += 1)
              histogram.count(of.lateness)
              side.foreach(_.add(allColumns(row)))
            }
            panesMissed += of.missed
            if (of.isLate && !marks) Iterator.empty else Iterator.tabulate(of.count)(entered(row, _))
          }
        }
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): AssignRangesExec = copy(child = newChild)
}

/** Reads the ranges of rows, called by generated code. */
final class RangesOfRow(rules: CustomRules, before: Long) extends Serializable {
  private val of = new RowRanges(rules, before)

  /** A copy for another task in this process. */
  def fresh: RangesOfRow = new RangesOfRow(rules, before)

  /** @param list
    *   an array of structs of two times, or null
    */
  def read(list: ArrayData): Unit = {
    of.clear()
    if (list ne null) {
      var i = 0
      while (i < list.numElements()) {
        if (list.isNullAt(i)) of.addNull()
        val range = list.getStruct(i, 2)
        if (range.isNullAt(0) || range.isNullAt(1)) of.addNull()
        of.add(range.getLong(0), range.getLong(1))
        i += 1
      }
    }
  }

  def isEmpty: Boolean = of.isEmpty

  def isLate: Boolean = of.isLate

  def lateness: Long = of.lateness

  def count: Int = of.count

  def hadClosed(i: Int): Boolean = of.hadClosed(i)

  def missed: Int = of.missed

  def start(i: Int): Long = of.start(i)

  def end(i: Int): Long = of.end(i)
}
