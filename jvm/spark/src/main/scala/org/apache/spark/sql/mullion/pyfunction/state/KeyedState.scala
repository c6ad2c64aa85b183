package org.apache.spark.sql.mullion.pyfunction.state

import java.util.Arrays

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.mullion.state.record.{BorrowedRow, FamilyScan, FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types._

/** The state of functions in one partition: binary records under binary keys, and timers in order of time.
  *
  * {{{
  *   records   key -> value               in order of the first 8 bytes of the key
  *   timers    (key, due)                 one kind for each clock, in order of time
  *   totals    records, earliest due      so that no batch has to count, or to skip removed timers
  * }}}
  *
  * It is used by one thread at a time.
  *
  * @param now
  *   the reading of each clock in this batch, in microseconds
  */
final class KeyedState(partition: StatePartition, now: TimerClock => Long) {
  import KeyedState._

  private val records = partition.family(KeyedState.records)
  private val timers = TimerClock.all.map(c => c -> partition.family(KeyedState.timers(c))).toMap
  private val totals = partition.family(Totals.family)
  private val stored = Totals.of(totals.get(Totals.key))

  /** For each clock, a time before which no timer is due. */
  private val since = mutable.Map.from(stored.earliest)
  private val scans = mutable.Set.empty[Scan]

  private val recordKey = new KeyRow
  private val timerKey = new KeyRow
  private val valueRow = new UnsafeRowWriter(1, 256)

  private var written = 0L
  private var removed = 0L
  private val late = mutable.LinkedHashMap.empty[String, Long]

  def recordsWritten: Long = written

  def recordsRemoved: Long = removed

  /** The number of rows that functions reported as too late. */
  def rowsLate: Long = late.values.sum

  /** Counts rows that were too late for the object of this name, a table of a program. */
  def countLate(of: String, rows: Long): Unit = if (rows > 0) late(of) = late.getOrElse(of, 0L) + rows

  /** Log messages about rows that were too late: one line per object. */
  def lateLines: Seq[String] = late.toSeq.map { case (of, rows) =>
    s"$rows ${if (rows == 1) "event was" else "events were"} too late for '$of' and changed nothing there: " +
      "all ranges of their times had expired. A longer expires= keeps them open."
  }

  def rowsRead: Long = partition.rowsRead

  /** True if a timer is due in this batch. */
  def isDue: Boolean = TimerClock.all.exists(c => stored.earliest(c) <= now(c))

  /** True if there may be a timer of a clock, including those set in this batch. */
  def hasTimers(clock: TimerClock): Boolean = since(clock) != Never

  /** The value of a key, or null. */
  def get(key: Array[Byte]): Array[Byte] = {
    val value = records.get(recordKey(key, headOf(key)))
    if (value.isAbsent) None.orNull else value.getBinary(0)
  }

  /** Sets the value of a key.
    *
    * @param there
    *   whether the store has the key, if known
    */
  def put(key: Array[Byte], value: Array[Byte], there: Option[Boolean]): Unit = {
    val row = recordKey(key, headOf(key))
    val exists = there.getOrElse(!records.get(row).isAbsent)
    valueRow.reset()
    valueRow.zeroOutNullBytes()
    valueRow.write(0, value)
    if (exists) records.update(row, valueRow.getRow) else records.insert(row, valueRow.getRow)
    written += 1
  }

  /** Removes a key, if it exists. */
  def remove(key: Array[Byte], there: Option[Boolean]): Unit = {
    val row = recordKey(key, headOf(key))
    if (there.getOrElse(!records.get(row).isAbsent)) {
      records.remove(row)
      removed += 1
    }
  }

  /** The records whose keys begin with `prefix`, without later writes. */
  def scan(prefix: Array[Byte]): Scan = {
    val last = headOf(prefix, 0xff.toByte)
    opened(new Scan(records.scan(headOf(prefix))) {
      override protected def isWithin(key: BorrowedRow): Boolean = key.getLong(1) <= last

      override protected def isWanted(key: BorrowedRow): Boolean = startsWith(key.getBinary(0), prefix)
    })
  }

  def putTimer(clock: TimerClock, due: Long, key: Array[Byte]): Unit = {
    val row = timerKey(key, due)
    val family = timers(clock)
    if (family.get(row).isAbsent) {
      family.insert(row, Totals.present)
      since(clock) = Math.min(since(clock), due)
    }
  }

  def removeTimer(clock: TimerClock, due: Long, key: Array[Byte]): Unit = {
    val row = timerKey(key, due)
    if (!timers(clock).get(row).isAbsent) timers(clock).remove(row)
  }

  /** The timers due from `from` to `until`, both inclusive, in order. */
  def due(clock: TimerClock, until: Long, from: Long = Long.MinValue): Scan =
    opened(timersFrom(clock, Math.max(since(clock), from), until))

  /** The due time of the next timer after this batch; `Never` if there is none. */
  def nextDue(clock: TimerClock): Long = now(clock) match {
    case Never => Never
    case at    => firstFrom(clock, Math.max(since(clock), at + 1))
  }

  def dueOf(timer: BorrowedRow): Long = timer.getLong(1)

  def keyOf(timer: BorrowedRow): Array[Byte] = timer.getBinary(0)

  /** Commits the changes of this batch as the next version. Returns its number of records. */
  def commit(): Long = {
    closeScans()
    val earliest = TimerClock.all.map(c => c -> firstFrom(c, since(c))).toMap
    val all = Totals(stored.records + partition.rowsAdded, earliest)
    if (all != stored) {
      if (stored.exists) totals.update(Totals.key, all.row) else totals.insert(Totals.key, all.row)
    }
    partition.commit()
    all.records
  }

  def closeScans(): Unit = {
    scans.foreach(_.close())
    scans.clear()
  }

  private def firstFrom(clock: TimerClock, from: Long): Long = {
    val first = timersFrom(clock, from, Never)
    try if (first.next()) dueOf(first.key) else Never
    finally first.close()
  }

  private def timersFrom(clock: TimerClock, from: Long, until: Long): Scan =
    new Scan(if (from > until) KeyedState.nothing else timers(clock).scan(from)) {
      // Of two scans, one may have removed a record that both found.
      override protected def isWithin(key: BorrowedRow): Boolean = dueOf(key) <= until
    }

  private def opened(scan: Scan): Scan = {
    scans += scan
    scan
  }

  /** A running scan of the matching records. */
  abstract class Scan(underlying: FamilyScan) extends FamilyScan {
    private var ended = false

    protected def isWithin(key: BorrowedRow): Boolean

    protected def isWanted(key: BorrowedRow): Boolean = true

    /** True if it has passed the last record. */
    def isEnded: Boolean = ended

    override def next(): Boolean = {
      var isOn = false
      while (!isOn && !ended) {
        if (!underlying.next() || !isWithin(key)) close() else isOn = isWanted(key)
      }
      isOn
    }

    override def key: BorrowedRow = underlying.key

    override def value: BorrowedRow = underlying.value

    override def close(): Unit = if (!ended) {
      ended = true
      underlying.close()
    }
  }
}

/** The clock of a timer. */
sealed abstract class TimerClock(val number: Int, val name: String)

object TimerClock {
  case object Event extends TimerClock(0, "event")
  case object Wall extends TimerClock(1, "wall")

  val all: Seq[TimerClock] = Seq(Event, Wall)
}

object KeyedState {
  val Never: Long = Long.MaxValue

  /** The kinds of record; the first is the one that grows. */
  def families: Seq[FamilySpec] = (records +: TimerClock.all.map(timers)) :+ Totals.family

  private val records: FamilySpec = FamilySpec(
    "records",
    key = key("head"),
    value = new StructType().add("value", BinaryType, nullable = false),
    RecordOrder.ByLast
  )

  private def timers(clock: TimerClock): FamilySpec =
    FamilySpec(s"timers_${clock.name}", key = key("due"), value = Totals.presence, RecordOrder.ByLast)

  // Bytes are never null in a record, but in the start keys of scans.
  private def key(number: String): StructType =
    new StructType().add("key", BinaryType).add(number, LongType, nullable = false)

  /** A record in its stored form.
    *
    * @param timer
    *   the clock and the time, for a timer
    */
  final case class Record(timer: Option[(TimerClock, Long)], key: Array[Byte], value: Array[Byte])

  /** A stored record, by the number of its family; none for the totals. */
  def recordIn(family: Int, key: UnsafeRow, value: UnsafeRow): Option[Record] =
    if (family == 0) Some(Record(None, key.getBinary(0), value.getBinary(0)))
    else
      TimerClock.all.lift(family - 1).map { clock =>
        Record(Some(clock -> key.getLong(1)), key.getBinary(0), Array.empty)
      }

  /** The first 8 bytes of a key as a number, in the order of unsigned bytes; padded with `pad`. */
  private[pyfunction] def headOf(key: Array[Byte], pad: Byte = 0): Long = {
    var head = 0L
    var i = 0
    while (i < 8) {
      head = (head << 8) | (if (i < key.length) key(i) & 0xffL else pad & 0xffL)
      i += 1
    }
    head ^ Long.MinValue
  }

  private def startsWith(key: Array[Byte], prefix: Array[Byte]): Boolean =
    key.length >= prefix.length && Arrays.equals(key, 0, prefix.length, prefix, 0, prefix.length)

  /** A reusable row of a binary key and a number. */
  private final class KeyRow {
    private val writer = new UnsafeRowWriter(2, 128)

    def apply(bytes: Array[Byte], number: Long): UnsafeRow = {
      writer.reset()
      writer.zeroOutNullBytes()
      writer.write(1, number)
      writer.write(0, bytes)
      writer.getRow
    }
  }

  /** The totals of a partition, as of a version. */
  private[pyfunction] final case class Totals(records: Long, earliest: Map[TimerClock, Long], exists: Boolean = true) {
    def row: UnsafeRow = {
      val row = UnsafeRow.createFromByteArray(32, 3)
      row.setLong(0, records)
      TimerClock.all.foreach(c => row.setLong(1 + c.number, earliest(c)))
      row
    }
  }

  private[pyfunction] object Totals {
    val key: UnsafeRow = UnsafeRow.createFromByteArray(16, 1)

    val presence: StructType = new StructType().add("present", BooleanType, nullable = false)

    /** The value of records that consist of their key. */
    val present: UnsafeRow = {
      val row = UnsafeRow.createFromByteArray(16, 1)
      row.setBoolean(0, true)
      row
    }

    val family: FamilySpec = FamilySpec(
      "totals",
      key = new StructType().add("id", IntegerType, nullable = false),
      value = TimerClock.all.foldLeft(new StructType().add("records", LongType, nullable = false)) { (type_, clock) =>
        type_.add(s"earliest_${clock.name}", LongType, nullable = false)
      },
      RecordOrder.Unordered,
      countAt = Some(0)
    )

    def of(row: BorrowedRow): Totals =
      if (row.isAbsent) Totals(0L, TimerClock.all.map(_ -> Never).toMap, exists = false)
      else Totals(row.getLong(0), TimerClock.all.map(c => c -> row.getLong(1 + c.number)).toMap)
  }

  private val nothing: FamilyScan = new FamilyScan {
    override def next(): Boolean = false
    override def key: BorrowedRow = BorrowedRow(None.orNull)
    override def value: BorrowedRow = BorrowedRow(None.orNull)
    override def close(): Unit = ()
  }
}
