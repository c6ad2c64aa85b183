package org.apache.spark.sql.mullion.operator.assign

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.execution.{CodegenSupport, SparkPlan}
import org.apache.spark.sql.mullion.shim.SpillLimits

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.{AlignedRules, AroundRules, LatePolicy, PaneRules, SessionRules}
import dev.mullion.windows.spec.{AlignedWindow, TimeMath}

/** Adds the slice in which a row is aggregated, below the partial aggregate. It removes late rows, rows without time
  * and rows in no window.
  *
  * A slice is a number: for overlapping windows its ordinal (see `SliceGrid`); else the start of the window. For late
  * rows that reopen panes there is one output row for each window that holds the row, with `marked` set and the window
  * as slice: its number where slices are numbered, else its start. For sessions, possibly late rows are `marked`, with
  * their time as slice; the operator decides, because it has the open sessions.
  *
  * @param operator
  *   the operator that this belongs to: there may be others in the plan
  * @param before
  *   the event clock before this batch, in microseconds, once the batch is known
  * @param ahead
  *   the latest time of rows that are not too far ahead of the wall clock, if that is limited
  */
case class AssignSlicesExec(
    operator: String,
    time: Attribute,
    slice: Attribute,
    marked: Option[Attribute],
    gap: Option[Attribute],
    rules: PaneRules,
    before: Option[Long],
    ahead: Option[Long],
    child: SparkPlan
) extends AssignsPanes {

  override def output: Seq[Attribute] = (child.output :+ slice) ++ marked

  override protected def since(before: Option[Long], ahead: Option[Long]): SparkPlan =
    copy(before = before, ahead = ahead)

  // Late rows of sessions are counted by the operator.
  private def isSession = rules.isInstanceOf[SessionRules]

  private def overlaps = rules match {
    case aligned: AlignedRules => aligned.numbersSlices
    case _                     => false
  }

  private def reopensEach = overlaps && rules.late == LatePolicy.ReopenEach

  // A late row becomes one row per window, and the generated code emits all of them in one place.
  override def needCopyResult: Boolean = marked.isDefined || child.asInstanceOf[CodegenSupport].needCopyResult

  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String = {
    val instance = newAssigner
    val assigner = ctx.addReferenceObj("assigner", instance, classOf[Assigner].getName)
    val timeVar = variable(input, time)
    val gapVar = gap.map(variable(input, _))
    // Rows put aside need all columns, and a variable evaluated in one branch is undefined in the other.
    val evaluated =
      if (putsAside) evaluateVariables(input)
      else evaluateRequiredVariables(child.output, input, AttributeSet(time +: gap.toSeq))
    val aside = if (putsAside) putAside(ctx, input) else ""

    val ts = ctx.freshName("ts")
    val late = ctx.freshName("late")
    val sliceVar = ctx.freshName("slice")
    val gapTerm = ctx.freshName("gap")
    val isNull = if (timeVar.isNull == FalseLiteral) "false" else timeVar.isNull.toString
    // A gap of 0 is none.
    val gapValue = gapVar.fold("0L")(g => s"${g.isNull} ? 0L : ${g.value}")
    val counted = if (isSession) "" else countLate(ctx, s"$assigner.lateness($ts, $gapTerm)")

    // Some of the overlapping windows may have closed.
    val missed = ctx.freshName("missed")
    val counting = if (reopensEach) "" else s"""if ($missed > 0) ${metricTerm(ctx, "panesMissed")}.add($missed);"""
    val missing = if (overlaps) s"int $missed = $late ? 0 : $assigner.missed($ts); $counting" else ""

    // Fields of objects would be read again for each row.
    val outside =
      if (instance.holdsAll) ""
      else
        s"""
           |if (!$assigner.inWindow($ts, $gapTerm)) {
           |  ${metricTerm(ctx, "rowsInNoWindow")}.add(1L);
           |  continue;
           |}
           |""".stripMargin
    val isLate =
      if (instance.lateBefore.isEmpty) s"$assigner.isLate($ts, $gapTerm)"
      else {
        val before = ctx.addMutableState(
          CodeGenerator.JAVA_LONG,
          "lateBefore",
          name => s"$name = ((Long) $assigner.lateBefore().get()).longValue();",
          forceInline = true
        )
        s"$ts < $before"
      }

    val classified =
      s"""
         |if ($isNull) {
         |  ${metricTerm(ctx, "rowsWithoutTime")}.add(1L);
         |  $aside
         |  continue;
         |}
         |long $ts = ${timeVar.value};
         |${aheadCode(ctx, ts, aside)}
         |long $gapTerm = $gapValue;
         |$outside
         |boolean $late = $isLate;
         |if ($late) {
         |  $counted
         |  ${if (marked.isEmpty || isSession) aside else ""}
         |  ${if (marked.isEmpty) "continue;" else ""}
         |}
         |$missing
         |""".stripMargin

    val sliceOf = instance.sliceCode(ts).getOrElse(s"$assigner.slice($ts, $gapTerm)")
    val sliceExpr = ExprCode(code"", FalseLiteral, JavaCode.variable(sliceVar, slice.dataType))
    val consumed = marked match {
      case None =>
        s"""
           |long $sliceVar = $sliceOf;
           |${consume(ctx, input :+ sliceExpr)}
           |""".stripMargin
      case Some(flag) =>
        val (i, n, mark) = (ctx.freshName("i"), ctx.freshName("n"), ctx.freshName("mark"))
        val flagExpr = ExprCode(code"", FalseLiteral, JavaCode.variable(mark, flag.dataType))
        val onTime = if (reopensEach) s"1 + $missed" else "1"
        // The loop's body may `continue`, and is a block of its own, so every input is evaluated before it.
        s"""
           |${evaluateVariables(input)}
           |int $n = $late ? $assigner.windows($ts) : $onTime;
           |for (int $i = 0; $i < $n; $i++) {
           |  boolean $mark = $late || $i > 0;
           |  long $sliceVar =
           |    $mark ? $assigner.marked($ts, $late ? $i : $i - 1) : $sliceOf;
           |  ${consume(ctx, input ++ Seq(sliceExpr, flagExpr))}
           |}
           |""".stripMargin
    }
    s"""
       |// slices of ${ctx.registerComment(rules.describe)}
       |do {
       |  $evaluated
       |  $classified
       |  $consumed
       |} while (false);
       |""".stripMargin
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val (noTime, noWindow) = (longMetric("rowsWithoutTime"), longMetric("rowsInNoWindow"))
    val (lateRows, histogram) = (lateCounts, lateness)
    val (latest, rowsAhead) = (ahead.getOrElse(Long.MaxValue), longMetric("rowsAhead"))
    val panesMissed = longMetric("panesMissed")
    val (mayMiss, reopens) = (overlaps, reopensEach)
    val assigner = newAssigner
    val (counts, emits) = (!isSession, putsAside && (marked.isEmpty || isSession))
    val aside = if (putsAside) Some(newSide) else None
    val marks = marked.isDefined
    val childOutput = child.output
    val timeAt = childOutput.indexWhere(_.exprId == time.exprId)
    val gapAt = gap.map(g => childOutput.indexWhere(_.exprId == g.exprId))
    val fullOutput = output
    child.execute().mapPartitionsWithIndex { (partition, rows) =>
      val allColumns = UnsafeProjection.create(childOutput, childOutput)
      val project = UnsafeProjection.create(fullOutput, fullOutput)
      val added = new GenericInternalRow(fullOutput.length - childOutput.length)
      val both = new JoinedRow()
      lazy val side = aside.map(_.of(partition))

      def assigned(row: InternalRow, slice: Long, late: Boolean): InternalRow = {
        added.update(0, slice)
        if (marks) added.update(1, late)
        project(both(row, added))
      }

      rows.flatMap { row =>
        if (row.isNullAt(timeAt)) {
          noTime += 1
          side.foreach(_.add(allColumns(row)))
          Iterator.empty
        } else {
          val ts = row.getLong(timeAt)
          val gap = gapAt.filterNot(row.isNullAt).fold(0L)(row.getLong)
          if (ts > latest) {
            rowsAhead += 1
            side.foreach(_.add(allColumns(row)))
            Iterator.empty
          } else if (!assigner.inWindow(ts, gap)) { noWindow += 1; Iterator.empty }
          else if (!assigner.isLate(ts, gap)) {
            val missed = if (mayMiss) assigner.missed(ts) else 0
            if (missed > 0 && !reopens) panesMissed += missed
            val onTime = Iterator.single(assigned(row, assigner.slice(ts, gap), late = false))
            if (missed == 0 || !reopens) onTime
            else onTime ++ Iterator.tabulate(missed)(i => assigned(row, assigner.marked(ts, i), late = true))
          } else {
            if (counts) {
              lateRows.foreach(_ += 1)
              histogram.count(assigner.lateness(ts, gap))
            }
            if (emits) side.foreach(_.add(allColumns(row)))
            if (!marks) Iterator.empty
            else Iterator.tabulate(assigner.windows(ts))(i => assigned(row, assigner.marked(ts, i), late = true))
          }
        }
      }
    }
  }

  private def newAssigner: Assigner = Assigner(rules, before.getOrElse(BatchClock.BeforeAllTime))

  override protected def withNewChildInternal(newChild: SparkPlan): AssignSlicesExec = copy(child = newChild)
}

