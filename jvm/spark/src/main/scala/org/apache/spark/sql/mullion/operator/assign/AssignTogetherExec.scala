package org.apache.spark.sql.mullion.operator.assign

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.types.DataType

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.{CustomRules, LatePolicy, PaneRules, SessionRules}

/** Assigns each row to several windows, below their one partial aggregate: an output row for each window and pane that
  * it enters, with the window's number, the window's keys, and its slice as in [[AssignSlicesExec]] or
  * [[AssignRangesExec]].
  *
  * {{{
  *   ts, k                  ts, k, number, key k, slice
  *   7   a         ->       7   a  0       a      5          hourly, by k
  *                          7   a  1       null   6          recent, by nothing
  * }}}
  *
  * Its metrics are sums: a row counts once for each window that it is late for, or that it does not enter.
  *
  * @param keys
  *   the key columns of all windows, null where a window does not have them
  * @param keysFrom
  *   their columns of the child
  * @param start
  *   the start of a pane, for windows that have no slices
  */
case class AssignTogetherExec(
    operator: String,
    windows: Seq[AssignedWindow],
    number: Attribute,
    keys: Seq[Attribute],
    keysFrom: Seq[Attribute],
    slice: Attribute,
    marked: Option[Attribute],
    gap: Option[Attribute],
    start: Option[Attribute],
    before: Option[Long],
    ahead: Option[Long],
    child: SparkPlan
) extends AssignsPanes {
  private def added: Seq[Attribute] = ((number +: keys) :+ slice) ++ marked ++ gap ++ start

  override def output: Seq[Attribute] = child.output ++ added

  override def producedAttributes: AttributeSet = AttributeSet(added)

  override protected def since(before: Option[Long], ahead: Option[Long]): SparkPlan =
    copy(before = before, ahead = ahead)

  override def needCopyResult: Boolean = true

  override protected def putsAside: Boolean = windows.exists(_.emits)

  private def newWindows: WindowsOfRow =
    new WindowsOfRow(
      windows.toArray,
      keys.length,
      before.getOrElse(BatchClock.BeforeAllTime),
      ahead.getOrElse(Long.MaxValue)
    )

  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String = {
    val of = ctx.addReferenceObj("windows", newWindows)
    // Evaluated first: a variable evaluated in one branch is undefined in the other. The loops' bodies may `continue`,
    // and are blocks of their own.
    val evaluated = evaluateVariables(input)
    val (w, n, i, fate) = (ctx.freshName("window"), ctx.freshName("n"), ctx.freshName("i"), ctx.freshName("fate"))
    val (noTime, ts, list) = (ctx.freshName("noTime"), ctx.freshName("ts"), ctx.freshName("ranges"))
    val (gapOf, noGap) = (ctx.freshName("gap"), ctx.freshName("noGap"))
    val (sliceVar, startVar, markedVar) = (ctx.freshName("slice"), ctx.freshName("start"), ctx.freshName("marked"))

    val brought = windows.zipWithIndex.map { case (window, at) =>
      val time = variable(input, window.time)
      val gap = window.gap.map(variable(input, _)).map(g => s"$gapOf = ${g.isNull} ? 0L : ${g.value};")
      val ranges = window.ranges.map(variable(input, _)).map(r => s"$list = ${r.isNull} ? null : ${r.value};")
      s"""
         |case $at:
         |  $noTime = ${time.isNull};
         |  $ts = ${time.isNull} ? 0L : ${time.value};
         |  ${gap.getOrElse("")}
         |  ${ranges.getOrElse("")}
         |  break;
         |""".stripMargin
    }.mkString

    def named(name: String, kind: DataType): ExprCode = ExprCode(code"", FalseLiteral, JavaCode.variable(name, kind))
    val numberVar = named(w, number.dataType)
    val isNull = keys.indices.map(_ => ctx.freshName("noKey"))
    val keyVars = keysFrom.zip(isNull).zip(keys).map { case ((from, absent), key) =>
      ExprCode(code"", JavaCode.isNullVariable(absent), JavaCode.variable(variable(input, from).value, key.dataType))
    }
    val keyNulls = keysFrom.zip(isNull).zipWithIndex.map { case ((from, absent), at) =>
      s"boolean $absent = ${variable(input, from).isNull} || !$of.has($w, $at);"
    }
    val gapVar = ExprCode(code"", JavaCode.isNullVariable(noGap), JavaCode.variable(gapOf, slice.dataType))
    val assigned = ((numberVar +: keyVars) :+ named(sliceVar, slice.dataType)) ++
      marked.map(m => named(markedVar, m.dataType)) ++ gap.map(_ => gapVar) ++ start.map(s =>
        named(startVar, s.dataType)
      )
    val aside =
      if (putsAside) s"if ($of.emits($w)) { ${putAside(ctx, input :+ numberVar, child.output :+ number)} }" else ""
    s"""
       |// ${ctx.registerComment(windows.map(_.rules.describe).mkString("; "))}
       |$evaluated
       |for (int $w = 0; $w < ${windows.length}; $w++) {
       |  boolean $noTime = true;
       |  long $ts = 0L;
       |  long $gapOf = 0L;
       |  ${classOf[ArrayData].getName} $list = null;
       |  switch ($w) {
       |    $brought
       |  }
       |  int $n = $of.enter($w, $noTime, $ts, $gapOf, $list);
       |  int $fate = $of.fate();
       |  if ($of.missed() > 0) ${metricTerm(ctx, "panesMissed")}.add($of.missed());
       |  if ($fate != ${WindowsOfRow.Enters} && $fate != ${WindowsOfRow.Elsewhere}) {
       |    if ($fate == ${WindowsOfRow.InNoWindow}) {
       |      ${metricTerm(ctx, "rowsInNoWindow")}.add(1L);
       |    } else {
       |      if ($fate == ${WindowsOfRow.WithoutTime}) ${metricTerm(ctx, "rowsWithoutTime")}.add(1L);
       |      if ($fate == ${WindowsOfRow.Ahead}) ${metricTerm(ctx, "rowsAhead")}.add(1L);
       |      if ($fate == ${WindowsOfRow.Late}) {
       |        ${metricTerm(ctx, "rowsLate")}.add(1L);
       |        ${countLateness(ctx, s"$of.lateness()")}
       |        if ($of.drops($w)) ${metricTerm(ctx, "rowsDropped")}.add(1L);
       |      }
       |      $aside
       |    }
       |  }
       |  ${keyNulls.mkString("\n")}
       |  boolean $noGap = !$of.hasGap($w);
       |  for (int $i = 0; $i < $n; $i++) {
       |    long $sliceVar = $of.slice($i);
       |    long $startVar = $of.start($i);
       |    boolean $markedVar = $of.isMarked($i);
       |    ${consume(ctx, input ++ assigned)}
       |  }
       |}
       |""".stripMargin
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val (noTime, noWindow, lateRows) =
      (longMetric("rowsWithoutTime"), longMetric("rowsInNoWindow"), longMetric("rowsLate"))
    val (panesMissed, rowsDropped, histogram) = (longMetric("panesMissed"), longMetric("rowsDropped"), lateness)
    val rowsAhead = longMetric("rowsAhead")
    val rowWindows = newWindows
    val aside = if (putsAside) Some(newSide) else None
    val (childOutput, fullOutput) = (child.output, output)
    val asideOutput = childOutput :+ number
    def at(column: Attribute) = childOutput.indexWhere(_.exprId == column.exprId)
    val timesAt = windows.map(w => at(w.time)).toArray
    val gapsAt = windows.map(_.gap.fold(-1)(at)).toArray
    val rangesAt = windows.map(_.ranges.fold(-1)(at)).toArray
    val keysAt = keysFrom.map(k => (at(k), k.dataType)).toArray
    val (marks, gaps, starts) = (marked.isDefined, gap.isDefined, start.isDefined)
    child.execute().mapPartitionsWithIndex { (partition, rows) =>
      val of = rowWindows.fresh
      val allColumns = UnsafeProjection.create(asideOutput, asideOutput)
      val project = UnsafeProjection.create(fullOutput, fullOutput)
      val added = new GenericInternalRow(fullOutput.length - childOutput.length)
      val numbered = new GenericInternalRow(1)
      val both = new JoinedRow()
      lazy val side = aside.map(_.of(partition))

      def entered(row: InternalRow, window: Int, gap: Long, i: Int): InternalRow = {
        var next = 0
        def add(value: Any): Unit = { added.update(next, value); next += 1 }
        add(window)
        keysAt.indices.foreach { k =>
          val (at, kind) = keysAt(k)
          add(if (of.has(window, k)) row.get(at, kind) else None.orNull)
        }
        add(of.slice(i))
        if (marks) add(of.isMarked(i))
        if (gaps) add(if (of.hasGap(window)) gap else None.orNull)
        if (starts) add(of.start(i))
        project(both(row, added))
      }

      rows.flatMap { row =>
        timesAt.indices.iterator.flatMap { window =>
          val isTimeless = row.isNullAt(timesAt(window))
          val ts = if (isTimeless) 0L else row.getLong(timesAt(window))
          val gap = if (gapsAt(window) < 0 || row.isNullAt(gapsAt(window))) 0L else row.getLong(gapsAt(window))
          val list =
            if (rangesAt(window) < 0 || row.isNullAt(rangesAt(window))) None.orNull else row.getArray(rangesAt(window))
          val n = of.enter(window, isTimeless, ts, gap, list)
          of.fate match {
            case WindowsOfRow.InNoWindow  => noWindow += 1
            case WindowsOfRow.WithoutTime => noTime += 1
            case WindowsOfRow.Ahead       => rowsAhead += 1
            case WindowsOfRow.Late        =>
              lateRows += 1
              histogram.count(of.lateness)
              if (of.drops(window)) rowsDropped += 1
            case _ =>
          }
          panesMissed += of.missed
          if (WindowsOfRow.isPutAside(of.fate) && of.emits(window)) {
            numbered.update(0, window)
            side.foreach(_.add(allColumns(both(row, numbered))))
          }
          Iterator.tabulate(n)(entered(row, window, gap, _))
        }
      }
    }
  }

  override def time: Attribute = windows.head.time

  override def rules: PaneRules = windows.head.rules

  override def simpleString(maxFields: Int): String =
    (windows.map(_.rules.window.describe).mkString(s"$nodeName [", "; ", "]") +: bySpark.toSeq).mkString(", ")

  override protected def withNewChildInternal(newChild: SparkPlan): AssignTogetherExec = copy(child = newChild)
}

