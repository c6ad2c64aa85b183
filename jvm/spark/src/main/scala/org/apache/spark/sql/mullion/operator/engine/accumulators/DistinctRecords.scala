package org.apache.spark.sql.mullion.operator.engine.accumulators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.mullion.expressions.functions.{Distinct, DistinctValues}
import org.apache.spark.sql.mullion.expressions.rows.Projections
import org.apache.spark.sql.mullion.operator.engine.PaneProgram
import org.apache.spark.sql.mullion.state.record.{Family, FamilyScan, FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.array.ByteArrayMethods

/** The distinct values of a pane's aggregates, in a record each once there are many. A batch then writes its new values
  * only, and a firing reads none.
  *
  * {{{
  *   accumulators  (pane)                   -> the function over the recorded values
  *   values        (pane, function, place)  -> a value, at the first free place from its hash on
  * }}}
  *
  * Records of a pane are only removed together, so a search may stop at a free place.
  *
  * @param heads
  *   the records of accumulators
  * @param placeOf
  *   the first place for a hash; another one is for tests
  */
private[operator] final class DistinctRecords(
    functions: Seq[AggregateFunction],
    heads: FamilySpec,
    partition: StatePartition,
    placeOf: Long => Long = DistinctRecords.placeOf
) {
  import DistinctRecords._

  private val offsets = functions.scanLeft(0)(_ + _.aggBufferAttributes.length)
  private val distinct = functions.zip(offsets).collect { case (f: Distinct, at) => (f, at) }.toArray
  private val functionAt = heads.key.length
  private val placeAt = functionAt + 1
  private lazy val records: Family = partition.family(family(heads))
  private lazy val toKey = Projections(
    heads.key.zipWithIndex.map { case (f, i) => BoundReference(i, f.dataType, nullable = true) } ++
      Seq(Literal(0L), Literal(0L))
  )
  private lazy val value = new UnsafeRowWriter(1)

  def isEmpty: Boolean = distinct.isEmpty

  /** Moves values to records: all, if a pane has recorded ones or many. */
  def settle(key: UnsafeRow, work: InternalRow): Unit = {
    var i = 0
    while (i < distinct.length) {
      val (function, at) = distinct(i)
      val in = valuesIn(work, at)
      if (!in.values.isEmpty && (in.recorded.isDefined || in.values.sizeInBytes > FewBytes)) record(key, function, in)
      i += 1
    }
  }

  private def record(key: UnsafeRow, function: Distinct, in: DistinctValues): Unit = {
    val at = keyOf(key, function)
    function.record(in)
    val findsManyAtOnce = records.findsManyAtOnce
    val together = keysAtOnce(at.getSizeInBytes)
    var i = 0
    while (i < in.values.size) {
      if (findsManyAtOnce && i % together == 0) expect(at, in, i, Math.min(together, in.values.size - i))
      if (insert(at, in, i)) function.addRecorded(in, i)
      i += 1
    }
    in.values.clear()
  }

  /** Puts a value into a record, by its number. Returns whether it is new. */
  private def insert(at: UnsafeRow, in: DistinctValues, number: Int): Boolean = {
    value.reset()
    in.values.write(number, 0, value)
    val row = value.getRow
    var place = placeOf(in.values.hash(number))
    at.setLong(placeAt, place)
    var stored = records.look(at).untilNextCall
    while ((stored ne null) && !isSame(stored, row)) {
      place += 1
      at.setLong(placeAt, place)
      stored = records.look(at).untilNextCall
    }
    val isNew = stored eq null
    if (isNew) records.insert(at, row)
    isNew
  }

  /** Announces the first places of the next `count` values, which are looked up soon. */
  private def expect(at: UnsafeRow, in: DistinctValues, from: Int, count: Int): Unit = {
    val keys = Array.tabulate(count) { i =>
      at.setLong(placeAt, placeOf(in.values.hash(from + i)))
      at.copy()
    }
    records.expect(keys)
  }

  /** The bytes of recorded values, of an accumulator at rest. */
  def bytes(rest: UnsafeRow): Long = {
    var bytes = 0L
    var i = 0
    while (i < distinct.length) { bytes += Math.max(0L, Distinct.recordedBytes(rest, distinct(i)._2)); i += 1 }
    bytes
  }

  /** True if an accumulator at rest has values in records. */
  def hasRecords(rest: UnsafeRow): Boolean = distinct.exists { case (_, at) => Distinct.recordedBytes(rest, at) >= 0 }

  /** True if an accumulator at work has values in records. */
  def hasRecords(work: InternalRow): Boolean = distinct.exists { case (_, at) => valuesIn(work, at).recorded.isDefined }

  /** An accumulator at work with all its values in memory, to be merged with others. The original stays unchanged. */
  def complete(key: UnsafeRow, work: InternalRow): InternalRow = complete(key, work, _ => true)

  /** An accumulator at work whose functions can be evaluated. The original stays unchanged. */
  def shown(key: UnsafeRow, work: InternalRow): InternalRow = complete(key, work, !_.isIncremental)

  private def complete(key: UnsafeRow, work: InternalRow, isNeeded: Distinct => Boolean): InternalRow = {
    val reads = distinct.filter { case (function, at) => isNeeded(function) && valuesIn(work, at).recorded.isDefined }
    if (reads.isEmpty) work
    else {
      val completed = work.copy()
      reads.foreach { case (function, at) =>
        completed.update(at, readAll(keyOf(key, function), function, valuesIn(work, at)))
      }
      completed
    }
  }

  private def readAll(at: UnsafeRow, function: Distinct, in: DistinctValues): DistinctValues = {
    val all = function.createAggregationBuffer()
    all.values.addAll(in.values)
    val scan = range(at, 0L)
    try
      scan.foreach { record =>
        val row = record.value.untilNextCall
        all.values.add(row.getBaseObject, startOf(row), row.getLong(0).toInt)
      }
    finally scan.close()
    all
  }

  /** Removes the values of a pane. */
  def drop(key: UnsafeRow): Unit =
    distinct.foreach { case (function, _) =>
      val at = keyOf(key, function)
      var places = placesFrom(at, 0L)
      while (places.nonEmpty) {
        places.foreach { place =>
          at.setLong(placeAt, place)
          records.remove(at)
        }
        places = if (places.length < AtOnce) Array.emptyLongArray else placesFrom(at, places.last + 1)
      }
    }

  /** The next places with a record: a part of them, because all may not fit into memory. */
  private def placesFrom(at: UnsafeRow, from: Long): Array[Long] = {
    val places = Array.newBuilder[Long]
    val scan = range(at, from)
    try {
      var remaining = AtOnce
      while (remaining > 0 && scan.next()) {
        places += scan.key.getLong(placeAt)
        remaining -= 1
      }
    } finally scan.close()
    places.result()
  }

  private def range(at: UnsafeRow, from: Long): FamilyScan = {
    at.setLong(placeAt, from)
    val first = at.copy()
    at.setLong(placeAt, Long.MaxValue)
    records.range(first, at)
  }

  /** The key of a record without its place, valid until the next call. */
  private def keyOf(pane: UnsafeRow, function: Distinct): UnsafeRow = {
    val at = toKey(pane)
    at.setLong(functionAt, function.id)
    at
  }
}

private[operator] object DistinctRecords {

  /** The bytes of values that accumulators contain themselves: records cost more than rewriting so few. */
  private final val FewBytes = 1024

  private final val AtOnce = 512

  /** The bytes of keys that are copied to be looked up together. */
  private final val BytesAtOnce = 256 << 10

  /** The number of keys with `keyBytes` bytes each that are looked up together. */
  def keysAtOnce(keyBytes: Int): Int = Math.max(1, Math.min(AtOnce, BytesAtOnce / keyBytes))

  private val accumulator = ObjectType(classOf[AnyRef])

  /** A place that is followed by free ones. */
  private val placeOf: Long => Long = _ & (Long.MaxValue >>> 1)

  def family(heads: FamilySpec): FamilySpec = FamilySpec(
    "values",
    StructType(heads.key ++ Seq(PaneProgram.time("function"), PaneProgram.time("place"))),
    new StructType().add("value", BinaryType, nullable = false),
    RecordOrder.WithinKey
  )

  def families(functions: Seq[AggregateFunction], heads: FamilySpec): Seq[FamilySpec] =
    if (functions.exists(_.isInstanceOf[Distinct])) Seq(family(heads)) else Nil

  private def valuesIn(work: InternalRow, at: Int): DistinctValues =
    work.get(at, accumulator).asInstanceOf[DistinctValues]

  private def startOf(row: UnsafeRow): Long = row.getBaseOffset + (row.getLong(0) >>> 32)

  /** True if two records have the same value. */
  private def isSame(a: UnsafeRow, b: UnsafeRow): Boolean = {
    val size = a.getLong(0).toInt
    size == b.getLong(0).toInt &&
    ByteArrayMethods.arrayEquals(a.getBaseObject, startOf(a), b.getBaseObject, startOf(b), size.toLong)
  }
}
