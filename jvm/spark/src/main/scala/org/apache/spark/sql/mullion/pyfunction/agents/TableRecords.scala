package org.apache.spark.sql.mullion.pyfunction.agents

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

import org.apache.spark.sql.mullion.pyfunction.expression.{Untranslatable, Value}
import org.apache.spark.unsafe.types.UTF8String

/** The layout of a table's records in the state, byte for byte that of the Python package (`faust/tables/records.py`):
  *
  * {{{
  *   value of a key        h(table, "v") key                         value
  *   value of a range      h(table, "r", key) length key start end   value
  *   keys of the table     h(table, "k") key                         its number of ranges
  *   clocks                h(table, "m")                             of expiry, of applied events, of expired ranges
  *   timer of a range      h(table, "t") "c" record
  * }}}
  *
  * Keys and values are JSON.
  */
private[agents] final class TableRecords(table: String) {
  import TableRecords._

  private val digest = MessageDigest.getInstance("SHA-256")
  private val name = table.getBytes(UTF_8)

  /** The prefix of its key records. */
  val keys: Array[Byte] = hash("k".getBytes(UTF_8))

  /** The prefix of its values, if it has no window. */
  val values: Array[Byte] = hash("v".getBytes(UTF_8))

  /** The prefix of its timers. */
  val timers: Array[Byte] = hash("t".getBytes(UTF_8))

  val clocks: Array[Byte] = hash("m".getBytes(UTF_8))

  /** The order of the table's timers among those of a partition. */
  val order: Int = TimerOrder.of(timers)

  /** The prefix of a key's ranges. */
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

private[agents] object TableRecords {
  private val Head = 8
  private val Length = 4
  private val Times = 16
  private val Close = "c".getBytes(UTF_8)

  /** The table of a timer. */
  def tableOf(timer: Array[Byte]): ByteBuffer = ByteBuffer.wrap(timer, 0, Head).slice()

  /** The record of a timer that closes a range; none for others. */
  def closedBy(timer: Array[Byte]): Option[Array[Byte]] =
    Option.when(timer.length > Head && timer(Head) == Close(0))(timer.drop(Head + 1))

  /** The end of a range. */
  def endOf(record: Array[Byte]): Long = ByteBuffer.wrap(record).getLong(record.length - Times / 2)

  def keyOf(record: Array[Byte]): Array[Byte] =
    record.slice(Head + Length, Head + Length + ByteBuffer.wrap(record).getInt(Head))

  /** A key as JSON. `None`, and a float that is not an integer, are unsupported. */
  def key(of: Value): Array[Byte] = of.kind match {
    case Value.Text  => quoted(of.text)
    case Value.Int   => of.long.toString.getBytes(UTF_8)
    case Value.Bool  => (if (of.isTrue) "true" else "false").getBytes(UTF_8)
    case Value.Float => integer(of.double).toString.getBytes(UTF_8)
    case _           => throw Untranslatable
  }

  /** 1.0 and 1 are the same key. */
  def integer(value: Double): Long =
    if (value == Math.rint(value) && Math.abs(value) < 9.0e15) value.toLong else throw Untranslatable

  /** A number as JSON. */
  def number(of: Value): Array[Byte] = text(of).getBytes(UTF_8)

  /** A value as JSON. */
  def text(of: Value): String = of.kind match {
    case Value.Nothing                                            => "null"
    case Value.Bool                                               => if (of.isTrue) "true" else "false"
    case Value.Int                                                => of.long.toString
    case Value.Float if !of.double.isNaN && !of.double.isInfinite => of.double.toString
    case Value.Text                                               => new String(quoted(of.text), UTF_8)
    case _                                                        => throw Untranslatable
  }

  /** Reads a JSON number; others, and integers beyond 64 bits, are unsupported. */
  def readNumber(json: Array[Byte], to: Value): Unit = {
    val text = new String(json, UTF_8)
    try
      if (text.forall(c => c == '-' || (c >= '0' && c <= '9'))) to.setInt(text.toLong)
      else if (text.head == '-' || text.head.isDigit) to.setFloat(text.toDouble)
      else throw Untranslatable
    catch { case _: NumberFormatException => throw Untranslatable }
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
