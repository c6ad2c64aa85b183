package org.apache.spark.sql.mullion.expressions.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateFunction, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.types.{CalendarIntervalType, DataType, Decimal, DecimalType, ObjectType}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.bitset.BitSetMethods
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String}

/** A row that can be changed whatever its types are. Columns of a fixed width are changed in an UnsafeRow; each other
  * column may have an object, which takes the place of its bytes.
  *
  * {{{
  *   UnsafeRow   [ 7 ] [ place, size ] [ 3.5 ] [ place, size ]   bytes ... bytes ...
  *   objects              -                        "text"        none: its bytes count
  * }}}
  *
  * Buffers of typed aggregates become objects when they are first read, and bytes again in [[toUnsafe]]: a row whose
  * objects are not needed costs no conversion.
  */
private[mullion] final class MixedRow(columns: MixedRow.Columns) extends GenericInternalRow(MixedRow.none) {
  private var bytes: UnsafeRow = _
  private var objects: Array[AnyRef] = _
  private var first = 0

  /** Makes this the row of `bytes`, which it takes over.
    *
    * @param objects
    *   the objects of its columns from `first` on, by [[MixedRow.Columns.slots]]: null for a column without one
    */
  def pointTo(bytes: UnsafeRow, objects: Array[AnyRef], first: Int): MixedRow = {
    this.bytes = bytes
    this.objects = objects
    this.first = first
    this
  }

  /** The row with the current values of all columns of a fixed width, and first values of the others. */
  def fixed: UnsafeRow = bytes

  override def numFields: Int = columns.types.length

  override protected def genericGet(ordinal: Int): Any = {
    val slot = columns.slots(ordinal)
    val value = if (slot < 0) null else objects(first + slot)
    if (value ne null) value
    else if (bytes.isNullAt(ordinal)) null
    else {
      val read = columns.read(bytes, ordinal)
      // Imperative aggregates change arrays in place.
      if (read.isInstanceOf[Array[Byte]]) objects(first + slot) = read
      read
    }
  }

  override def get(ordinal: Int, dataType: DataType): AnyRef = dataType match {
    case _: ObjectType => bufferAt(ordinal)
    case _             => genericGet(ordinal).asInstanceOf[AnyRef]
  }

  /** The buffer of a typed aggregate. */
  private def bufferAt(ordinal: Int): AnyRef = {
    val slot = columns.slots(ordinal)
    val value = objects(first + slot)
    if ((value ne null) || bytes.isNullAt(ordinal)) value
    else {
      val read = columns.read(slot, bytes.getBinary(ordinal))
      objects(first + slot) = read
      read
    }
  }

  override def isNullAt(ordinal: Int): Boolean = {
    val slot = columns.slots(ordinal)
    (slot < 0 || (objects(first + slot) eq null)) && bytes.isNullAt(ordinal)
  }

  override def setNullAt(ordinal: Int): Unit = {
    val slot = columns.slots(ordinal)
    if (slot >= 0) objects(first + slot) = null
    columns.types(ordinal) match {
      // Those keep their room.
      case decimal: DecimalType    => bytes.setDecimal(ordinal, null, decimal.precision)
      case _: CalendarIntervalType => bytes.setInterval(ordinal, null)
      case _                       => bytes.setNullAt(ordinal)
    }
  }

  override def update(ordinal: Int, value: Any): Unit = {
    val slot = columns.slots(ordinal)
    if (value == null) setNullAt(ordinal)
    else if (slot >= 0) objects(first + slot) = value.asInstanceOf[AnyRef]
    else columns.writers(ordinal)(bytes, value)
  }

  override def getBoolean(ordinal: Int): Boolean = bytes.getBoolean(ordinal)
  override def getByte(ordinal: Int): Byte = bytes.getByte(ordinal)
  override def getShort(ordinal: Int): Short = bytes.getShort(ordinal)
  override def getInt(ordinal: Int): Int = bytes.getInt(ordinal)
  override def getLong(ordinal: Int): Long = bytes.getLong(ordinal)
  override def getFloat(ordinal: Int): Float = bytes.getFloat(ordinal)
  override def getDouble(ordinal: Int): Double = bytes.getDouble(ordinal)

  override def setBoolean(ordinal: Int, value: Boolean): Unit = bytes.setBoolean(ordinal, value)
  override def setByte(ordinal: Int, value: Byte): Unit = bytes.setByte(ordinal, value)
  override def setShort(ordinal: Int, value: Short): Unit = bytes.setShort(ordinal, value)
  override def setInt(ordinal: Int, value: Int): Unit = bytes.setInt(ordinal, value)
  override def setLong(ordinal: Int, value: Long): Unit = bytes.setLong(ordinal, value)
  override def setFloat(ordinal: Int, value: Float): Unit = bytes.setFloat(ordinal, value)
  override def setDouble(ordinal: Int, value: Double): Unit = bytes.setDouble(ordinal, value)

  override def setDecimal(ordinal: Int, value: Decimal, precision: Int): Unit =
    bytes.setDecimal(ordinal, value, precision)

  override def setInterval(ordinal: Int, value: CalendarInterval): Unit = bytes.setInterval(ordinal, value)

  /** A copy with the same objects. */
  override def copy(): MixedRow =
    new MixedRow(columns).pointTo(bytes.copy(), objects.slice(first, first + columns.objects), 0)

  /** The row in Spark's form: its own bytes if it has no objects, else a row that the next call of any row of these
    * columns overwrites. Buffers of typed aggregates must not be changed afterwards.
    */
  def toUnsafe: UnsafeRow = {
    var slot = 0
    while (slot < columns.objects && (objects(first + slot) eq null)) slot += 1
    if (slot == columns.objects) bytes else written
  }

  /** The row in Spark's form, in the room of these columns. */
  def written: UnsafeRow = columns.write(bytes, objects, first)
}