private[operator] object SlicesAside {

  /** Finds the rows put aside in a partition, called by generated code. */
  final class Side(id: String, limits: SpillLimits) extends Serializable {
    def of(partition: Int): SideRows = SideRows.of(partition, id, limits)
  }
}

/** The decisions about a row's time, and its gap where each row has its own, for generated code. */
trait Assigner extends Serializable {
  def inWindow(ts: Long, gap: Long): Boolean

  /** True if a row is late; for sessions, if it may be. */
  def isLate(ts: Long, gap: Long): Boolean

  /** The lateness of a late row, in microseconds: see `Lateness`. */
  def lateness(ts: Long, gap: Long): Long

  /** True if each time is in a window, whatever the gap. */
  def holdsAll: Boolean = false

  /** The time before which rows are late, if lateness depends on nothing else; `Long.MinValue` if none is. */
  def lateBefore: Option[Long] = None

  /** The number of closed windows of a row that is not late: they are the first ones. */
  def missed(ts: Long): Int = 0

  def slice(ts: Long, gap: Long): Long

  /** The slice as Java code with constants, where it is a division by a constant: the JVM then multiplies. */
  def sliceCode(ts: String): Option[String] = None

  /** The number of output rows of a marked late row. */
  def windows(ts: Long): Int

  /** The slice of the `i`th of them. */
  def marked(ts: Long, i: Int): Long
}