/** The columns of one of several windows, and its keys.
  *
  * @param marks
  *   whether rows that are late, or possibly late for sessions, are marked and passed on
  * @param from
  *   the time from which rows belong to this window, in microseconds; earlier ones belong to another's
  * @param until
  *   the time up to which they do
  */
final case class AssignedWindow(
    rules: PaneRules,
    time: Attribute,
    gap: Option[Attribute],
    ranges: Option[Attribute],
    marks: Boolean,
    keys: Seq[Boolean],
    from: Option[Long] = None,
    until: Option[Long] = None
) {
  def emits: Boolean = rules.late == LatePolicy.Emit
}

/** The decisions about a row and each window, for generated code: its treatment there, and the slices that it enters.
  */
final class WindowsOfRow(windows: Array[AssignedWindow], keys: Int, before: Long, ahead: Long) extends Serializable {
  import WindowsOfRow._

  private val entering = windows.map { window =>
    window.rules match {
      case custom: CustomRules => new EntersRanges(new RangesOfRow(custom, before), window.marks): Entering
      case rules               =>
        val reopensEach = rules.late == LatePolicy.ReopenEach
        new EntersSlices(Assigner(rules, before), window.marks, rules.isInstanceOf[SessionRules], reopensEach)
    }
  }
  private val keysOf = windows.map(_.keys.toArray)
  private val emitsLate = windows.map(_.emits)
  private val dropsLate = windows.map(_.rules.late == LatePolicy.Drop)
  private val gapOf = windows.map(_.gap.isDefined)
  private val from = windows.map(_.from.getOrElse(Long.MinValue))
  private val until = windows.map(_.until.getOrElse(Long.MaxValue))
  private val hasEnd = windows.map(_.until.isDefined)
  require(keysOf.forall(_.length == keys))

