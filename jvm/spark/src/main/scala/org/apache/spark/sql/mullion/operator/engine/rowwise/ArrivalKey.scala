package org.apache.spark.sql.mullion.operator.engine.rowwise

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray
import org.apache.spark.sql.mullion.expressions.rows.{CollectRows, CollectedRows}
import org.apache.spark.sql.mullion.operator.engine.accumulators.{Accumulators, DistinctRecords, PaneSums}
import org.apache.spark.sql.mullion.operator.engine.output.PaneNames
import org.apache.spark.sql.mullion.operator.engine.timers.{TimedKey, WaitingKey}
import org.apache.spark.sql.mullion.operator.engine.{Iterators, PaneProgram, RowProgram}
import org.apache.spark.sql.mullion.shim.{SparkVersionShim, SpillLimits}
import org.apache.spark.sql.mullion.state.record.{Family, FamilyScan, RecordOrder, StatePartition}
import org.apache.spark.sql.types.ObjectType

import dev.mullion.MullionException
import dev.mullion.windows.key.{ArrivalPane, PanesOfKey, ReopenedPanes}
import dev.mullion.windows.rules.{Collected, EarlyFiring}
import dev.mullion.windows.sets.SlotSizes
import dev.mullion.windows.spec.SliceGrid

/** A key whose rows are processed one by one: its panes, and their contents in slots. A slot is read once, and written
  * once after all rows of the key.
  *
  * @param isNew
  *   true if state has no record of it
  * @param due
  *   the due time of its timer in state, if it has one
  * @param lifetime
  *   the lifetime of the key, if keys are forgotten
  */
