package org.apache.spark.sql.mullion.operator.program

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.mullion.operator.engine.Iterators.Rows
import org.apache.spark.sql.mullion.operator.engine.{
  AddingPanes,
  LateProgram,
  OpenPane,
  PaneCounts,
  PaneEngine,
  PartitionTotals,
  RowProgram
}
import org.apache.spark.sql.mullion.state.header.{
  DrainHeader,
  FirstRecords,
  OperatorHeader,
  RecordPlaces,
  Regrouped,
  StateHeader,
  TogetherHeader
}
import org.apache.spark.sql.mullion.state.record.{Family, FamilySpec, KeyOrder, StatePartition}

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.Drain
import dev.mullion.windows.spec.Language

/** The program of an operator for several windows: each has its own engine, and its state is stored under its name.
  *
  * {{{
  *                          ┌─ engine of hourly ── hourly.panes, hourly.early
  *   partial rows ── number ┼─ engine of recent ── recent.slices, recent.keys, recent.timers
  *                          └─ engine of visits ── visits.sessions, visits.keys, visits.timers
  * }}}
  *
  * @param windows
  *   in order of their names; a window's number is its index
  * @param number
  *   the column with the window's number in partial rows
  * @param keys
  *   the key columns of all windows, preceded by `number` if the windows' keys differ
  * @param partial
  *   the columns of partial rows: those of all windows, null or meaningless for other windows
  * @param drain
  *   the replacement of the first window by the second, if any
  * @param places
  *   the places of the windows' records, if they differ from the names: then there may be a single window
  */
final case class TogetherProgram(
    id: String,
    windows: Seq[TogetherWindow],
    number: Attribute,
    keys: Seq[Attribute],
    partial: Seq[Attribute],
    output: Seq[Attribute],
    pane: Attribute,
    lateRow: Option[Attribute],
    drain: Option[Drain] = None,
    places: Option[RecordPlaces] = None
) extends OperatorProgram {
  private def first: WindowProgram = windows.head.program

  private def isAlone: Boolean = Regrouped.isAlone(windows.map(_.name))

  override def language: Language = first.language

  override def distributed: Option[Seq[Attribute]] = Some(keys)

  override val families: Seq[FamilySpec] = {
    val own = windows.flatMap(_.families)
    val placed = places.flatMap(_.first).fold(own) { known =>
      val (first, others) = own.partition(_.name == known.name)
      // If its window is gone it has no records, and keeps its place.
      (if (first.isEmpty) Seq(known.spec) else first) ++ others
    }
    placed :+ PartitionTotals.family
  }

  override def ordering: Seq[SortOrder] = KeyOrder.ordering(keys.filterNot(_.exprId == number.exprId))

  override def onProcessingTime: Boolean = first.onProcessingTime

  override def idleAfter: Option[Long] = first.idleAfter

  override def maxAhead: Option[Long] = first.maxAhead

  override def readsStream: Boolean = windows.exists(_.program.readsStream)

  override def firesByWall: Boolean = windows.exists(_.program.firesByWall)

  override def closesAtEnd: Boolean = first.closesAtEnd

  override def keepsWatermark: Boolean = windows.forall(_.program.keepsWatermark)

  override def outputWatermark(clock: Long): Long = {
    val watermarks = windows.map(_.program.outputWatermark(clock))
    drain.fold(watermarks.min)(_.outputWatermark(watermarks.head, watermarks.last))
  }

  override def rows: Option[RowProgram] = None

  override private[operator] def asking(metrics: Map[String, SQLMetric]): TogetherProgram = this

  override def late: Seq[LateProgram] = windows.flatMap(_.late)

  override def describe: String =
    if (drain.isDefined) s"${windows.last.program.describe}, after ${first.describe}"
    else if (isAlone) first.describe
    else windows.map(w => s"${w.name}: ${w.program.describe}").mkString("together [", "; ", "]")

  override def header: OperatorHeader = {
    val dropped = places.map(_.dropped.toList).filter(_.nonEmpty)
    drain match {
      case Some(to) =>
        DrainHeader(
          headerOf(windows.head).copy(first = firstElsewhere),
          headerOf(windows.last),
          to.boundary,
          to.until
        )
      case None if isAlone => headerOf(windows.head).copy(first = firstElsewhere, drops = dropped)
      case None            =>
        val shared = keys.map(k => s"${k.name} ${k.dataType.sql}").toList
        TogetherHeader(shared, windows.map(w => w.name -> headerOf(w)).toMap, firstElsewhere, dropped)
    }
  }

  private def headerOf(window: TogetherWindow): StateHeader =
    window.program.header.copy(place = Option.when(window.place != window.name)(window.place))

  /** The kind of record in the store's default place, if that is not the first one by name. */
  private def firstElsewhere: Option[FirstRecords] =
    Option.when(families.head.name != windows.head.families.head.name)(FirstRecords.of(families.head))

  override private[operator] def adaptation(was: OperatorHeader): StateAdaptation = {
    val before = Regrouped.byPlace(was).map { case (place, (_, header)) => place -> header }.toMap
    val changes =
      for (window <- windows; header <- before.get(window.place) if header != window.program.header)
        yield WindowAdaptation(window.program, header, Some(window))
    val dropped = places.toSeq.flatMap(_.gone).map(of => families.find(_.name == of.name).getOrElse(of))
    StateAdaptation(
      changes.flatMap(c => c.gone.map(c.named)) ++ dropped.filterNot(families.contains),
      changes,
      dropped = dropped,
      leaving = Option.when(dropped.nonEmpty)(this)
    )
  }

  override def engine(clock: BatchClock, partition: StatePartition, counts: PaneCounts): PaneEngine =
    new TogetherPanes(this, clock, partition, counts)
}

