package org.apache.spark.sql.mullion.topics

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.unsafe.types.UTF8String

/** What a text that should be JSON is, decided in one pass and without a value of it: whether it is one value of RFC
  * 8259 and nothing else, and if it is an object, the names of its fields. Spark's own reading of JSON is lenient: it
  * stops after the first value, and takes single quotes.
  * {{{
  *   {"a":1}     an object, with a        {"a":1}{"a":2}   nothing: two values
  *   5           another value            {'a':1}          nothing
  * }}}
  * Beside what JSON has, floats may be `NaN`, `Infinity` and `-Infinity`. What is nested deeper than
  * [[JsonText.MostDepth]], a number of more than [[JsonText.MostDigits]] characters and half of a surrogate pair are
  * nothing, for readers have no value for them. `mullion.topics._json` decides the same in Python.
  */
private[mullion] final class JsonText private (bytes: Array[Byte]) {
  import JsonText._

  // A cursor: this runs for each record of a topic.
  private[this] var at = 0
  private[this] val marks = new StringBuilder

  private def shape(): Option[String] = {
    skipSpace()
    val kind = peek match {
      case '{' => Record
      case 'n' => Null
      case _   => Other
    }
    if (!value(0)) None
    else {
      skipSpace()
      if (at == bytes.length) Some(kind + marks) else None
    }
  }

  private def peek: Int = if (at < bytes.length) bytes(at) else End

  private def value(depth: Int): Boolean = peek match {
    case '{'                                                    => depth < MostDepth && members(depth)
    case '['                                                    => depth < MostDepth && elements(depth)
    case '"'                                                    => string()
    case 't'                                                    => word("true")
    case 'f'                                                    => word("false")
    case 'n'                                                    => word("null")
    case 'N'                                                    => word("NaN")
    case 'I'                                                    => word("Infinity")
    case '-' if bytes.lengthIs > at + 1 && bytes(at + 1) == 'I' => word("-Infinity")
    case _                                                      => number()
  }

  private def members(depth: Int): Boolean = {
    at += 1
    skipSpace()
    if (peek == '}') skip()
    else {
      var more = true
      var right = true
      while (more && right) {
        skipSpace()
        val from = at
        right = peek == '"' && string()
        if (right && depth == 0) mark(from + 1, at - 1)
        skipSpace()
        right = right && peek == ':' && skip()
        skipSpace()
        right = right && value(depth + 1)
        skipSpace()
        more = peek == ','
        if (more) at += 1
      }
      right && peek == '}' && skip()
    }
  }

  private def elements(depth: Int): Boolean = {
    at += 1
    skipSpace()
    if (peek == ']') skip()
    else {
      var more = true
      var right = true
      while (more && right) {
        skipSpace()
        right = value(depth + 1)
        skipSpace()
        more = peek == ','
        if (more) at += 1
      }
      right && peek == ']' && skip()
    }
  }

  private def string(): Boolean = {
    at += 1
    var right = true
    while (right && peek != '"') peek match {
      case '\\'                   => right = escape()
      case c if c >= 0 && c < ' ' => right = false
      case End                    => right = false
      case _                      => at += 1
    }
    right && skip()
  }

  private def escape(): Boolean = {
    at += 1
    peek match {
      case '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => skip()
      case 'u'                                            =>
        val unit = hex(at + 1)
        at += 5
        if (unit < 0 || isLow(unit)) false
        else if (!isHigh(unit)) true
        else {
          val pair = at + 1 < bytes.length && bytes(at) == '\\' && bytes(at + 1) == 'u' && isLow(hex(at + 2))
          at += 6
          pair
        }
      case _ => false
    }
  }

  /** Four digits from a place on, or -1 where there are none. */
  private def hex(from: Int): Int =
    if (from + 4 > bytes.length) -1
    else
      (from until from + 4).foldLeft(0) { (sum, i) =>
        val digit = if (bytes(i) >= 0) Character.digit(bytes(i).toChar, 16) else -1
        if (sum < 0 || digit < 0) -1 else sum * 16 + digit
      }

  private def number(): Boolean = {
    val from = at
    if (peek == '-') at += 1
    val whole = if (peek == '0') skip() else digits()
    val fraction = peek != '.' || { at += 1; digits() }
    val exponent = (peek != 'e' && peek != 'E') || {
      at += 1
      if (peek == '+' || peek == '-') at += 1
      digits()
    }
    whole && fraction && exponent && at - from <= MostDigits
  }

  private def digits(): Boolean = {
    val from = at
    while (peek >= '0' && peek <= '9') at += 1
    at > from
  }

  private def word(expected: String): Boolean = {
    val from = at
    at += expected.length
    at <= bytes.length && expected.indices.forall(i => bytes(from + i) == expected.charAt(i))
  }

  private def skip(): Boolean = {
    at += 1
    true
  }

  private def skipSpace(): Unit = while (peek == ' ' || peek == '\n' || peek == '\r' || peek == '\t') at += 1

  private def mark(from: Int, until: Int): Unit = {
    val text = new String(bytes, from, until - from, UTF_8)
    val name = if (text.indexOf('\\') < 0) text else unescaped(text)
    // No column has such a name, and the mark of another one may be in it.
    if (name.indexOf('\n') < 0) marks.append('\n').append(name).append('\n')
  }
}

private[mullion] object JsonText {

  /** How deep arrays and objects may be in one another: PyArrow has no values beyond. */
  val MostDepth = 100

  /** How many characters a number may have: Spark's parser takes no more. */
  val MostDigits = 1000

  /** What [[shape]] begins with. */
  val Record = "{"
  val Null = "n"
  val Other = "."

  private final val End = Int.MaxValue

  /** `{` and the marks of its fields for an object (each name between newlines, as a topic's `_columns` has them), `n`
    * for null, `.` for another value; null, as generated code takes it, for what is no JSON.
    */
  def shape(text: UTF8String): UTF8String =
    if (!text.isValid) null
    else new JsonText(text.getBytes).shape().fold[UTF8String](null)(UTF8String.fromString)

  private def isHigh(unit: Int): Boolean = unit >= 0xd800 && unit < 0xdc00

  private def isLow(unit: Int): Boolean = unit >= 0xdc00 && unit < 0xe000

  private def unescaped(text: String): String = {
    val plain = new StringBuilder
    var i = 0
    while (i < text.length) {
      if (text.charAt(i) != '\\') {
        plain.append(text.charAt(i))
        i += 1
      } else {
        text.charAt(i + 1) match {
          case 'u' =>
            plain.append(Integer.parseInt(text.substring(i + 2, i + 6), 16).toChar)
            i += 4
          case 'b'   => plain.append('\b')
          case 'f'   => plain.append('\f')
          case 'n'   => plain.append('\n')
          case 'r'   => plain.append('\r')
          case 't'   => plain.append('\t')
          case other => plain.append(other)
        }
        i += 2
      }
    }
    plain.toString
  }
}
