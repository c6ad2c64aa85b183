package org.apache.spark.sql.mullion.expressions.rows

import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{ImperativeAggregate, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

import dev.mullion.MullionException
import dev.mullion.windows.rules.Collected

/** A placeholder for a row's order of arrival, until a plan replaces it by a column. */
case class ArrivalNumber() extends LeafExpression with Unevaluable {
  override def dataType: DataType = LongType
  override def nullable: Boolean = false
  override def prettyName: String = "arrival"
}

/** The rows of a pane as an array of structs, in order. It is an ordinary aggregate, so that panes store rows like
  * other aggregates.
  *
  * A firing with many rows may come in parts, each a row of the output, so that neither the operator nor the nodes
  * above it hold all rows of a pane at once:
  *
  * {{{
  *   k   pane       rows
  *   a   [0, 3)     {total: 25000, rows: [10000 rows]}
  *   a   [0, 3)     {total: null,  rows: [10000 rows]}
  *   a   [0, 3)     {total: null,  rows: [5000 rows]}
  * }}}
  *
  * @param columns
  *   the columns of a row
  * @param time
  *   its event time, in microseconds
  * @param number
  *   its order of arrival
  * @param window
  *   the window as text, for the error of too many rows
  */
case class CollectRows(
    columns: Seq[Expression],
    names: Seq[String],
    time: Expression,
    number: Expression,
    collected: Collected,
    window: String,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0
) extends TypedImperativeAggregate[CollectedRows] {

  override def children: Seq[Expression] = columns ++ Seq(time, number)

  override def nullable: Boolean = false

  override def dataType: DataType = {
    val rows = ArrayType(rowType, containsNull = false)
    if (collected.inParts) new StructType().add("total", LongType).add("rows", rows, nullable = false) else rows
  }

  override def prettyName: String = "collect_rows"

  @transient private lazy val rowType = StructType(columns.zip(names).map { case (c, n) =>
    StructField(n, c.dataType, c.nullable)
  })

  @transient private lazy val toRow = UnsafeProjection.create(columns)

  override def createAggregationBuffer(): CollectedRows = new CollectedRows(columns.length)

  override def update(rows: CollectedRows, input: InternalRow): CollectedRows = {
    val ts = time.eval(input) match {
      case us: Long => us
      case _        => Long.MinValue
    }
    rows.add(number.eval(input).asInstanceOf[Long], ts, toRow(input).copy())
    checked(rows)
  }

  override def merge(rows: CollectedRows, other: CollectedRows): CollectedRows = {
    rows.addAll(other)
    checked(rows)
  }

  private def checked(rows: CollectedRows): CollectedRows = {
    if (rows.size > collected.maxRows) throw CollectRows.tooMany(s"A pane of the window ($window)", collected)
    rows
  }

  override def eval(rows: CollectedRows): Any = {
    val array = new GenericArrayData(rows.inOrder(collected.byTime))
    if (collected.inParts) new GenericInternalRow(Array[Any](rows.total.map(Long.box).orNull, array)) else array
  }

  override def serialize(rows: CollectedRows): Array[Byte] = rows.toBytes

  override def deserialize(bytes: Array[Byte]): CollectedRows = CollectedRows.fromBytes(columns.length, bytes)

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)

  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): CollectRows =
    copy(columns = newChildren.dropRight(2), time = newChildren(newChildren.length - 2), number = newChildren.last)
}

object CollectRows {

  /** The error of a pane with too many rows. */
  def tooMany(pane: String, collected: Collected): MullionException = MullionException.unsupported(
    if (collected.inParts)
      s"$pane has more than ${collected.maxRows} rows, the most that it may have: a worker holds all of them, unless the " +
        "function accepts an iterator. Raise the limit, or use shorter windows or more keys."
    else
      s"$pane has more than ${collected.maxRows} rows, the most that collect() lets it have: a task holds all of them in " +
        "memory when the pane closes. Use shorter windows or more keys, use aggregates instead, or raise the limit, if " +
        "executors have the memory."
  )
}