  private var current = entering(0)
  private var hasTime = true
  private var isOurs = true
  private var isAhead = false

  /** A copy for another task in this process. */
  def fresh: WindowsOfRow = new WindowsOfRow(windows, keys, before, ahead)

  /** The number of output rows of a row for a window. */
  def enter(window: Int, noTime: Boolean, ts: Long, gap: Long, ranges: ArrayData): Int = {
    current = entering(window)
    hasTime = !noTime
    // A row without time is counted once: by the window that continues.
    isOurs = if (noTime) !hasEnd(window) else ts >= from(window) && (ts < until(window) || !hasEnd(window))
    isAhead = !noTime && ts > ahead
    if (noTime || !isOurs || isAhead) 0 else current.enter(ts, gap, ranges)
  }

  def fate: Int =
    if (!isOurs) Elsewhere else if (!hasTime) WithoutTime else if (isAhead) Ahead else current.fate

  /** The lateness of the row, if it is late for the window. */
  def lateness: Long = current.lateness

  def slice(i: Int): Long = current.slice(i)

  def start(i: Int): Long = current.start(i)

  def isMarked(i: Int): Boolean = current.isMarked(i)

  /** The number of closed panes of a row that enters others, and does not reopen them. */
  def missed: Int = if (hasTime && isOurs && !isAhead) current.missed else 0

