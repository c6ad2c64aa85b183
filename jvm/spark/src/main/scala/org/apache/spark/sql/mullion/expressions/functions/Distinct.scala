package org.apache.spark.sql.mullion.expressions.functions

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.Platform

/** An aggregate function over the distinct values of a pane, as `count(DISTINCT user)`.
  *
  * {{{
  *   rows       ann  bob  ann  cid          in memory, and in state while they are few
  *   values     ann  bob  cid
  *   function   count: 3                    over the values, when the pane fires
  *
  *   recorded   count: 3                    over values that are in records: see `DistinctRecords`
  *   values     dan                         of the rows that follow, until these are recorded too
  * }}}
  *
  * Two accumulators are merged by their values. One that is recorded must first be completed with its values.
  *
  * @param values
  *   the arguments of the function that vary, normalised so that equal values are equal
  * @param function
  *   the function over `BoundReference`s to the values
  * @param id
  *   distinguishes the records of several functions; the same for the same text in each run of a query
  */
case class Distinct(
    values: Seq[Expression],
    function: AggregateFunction,
    id: Long,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0
) extends TypedImperativeAggregate[DistinctValues] {

  override def children: Seq[Expression] = values

  override def nullable: Boolean = function.nullable

  override def dataType: DataType = function.dataType

  override def prettyName: String = s"distinct_${function.prettyName}"

  override def sql: String = over(values).sql(isDistinct = true)

  override def sql(isDistinct: Boolean): String = sql

  @transient private lazy val toValues = UnsafeProjection.create(values)

  @transient private lazy val columns = values.map(v => AttributeReference("value", v.dataType)())

  @transient private lazy val evaluation = new EvaluatedRows(Seq(over(columns)), Seq(Literal.TrueLiteral), columns)

  @transient private lazy val toBuffers = UnsafeProjection.create(evaluation.bufferTypes.toArray)

  @transient private lazy val value = new UnsafeRow(values.length)

  private def over(arguments: Seq[Expression]): AggregateFunction =
    function.transform { case BoundReference(i, _, _) => arguments(i) }.asInstanceOf[AggregateFunction]

  /** True if the function over recorded values is kept as its buffers. Others keep entire values in them, so that these
    * are evaluated over the records instead.
    */
  def isIncremental: Boolean = function.isInstanceOf[DeclarativeAggregate]

  override def createAggregationBuffer(): DistinctValues = new DistinctValues(new ValueSet)

  override def update(distinct: DistinctValues, input: InternalRow): DistinctValues = {
    distinct.values.add(toValues(input))
    distinct
  }

  override def merge(distinct: DistinctValues, other: DistinctValues): DistinctValues =
    if (distinct.recorded.isEmpty && distinct.values.isEmpty) other
    else {
      require(other.recorded.isEmpty, "the values to merge are in records")
      distinct.values.addAll(other.values)
      distinct
    }

  override def eval(distinct: DistinctValues): Any = {
    val work = distinct.recorded match {
      case Some(recorded) =>
        require(isIncremental && distinct.values.isEmpty, "the values to evaluate are in records, or wait for that")
        recorded.work
      case None =>
        val added = evaluation.blank()
        foreachValue(distinct)(evaluation.add(added, _))
        added
    }
    evaluation.results(work).get(0, dataType)
  }

  private def foreachValue(distinct: DistinctValues)(use: UnsafeRow => Unit): Unit = {
    var i = 0
    while (i < distinct.values.size) {
      distinct.values.read(i, value)
      use(value)
      i += 1
    }
  }

  /** The part of an accumulator that is in records. */
  def record(distinct: DistinctValues): RecordedValues = distinct.recorded.getOrElse {
    val recorded = new RecordedValues(if (isIncremental) evaluation.blank() else InternalRow.empty, 0L)
    distinct.recorded = Some(recorded)
    recorded
  }

  /** Adds a new value, by its number in the accumulator, to the part that is in records. */
  def addRecorded(distinct: DistinctValues, number: Int): Unit = {
    distinct.values.read(number, value)
    val recorded = record(distinct)
    if (isIncremental) evaluation.add(recorded.work, value)
    recorded.bytes += value.getSizeInBytes
  }

  override def serialize(distinct: DistinctValues): Array[Byte] = {
    val buffers = distinct.recorded.filter(_ => isIncremental).map(recorded => toBuffers(recorded.work))
    val size = buffers.fold(0)(_.getSizeInBytes)
    val bytes = new Array[Byte](Distinct.Header + size + distinct.values.storedSize)
    Platform.putLong(bytes, Distinct.offset(0), distinct.recorded.fold(Distinct.NotRecorded)(_.bytes))
    Platform.putLong(bytes, Distinct.offset(Distinct.SizeAt), size.toLong)
    buffers.foreach(_.writeToMemory(bytes, Distinct.offset(Distinct.Header)))
    distinct.values.store(bytes, Distinct.Header + size)
    bytes
  }

  override def deserialize(bytes: Array[Byte]): DistinctValues = {
    val recordedBytes = Platform.getLong(bytes, Distinct.offset(0))
    val size = Platform.getLong(bytes, Distinct.offset(Distinct.SizeAt)).toInt
    val distinct = createAggregationBuffer()
    if (recordedBytes != Distinct.NotRecorded)
      distinct.recorded = Some(new RecordedValues(work(bytes, size), recordedBytes))
    distinct.values.load(bytes, Distinct.Header + size)
    distinct
  }

  private def work(bytes: Array[Byte], size: Int): InternalRow =
    if (!isIncremental) InternalRow.empty
    else {
      val types = evaluation.bufferTypes
      val stored = new UnsafeRow(types.length)
      stored.pointTo(bytes, Distinct.offset(Distinct.Header), size)
      val work = new SpecificInternalRow(types)
      types.zipWithIndex.foreach { case (of, i) => work.update(i, InternalRow.copyValue(stored.get(i, of))) }
      work
    }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)

  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): Distinct =
    copy(values = newChildren)
}

object Distinct {
  private final val SizeAt = 8
  private final val Header = 16
  private final val NotRecorded = -1L

  private def offset(at: Int): Long = Platform.BYTE_ARRAY_OFFSET.toLong + at

  /** The bytes of values that are in records, from an accumulator at rest; -1 if none are.
    *
    * @param at
    *   the column of the function's buffer
    */
  def recordedBytes(rest: UnsafeRow, at: Int): Long =
    Platform.getLong(rest.getBaseObject, rest.getBaseOffset + (rest.getLong(at) >>> 32))
}

/** The accumulator of a function over distinct values.
  *
  * @param values
  *   values in memory: all, or those that may be new to the records
  */
final class DistinctValues(val values: ValueSet) {

  /** The values in records, if any are. */
  var recorded: Option[RecordedValues] = None
}

/** The function over values that are in records.
  *
  * @param work
  *   its buffers
  * @param bytes
  *   the bytes of the values
  */
final class RecordedValues(val work: InternalRow, var bytes: Long)
