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
private[mullion] final class JsonText private (bytes: Array[Byte], columns: JsonKind, isScalar: Boolean) {
  import JsonText._

  // A cursor: this runs for each record of a topic.
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

  /** What the whole is to be. */
  private def ofAll(shape: String): JsonKind = columns match {
    case _ if shape == Null                    => JsonKind.Anything
    case fields: JsonKind.Fields if isScalar   => if (shape == Record) JsonKind.Nothing else fields.kinds(0)
    case _: JsonKind.Fields if shape != Record => JsonKind.Nothing
    case other                                 => other
  }

  private def peek: Int = if (at < bytes.length) bytes(at) else End

  /** Goes over a value; `name` is whose it is where it is a column's. */
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

  /** Notes that a value is of another kind, unless nobody asks. */
  private def misfit(of: JsonKind): JsonKind = {
    if (of ne JsonKind.Anything) exact = false
    JsonKind.Anything
  }

  private def require(of: JsonKind, found: JsonKind): Unit = if (of ne found) misfit(of)

  private def members(depth: Int, of: JsonKind): Boolean = {
    val fields = of match {
      case known: JsonKind.Fields => known
      case _: JsonKind.Members    => NoFields
      case _                      =>
        misfit(of)
        NoFields
    }
    val others = of match {
      case members: JsonKind.Members => members.of
      case _                         => JsonKind.Anything
    }
    val seen = new Array[Long]((fields.length + 63) / 64)
    var known = 0
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
          val index = if (right && (fields ne NoFields)) indexIn(fields, from, until, known) else -1
          if (index >= 0) {
            // Of two of one name the last counts, and a column has the first.
            if ((seen(index >> 6) & (1L << index)) != 0) exact = false
            seen(index >> 6) |= 1L << index
            known += 1
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
    // A column that is missing is told by the marks; of a record within nothing says it.
    if (depth > 0 && known < fields.length) exact = false
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

  /** Four digits from a place on, or -1 where there are none. */
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
    val whole = if (peek == '0') skip() else digits()
    val until = at
    val fraction = peek != '.' || { at += 1; digits() }
    val mantissa = at
    val exponent = (peek != 'e' && peek != 'E') || {
      at += 1
      if (peek == '+' || peek == '-') at += 1
      digits()
    }
    val right = whole && fraction && exponent && at - from <= MostDigits
    if (right) of match {
      case JsonKind.Whole(bits) if at == until => if (!isInteger(from, at, bits)) exact = false
      case JsonKind.Floating if at == until    =>
        // A float has all of so many digits.
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
    // No column has such a name, and the mark of another one may be in it.
    if (name.indexOf('\n') < 0) marks.append('\n').append(name).append('\n')
    name
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

  /** What [[fit]] is of a value that columns do not hold as it is. */
  val Unfit = "!"

  /** Before the name of a column of floats in marks: the value is an int. */
  val WholeMark = '\u0000'

  /** How many characters every integer of so many bits may have, without a look at its value. */
  private def ShortInteger(bits: Int): Int = bits match {
    case 64 => 18
    case 32 => 9
    case 16 => 4
    case _  => 2
  }

  private final val End = Int.MaxValue
  final val Value = "value"
  private val NoFields = new JsonKind.Fields(Array.empty, Array.empty)

  /** `{` and the marks of its fields for an object (each name between newlines, as a topic's `_columns` has them), `n`
    * for null, `.` for another value; null, as generated code takes it, for what is not JSON.
    */
  def shape(text: UTF8String): UTF8String =
    shown(text, JsonKind.Anything, isScalar = false)

  /** The same where a value is in `columns` what it is here, and [[Unfit]] where it is not: of another kind, or with
    * fields that there are no columns for. Ints in columns of floats are marked: [[WholeMark]] is before the column's
    * name.
    *
    * @param isScalar
    *   whether a value is not a record, and its column the only one; else all values are records
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
