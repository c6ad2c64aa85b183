package org.apache.spark.sql.mullion.expressions.functions

import java.nio.ByteBuffer
import java.util.{Comparator, PriorityQueue}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{ImperativeAggregate, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.ByteArray

// scalastyle:off line.size.limit
@ExpressionDescription(
  usage = """
    _FUNC_(n, order_by, column[, ...]) - Returns an array of the columns' values in the `n` rows with the largest `order_by`, the largest first: the first rows of ORDER BY order_by DESC, column, ... LIMIT n.
  """,
  arguments = """
    Arguments:
      * n - the number of rows, 1 or more, the same for all groups.
      * order_by - the order of rows. The value must have an order. Nulls are last.
      * column - the result for a row: the value of a single column, or a struct of several. Rows with equal `order_by` are in ascending order of these.
  """,
  examples = """
    Examples:
      > SELECT _FUNC_(2, sales, item) FROM VALUES ('tea', 3), ('milk', 7), ('jam', 3), ('salt', 1) AS rows(item, sales);
       ["milk","jam"]
      > SELECT _FUNC_(2, sales, item, sales) FROM VALUES ('tea', 3), ('milk', 7), ('salt', null) AS rows(item, sales);
       [{"item":"milk","sales":7},{"item":"tea","sales":3}]
  """,
  group = "agg_funcs",
  since = "0.1.0"
)
// scalastyle:on line.size.limit
/** The values of the rows with the largest order: an aggregate of bounded size.
  *
  * {{{
  *   n = 2   rows     (3, tea)  (7, milk)  (3, jam)  (1, salt)
  *           kept     (7, milk)  (3, jam)              tea and jam have equal orders: jam is first by its name
  *           result   [milk, jam]
  * }}}
  *
  * @param value
  *   the result for a row
  * @param order
  *   of rows, the largest first
  */
case class TopN(
    n: Int,
    order: Expression,
    value: Expression,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0
) extends TypedImperativeAggregate[TopRows] {

  override def children: Seq[Expression] = Seq(order, value)

  override def nullable: Boolean = false

  override def dataType: DataType = ArrayType(value.dataType, value.nullable)

  override def prettyName: String = TopN.name

  override def sql(isDistinct: Boolean): String =
    s"$prettyName(${if (isDistinct) "DISTINCT " else ""}$n, ${order.sql}, ${value.sql})"

  override def sql: String = sql(isDistinct = false)

  @transient private lazy val toRow = UnsafeProjection.create(children)

  @transient private lazy val rowOrder: Comparator[UnsafeRow] = TopN.rowOrder(order.dataType, value.dataType)

  override def createAggregationBuffer(): TopRows = new TopRows(n, rowOrder)

  override def update(top: TopRows, input: InternalRow): TopRows = {
    top.add(toRow(input))
    top
  }

  override def merge(top: TopRows, other: TopRows): TopRows = {
    other.foreach(top.add)
    top
  }

  override def eval(top: TopRows): Any = new GenericArrayData(top.inOrder.map(_.get(1, value.dataType)))

  override def serialize(top: TopRows): Array[Byte] = top.toBytes

  override def deserialize(bytes: Array[Byte]): TopRows = {
    val top = createAggregationBuffer()
    TopRows.foreach(bytes)(top.add)
    top
  }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)

  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): TopN =
    copy(order = newChildren(0), value = newChildren(1))
}

object TopN {

  /** Its name in SQL. */
  val name = "mullion_top_n"

  /** The order of rows of an order and a value: that of ORDER BY order DESC, value. Values without an order, and values
    * that compare equal, are in the order of their bytes, so that the result depends on the rows alone.
    */
  private def rowOrder(order: DataType, value: DataType): Comparator[UnsafeRow] = {
    val ofValue = Option.when(RowOrdering.isOrderable(value))(
      SortOrder(BoundReference(1, value, nullable = true), Ascending)
    )
    val ordering =
      RowOrdering.create(SortOrder(BoundReference(0, order, nullable = true), Descending) +: ofValue.toSeq, Nil)
    (a, b) => {
      val bySql = ordering.compare(a, b)
      if (bySql != 0) bySql else ByteArray.compareBinary(a.getBytes, b.getBytes)
    }
  }
}

/** The first rows in an order.
  *
  * @param n
  *   their maximum number
  */
final class TopRows(n: Int, order: Comparator[UnsafeRow]) {
  // The last of them is at the head.
  private val rows = new PriorityQueue[UnsafeRow](order.reversed)

  /** Adds a row, which the caller may reuse. */
  def add(row: UnsafeRow): Unit =
    if (rows.size < n) { rows.add(row.copy()); () }
    else if (order.compare(row, rows.peek) < 0) {
      rows.poll()
      rows.add(row.copy())
      ()
    }

  def foreach(use: UnsafeRow => Unit): Unit = rows.forEach(row => use(row))

  def inOrder: Array[UnsafeRow] = {
    val all = rows.toArray(Array.empty[UnsafeRow])
    java.util.Arrays.sort(all, order)
    all
  }

  def toBytes: Array[Byte] = {
    var size = 0
    rows.forEach(row => size += TopRows.Header + row.getSizeInBytes)
    val buffer = ByteBuffer.allocate(size)
    // Not in the order of the queue, which depends on the order of additions.
    inOrder.foreach { row =>
      buffer.putLong(row.getSizeInBytes.toLong)
      row.writeToMemory(buffer.array, Platform.BYTE_ARRAY_OFFSET.toLong + buffer.position())
      buffer.position(buffer.position() + row.getSizeInBytes)
    }
    buffer.array
  }
}

object TopRows {
  // Eight bytes, so that rows are aligned.
  private final val Header = 8
  private final val Columns = 2

  /** Calls `use` for each stored row, which it reuses. */
  def foreach(bytes: Array[Byte])(use: UnsafeRow => Unit): Unit = {
    val buffer = ByteBuffer.wrap(bytes)
    val row = new UnsafeRow(Columns)
    while (buffer.hasRemaining) {
      val size = buffer.getLong.toInt
      row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + buffer.position(), size)
      buffer.position(buffer.position() + size)
      use(row)
    }
  }
}