private[engine] final class ArrivalKey(
    task: ArrivalTask,
    val key: UnsafeRow,
    val panes: PanesOfKey,
    val isNew: Boolean,
    val due: Option[Long],
    val sizes: SlotSizes,
    val lifetime: Option[KeyLifetime]
) extends WaitingKey {
  import task.{accumulators, content, pieceKey, rows, slotKey}

  override val queued: Option[(Long, Long)] = if (isNew) None else task.program.rules.early.flatMap(firstReadings)

  override def firstReadings(firing: EarlyFiring): Option[(Long, Long)] = panes.firstReadings(firing)

  private val slots = mutable.LongMap.empty[Slot]
  private val spilled = mutable.Set.empty[Long]
  private val spilledToDisk = mutable.LongMap.empty[ExternalAppendOnlyUnsafeRowArray]
  private lazy val fold = accumulators.newFold
  private var folded = Long.MinValue

  /** The panes that late rows of this batch open, by the stream's clock. */
  lazy val reopened: ReopenedPanes[InternalRow] = new ReopenedPanes(task.program.isSession)

  val openAtFirst: Long = if (isNew) 0L else panes.countOpen

  /** The number of panes that late rows have opened in this batch. */
  var reopenedBefore: Long = 0L

  /** True if its record is to be removed, after its panes have closed. */
  var isForgotten: Boolean = false

  /** True if it needs a record. */
  def isKept: Boolean = !isForgotten && !panes.isEmpty

  /** The number of open panes after this batch. */
  def openAfter: Long = if (isForgotten) 0L else panes.countOpen

  /** The number of closed panes. */
  var closed: Long = 0L

  /** A slot for a row. */
  def slot(id: Long): Slot = slots.getOrElseUpdate(
    id, {
      // Collected rows are stored in one record per batch, not added to those of others.
      val stored = if (rows.keepsRows) None else inState(id)
      stored.fold(new Slot(task, accumulators.blank(), None.orNull, isStored = false))(
        new Slot(task, None.orNull, _, isStored = true)
      )
    }
  )

  private def inState(id: Long): Option[UnsafeRow] =
    if (isNew || panes.isNew(id)) None
    else content.flatMap(_.get(slotKey(id, key)).copied)

  /** The entire content of a slot at rest, to be merged with others. */
  def rest(id: Long): Option[UnsafeRow] = inMemory(id).map { slot =>
    task.distinct.filter(_.hasRecords(slot.atRest)).fold(slot.atRest) { distinct =>
      accumulators.rest(distinct.complete(slotKey(id, key), accumulators.load(slot.atRest))).copy()
    }
  }

  private def inMemory(id: Long): Option[Slot] = slots
    .get(id)
    .orElse {
      // Overlapping windows read it again.
      val read = inState(id).map(new Slot(task, None.orNull, _, isStored = true))
      read.foreach(slots.update(id, _))
      read
    }

  /** The content of a pane, at work. */
  def holds(pane: ArrivalPane): InternalRow = {
    val of = panes.slotsOf(pane)
    if (rows.keepsRows) rowsOf(pane, of)
    else if (of.length == 1)
      shown(of(0), slots.get(of(0)).map(_.atWork).getOrElse(accumulators.load(inState(of(0)).get)))
    else task.counts.fold(sumOf(of))(grid => folding(grid, pane))
  }

  /** The accumulator of a slot at work.
    *
    * @param isComplete
    *   true if distinct values are evaluated too
    */
  def workOf(id: Long, isComplete: Boolean): InternalRow =
    if (isComplete) shown(id, slot(id).atWork) else slot(id).atWork

  private def shown(id: Long, work: InternalRow): InternalRow = task.distinct.fold(work) { distinct =>
    val at = slotKey(id, key)
    distinct.settle(at, work)
    distinct.shown(at, work)
  }

  private def sumOf(of: Array[Long]): InternalRow = {
    val work = accumulators.blank()
    of.foreach(rest(_).foreach(accumulators.merge(work, _)))
    work
  }

  /** Windows of row numbers close in order, with all their slices. */
  private def folding(grid: SliceGrid, pane: ArrivalPane): InternalRow =
    if (panes.number < pane.end) sumOf(panes.slotsOf(pane))
    else {
      fold.evictBefore(grid.firstSlice(pane.id))
      var slice = Math.max(folded, grid.firstSlice(pane.id))
      while (slice <= grid.lastSlice(pane.id)) {
        rest(slice).foreach(r => fold.push(slice, r))
        slice += 1
      }
      folded = slice
      accumulators.load(fold.sum.copy())
    }

  private def rowsOf(pane: ArrivalPane, of: Array[Long]): InternalRow = {
    val work = accumulators.blank()
    def add(rest: UnsafeRow): Unit = {
      accumulators.merge(work, rest)
      rows.byRow.collect.foreach { collected =>
        val all = task.collected(work)
        if (all.size > collected.maxRows) throw tooMany(collected, pane)
      }
    }
    of.foreach { id =>
      pieces(id).foreach(_.foreach(piece => add(piece.value.untilNextCall)))
      slots.get(id).foreach(s => add(s.atRest))
    }
    work
  }

  /** The rows of a pane in parts, each as an accumulator at work. */
  def partsOf(pane: ArrivalPane, collected: Collected): Iterator[InternalRow] = {
    val of = panes.slotsOf(pane)
    val total = of.map(sizes.of).sum
    if (total > collected.maxRows) throw tooMany(collected, pane)
    val runs = of.iterator.flatMap(id => stored(id) ++ slots.get(id).map(_.collected))
    // The pieces of a slot are in order of arrival.
    val isOrdered = !collected.byTime && of.length == 1
    PaneParts(runs, total, isOrdered, collected.byTime, task.width).map { part =>
      val work = accumulators.blank()
      work.update(0, part)
      work
    }
  }

  private def stored(id: Long): Iterator[CollectedRows] = {
    def rowsIn(piece: UnsafeRow) = task.collected(accumulators.load(piece.copy()))
    spilledToDisk.get(id).fold(Iterator.empty[CollectedRows])(_.generateIterator().map(rowsIn)) ++
      pieces(id).fold(Iterator.empty[CollectedRows]) { scan =>
        new Iterators.OfRecords(scan)(piece => Iterator.single(rowsIn(piece.value.untilNextCall)))(())
      }
  }

  /** Moves the rows of this batch out of memory, if a slot has many: to state, or to disk on a batch DataFrame. */
  def spill(id: Long): Unit = slots.get(id).filter(_.collected.isLarge).foreach { slot =>
    content match {
      case Some(family) =>
        family.insert(pieceKey(id, slot.collected.firstNumber, key), slot.atRest)
        spilled += id
      case None =>
        val pieces = spilledToDisk.getOrElseUpdate(id, SparkVersionShim.spillable(ArrivalKey.PiecesInMemory))
        pieces.add(slot.atRest)
    }
    slots -= id
  }

  /** Frees the rows on disk, after the last firing of a key on a batch DataFrame. */
  def free(): Unit = spilledToDisk.valuesIterator.foreach(_.clear())

  private def pieces(id: Long): Option[FamilyScan] =
    if ((isNew || panes.isNew(id)) && !spilled.contains(id)) None
    else content.map(_.range(pieceKey(id, 0L, key).copy(), pieceKey(id, Long.MaxValue, key)))

  def remove(id: Long): Unit = {
    val slot = slots.remove(id)
    if (rows.keepsRows) {
      sizes.remove(id)
      val stored = pieces(id).fold(Vector.empty[UnsafeRow])(scan =>
        try scan.map(_.key.copy())
        finally scan.close()
      )
      content.foreach(family => stored.foreach(family.remove))
      spilled -= id
      spilledToDisk.remove(id).foreach(_.clear())
    } else {
      task.distinct.foreach(_.drop(slotKey(id, key)))
      if (slot.fold(inState(id).isDefined)(_.isStored)) content.foreach(_.remove(slotKey(id, key)))
    }
  }

  /** Writes the contents of slots to state. */
  def write(): Unit = content.foreach { family =>
    slots.iterator.filter(_._2.changed).foreach { case (id, slot) =>
      task.distinct.foreach(_.settle(slotKey(id, key), slot.atWork))
      if (rows.byRow.collect.isEmpty && task.program.limit.isLess(task.size(slot.atRest)))
        throw tooLarge(id, slot.atRest)
      if (rows.keepsRows) family.insert(pieceKey(id, slot.collected.firstNumber, key), slot.atRest)
      else if (slot.isStored) family.update(slotKey(id, key), slot.atRest)
      else family.insert(slotKey(id, key), slot.atRest)
    }
  }

  private def tooLarge(slot: Long, rest: UnsafeRow) = {
    val pane = panes.open.find(panes.slotsOf(_).contains(slot))
    val name = pane.fold(s"A pane${task.names.of(key)}")(p => task.names(p.start, p.end, key))
    PaneSums.tooLarge(task.program, task.functions, rest, task.size(rest), name)
  }

  def tooMany(collected: Collected, pane: ArrivalPane): MullionException =
    CollectRows.tooMany(nameOf(pane), collected)

  /** The name of a pane in errors. */
  def nameOf(pane: ArrivalPane): String = task.names(pane.start, pane.end, key)
}