/** One of several windows.
  *
  * @param narrow
  *   its own partial rows, over those of all windows
  * @param widen
  *   the operator's output rows, over its own
  * @param place
  *   the name under which its records are stored
  */
final case class TogetherWindow(
    name: String,
    program: WindowProgram,
    narrow: Seq[Expression],
    widen: Seq[Expression],
    late: Option[LateProgram],
    place: String
) {
  def families: Seq[FamilySpec] = TogetherWindow.families(place, program)

  /** A kind of record in its place. */
  def named(family: FamilySpec): FamilySpec = TogetherWindow.named(place, family)
}

object TogetherWindow {

  /** The kinds of record of a window in their places. */
  private[mullion] def families(place: String, program: WindowProgram): Seq[FamilySpec] =
    program.families.filterNot(_ == PartitionTotals.family).map(named(place, _))

  /** A kind of record of a window; unchanged for a window without a name. */
  private[operator] def named(window: String, family: FamilySpec): FamilySpec =
    if (window.isEmpty) family else family.copy(name = s"$window.${family.name}")
}

/** Panes of several windows, each with its own engine. */
private[operator] final class TogetherPanes(
    program: TogetherProgram,
    clock: BatchClock,
    partition: StatePartition,
    counts: PaneCounts
) extends AddingPanes {
  private val windows = program.windows.map(new Part(_)).toArray
  private val numberAt = program.partial.indexWhere(_.exprId == program.number.exprId)

  override def part(window: Int): PaneEngine = windows(window).engine

  override def add(row: InternalRow): Iterator[InternalRow] = windows(row.getInt(numberAt)).add(row)

  override def finish(): Iterator[InternalRow] = windows.iterator.flatMap(_.finish())

  override def openPanes(): Iterator[OpenPane] = windows.iterator.flatMap(_.openPanes())

  override def remaining(): Iterator[InternalRow] = windows.iterator.flatMap(_.remaining())

  /** One window, with its own counts: engines set the next due time in them. */
  private final class Part(window: TogetherWindow) {
    private val ownCounts = new PaneCounts(counts.tracksEnds)
    private lazy val narrow = UnsafeProjection.create(window.narrow, program.partial)
    private val widen = UnsafeProjection.create(window.widen, window.program.output)
    private val panes =
      window.program.engine(clock, new NamedPartition(window, partition), ownCounts) match {
        case adding: AddingPanes => adding
        case other               => throw new IllegalStateException(s"$other takes its rows in order of arrival")
      }

    def engine: PaneEngine = panes

    def add(row: InternalRow): Iterator[InternalRow] = {
      val fired = panes.add(narrow(row))
      if (fired.isEmpty) Iterator.empty else fired.map(widen)
    }

    def finish(): Iterator[InternalRow] = panes.finish().map(widen).andThen(counts.add(ownCounts))

    def remaining(): Iterator[InternalRow] = panes.remaining().map(widen)

    def openPanes(): Iterator[OpenPane] = panes.openPanes().map(open => open.copy(row = widen(open.row)))
  }
}

/** One window's part of a partition's state. */
private[mullion] final class NamedPartition(window: TogetherWindow, partition: StatePartition) extends StatePartition {
  override def family(spec: FamilySpec): Family = partition.family(window.named(spec))

  override def rowsRead: Long = partition.rowsRead

  override def rowsAdded: Long = partition.rowsAdded

  override def commit(): Unit = partition.commit()

  override def store: StateStore = partition.store
}
