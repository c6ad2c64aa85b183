package org.apache.spark.sql.mullion.operator.simulation

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{Count, Sum}
import org.apache.spark.sql.mullion.expressions.columns.PaneColumns
import org.apache.spark.sql.mullion.expressions.functions.{AccumulatorLimit, AggregateText}
import org.apache.spark.sql.mullion.operator.assign.Assigner
import org.apache.spark.sql.mullion.operator.engine.{OpenEnds, OpenPane, PaneCounts, PartitionTotals}
import org.apache.spark.sql.mullion.operator.program.WindowProgram
import org.apache.spark.sql.mullion.state.record.{KeyOrder, StatePartition}
import org.apache.spark.sql.types._

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules._
import dev.mullion.windows.sets.EndCounts
import dev.mullion.windows.spec.{AlignedWindow, AroundWindow, SessionWindow}

/** The tasks of a query, from rows to firings, without Spark: Spark's parts (the partial aggregate, the shuffle) are
  * simulated in a few lines; all else is Mullion's own code.
  */
private[simulation] final class SimulatedQuery(terms: Contract.Terms, countsRows: Boolean) {
  import Contract._

  private val rules: PaneRules = PaneRules(
    terms.shape match {
      case Grid(size, slide, offset) => AlignedWindow.sliding(size, slide, offset)
      case Sessions(gap)             => SessionWindow(Some(gap))
      case Around(before, after)     => AroundWindow(before, after)
    },
    terms.lateness,
    terms.every.map(EarlyFiring(_, terms.unchanged, terms.byWall)),
    LatePolicy.named(terms.late),
    Refinements(terms.count, terms.onTime, terms.accumulate, terms.empty)
  )

  private val isSession = rules.isInstanceOf[SessionRules]
  private val reopensEach = rules match {
    case aligned: AlignedRules => aligned.numbersSlices && rules.late == LatePolicy.ReopenEach
    case _                     => false
  }

  val program: WindowProgram = {
    val value = AttributeReference("value", LongType, nullable = false)()
    val count = Count(Literal(1))
    WindowProgram(
      id = "window",
      keys = Seq(AttributeReference("key", LongType, nullable = false)()),
      slice = AttributeReference("slice", LongType, nullable = false)(),
      marked = Option.when(rules.late.reopens || isSession)(
        AttributeReference("marked", BooleanType, nullable = false)()
      ),
      gap = None,
      start = None,
      time = AttributeReference("time", TimestampType, nullable = false)(),
      functions = Seq(count, Sum(value)),
      functionResults = SimulatedQuery.results,
      results = SimulatedQuery.results,
      window = AttributeReference("window", PaneColumns.windowType, nullable = false)(),
      pane = AttributeReference("pane", PaneColumns.paneType(false), nullable = false)(),
      lateRow = None,
      rules = rules,
      idleAfter = None,
      maxAhead = None,
      text = AggregateText(new StructType(), Nil, Nil, None, None),
      limit = AccumulatorLimit(1L << 30),
      rowsCounted = Option.when(countsRows)(count.inputAggBufferAttributes.head)
    )
  }

  private val layout = program.layout

  /** The partial aggregate of rows of one key and slice. */
  private final class Group(val key: Long, val slice: Long, val marked: Boolean) {
    var rows = 0L
    var sum = 0L
    var first = Long.MaxValue
    var last = Long.MinValue

    def add(row: Row): this.type = {
      rows += 1
      sum += row.value
      first = Math.min(first, row.time)
      last = Math.max(last, row.time)
      this
    }

    def toRow: UnsafeRow = {
      val row = UnsafeRow.createFromByteArray(8 + 8 * program.partial.length, program.partial.length)
      row.setLong(0, key)
      row.setLong(layout.slice, slice)
      layout.marked.foreach(row.setBoolean(_, marked))
      row.setLong(layout.buffers, rows)
      row.setLong(layout.buffers + 1, sum)
      if (isSession) {
        row.setLong(layout.first, first)
        row.setLong(layout.last, last)
      }
      layout.rows.foreach(row.setLong(_, rows))
      row
    }
  }

  private val order = new KeyOrder(Seq(LongType), 0)

  /** The output of the tasks before the shuffle, for one partition.
    *
    * @param tasks
    *   their number: each groups its own rows
    * @param mixed
    *   shuffles partial rows, whose order is undefined
    */
  def input(
      batch: Batch,
      of: Row => Boolean,
      tasks: Int,
      mixed: Vector[UnsafeRow] => Vector[UnsafeRow]
  ): SimulatedQuery.Input = {
    val assigner = Assigner(rules, batch.before.getOrElse(BatchClock.BeforeAllTime))
    val aside = Vector.newBuilder[Row]
    val late = Vector.newBuilder[Row]
    val groups = mutable.LinkedHashMap.empty[(Int, Long, Long, Boolean), Group]
    // Unless the operator merges them itself, another aggregate merges the rows of all tasks.
    val apart = if (program.takesSeveralOfGroup) tasks else 1
    def group(number: Int, row: Row, slice: Long, marked: Boolean): Unit = {
      val to = (number % apart, row.key, slice, marked)
      groups.getOrElseUpdate(to, new Group(row.key, slice, marked)).add(row)
      ()
    }
    batch.rows.iterator.filter(of).zipWithIndex.foreach { case (row, number) =>
      if (assigner.inWindow(row.time, 0L)) {
        val isLate = assigner.isLate(row.time, 0L)
        if (!isLate) {
          slices(row, batch.before, assigner).foreach(group(number, row, _, marked = false))
          if (reopensEach)
            (0 until assigner.missed(row.time)).foreach(i => group(number, row, assigner.marked(row.time, i), true))
        } else {
          if (isSession) aside += row else if (rules.late == LatePolicy.Emit) late += row
          if (program.marked.isDefined)
            (0 until assigner.windows(row.time)).foreach(i => group(number, row, assigner.marked(row.time, i), true))
        }
      }
    }
    val rows = mixed(groups.valuesIterator.map(_.toRow).toVector).sortBy(order(_))
    SimulatedQuery.Input(rows, late.result(), aside.result())
  }

  /** If windows cannot share slices, each open one that holds the row is a slice. */
  private def slices(row: Row, before: Option[Long], assigner: Assigner): Iterator[Long] = rules match {
    case aligned: AlignedRules if aligned.keepsApart =>
      val firstOpen = before.fold(Long.MinValue)(aligned.firstOpen)
      Iterator.range(0, aligned.panesOf(row.time)).map(aligned.paneOf(row.time, _)).filter(_ >= firstOpen)
    case _ => Iterator.single(assigner.slice(row.time, 0L))
  }

  /** One attempt of a task, without the commit.
    *
    * @param dies
    *   the number of input rows after which it dies
    */
  def attempt(
      batch: Batch,
      input: SimulatedQuery.Input,
      partition: StatePartition,
      dies: Option[Int]
  ): SimulatedQuery.Worked = {
    val counts = new PaneCounts(tracksEnds = true)
    val clock =
      BatchClock(
        batch.before.getOrElse(BatchClock.BeforeAllTime),
        batch.clock,
        batch.wall,
        batch.rowsCame,
        batch.number,
        firstReading = batch.first.getOrElse(Long.MaxValue)
      )
    val engine = program.engine(clock, partition, counts)
    val rows = input.rows.iterator.zipWithIndex.map { case (row, number) =>
      if (dies.contains(number)) throw new SimulatedQuery.Died
      row
    }
    val out = engine.process(rows).map(shown).toVector
    val late =
      if (rules.late != LatePolicy.Emit) Vector.empty
      else input.late ++ input.aside.filter(row => engine.isLate(lateKey(row)))
    val records = partition.rowsAdded
    val before = new PartitionTotals(partition)
    def openPanes = program.engine(BatchClock.Inspection, partition, new PaneCounts).openPanes()
    val ends = OpenEnds.after(before.ends, counts)(openPanes)
    checkEnds(ends, openPanes)
    val totals = before.add(counts.panesOpened - counts.panesClosed, records, Some(ends.toBytes))
    SimulatedQuery.Worked(out ++ late.map(row => Out(row.key, 0L, 0L, "late", 0, 1L, row.value)), totals)
  }

  /** The changes of the batches add up to the panes in state. */
  private def checkEnds(ends: EndCounts, openPanes: Iterator[OpenPane]): Unit = {
    val rest = EndCounts.fromBytes(ends.toBytes)
    openPanes.foreach(_.end.foreach(rest.remove))
    if (!rest.isEmpty) throw new AssertionError(s"open panes by end: ${ends.bars}, more than in state: ${rest.bars}")
  }

  private def lateKey(row: Row): UnsafeRow = {
    val key = UnsafeRow.createFromByteArray(24, 2)
    key.setLong(0, row.key)
    key.setLong(1, row.time)
    key
  }

  private def shown(row: InternalRow): Out = {
    val (window, pane) = (row.getStruct(1, 2), row.getStruct(2, 2))
    Out(
      row.getLong(0),
      window.getLong(0),
      window.getLong(1),
      pane.getUTF8String(0).toString,
      pane.getInt(1),
      row.getLong(3),
      if (row.isNullAt(4)) 0L else row.getLong(4)
    )
  }
}

private[simulation] object SimulatedQuery {
  private val results =
    Seq(AttributeReference("n", LongType, nullable = false)(), AttributeReference("sum", LongType)())

  /** @param late
    *   rows that are certainly late
    * @param aside
    *   rows that may be late
    */
  final case class Input(rows: Vector[UnsafeRow], late: Vector[Contract.Row], aside: Vector[Contract.Row])

  /** The output of an attempt, and the number of panes and records of its partition. */
  final case class Worked(out: Vector[Contract.Out], totals: (Long, Long))

  /** An attempt of a task was killed. */
  final class Died extends RuntimeException("an attempt that was killed")
}