private[operator] object Assigner {

  /** @param before
    *   the event clock before the batch, in microseconds
    */
  def apply(rules: PaneRules, before: Long): Assigner = rules match {
    case aligned: AlignedRules  => new AlignedAssigner(aligned, before)
    case sessions: SessionRules => new SessionAssigner(sessions, before)
    case around: AroundRules    => new AroundAssigner(around, before)
    case other                  => throw new IllegalStateException(s"no slices of time: ${other.describe}")
  }
}

private[operator] final class AlignedAssigner(rules: AlignedRules, before: Long) extends Assigner {
  private val window = rules.window
  private val grid = rules.grid
  private val overlaps = rules.numbersSlices

  // The first window that had not closed before this batch.
  private val firstOpen =
    if (before == BatchClock.BeforeAllTime) Long.MinValue else rules.firstOpen(before)

  // Its start, so that lateness is one comparison per row without a division; unless it starts outside of time.
  private val openFrom = if (firstOpen == Long.MinValue) Long.MinValue else grid.windowStart(firstOpen)
  private val startsInTime =
    openFrom > Long.MinValue && grid.windowAt(openFrom) == firstOpen && grid.windowAt(openFrom - 1) < firstOpen

  // The end of the last closed window: earlier rows may be in closed windows.
  private val closedUntil =
    if (!overlaps || firstOpen == Long.MinValue) Long.MinValue else grid.windowEnd(firstOpen - 1)

  override def inWindow(ts: Long, gap: Long): Boolean = rules.inWindow(ts)

  override def holdsAll: Boolean = !window.hasGaps

  override def lateBefore: Option[Long] = Option.when(startsInTime || firstOpen == Long.MinValue)(openFrom)

  override def missed(ts: Long): Int =
    if (ts >= closedUntil) 0
    else Math.toIntExact(Math.max(0L, firstOpen - grid.firstWindow(grid.ordinalOf(ts))))

  override def isLate(ts: Long, gap: Long): Boolean =
    if (startsInTime) ts < openFrom else firstOpen != Long.MinValue && grid.windowAt(ts) < firstOpen

  override def lateness(ts: Long, gap: Long): Long = TimeMath.minus(before, rules.lastDue(ts, gap))

  override def slice(ts: Long, gap: Long): Long = if (overlaps) grid.ordinalOf(ts) else window.lastStart(ts)

  override def sliceCode(ts: String): Option[String] = window match {
    case even: AlignedWindow if !overlaps => Some(s"$math.floor($ts, ${even.slide}L, ${even.offset}L)")
    case even: AlignedWindow if even.size % even.slide == 0 =>
      Some(s"$math.gridIndex($ts, ${even.slide}L, ${even.offset}L)")
    case _ => None
  }

  private def math = TimeMath.getClass.getName.stripSuffix("$")

  override def windows(ts: Long): Int = rules.panesOf(ts)

  override def marked(ts: Long, i: Int): Long = rules.paneOf(ts, i)
}

/** The slice of a row is its time. */
private[operator] final class AroundAssigner(rules: AroundRules, before: Long) extends Assigner {
  private val hasBefore = before != BatchClock.BeforeAllTime
  private val batch = BatchClock(before, before, 0L, rowsCame = true)

  override def inWindow(ts: Long, gap: Long): Boolean = true

  override def isLate(ts: Long, gap: Long): Boolean = hasBefore && rules.isLate(ts, batch)

  override def lateness(ts: Long, gap: Long): Long = TimeMath.minus(before, rules.lastDue(ts, gap))

  override def slice(ts: Long, gap: Long): Long = ts

  override def windows(ts: Long): Int = 1

  override def marked(ts: Long, i: Int): Long = ts
}

private[operator] final class SessionAssigner(rules: SessionRules, before: Long) extends Assigner {
  private val fixed = rules.window.gap.getOrElse(0L)
  private val hasBefore = before != BatchClock.BeforeAllTime

  private def gapOf(gap: Long): Long = if (fixed > 0) fixed else gap

  override def inWindow(ts: Long, gap: Long): Boolean = gapOf(gap) > 0

  override def isLate(ts: Long, gap: Long): Boolean = hasBefore && rules.mayBeLate(ts, gapOf(gap), before)

  override def lateness(ts: Long, gap: Long): Long = TimeMath.minus(before, rules.lastDue(ts, gapOf(gap)))

  override def slice(ts: Long, gap: Long): Long = rules.slice(ts, gapOf(gap))

  override def windows(ts: Long): Int = 1

  override def marked(ts: Long, i: Int): Long = ts
}
