package org.apache.spark.sql.mullion.pyfunction.dataflow

import scala.collection.mutable

import org.apache.spark.sql.mullion.pyfunction.expression.{Columns, Layout, Numerals, Untranslatable, Value}
import org.apache.spark.unsafe.types.UTF8String

/** `json.loads` of many texts at once. All must be objects with the same keys in the same order, which become dicts of
  * columns; others throw [[Untranslatable]].
  *
  * {{{
  *   {"key": "ann", "n": 1}      key: [ann, bob]
  *   {"key": "bob", "n": 2.5}    n:   [1, 2.5]
  * }}}
  */
private[dataflow] object JsonTexts {

  def columns(texts: Columns, rows: Array[Int], total: Int): Columns = texts match {
    case slices: Columns.Slices =>
      if (rows.isEmpty) Columns.Unknown
      else {
        val first = new Text(slices.bytes, slices.starts(rows(0)), slices.ends(rows(0)))
        val shape = first.shape(total)
        val between = new Between(slices.bytes, shape.leaves.toArray)
        var i = 0
        while (i < rows.length) {
          val row = rows(i)
          val text = new Text(slices.bytes, slices.starts(row), slices.ends(row))
          if (!between.read(text, row)) {
            text.again()
            shape.read(text, row)
            text.end()
            between.note(slices.starts(row), slices.ends(row))
          }
          i += 1
        }
        shape.columns
      }
    case _ => throw Untranslatable
  }

  /** The shape of a text: an object with names, or another value. */
  private sealed abstract class Shape {
    def read(from: Text, row: Int): Unit

    def columns: Columns

    /** The values that are not objects, in order. */
    def leaves: Vector[Leaf]
  }

  /** The bytes between the values of a text that was parsed completely. If the next text has the same bytes there, only
    * its values are parsed.
    *
    * {{{
    *   {"key": "ann", "n": 1}
    *   --------     ------ -     these bytes, each followed by any value
    * }}}
    */
  private final class Between(bytes: Array[Byte], leaves: Array[Leaf]) {
    private val (starts, ends) = (new Array[Int](leaves.length + 1), new Array[Int](leaves.length + 1))
    private var isKnown = false

    /** Records a text that was parsed completely. */
    def note(start: Int, until: Int): Unit = {
      var i = 0
      while (i < leaves.length) {
        starts(i) = if (i == 0) start else leaves(i - 1).end
        ends(i) = leaves(i).start
        i += 1
      }
      starts(i) = leaves(i - 1).end
      ends(i) = until
      isKnown = true
    }

    /** True if the text was read. Otherwise it must be parsed completely. */
    def read(text: Text, row: Int): Boolean = isKnown && {
      var i = 0
      while (i < leaves.length && text.takes(starts(i), ends(i))) {
        leaves(i).read(text, row)
        i += 1
      }
      i == leaves.length && text.takes(starts(i), ends(i)) && text.isAtEnd
    }
  }

  /** Values of any types. While all are texts, they are slices of the input. */
  private final class Leaf(bytes: Array[Byte], total: Int) extends Shape {
    private val (starts, ends) = (new Array[Int](total), new Array[Int](total))
    private lazy val computed = new Columns.Computed(total)
    private val value = new Value
    private var areTexts = true

    /** The start and the end of the last value. */
    var start = 0
    var end = 0

    override def leaves: Vector[Leaf] = Vector(this)

    override def read(from: Text, row: Int): Unit = {
      val isText = from.isText
      start = from.place
      if (areTexts && isText) {
        starts(row) = from.textStart()
        ends(row) = from.textEnd()
      } else {
        if (areTexts) keepTexts()
        from.value(value)
        computed.set(row, value)
      }
      end = from.place
    }

    private def keepTexts(): Unit = {
      areTexts = false
      var row = 0
      while (row < total) {
        // A text follows a quote, so its end is not 0.
        if (ends(row) > 0) {
          value.setText(UTF8String.fromBytes(bytes, starts(row), ends(row) - starts(row)))
          computed.set(row, value)
        }
        row += 1
      }
    }

    override def columns: Columns = if (areTexts) new Columns.Slices(bytes, starts, ends) else computed
  }

  private final class Whole(names: Array[Array[Byte]], parts: Array[Shape]) extends Shape {
    override def read(from: Text, row: Int): Unit = {
      from.expect('{')
      var i = 0
      while (i < names.length) {
        if (i > 0) from.expect(',')
        from.name(names(i))
        from.expect(':')
        parts(i).read(from, row)
        i += 1
      }
      from.expect('}')
    }

    override def leaves: Vector[Leaf] = parts.toVector.flatMap(_.leaves)

    override def columns: Columns =
      new Columns.Dicts(
        Layout.Names(names.map(new String(_, java.nio.charset.StandardCharsets.UTF_8)).toVector),
        parts.map(_.columns)
      )
  }

  private final class Text(bytes: Array[Byte], start: Int, until: Int) {
    private var at = start

    def place: Int = at

    def isAtEnd: Boolean = at == until

    /** Returns to the start. */
    def again(): Unit = at = start

    /** Skips the bytes of another range, if the same bytes follow here. */
    def takes(from: Int, to: Int): Boolean = {
      val isHere = to - from <= until - at && java.util.Arrays.equals(bytes, from, to, bytes, at, at + to - from)
      if (isHere) at += to - from
      isHere
    }

    private def skip(): Unit = while (at < until && isBlank(bytes(at))) at += 1

    private def isBlank(byte: Byte): Boolean =
      byte <= ' ' && (byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n')

    private def peek: Byte = {
      skip()
      if (at < until) bytes(at) else throw Untranslatable
    }

    def expect(c: Char): Unit = if (peek == c) at += 1 else throw Untranslatable

    def end(): Unit = {
      skip()
      if (at != until) throw Untranslatable
    }

    def name(known: Array[Byte]): Unit = {
      expect('"')
      if (at + known.length >= until || bytes(at + known.length) != '"') throw Untranslatable
      var i = 0
      while (i < known.length) {
        if (bytes(at + i) != known(i)) throw Untranslatable
        i += 1
      }
      at += known.length + 1
    }

    /** Parses the shape of the next object. */
    def shape(total: Int): Shape = {
      expect('{')
      val names = mutable.ArrayBuffer.empty[Array[Byte]]
      val parts = mutable.ArrayBuffer.empty[Shape]
      val ignored = new Value
      while (peek != '}') {
        if (names.nonEmpty) expect(',')
        names += plainText().getBytes
        expect(':')
        parts += (peek match {
          case '{' => shape(total)
          case '[' => throw Untranslatable
          case _   =>
            value(ignored)
            new Leaf(bytes, total)
        })
      }
      expect('}')
      // The last of two equal names wins, in the place of the first.
      if (names.isEmpty || names.map(UTF8String.fromBytes).distinct.length != names.length) throw Untranslatable
      new Whole(names.toArray, parts.toArray)
    }

    /** A text without escapes. */
    private def plainText(): UTF8String = {
      val from = textStart()
      UTF8String.fromBytes(bytes, from, textEnd() - from)
    }

    def isText: Boolean = peek == '"'

    /** The start of the next text. */
    def textStart(): Int = {
      expect('"')
      at
    }

    /** The end of the current text. */
    def textEnd(): Int = {
      at = PlainBytes.endOfText(bytes, at, until)
      if (at == until || bytes(at) != '"') throw Untranslatable
      at += 1
      at - 1
    }

    def value(to: Value): Unit = peek match {
      case '"' => to.setText(plainText())
      case 't' => word("true"); to.setBool(true)
      case 'f' => word("false"); to.setBool(false)
      case 'n' => word("null"); to.setNothing()
      case _   =>
        val from = at
        while (at < until && isOfNumber(bytes(at))) at += 1
        Numerals.json(bytes, from, at, to)
    }

    private def word(said: String): Unit = {
      var i = 0
      while (i < said.length) {
        if (at + i >= until || bytes(at + i) != said.charAt(i)) throw Untranslatable
        i += 1
      }
      at += said.length
    }

    private def isOfNumber(c: Byte) =
      (c >= '0' && c <= '9') || c == '-' || c == '.' || c == 'e' || c == 'E' || c == '+'
  }
}
