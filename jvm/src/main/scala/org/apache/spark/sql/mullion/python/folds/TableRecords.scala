package org.apache.spark.sql.mullion.python.folds

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

import org.apache.spark.unsafe.types.UTF8String

/** How a table's records lie in the state, byte for byte as the Python package lays them out
  * (`faust/tables/records.py`):
  *
  * {{{
  *   value of a key        h(table, "v") key                         value
  *   value of a range      h(table, "r", key) length key start end   value
  *   keys of the table     h(table, "k") key                         how many ranges it has
  *   clocks                h(table, "m")                             of expiry, of what was applied, of what has gone
  *   timer of a range      h(table, "t") "c" record
  * }}}
  *
  * Keys and values are JSON.
  */
private[folds] final class TableRecords(table: String) {
  import TableRecords._

  private val digest = MessageDigest.getInstance("SHA-256")
  private val name = table.getBytes(UTF_8)

  /** What the records of its keys begin with. */
  val keys: Array[Byte] = hash("k".getBytes(UTF_8))

  /** What the values of its keys begin with, where it has no window. */
  val values: Array[Byte] = hash("v".getBytes(UTF_8))

  /** What the timers of the table begin with. */
  val timers: Array[Byte] = hash("t".getBytes(UTF_8))

  val clocks: Array[Byte] = hash("m".getBytes(UTF_8))

  /** The order in which the table's timers are, of those that a partition has. */
  val order: Int = TimerOrder.of(timers)

  /** What the records of a key's ranges begin with. */
  def headOfRanges(key: Array[Byte]): Array[Byte] = hash("r".getBytes(UTF_8), key)

  def ofRange(key: Array[Byte], start: Long, end: Long): Array[Byte] =
    ByteBuffer
      .allocate(Head + Length + key.length + Times)
      .put(headOfRanges(key))
      .putInt(key.length)
      .put(key)
      .putLong(start)
      .putLong(end)
      .array

  def ofKey(key: Array[Byte]): Array[Byte] = keys ++ key

  def timerOf(record: Array[Byte]): Array[Byte] = timers ++ Close ++ record

  private def hash(parts: Array[Byte]*): Array[Byte] = {
    digest.reset()
    digest.update(name)
    parts.foreach { part =>
      digest.update(0.toByte)
      digest.update(part)
    }
    java.util.Arrays.copyOf(digest.digest(), Head)
  }
}

private[folds] object TableRecords {
  private val Head = 8
  private val Length = 4
  private val Times = 16
  private val Close = "c".getBytes(UTF_8)

  /** What a timer says of itself: of which table it is. */
  def tableOf(timer: Array[Byte]): ByteBuffer = ByteBuffer.wrap(timer, 0, Head).slice()

  /** The record of a timer that a range is closed by; none of others. */
  def closedBy(timer: Array[Byte]): Option[Array[Byte]] =
    Option.when(timer.length > Head && timer(Head) == Close(0))(timer.drop(Head + 1))

  /** Where a range ends. */
  def endOf(record: Array[Byte]): Long = ByteBuffer.wrap(record).getLong(record.length - Times / 2)

  def keyOf(record: Array[Byte]): Array[Byte] =
    record.slice(Head + Length, Head + Length + ByteBuffer.wrap(record).getInt(Head))

  /** A key as JSON. `None`, and a float that is not a whole number, are odd. */
  def key(of: Value): Array[Byte] = of.kind match {
    case Value.Text  => quoted(of.text)
    case Value.Int   => of.long.toString.getBytes(UTF_8)
    case Value.Bool  => (if (of.isTrue) "true" else "false").getBytes(UTF_8)
    case Value.Float => whole(of.double).toString.getBytes(UTF_8)
    case _           => throw Odd
  }

  /** 1.0 and 1 are one key. */
  def whole(value: Double): Long =
    if (value == Math.rint(value) && Math.abs(value) < 9.0e15) value.toLong else throw Odd

  /** A number as JSON. */
  def number(of: Value): Array[Byte] = text(of).getBytes(UTF_8)

  /** A value as JSON. */
  def text(of: Value): String = of.kind match {
    case Value.Nothing                                            => "null"
    case Value.Bool                                               => if (of.isTrue) "true" else "false"
    case Value.Int                                                => of.long.toString
    case Value.Float if !of.double.isNaN && !of.double.isInfinite => of.double.toString
    case Value.Text                                               => new String(quoted(of.text), UTF_8)
    case _                                                        => throw Odd
  }

  /** Reads a number of JSON; what is no number, or none of 64 bits, is odd. */
  def readNumber(json: Array[Byte], to: Value): Unit = {
    val text = new String(json, UTF_8)
    try
      if (text.forall(c => c == '-' || (c >= '0' && c <= '9'))) to.setInt(text.toLong)
      else if (text.head == '-' || text.head.isDigit) to.setFloat(text.toDouble)
      else throw Odd
    catch { case _: NumberFormatException => throw Odd }
  }

  private def quoted(text: UTF8String): Array[Byte] = {
    val bytes = text.getBytes
    val out = new ByteArrayOutputStream(bytes.length + 2)
    out.write('"')
    bytes.foreach {
      case '"'                     => out.write('\\'); out.write('"')
      case '\\'                    => out.write('\\'); out.write('\\')
      case '\n'                    => out.write('\\'); out.write('n')
      case '\r'                    => out.write('\\'); out.write('r')
      case '\t'                    => out.write('\\'); out.write('t')
      case '\f'                    => out.write('\\'); out.write('f')
      case '\b'                    => out.write('\\'); out.write('b')
      case c if c >= 0 && c < 0x20 => out.write(f"\\u$c%04x".getBytes(UTF_8))
      case c                       => out.write(c.toInt)
    }
    out.write('"')
    out.toByteArray
  }
}
