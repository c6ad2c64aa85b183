package org.apache.spark.sql.mullion.pyfunction.expression

import java.nio.charset.StandardCharsets.{US_ASCII, UTF_8}
import java.nio.{ByteBuffer, ByteOrder}

import scala.collection.immutable.ArraySeq
import scala.collection.mutable

import org.apache.spark.unsafe.types.UTF8String

/** Decodes the format of `bytewax/_values/writer.py`:
  *
  * {{{
  *   int length of the head | head: JSON [count, root, [lengths of buffers]] | buffers
  *   root   ["i", [1, 2]]  ["q", buffer]  ["=", 5]  ["d", buffer]  ["k", [text], ints]  ["t", [root]]  ...
  * }}}
  */
private[pyfunction] object ItemReader {

  /** The number of values, and their column. */
  def read(written: Array[Byte]): (Int, Columns) = {
    val length = ByteBuffer.wrap(written).getInt
    new Head(written, 4, 4 + length).parse() match {
      case Seq(count: Long, root, lengths: Seq[_]) =>
        val sizes = lengths.map { case size: Long => size.toInt; case _ => throw Untranslatable }
        val starts = sizes.scanLeft(4 + length)(_ + _).toArray
        (count.toInt, new Body(written, starts).columns(root, count.toInt))
      case _ => throw Untranslatable
    }
  }

  /** The only value of bytes. */
  def readOne(written: Array[Byte]): Item = read(written)._2.item(0)

  /** JSON in Python's format: numbers, texts, lists, and null for `None`. */
  private final class Head(bytes: Array[Byte], from: Int, until: Int) {
    private var at = from

    def parse(): Any = {
      skip()
      if (at >= until) throw Untranslatable
      bytes(at) match {
        case '[' => list()
        case '"' => text()
        case 'n' => word("null", None)
        case 't' => word("true", true)
        case 'f' => word("false", false)
        case 'N' => word("NaN", Double.NaN)
        case 'I' => word("Infinity", Double.PositiveInfinity)
        case _   => number()
      }
    }

    private def word(expected: String, value: Any): Any = {
      at += expected.length
      value
    }

    private def skip(): Unit = while (at < until && (bytes(at) == ' ' || bytes(at) == ',')) at += 1

    private def list(): Seq[Any] = {
      at += 1
      val items = mutable.ArrayBuffer.empty[Any]
      skip()
      while (bytes(at) != ']') {
        items += parse()
        skip()
      }
      at += 1
      ArraySeq.unsafeWrapArray(items.toArray[Any])
    }

    private def number(): Any = {
      val start = at
      var isInteger = true
      if (bytes(at) == '-') at += 1
      if (bytes(at) == 'I') {
        at += "Infinity".length
        return Double.NegativeInfinity
      }
      while (at < until && isOfNumber(bytes(at))) {
        isInteger &= bytes(at) >= '0' && bytes(at) <= '9'
        at += 1
      }
      val text = new String(bytes, start, at - start, US_ASCII)
      if (!isInteger) text.toDouble else text.toLongOption.getOrElse(BigInt(text))
    }

    private def isOfNumber(c: Byte) =
      (c >= '0' && c <= '9') || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'

    private def text(): UTF8String = {
      at += 1
      val start = at
      while (bytes(at) != '"' && bytes(at) != '\\') at += 1
      if (bytes(at) == '"') {
        at += 1
        UTF8String.fromBytes(bytes, start, at - 1 - start)
      } else escaped(start)
    }

    private def escaped(start: Int): UTF8String = {
      at = start
      while (bytes(at) != '"') at += (if (bytes(at) == '\\') 2 else 1)
      val escaped = new String(bytes, start, at - start, UTF_8)
      at += 1
      val unescaped = new java.lang.StringBuilder
      var i = 0
      while (i < escaped.length) {
        val c = escaped.charAt(i)
        if (c != '\\') unescaped.append(c)
        else {
          i += 1
          escaped.charAt(i) match {
            case 'n' => unescaped.append('\n')
            case 't' => unescaped.append('\t')
            case 'r' => unescaped.append('\r')
            case 'b' => unescaped.append('\b')
            case 'f' => unescaped.append('\f')
            case 'u' =>
              unescaped.append(Integer.parseInt(escaped.substring(i + 1, i + 5), 16).toChar)
              i += 4
            case other => unescaped.append(other)
          }
        }
        i += 1
      }
      val text = unescaped.toString
      // Python accepts a single surrogate as a character; UTF-8 does not.
      if (!UTF_8.newEncoder.canEncode(text)) throw Untranslatable
      UTF8String.fromString(text)
    }
  }

  private final class Body(written: Array[Byte], starts: Array[Int]) {

    def columns(node: Any, count: Int): Columns = node match {
      case None                              => Columns.Nothings
      case Seq(mark: UTF8String, parts @ _*) => marked(mark.toString, parts, count)
      case _                                 => throw Untranslatable
    }

    private def marked(mark: String, parts: Seq[Any], count: Int): Columns = (mark, parts) match {
      case ("i", Seq(parts: Seq[_])) if parts.exists(_.isInstanceOf[BigInt]) =>
        new Columns.LargeInts(parts.map {
          case one: BigInt => Item.Large(one)
          case one: Long   => Item.Int(one)
          case _           => throw Untranslatable
        }.toArray)
      case ("i" | "q" | "=", _)              => new Columns.Ints(ints(mark, parts, count))
      case ("f", Seq(parts: Seq[_]))         => new Columns.Floats(parts.map(double).toArray)
      case ("d", Seq(buffer: Long))          => new Columns.Floats(doubles(buffer.toInt))
      case ("b", Seq(parts: Seq[_]))         => new Columns.Bools(parts.map(_ == 1L).toArray)
      case ("0", _)                          => Columns.Nothings
      case ("s", Seq(parts: Seq[_]))         => new Columns.Texts(parts.map(text).toArray, Array.range(0, parts.length))
      case ("k", Seq(apart: Seq[_], of))     => new Columns.Texts(apart.map(text).toArray, small(of, count))
      case ("v", Seq(lengths, buffer: Long)) => slices(small(lengths, count), starts(buffer.toInt))
      case ("z", Seq(us))                    => new Columns.Times(longs(us, count))
      case ("w", Seq(us))                    => new Columns.Lengths(longs(us, count))
      case ("t", Seq(parts: Seq[_]))         => new Columns.Tuples(parts.map(columns(_, count)).toArray)
      case ("m", Seq(_, _))                  => dicts(parts)(count)
      case ("O", Seq(kind: UTF8String, of))  => records(kind, of, plain = false, count)
      case ("O", Seq(kind: UTF8String, of, _))    => records(kind, of, plain = true, count)
      case ("l", Seq(lengths, total: Long, flat)) =>
        new Columns.Lists(startsOf(lengths, count), columns(flat, total.toInt), isTuple = false)
      case ("T", Seq(lengths, total: Long, flat)) =>
        new Columns.Lists(startsOf(lengths, count), columns(flat, total.toInt), isTuple = true)
      case ("S" | "F", Seq(lengths, total: Long, flat)) =>
        new Columns.Sets(startsOf(lengths, count), columns(flat, total.toInt))
      case ("u", which +: parts) =>
        val of = small(which, count)
        val counts = new Array[Int](parts.length)
        val at = of.map { part =>
          counts(part) += 1
          counts(part) - 1
        }
        new Columns.Several(
          of,
          at,
          parts.map {
            case Seq(length: Long, part) => columns(part, length.toInt)
            case _                       => throw Untranslatable
          }.toArray
        )
      case _ => Columns.Unknown
    }

    private def slices(lengths: Array[Int], from: Int): Columns.Slices = {
      val (begins, ends) = (new Array[Int](lengths.length), new Array[Int](lengths.length))
      var (i, at) = (0, from)
      while (i < lengths.length) {
        begins(i) = at
        at += lengths(i)
        ends(i) = at
        i += 1
      }
      new Columns.Slices(written, begins, ends)
    }

    private def dicts(parts: Seq[Any])(count: Int): Columns.Dicts = parts match {
      case Seq(keys: Seq[_], parts: Seq[_]) =>
        new Columns.Dicts(Layout.Names(keys.map(text(_).toString).toVector), parts.map(columns(_, count)).toArray)
      case _ => throw Untranslatable
    }

    private def records(kind: UTF8String, of: Any, plain: Boolean, count: Int): Columns = of match {
      case Seq(mark: UTF8String, parts @ _*) if mark.toString == "m" =>
        new Columns.Records(kind.toString, dicts(parts)(count), plain)
      case _ => Columns.Unknown
    }

    private def text(of: Any): UTF8String = of match {
      case parts: UTF8String => parts
      case _                 => throw Untranslatable
    }

    private def double(of: Any): Double = of match {
      case parts: Double => parts
      case parts: Long   => parts.toDouble
      case _             => throw Untranslatable
    }

    private def longs(node: Any, count: Int): Array[Long] = node match {
      case None                              => Array.emptyLongArray
      case Seq(mark: UTF8String, parts @ _*) => ints(mark.toString, parts, count)
      case _                                 => throw Untranslatable
    }

    private def small(node: Any, count: Int): Array[Int] = {
      val parts = longs(node, count)
      val result = new Array[Int](parts.length)
      var i = 0
      while (i < result.length) {
        result(i) = parts(i).toInt
        i += 1
      }
      result
    }

    private def startsOf(lengths: Any, count: Int): Array[Int] = small(lengths, count).scanLeft(0)(_ + _)

    private def ints(mark: String, parts: Seq[Any], count: Int): Array[Long] = (mark, parts) match {
      case ("i", Seq(parts: Seq[_])) => parts.map { case one: Long => one; case _ => throw Untranslatable }.toArray
      case ("=", Seq(parts: Long))   =>
        val result = new Array[Long](count)
        java.util.Arrays.fill(result, parts)
        result
      case ("q", Seq(buffer: Long)) =>
        val longs = bytesOf(buffer.toInt).asLongBuffer
        val result = new Array[Long](longs.remaining)
        longs.get(result)
        result
      case _ => throw Untranslatable
    }

    private def doubles(buffer: Int): Array[Double] = {
      val parts = bytesOf(buffer).asDoubleBuffer
      val result = new Array[Double](parts.remaining)
      parts.get(result)
      result
    }

    private def bytesOf(buffer: Int): ByteBuffer =
      ByteBuffer.wrap(written, starts(buffer), starts(buffer + 1) - starts(buffer)).slice().order(ByteOrder.nativeOrder)
  }
}