/** Rows with their times and their order of arrival. */
final class CollectedRows(width: Int) {
  private val rows = new java.util.ArrayList[UnsafeRow]()
  private var numbers = new Array[Long](4)
  private var times = new Array[Long](4)

  /** The number of rows of all parts, if it is the first part of a pane, or the only one. */
  def total: Option[Long] = part.fold[Option[Long]](Some(size.toLong))(_.total)

  /** Set if it is a part of a pane. */
  private[mullion] var part: Option[CollectedRows.Part] = None

  private var bytesOfRows = 0L

  def size: Int = rows.size

  def bytes: Long = bytesOfRows

  /** True if they fill a piece in state. */
  def isLarge: Boolean = size >= CollectedRows.MostRows || bytes >= CollectedRows.MostBytes

  def row(i: Int): UnsafeRow = rows.get(i)

  def number(i: Int): Long = numbers(i)

  def time(i: Int): Long = times(i)

  def add(number: Long, time: Long, row: UnsafeRow): Unit = {
    val n = rows.size
    if (n == numbers.length) {
      numbers = java.util.Arrays.copyOf(numbers, n * 2)
      times = java.util.Arrays.copyOf(times, n * 2)
    }
    numbers(n) = number
    times(n) = time
    bytesOfRows += row.getSizeInBytes
    rows.add(row)
    ()
  }

  def addAll(other: CollectedRows): Unit = {
    var i = 0
    while (i < other.size) { add(other.numbers(i), other.times(i), other.rows.get(i)); i += 1 }
  }

  def inOrder(byTime: Boolean): Array[Any] = order(byTime).map(i => rows.get(i): Any)

  /** The indices of the rows in the order of their times and of arrival, or of arrival alone. */
  def order(byTime: Boolean): Array[Integer] = {
    val order = Array.tabulate[Integer](size)(i => i)
    java.util.Arrays.sort(
      order,
      (a: Integer, b: Integer) => {
        val byTimes = if (byTime) java.lang.Long.compare(times(a), times(b)) else 0
        if (byTimes != 0) byTimes else java.lang.Long.compare(numbers(a), numbers(b))
      }
    )
    order
  }

  def toBytes: Array[Byte] = {
    var bytes = 4
    rows.forEach(r => bytes += 20 + r.getSizeInBytes)
    val buffer = ByteBuffer.allocate(bytes).putInt(size)
    var i = 0
    while (i < size) {
      val row = rows.get(i)
      buffer.putLong(numbers(i)).putLong(times(i)).putInt(row.getSizeInBytes)
      row.writeToMemory(buffer.array, Platform.BYTE_ARRAY_OFFSET + buffer.position())
      buffer.position(buffer.position() + row.getSizeInBytes)
      i += 1
    }
    buffer.array
  }

  /** The number of the first of these rows. */
  def firstNumber: Long = numbers(0)
}

object CollectedRows {
  private final val MostRows = 65536
  private final val MostBytes = 8L << 20

  /** A part of a pane's rows.
    *
    * @param total
    *   the number of rows of all parts, if it is the first one
    */
  final case class Part(total: Option[Long])

  def fromBytes(width: Int, bytes: Array[Byte]): CollectedRows = {
    val rows = new CollectedRows(width)
    val buffer = ByteBuffer.wrap(bytes)
    var remaining = buffer.getInt
    while (remaining > 0) {
      val (number, time, size) = (buffer.getLong, buffer.getLong, buffer.getInt)
      val row = new UnsafeRow(width)
      // A row must be 8-byte aligned.
      row.pointTo(java.util.Arrays.copyOfRange(bytes, buffer.position(), buffer.position() + size), size)
      buffer.position(buffer.position() + size)
      rows.add(number, time, row)
      remaining -= 1
    }
    rows
  }
}
