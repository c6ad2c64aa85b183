package org.apache.spark.sql.mullion.topics

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.unsafe.types.UTF8String

/** Classifies a text in one pass, without building values: whether it is exactly one value of RFC 8259, and for an
  * object, the names of its fields. Spark's own JSON parser is lenient: it stops after the first value, and accepts
  * single quotes.
  * {{{
  *   {"a":1}     an object, with a        {"a":1}{"a":2}   invalid: two values
  *   5           another value            {'a':1}          invalid
  * }}}
  * As extensions, floats may be `NaN`, `Infinity` and `-Infinity`. Nesting beyond [[JsonText.MostDepth]], numbers of
  * more than [[JsonText.MostDigits]] characters and unpaired surrogates are invalid, because readers have no value for
  * them. `mullion.topics._json` implements the same in Python.
  */
private[mullion] final class JsonText private (bytes: Array[Byte], columns: JsonKind, isScalar: Boolean) {
  import JsonText._

  // A cursor instead of an iterator: this runs for each record of a topic.
  private[this] var at = 0
  private[this] var exact = true
  private[this] val marks = new StringBuilder

  private def shape(): Option[String] = {
    skipSpace()
    val kind = peek match {
      case '{' => Record
      case 'n' => Null
      case _   => Other
    }
    if (!value(0, ofAll(kind), Value)) None
    else {
      skipSpace()
      if (at < bytes.length) None else Some(if (exact) kind + marks else Unfit)
    }
  }

  /** The kind of the top-level value. */
  private def ofAll(shape: String): JsonKind = columns match {
    case _ if shape == Null                    => JsonKind.Anything
    case fields: JsonKind.Fields if isScalar   => if (shape == Record) JsonKind.Nothing else fields.kinds(0)
    case _: JsonKind.Fields if shape != Record => JsonKind.Nothing
    case other                                 => other
  }

  private def peek: Int = if (at < bytes.length) bytes(at) else End

  /** Skips a value; `name` is its column's, if it has one. */
  private def value(depth: Int, of: JsonKind, name: String): Boolean = peek match {
    case '{' => depth < MostDepth && members(depth, of)
    case '[' => depth < MostDepth && elements(depth, of.element.getOrElse(misfit(of)))
    case '"' =>
      require(of, JsonKind.Text)
      string()
    case 't' =>
      require(of, JsonKind.Bool)
      word("true")
    case 'f' =>
      require(of, JsonKind.Bool)
      word("false")
    case 'n' => word("null")
    case 'N' =>
      misfit(of)
      word("NaN")
    case 'I' =>
      misfit(of)
      word("Infinity")
    case '-' if bytes.lengthIs > at + 1 && bytes(at + 1) == 'I' =>
      misfit(of)
      word("-Infinity")
    case _ => number(of, name)
  }

  /** Records that a value is of another kind, if columns are being checked. */
  private def misfit(of: JsonKind): JsonKind = {
    if (of ne JsonKind.Anything) exact = false
    JsonKind.Anything
  }

  private def require(of: JsonKind, found: JsonKind): Unit = if (of ne found) misfit(of)

  private def members(depth: Int, of: JsonKind): Boolean = {
    val fields = of match {
      case present: JsonKind.Fields => present
      case _: JsonKind.Members      => NoFields
      case _                        =>
        misfit(of)
        NoFields
    }
    val others = of match {
      case members: JsonKind.Members => members.of
      case _                         => JsonKind.Anything
    }
    val seenFields = new Array[Long]((fields.length + 63) / 64)
    var present = 0
    at += 1
    skipSpace()
    val right =
      if (peek == '}') skip()
      else {
        var more = true
        var right = true
        while (more && right) {
          skipSpace()
          val from = at + 1
          right = peek == '"' && string()
          val until = at - 1
          val name = if (right && depth == 0) mark(from, until) else ""
          val index = if (right && (fields ne NoFields)) indexIn(fields, from, until, present) else -1
          if (index >= 0) {
            // Of two fields with one name the last counts, but the column holds the first.
            if ((seenFields(index >> 6) & (1L << index)) != 0) exact = false
            seenFields(index >> 6) |= 1L << index
            present += 1
          } else if (fields ne NoFields) exact = false
          skipSpace()
          right = right && peek == ':' && skip()
          skipSpace()
          right = right && value(depth + 1, if (index < 0) others else fields.kinds(index), name)
          skipSpace()
          more = peek == ','
          if (more) at += 1
        }
        right && peek == '}' && skip()
      }
    // The marks show missing top-level columns; missing nested ones only show here.
    if (depth > 0 && present < fields.length) exact = false
    right
  }

  private def indexIn(fields: JsonKind.Fields, from: Int, until: Int, likely: Int): Int = {
    var i = from
    while (i < until && bytes(i) != '\\') i += 1
    if (i == until) fields.indexOf(bytes, from, until, likely)
    else {
      val name = unescaped(new String(bytes, from, until - from, UTF_8)).getBytes(UTF_8)
      fields.indexOf(name, 0, name.length, likely)
    }
  }

  private def elements(depth: Int, of: JsonKind): Boolean = {
    at += 1
    skipSpace()
    if (peek == ']') skip()
    else {
      var more = true
      var right = true
      while (more && right) {
        skipSpace()
        right = value(depth + 1, of, "")
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

  /** The value of four hexadecimal digits, or -1. */
  private def hex(from: Int): Int =
    if (from + 4 > bytes.length) -1
    else
      (from until from + 4).foldLeft(0) { (sum, i) =>
        val digit = if (bytes(i) >= 0) Character.digit(bytes(i).toChar, 16) else -1
        if (sum < 0 || digit < 0) -1 else sum * 16 + digit
      }

  private def number(of: JsonKind, name: String): Boolean = {
    val from = at
    if (peek == '-') at += 1
    val digitCount = if (peek == '0') skip() else digits()
    val until = at
    val fraction = peek != '.' || { at += 1; digits() }
    val mantissa = at
    val exponent = (peek != 'e' && peek != 'E') || {
      at += 1
      if (peek == '+' || peek == '-') at += 1
      digits()
    }
    val right = digitCount && fraction && exponent && at - from <= MostDigits
    if (right) of match {
      case JsonKind.Whole(bits) if at == until => if (!isInteger(from, at, bits)) exact = false
      case JsonKind.Floating if at == until    =>
        // A double represents this many digits exactly.
        if (at - from <= 15 && name.nonEmpty) marks.append('\n').append(WholeMark).append(name).append('\n')
        else exact = false
      case JsonKind.Floating =>
        val mayBeInfinite = at > mantissa || at - from > 300
        if (mayBeInfinite && new String(bytes, from, at - from, UTF_8).toDouble.isInfinite) exact = false
      case _ => misfit(of)
    }
    right
  }

  private def isInteger(from: Int, until: Int, bits: Int): Boolean =
    until - from <= ShortInteger(bits) ||
      (until - from <= 20 && BigInt(new String(bytes, from, until - from, UTF_8)).bitLength < bits)

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

  private def mark(from: Int, until: Int): String = {
    val text = new String(bytes, from, until - from, UTF_8)
    val name = if (text.indexOf('\\') < 0) text else unescaped(text)
    // No column has such a name, and it could contain the mark of another one.
    if (name.indexOf('\n') < 0) marks.append('\n').append(name).append('\n')
    name
  }
}

private[mullion] object JsonText {

  /** The nesting limit, which is PyArrow's. */
  val MostDepth = 100

  /** The limit for characters of a number, which is that of Spark's parser. */
  val MostDigits = 1000

  /** The first character of [[shape]] for an object. */
  val Record = "{"
  val Null = "n"
  val Other = "."

  /** The result of [[fit]] for a value that columns do not hold exactly. */
  val Unfit = "!"

  /** The prefix of the name of a float column whose value is an int, in marks. */
  val WholeMark = '\u0000'

  /** The number of characters up to which every integer fits into this number of bits. */
  private def ShortInteger(bits: Int): Int = bits match {
    case 64 => 18
    case 32 => 9
    case 16 => 4
    case _  => 2
  }

  private final val End = Int.MaxValue
  final val Value = "value"
  private val NoFields = new JsonKind.Fields(Array.empty, Array.empty)

  /** `{` and the marks of its fields for an object (each name between newlines, as in a topic's `_columns`), `n` for
    * null, `.` for another value; null for invalid JSON, as generated code requires.
    */
  def shape(text: UTF8String): UTF8String =
    shown(text, JsonKind.Anything, isScalar = false)

  /** The same if `columns` hold the exact value, else [[Unfit]]: for a value of another kind, or with fields without a
    * column. Ints in columns of floats are marked: [[WholeMark]] precedes the column's name.
    *
    * @param isScalar
    *   whether values are scalars, with a single column; else all values are records
    */
  def fit(text: UTF8String, columns: JsonKind, isScalar: Boolean): UTF8String = shown(text, columns, isScalar)

  private def shown(text: UTF8String, columns: JsonKind, isScalar: Boolean): UTF8String =
    if (!text.isValid) null
    else new JsonText(text.getBytes, columns, isScalar).shape().fold[UTF8String](null)(UTF8String.fromString)

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
