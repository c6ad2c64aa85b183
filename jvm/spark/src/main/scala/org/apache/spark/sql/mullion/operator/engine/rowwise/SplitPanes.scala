package org.apache.spark.sql.mullion.operator.engine.rowwise

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.rows.{CollectRows, RowUpdate}
import org.apache.spark.sql.mullion.expressions.udf.{SplitAnswer, SplitBuffer}
import org.apache.spark.sql.mullion.operator.engine.Iterators.Rows
import org.apache.spark.sql.mullion.operator.engine.accumulators.Accumulators
import org.apache.spark.sql.mullion.operator.engine.output.{Firing, PaneNames, PaneOutput}
import org.apache.spark.sql.mullion.operator.engine.timers.{KeyRuns, TimedKey}
import org.apache.spark.sql.mullion.operator.engine.{
  Iterators,
  OpenPane,
  PaneCounts,
  PaneEngine,
  PaneProgram,
  RowProgram,
  Splitting
}
import org.apache.spark.sql.mullion.state.record.{BorrowedRow, Family, FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.key.{ArrivalPane, UnsplitRows}

/** Panes of global windows that a function of the rows splits. The rows of a key are stored until the function, which
  * once per batch receives all of them for each key with new rows, returns the starts of new windows. Only then are
  * they aggregated.
  *
  * {{{
  *   pieces  (key, number)  -> rows of one batch, by the number of the first
  *   keys    (key)          -> the number of the buffer's first row, the number of rows so far, the buffer's size
  *
  *   input by key -> buffers: stored pieces, and the batch's rows -> the function -> windows close, state is written
  * }}}
  *
  * Each batch adds a piece. A split removes the pieces before it, and rewrites only the rest of the piece that it cuts.
  *
  * @param partition
  *   none on a batch DataFrame, where all rows of a key are present
  */
private[operator] final class SplitPanes(
    program: PaneProgram,
    rows: RowProgram,
    splits: Splitting,
    partition: Option[StatePartition],
    counts: PaneCounts
) extends PaneEngine {
  import SplitPanes._

  private val input = rows.input
  private val functions = rows.functions(program.functions)
  private val accumulators = new Accumulators(functions, Nil, program.partial, program.layout.buffers)
  private val output = PaneOutput.of(program, program.keys, Nil, functions)
  private lazy val update = new RowUpdate(functions, rows.filters, splits.kept :+ rows.number)
  private lazy val toKept = UnsafeProjection.create(splits.kept, rows.input)

  private val pieces = partition.map(_.family(piecesFamily(program)))
  private val keys = partition.map(_.family(keysFamily(program)))
  private val pieceKey = new TimedKey(program.keys.map(_.dataType), RecordOrder.WithinKey)
  private val numberAt = program.keys.length
  private lazy val keyValue = UnsafeProjection.create(keysFamily(program).value)
  private lazy val pieceValue = UnsafeProjection.create(piecesFamily(program).value)

  private val number = new GenericInternalRow(1)
  private val numbered = new JoinedRow()
  private val names = new PaneNames(program)

  override def process(input: Iterator[InternalRow]): Iterator[InternalRow] = {
    val buffers = new Buffers(input)
    if (!buffers.hasNext) Iterator.empty
    else {
      val requested = mutable.Queue.empty[Buffer]
      val questions = buffers.map { buffer =>
        requested.enqueue(buffer)
        SplitBuffer(buffer.all, buffer.offset)
      }
      splits.asker.get.ask(questions).flatMap(answer => answered(requested.dequeue(), answer))
    }
  }

  override def openPanes(): Iterator[OpenPane] = keys.fold(Iterator.empty[OpenPane]) { family =>
    new Iterators.OfRecords(family.all())({ record =>
      val buffer = new Buffer(record.key.copy(), Some(Stored(record.value)))
      buffer.unsplit.open.iterator.map(pane => OpenPane(fire(buffer, pane), rows = Some(pane.end - pane.start)))
    })(())
  }

  private def answered(buffer: Buffer, answer: SplitAnswer): Iterator[InternalRow] = {
    val indices = answer match {
      case SplitAnswer.At(indices) =>
        UnsplitRows.wrong(indices, buffer.unsplit.buffered).foreach(what => throw wrong(buffer, what))
        indices
      case SplitAnswer.Wrong(what)         => throw wrong(buffer, what)
      case SplitAnswer.Failed(what, trace) => throw failed(buffer, what, trace)
    }
    val closing = buffer.unsplit.closes(indices).iterator.map { pane =>
      counts.firedClose += 1
      counts.panesClosed += 1
      counts.panesOpened += 1
      fire(buffer, pane)
    }
    (closing ++ atEndOfBatch(buffer, indices)).andThen(buffer.leave(indices))
  }

  /** On a batch DataFrame these are all rows of a key. */
  private def atEndOfBatch(buffer: Buffer, indices: Array[Long]): Iterator[InternalRow] =
    if (partition.isEmpty && program.closesAtEnd) buffer.unsplit.after(indices).open.iterator.map(fire(buffer, _))
    else Iterator.empty

  private def fire(buffer: Buffer, pane: ArrivalPane): InternalRow = {
    checkRows(buffer, pane)
    val work = accumulators.blank()
    var at = pane.start
    while (at < pane.end) {
      number.update(0, at)
      update(work, numbered(buffer.all((at - buffer.unsplit.start).toInt), number))
      at += 1
    }
    output.fire(buffer.key, pane.start, pane.end, Firing.Close, 0, work)
  }

  private def checkRows(buffer: Buffer, pane: ArrivalPane): Unit =
    rows.byRow.collect.filter(pane.end - pane.start > _.maxRows).foreach { collected =>
      throw CollectRows.tooMany(names(pane.start, pane.end, buffer.key), collected)
    }

  private def wrong(buffer: Buffer, what: String) = MullionException.functionFailed(
    s"${requested(buffer)} $what. Have it return the indices of the buffer at which new windows start, ascending, each from 0 " +
      s"to ${buffer.unsplit.buffered}, the length of the buffer; [] or None splits nothing."
  )

  private def failed(buffer: Buffer, what: String, trace: String) = MullionException.functionFailed(
    s"${requested(buffer)} $what. Nothing of this batch was kept: fix the function, under the same name, and restart the query " +
      s"from its checkpoint.\n$trace"
  )

  private def requested(buffer: Buffer) = {
    val n = buffer.unsplit.buffered
    s"The function ${splits.by.name} of Global.split, asked about ${if (n == 1) "1 row" else s"$n rows"} buffered" +
      s"${names.of(buffer.key)},"
  }

  /** The buffers of the keys with new rows, each with all of its rows. */
  private final class Buffers(rows: Iterator[InternalRow]) extends Iterator[Buffer] {
    private val runs = new KeyRuns[Buffer](program.keys, input)(key => new Buffer(key, stored(key)))
    private var complete = Iterator.empty[Buffer]

    override def hasNext: Boolean = complete.hasNext || rows.hasNext || runs.nonEmpty

    override def next(): Buffer = {
      while (!complete.hasNext && rows.hasNext) {
        val row = rows.next()
        complete = runs.complete(row)
        runs.current().add(toKept(row).copy())
      }
      if (!complete.hasNext) complete = runs.remaining()
      complete.next()
    }

    private def stored(key: UnsafeRow): Option[Stored] =
      keys.flatMap { family =>
        val value = family.get(key)
        Option.unless(value.isAbsent)(Stored(value))
      }
  }

  /** The buffer of a key: rows in state, then the rows of this batch. */
  private final class Buffer(val key: UnsafeRow, stored: Option[Stored]) {
    private val before = stored.fold(UnsplitRows.empty)(_.unsplit)
    private var bytes = stored.fold(0L)(_.bytes)
    private val fresh = mutable.ArrayBuffer.empty[UnsafeRow]

    /** The number of the first row of each stored piece. */
    private val begins = mutable.ArrayBuffer.empty[Long]

    def unsplit: UnsplitRows = before.taken(fresh.length.toLong)

    def offset: Int = before.buffered.toInt

    def add(row: UnsafeRow): Unit = {
      fresh += row
      bytes += BufferedRows.bytesOf(row)
      program.limit.check(bytes, names(before.start, unsplit.rows, key), limited)
    }

    lazy val all: IndexedSeq[UnsafeRow] = {
      val rows = mutable.ArrayBuffer.empty[UnsafeRow]
      if (before.buffered > 0) pieces.foreach { family =>
        val scan = family.range(pieceKey(before.start, key).copy(), pieceKey(Long.MaxValue, key))
        try
          scan.foreach { piece =>
            begins += piece.key.getLong(numberAt)
            BufferedRows.foreach(splits.kept.length, piece.value.getBinary(0))(row => rows += row)
          }
        finally scan.close()
      }
      (rows ++ fresh).toIndexedSeq
    }

    /** Writes the rest of a split buffer. */
    def leave(indices: Array[Long]): Unit = for (pieces <- this.pieces; keys <- this.keys) {
      val after = unsplit.after(indices)
      counts.panesOpened += after.open.size - before.open.size
      val cut = begins.takeWhile(_ < after.start)
      cut.foreach(first => pieces.remove(pieceKey(first, key)))
      val next = begins.drop(cut.length).headOption.getOrElse(before.rows)
      if (after.start < next && cut.nonEmpty) insert(pieces, after.start, next)
      if (after.rows > before.rows) insert(pieces, Math.max(before.rows, after.start), after.rows)
      val gone = (before.start until after.start).foldLeft(0L)((sum, n) => sum + BufferedRows.bytesOf(row(n)))
      val value = keyValue(InternalRow(after.start, after.rows, bytes - gone))
      if (stored.isDefined) keys.update(key, value) else keys.insert(key, value)
    }

    private def pieces = SplitPanes.this.pieces
    private def keys = SplitPanes.this.keys
    private def row(number: Long) = all((number - before.start).toInt)

    private def insert(pieces: Family, from: Long, until: Long): Unit = if (from < until) {
      val content = BufferedRows.toBytes((from until until).map(row))
      pieces.insert(pieceKey(from, key), pieceValue(InternalRow(content)))
    }
  }
}

private[operator] object SplitPanes {
  import PaneProgram.time

  private val limited = "buffered rows"

  def families(program: PaneProgram): Seq[FamilySpec] = Seq(piecesFamily(program), keysFamily(program))

  private def piecesFamily(program: PaneProgram): FamilySpec = FamilySpec(
    "pieces",
    StructType(program.keyFields :+ time("number")),
    new StructType().add("rows", BinaryType, nullable = false),
    RecordOrder.WithinKey
  )

  private def keysFamily(program: PaneProgram): FamilySpec = FamilySpec(
    "keys",
    key = StructType(program.keyFields),
    value = new StructType().add(time("start")).add(time("rows")).add(time("bytes")),
    RecordOrder.Unordered
  )

  /** The stored record of a key. */
  private final case class Stored(unsplit: UnsplitRows, bytes: Long)

  private object Stored {
    def apply(value: BorrowedRow): Stored =
      new Stored(UnsplitRows(value.getLong(0), value.getLong(1)), value.getLong(2))
  }
}