private[engine] object ArrivalKey {

  /** A piece has up to some megabytes, so that few stay in memory. */
  private val PiecesInMemory = SpillLimits(1, Long.MaxValue, 4, Long.MaxValue)
}

/** A slot in memory: at work, or at rest. */
private[engine] final class Slot(
    task: ArrivalTask,
    private var work: InternalRow,
    private var rest: UnsafeRow,
    val isStored: Boolean
) {

  /** True if it differs from state. */
  var changed = false

  def toChange: InternalRow = {
    changed = true
    atWork
  }

  def atWork: InternalRow = {
    if (work eq null) { work = task.accumulators.load(rest); rest = null }
    work
  }

  def atRest: UnsafeRow = {
    if (rest eq null) { rest = task.accumulators.rest(work).copy(); work = null }
    rest
  }

  /** Its rows of this batch. */
  def collected: CollectedRows = task.collected(atWork)
}

/** The parameters shared by all keys of a task: the location of slots in state, and their aggregation.
  *
  * @param functions
  *   the aggregate functions of the engine
  * @param counts
  *   the slices of windows of row numbers, if their panes share them
  */
private[engine] final class ArrivalTask(
    val program: PaneProgram,
    val rows: RowProgram,
    val functions: Seq[AggregateFunction],
    val accumulators: Accumulators,
    val counts: Option[SliceGrid],
    partition: Option[StatePartition]
) {
  private val keyTypes = program.keys.map(_.dataType)
  private val objects = ObjectType(classOf[AnyRef])

  lazy val names = new PaneNames(program)
  val content: Option[Family] = partition.map(_.family(ArrivalFamilies.content(program, rows)))
  val slotKey = new TimedKey(keyTypes, RecordOrder.WithinKey)

  /** The records of distinct values, if aggregates have any and there is state. */
  val distinct: Option[DistinctRecords] = partition
    .map(new DistinctRecords(functions, ArrivalFamilies.content(program, rows), _))
    .filterNot(_.isEmpty)

  /** The bytes of a slot at rest. */
  def size(rest: UnsafeRow): Long = rest.getSizeInBytes + distinct.fold(0L)(_.bytes(rest))

  lazy val pieceKey = new ArrivalFamilies.PieceKey(keyTypes)

  /** The columns of a row, if panes collect rows. */
  lazy val width: Int = functions.collectFirst { case of: CollectRows => of.columns.length }.getOrElse(0)

  /** The rows in an accumulator at work, if panes collect rows. */
  def collected(work: InternalRow): CollectedRows = work.get(0, objects).asInstanceOf[CollectedRows]
}
