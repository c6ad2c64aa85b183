package org.apache.spark.sql.mullion.operator.partial.group

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.mullion.expressions.rows.MixedRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.SizeEstimator

/** The buffers of groups that are no words, such as the maximum of texts or a sketch, as objects; and the functions
  * that update buffers by their own code. Called by generated code.
  *
  * {{{
  *   record    [hash, bytes] null bits, keys ..., slice, buffers ..., decimals, [first], texts of keys
  *                                                                                 |
  *   objects   [text] [sketch]  [text] [sketch]  [text] [sketch] ...             of this group
  * }}}
  *
  * A buffer becomes bytes once, when its group is emitted. Spark's aggregate with objects has at most 128 groups; with
  * more it sorts all rows.
  *
  * @param acquire
  *   acquires memory for the objects, by the change of their total size in bytes
  */
final class GroupObjects private (kinds: GroupObjects.Kinds, acquire: Long => Unit) {
  import GroupObjects._

  private[this] val columns = new MixedRow.Columns(kinds.types, kinds.typed)
  private[this] val functions = kinds.functions
  private[this] val ofGroup = columns.objects
  private[this] var objects = new Array[AnyRef](FirstObjects)
  private[this] var filled = 0

  // The record that a function updates.
  private[this] val record = new UnsafeRow(kinds.types.length)
  private[this] val buffers = new MixedRow(columns)

  // A nested value has one form only, in which functions compare it.
  private[this] val toRow =
    if (kinds.inputs.forall(isPlain)) null else UnsafeProjection.create(kinds.inputs)

  /** The columns that the functions read, of the row to add. */
  val input = new GenericInternalRow(kinds.inputs.length)

  // Of the functions' objects: their slots, their updates, and their estimated total size.
  private[this] val called = kinds.called.map(columns.slots(_))
  private[this] var updates = 0L
  private[this] var estimated = 0L

  /** Room for the objects of a new group: the index of the first. */
  def begin(): Int = {
    val first = filled
    filled += ofGroup
    if (filled > objects.length) objects = java.util.Arrays.copyOf(objects, Math.max(objects.length * 2, filled))
    acquire(8L * ofGroup)
    first
  }

  /** Initializes the buffers of the functions in a new record. */
  def initialize(page: Array[Long], row: Int, first: Int): Unit = {
    pointTo(page, row, first)
    var i = 0
    while (i < functions.length) { functions(i).initialize(buffers); i += 1 }
  }

  /** Adds the row in [[input]] to a record, by one of the functions. */
  def update(function: Int, page: Array[Long], row: Int, first: Int): Unit = {
    pointTo(page, row, first)
    functions(function).update(buffers, if (toRow eq null) input else toRow(input))
    if (called.length > 0) {
      updates += 1
      if ((updates & (updates - 1)) == 0 || (updates & EachUpdates) == 0) estimate()
    }
  }

  private def pointTo(page: Array[Long], row: Int, first: Int): Unit = {
    record.pointTo(page, GroupBytes.placeOf(row), kinds.bytes)
    buffers.pointTo(record, objects, first)
    ()
  }

  /** An object, or null. */
  def get(at: Int): AnyRef = objects(at)

  /** Replaces an object by a copy of a value, unless it is the same. */
  def put(at: Int, value: AnyRef): Unit = {
    val current = objects(at)
    if (current ne value) {
      val copy = InternalRow.copyValue(value).asInstanceOf[AnyRef]
      objects(at) = copy
      acquire(sizeOf(copy) - sizeOf(current))
    }
  }

  /** A group's row in Spark's form, valid until the next call. The group's objects are released. */
  def written(row: UnsafeRow, first: Int): UnsafeRow = {
    val bytes = buffers.pointTo(row, objects, first).written
    java.util.Arrays.fill(objects, first, first + ofGroup, null)
    bytes
  }

  /** Forgets all objects. */
  def clear(): Unit = {
    if (objects.length > MostKept) objects = new Array[AnyRef](FirstObjects)
    filled = 0
    updates = 0L
    estimated = 0L
  }

  /** Estimates the size of the functions' objects by those of a few groups. */
  private def estimate(): Unit = {
    val groups = filled / ofGroup
    val sampled = Math.min(Samples, groups)
    var bytes = 0L
    var i = 0
    while (i < sampled) {
      // The last groups, and others at equal distances.
      val group = groups - 1 - (groups.toLong * i / sampled).toInt
      var j = 0
      while (j < called.length) {
        val buffer = objects(group * ofGroup + called(j))
        if (buffer ne null) bytes += SizeEstimator.estimate(buffer)
        j += 1
      }
      i += 1
    }
    val size = (bytes.toDouble / sampled * groups).toLong
    // A smaller estimate must not return memory that is in use.
    if (size > estimated) {
      acquire(size - estimated)
      estimated = size
    }
  }
}

object GroupObjects {
  private final val FirstObjects = 64
  private final val MostKept = 1 << 16
  private final val Samples = 4
  private final val EachUpdates = 4095L

  /** The object of a text next to its bytes: two headers and fields. */
  private final val ObjectBytes = 56L

  /** The layout of records with objects, and the functions over them.
    *
    * @param types
    *   of a record's columns
    * @param typed
    *   the typed functions by the columns of their buffers
    * @param called
    *   the columns with objects of imperative functions
    * @param functions
    *   the imperative functions, with the offsets of their buffers, over the columns of `inputs`
    * @param bytes
    *   the size of a record without the texts of its keys
    */
  final class Kinds(
      val types: Array[DataType],
      val typed: Map[Int, TypedImperativeAggregate[_]],
      val called: Array[Int],
      val functions: Array[ImperativeAggregate],
      val inputs: Array[DataType],
      val bytes: Int
  ) extends Serializable {
    def make(acquire: Long => Unit): GroupObjects = new GroupObjects(this, acquire)
  }

  private def isPlain(kind: DataType): Boolean = kind match {
    case _: StructType | _: ArrayType | _: MapType | _: UserDefinedType[_] => false
    case _                                                                 => true
  }

  private def sizeOf(value: AnyRef): Long = value match {
    case null                   => 0L
    case text: UTF8String       => ObjectBytes + text.numBytes
    case bytes: Array[Byte]     => ObjectBytes + bytes.length
    case row: UnsafeRow         => ObjectBytes + row.getSizeInBytes
    case array: UnsafeArrayData => ObjectBytes + array.getSizeInBytes
    case other                  => SizeEstimator.estimate(other)
  }
}