  def has(window: Int, key: Int): Boolean = keysOf(window)(key)

  def hasGap(window: Int): Boolean = gapOf(window)

  def emits(window: Int): Boolean = emitsLate(window)

  /** True if late rows of a window are dropped. */
  def drops(window: Int): Boolean = dropsLate(window)
}

object WindowsOfRow {
  final val Enters = 0
  final val InNoWindow = 1
  final val WithoutTime = 2
  final val Late = 3

  /** The operator decides whether it is late, by the open sessions, and counts it. */
  final val MayBeLate = 4

  /** It belongs to another window: one of the two replaces the other. */
  final val Elsewhere = 5

  /** It is too far ahead of the wall clock. */
  final val Ahead = 6

  private[operator] def isPutAside(fate: Int): Boolean = fate != Enters && fate != InNoWindow && fate != Elsewhere

  /** The treatment of a row in one window. */
  private sealed abstract class Entering extends Serializable {
    var fate: Int = Enters

    def enter(ts: Long, gap: Long, ranges: ArrayData): Int
    def lateness: Long
    def slice(i: Int): Long
    def start(i: Int): Long
    def isMarked(i: Int): Boolean
    def missed: Int
  }

  private final class EntersSlices(assigner: Assigner, marks: Boolean, isSession: Boolean, reopensEach: Boolean)
      extends Entering {
    private var closed = 0
    private var ts = 0L
    private var gap = 0L

    override def enter(ts: Long, gap: Long, ranges: ArrayData): Int =
      if (!assigner.inWindow(ts, gap)) { fate = InNoWindow; closed = 0; 0 }
      else {
        this.ts = ts
        this.gap = gap
        if (!assigner.isLate(ts, gap)) {
          fate = Enters
          closed = assigner.missed(ts)
          if (reopensEach) 1 + closed else 1
        } else {
          closed = 0
          fate = if (isSession) MayBeLate else Late
          if (marks) assigner.windows(ts) else 0
        }
      }

    override def lateness: Long = assigner.lateness(ts, gap)

    // For an entering row, first the slice of its open windows.
    override def slice(i: Int): Long =
      if (!isMarked(i)) assigner.slice(ts, gap) else assigner.marked(ts, if (fate == Enters) i - 1 else i)

    override def start(i: Int): Long = 0L

    override def isMarked(i: Int): Boolean = fate != Enters || i > 0

    override def missed: Int = if (reopensEach) 0 else closed
  }

  private final class EntersRanges(ranges: RangesOfRow, marks: Boolean) extends Entering {
    override def enter(ts: Long, gap: Long, list: ArrayData): Int = {
      ranges.read(list)
      fate = if (ranges.isEmpty) InNoWindow else if (ranges.isLate) Late else Enters
      if (fate == Enters || (fate == Late && marks)) ranges.count else 0
    }

    override def lateness: Long = ranges.lateness

    override def slice(i: Int): Long = ranges.end(i)

    override def start(i: Int): Long = ranges.start(i)

    override def isMarked(i: Int): Boolean = ranges.hadClosed(i)

    override def missed: Int = ranges.missed
  }
}