private[mullion] object MixedRow {

  /** The columns of rows with the buffers of functions.
    *
    * @param first
    *   the column of the first buffer
    */
  def columns(types: Seq[DataType], functions: Seq[AggregateFunction], first: Int): Columns = {
    val firstOf = functions.scanLeft(first)(_ + _.aggBufferAttributes.length)
    val typed = functions.zip(firstOf).collect { case (f: TypedImperativeAggregate[_], at) => at -> f }
    new Columns(types.toArray, typed.toMap)
  }

  /** The columns of such rows.
    *
    * @param types
    *   as in the UnsafeRow
    * @param typed
    *   the typed aggregates by the columns of their buffers
    */
  final class Columns(val types: Array[DataType], typed: Map[Int, TypedImperativeAggregate[_]]) {
    private val isFixed = types.map(UnsafeRow.isFixedLength)
    // The columns with bytes behind all words, in their order.
    private val outer = types.indices.filterNot(isFixed).toArray

    /** The number of an object in an array of them by its column; -1 for columns without. */
    val slots: Array[Int] = {
      var slot = -1
      types.map(kind => if (UnsafeRow.isMutable(kind)) -1 else { slot += 1; slot })
    }

    /** The number of objects of a row. */
    val objects: Int = slots.max + 1

    private val buffers = {
      val of = new Array[TypedImperativeAggregate[AnyRef]](objects)
      typed.foreach { case (at, f) => of(slots(at)) = f.asInstanceOf[TypedImperativeAggregate[AnyRef]] }
      of
    }

    // Spark chooses them by their types, which takes longer than most reads.
    private val readers = types.map(InternalRow.getAccessor(_, nullable = false))
    private[MixedRow] val writers = types.zipWithIndex.map { case (kind, at) => InternalRow.getWriter(at, kind) }

    private val words = UnsafeRow.calculateBitSetWidthInBytes(types.length) + 8 * types.length
    private lazy val writer = new UnsafeRowWriter(types.length, 64)
    private lazy val projections = types.map(kind => UnsafeProjection.create(Array(kind)))
    private val single = new GenericInternalRow(1)

    /** A row without objects that takes over its bytes. */
    def over(bytes: UnsafeRow): MixedRow = new MixedRow(this).pointTo(bytes, new Array[AnyRef](objects), 0)

    /** Reads a column that is not null. */
    private[MixedRow] def read(row: UnsafeRow, at: Int): AnyRef = readers(at)(row, at).asInstanceOf[AnyRef]

    private[MixedRow] def read(slot: Int, bytes: Array[Byte]): AnyRef =
      if (buffers(slot) eq null) bytes else buffers(slot).deserialize(bytes)

    private[MixedRow] def write(row: UnsafeRow, objects: Array[AnyRef], first: Int): UnsafeRow = {
      writer.reset()
      Platform.copyMemory(
        row.getBaseObject,
        row.getBaseOffset,
        writer.getBuffer,
        Platform.BYTE_ARRAY_OFFSET.toLong,
        words.toLong
      )
      var i = 0
      while (i < outer.length) {
        val at = outer(i)
        val slot = slots(at)
        if (slot < 0) writeRoom(row, at)
        else if (objects(first + slot) ne null) writeObject(at, slot, objects(first + slot))
        else if (!row.isNullAt(at)) copyColumn(at, row, at)
        i += 1
      }
      writer.getRow
    }

    /** Writes a column that has its room even if it is null. */
    private def writeRoom(row: UnsafeRow, at: Int): Unit = {
      val place = row.getLong(at)
      writeBytes(at, row.getBaseObject, row.getBaseOffset + (place >>> 32), RoomBytes)
      val word = fieldOf(at)
      val written = Platform.getLong(writer.getBuffer, word)
      Platform.putLong(writer.getBuffer, word, (written >>> 32 << 32) | place.toInt)
    }

    private def writeObject(at: Int, slot: Int, value: AnyRef): Unit = {
      BitSetMethods.unset(writer.getBuffer, Platform.BYTE_ARRAY_OFFSET.toLong, at)
      value match {
        case text: UTF8String                => writer.write(at, text)
        case bytes: Array[Byte]              => writer.write(at, bytes)
        case buffer if buffers(slot) ne null => writer.write(at, buffers(slot).serialize(buffer))
        case nested: UnsafeRow               => writer.write(at, nested)
        case nested: UnsafeArrayData         =>
          writeBytes(at, nested.getBaseObject, nested.getBaseOffset, nested.getSizeInBytes)
        case nested: UnsafeMapData => writer.write(at, nested)
        case other                 =>
          single.update(0, other)
          copyColumn(at, projections(at)(single), 0)
      }
    }

    private def copyColumn(at: Int, row: UnsafeRow, from: Int): Unit = {
      val place = row.getLong(from)
      writeBytes(at, row.getBaseObject, row.getBaseOffset + (place >>> 32), place.toInt)
    }

    private def writeBytes(at: Int, base: AnyRef, offset: Long, size: Int): Unit =
      writer.write(at, UTF8String.fromAddress(base, offset, size))

    private def fieldOf(at: Int): Long =
      Platform.BYTE_ARRAY_OFFSET.toLong + UnsafeRow.calculateBitSetWidthInBytes(types.length) + 8L * at
  }

  private val none = Array.empty[Any]

  // Of decimals of more than 18 digits, and of intervals.
  private final val RoomBytes = 16
}
