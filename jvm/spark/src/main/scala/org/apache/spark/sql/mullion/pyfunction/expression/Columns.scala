package org.apache.spark.sql.mullion.pyfunction.expression

import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.hash.Murmur3_x86_32
import org.apache.spark.unsafe.types.UTF8String

/** A column of decoded values. Values of unknown types throw [[Untranslatable]] when they are read. */
private[pyfunction] sealed abstract class Columns {

  /** The single value of a row. */
  def read(row: Int, to: Value): Unit = throw Untranslatable

  /** The complete value of a row. */
  def item(row: Int): Item

  /** The layout of its values. A part of an unknown type counts as a single value. */
  def layout: Layout = Layout.Single

  /** The columns of single values, in the order of the layout. */
  def singles: Vector[Columns] = Vector(this)
}

private[pyfunction] object Columns {
  final class Ints(val values: Array[Long]) extends Columns {
    override def read(row: Int, to: Value): Unit = to.setInt(values(row))

    override def item(row: Int): Item = Item.Int(values(row))
  }

  /** Integers, some of more than 64 bits. */
  final class LargeInts(values: Array[Item]) extends Columns {
    override def read(row: Int, to: Value): Unit = Item.set(to, values(row))

    override def item(row: Int): Item = values(row)
  }

  final class Floats(val values: Array[Double]) extends Columns {
    override def read(row: Int, to: Value): Unit = to.setFloat(values(row))

    override def item(row: Int): Item = Item.Float(values(row))
  }

  final class Bools(val values: Array[Boolean]) extends Columns {
    override def read(row: Int, to: Value): Unit = to.setBool(values(row))

    override def item(row: Int): Item = Item.Bool(values(row))
  }

  object Nothings extends Columns {
    override def read(row: Int, to: Value): Unit = to.setNothing()

    override def item(row: Int): Item = Item.Nothing
  }

  /** Texts, each shared by many rows. */
  final class Texts(val apart: Array[UTF8String], val of: Array[Int]) extends Columns {
    override def read(row: Int, to: Value): Unit = to.setText(apart(of(row)))

    override def item(row: Int): Item = Item.Text(apart(of(row)))
  }

  /** Texts as slices of bytes. */
  final class Slices(val bytes: Array[Byte], val starts: Array[Int], val ends: Array[Int]) extends Columns {
    def text(row: Int): UTF8String = UTF8String.fromBytes(bytes, starts(row), ends(row) - starts(row))

    override def read(row: Int, to: Value): Unit = to.setText(text(row))

    override def item(row: Int): Item = Item.Text(text(row))
  }

  final class Times(val values: Array[Long]) extends Columns {
    override def read(row: Int, to: Value): Unit = to.setTime(values(row))

    override def item(row: Int): Item = Item.Time(values(row))
  }

  final class Lengths(val values: Array[Long]) extends Columns {
    override def read(row: Int, to: Value): Unit = to.setLength(values(row))

    override def item(row: Int): Item = Item.Length(values(row))
  }

  /** Values of several types: the column and the index of each row's value. */
  final class Several(which: Array[Int], at: Array[Int], parts: Array[Columns]) extends Columns {
    override def read(row: Int, to: Value): Unit = parts(which(row)).read(at(row), to)

    override def item(row: Int): Item = parts(which(row)).item(at(row))
  }

  final class Tuples(val parts: Array[Columns]) extends Columns {
    override def item(row: Int): Item = Item.Tuple(parts.map(_.item(row)))

    override lazy val layout: Layout = Layout.Whole(Layout.Tuple, parts.map(_.layout).toVector)

    override lazy val singles: Vector[Columns] = parts.toVector.flatMap(_.singles)
  }

  final class Dicts(val names: Layout.Names, val parts: Array[Columns]) extends Columns {
    override def item(row: Int): Item = Item.Dict(names, parts.map(_.item(row)))

    override lazy val layout: Layout = Layout.Whole(Layout.Dict(names), parts.map(_.layout).toVector)

    override lazy val singles: Vector[Columns] = parts.toVector.flatMap(_.singles)
  }

  /** @param plain
    *   whether an attribute is always the entry of the object's `__dict__`
    */
  final class Records(val kind: String, val fields: Dicts, val plain: Boolean) extends Columns {
    override def item(row: Int): Item = Item.Record(kind, fields.names, fields.parts.map(_.item(row)), plain)

    override lazy val layout: Layout =
      if (plain) Layout.Whole(Layout.Record(kind, fields.names), fields.parts.map(_.layout).toVector) else Layout.Single

    override lazy val singles: Vector[Columns] = if (plain) fields.singles else Vector(this)
  }

  /** Lists, or tuples of several lengths. */
  final class Lists(val starts: Array[Int], val flat: Columns, isTuple: Boolean) extends Columns {
    override def item(row: Int): Item = {
      val items = Array.tabulate(starts(row + 1) - starts(row))(i => flat.item(starts(row) + i))
      if (isTuple) Item.Tuple(items) else Item.Many(items)
    }
  }

  final class Sets(starts: Array[Int], flat: Columns) extends Columns {
    override def item(row: Int): Item =
      Item.Numbers(Array.tabulate(starts(row + 1) - starts(row)) { i =>
        flat.item(starts(row) + i) match {
          case Item.Int(number) => number
          case _                => throw Untranslatable
        }
      })
  }

  /** Complete values. */
  final class Whole(val items: Array[Item]) extends Columns {
    override def item(row: Int): Item = items(row)
  }

  /** Computed values of any types. */
  final class Computed(count: Int) extends Columns {
    private val kinds = new Array[Byte](count)
    private val longs = new Array[Long](count)
    private val doubles = new Array[Double](count)
    private val texts = new Array[UTF8String](count)

    def set(row: Int, of: Value): Unit = {
      kinds(row) = of.kind.toByte
      if (of.kind == Value.Float) doubles(row) = of.double
      else if (of.kind == Value.Text) texts(row) = of.text
      else longs(row) = of.long
    }

    override def read(row: Int, to: Value): Unit = {
      to.kind = kinds(row).toInt
      if (to.kind == Value.Float) to.double = doubles(row)
      else if (to.kind == Value.Text) to.text = texts(row)
      else to.long = longs(row)
    }

    override def item(row: Int): Item = {
      val value = new Value
      read(row, value)
      Item.of(value)
    }

    /** The common kind of the values of some rows, if there is one. */
    def kindOf(rows: Array[Int]): Option[Int] =
      if (rows.isEmpty) None
      else {
        val kind = kinds(rows(0))
        var i = 1
        while (i < rows.length && kinds(rows(i)) == kind) i += 1
        Option.when(i == rows.length)(kind.toInt)
      }

    def longsOf: Array[Long] = longs

    def doublesOf: Array[Double] = doubles

    def textOf(row: Int): UTF8String = texts(row)
  }

  /** Converts a column to distinct texts, for rows that all have texts. */
  def asTexts(columns: Columns, rows: Array[Int], total: Int): Texts = columns match {
    case texts: Texts                                                     => texts
    case slices: Slices                                                   => new TextNumbers(slices).over(rows, total)
    case computed: Computed if computed.kindOf(rows).contains(Value.Text) => numbered(computed.textOf(_), rows, total)
    case _ if rows.isEmpty => new Texts(Array.empty, new Array[Int](total))
    case _                 => throw Untranslatable
  }

  /** Numbers the distinct texts in bytes, in the order of their first row: a hash table by bytes, which creates each
    * text once.
    */
  private final class TextNumbers(of: Slices) {
    private val bytes = of.bytes
    private val apart = scala.collection.mutable.ArrayBuffer.empty[UTF8String]
    // By number: a row with the text, and its hash. By slot: the number plus one, or 0.
    private var rowOf = new Array[Int](TextNumbers.Few)
    private var hashOf = new Array[Int](TextNumbers.Few)
    private var slots = new Array[Int](4 * TextNumbers.Few)

    def over(rows: Array[Int], total: Int): Texts = {
      val numbers = new Array[Int](total)
      var i = 0
      while (i < rows.length) {
        numbers(rows(i)) = number(rows(i))
        i += 1
      }
      new Texts(apart.toArray, numbers)
    }

    private def number(row: Int): Int = {
      val (start, end) = (of.starts(row), of.ends(row))
      val hash = TextNumbers.hash(bytes, start, end)
      var slot = hash & (slots.length - 1)
      while (slots(slot) != 0 && !isAt(slots(slot) - 1, hash, start, end)) slot = (slot + 1) & (slots.length - 1)
      if (slots(slot) != 0) slots(slot) - 1
      else {
        if (apart.length == rowOf.length) grow()
        rowOf(apart.length) = row
        hashOf(apart.length) = hash
        put(apart.length)
        apart += of.text(row)
        apart.length - 1
      }
    }

    private def isAt(number: Int, hash: Int, start: Int, end: Int) = hashOf(number) == hash &&
      java.util.Arrays.equals(bytes, of.starts(rowOf(number)), of.ends(rowOf(number)), bytes, start, end)

    private def put(number: Int): Unit = {
      var slot = hashOf(number) & (slots.length - 1)
      while (slots(slot) != 0) slot = (slot + 1) & (slots.length - 1)
      slots(slot) = number + 1
    }

    private def grow(): Unit = {
      rowOf = java.util.Arrays.copyOf(rowOf, 2 * rowOf.length)
      hashOf = java.util.Arrays.copyOf(hashOf, 2 * hashOf.length)
      slots = new Array[Int](2 * slots.length)
      apart.indices.foreach(put)
    }
  }

  private object TextNumbers {
    private val Few = 1024
    private val Seed = 42

    def hash(bytes: Array[Byte], start: Int, end: Int): Int =
      Murmur3_x86_32.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + start, end - start, Seed)
  }

  /** Not a `Function1`, which would box its argument. */
  trait TextOf {
    def apply(number: Int): UTF8String
  }

  private def numbered(texts: TextOf, rows: Array[Int], total: Int): Texts = {
    val numbers = new java.util.HashMap[UTF8String, Integer]
    val apart = scala.collection.mutable.ArrayBuffer.empty[UTF8String]
    val of = new Array[Int](total)
    var i = 0
    while (i < rows.length) {
      val text = texts(rows(i))
      val number = numbers.get(text)
      if (number != null) of(rows(i)) = number
      else {
        of(rows(i)) = apart.length
        numbers.put(text, apart.length)
        apart += text
      }
      i += 1
    }
    new Texts(apart.toArray, of)
  }

  object Unknown extends Columns {
    override def item(row: Int): Item = throw Untranslatable
  }
}
