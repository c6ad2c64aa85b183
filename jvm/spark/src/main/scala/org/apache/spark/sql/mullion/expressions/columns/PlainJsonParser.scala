package org.apache.spark.sql.mullion.expressions.columns

import java.util.{HashMap, Locale}

import scala.util.control.NonFatal

import com.fasterxml.jackson.core.{JsonFactory, JsonParser, JsonToken}
import org.apache.hadoop.io.Text

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.json.{JSONOptions, JacksonParser}
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumnsUtils.EXISTS_DEFAULT_COLUMN_METADATA_KEY
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** Spark's parser of JSON texts, with a shorter way for plain ones: an object in strict JSON, whose columns have values
  * of their types. Each other text is parsed by Spark's parser, so rows and errors are Spark's.
  *
  * {{{
  *   {"k": "a", "v": 7}       plain
  *   {'k': "a", "v": 7}       Spark's: quotes that strict JSON lacks
  *   {"k": "a", "v": "7"}     Spark's: a string in a column of numbers
  * }}}
  *
  * For each text of `from_json`, Spark creates a `java.io.Reader` with a buffer of 8 KB. Here Jackson reads the bytes,
  * where they are valid UTF-8. The values of strings, integers and times in ISO 8601 need no boxed functions.
  *
  * @param schema
  *   the columns to read, without one for corrupt records
  */
private[mullion] final class PlainJsonParser(schema: StructType, options: JSONOptions, allowArrayAsStructs: Boolean)
    extends JacksonParser(schema, options, allowArrayAsStructs) {
  import PlainJsonParser._

  private[this] val factory = new JsonFactory
  private[this] val columns = new HashMap[String, Integer]
  schema.fieldNames.zipWithIndex.foreach { case (name, i) => columns.putIfAbsent(name, i) }
  private[this] val times = PlainTimes(options)
  private[this] val readers = schema.map(column => readerOf(column.dataType)).toArray
  // The bytes of a text in a nested value may depend on how Jackson reads its input.
  private[this] val isFlat = schema.forall(column => isAtomic(column.dataType))

  // After texts that are not plain, the next ones are not tried: at most one of a thousand is read twice.
  private[this] var waits = 0
  private[this] var nextWaits = 1

  override def parse[T](
      record: T,
      createParser: (JsonFactory, T) => JsonParser,
      recordLiteral: T => UTF8String
  ): Iterable[InternalRow] = plain(record, createParser) match {
    case Some(row) => Some(row)
    case _         => super.parse(record, createParser, recordLiteral)
  }

  /** The row of a text if it is plain. */
  def plain[T](record: T, createParser: (JsonFactory, T) => JsonParser): Option[InternalRow] =
    if (waits > 0) {
      waits -= 1
      None
    } else {
      val row = record match {
        case text: UTF8String if isFlat => if (isUtf8(text)) read(ofBytes(text)) else None
        case _: UTF8String | _: Text    => read(createParser(factory, record))
        case _                          => None
      }
      if (row.isEmpty) {
        waits = nextWaits
        nextWaits = math.min(nextWaits * 2, MostWaits)
      } else nextWaits = 1
      row
    }

  private def ofBytes(text: UTF8String): JsonParser = {
    val bytes = text.getByteBuffer
    factory.createParser(bytes.array, bytes.arrayOffset + bytes.position(), bytes.remaining)
  }

  private def read(parser: => JsonParser): Option[InternalRow] =
    try {
      val open = parser
      try if (open.nextToken() eq JsonToken.START_OBJECT) readObject(open) else None
      finally open.close()
    } catch {
      // Spark's parser finds the error again, and converts it.
      case NonFatal(_) => None
    }

  private def readObject(parser: JsonParser): Option[InternalRow] = {
    val row = new GenericInternalRow(readers.length)
    var name = parser.nextFieldName()
    var isPlain = true
    while (isPlain && (name ne null)) {
      val token = parser.nextToken()
      val column = columns.get(name)
      if (column eq null) parser.skipChildren(): Unit
      else if (token eq JsonToken.VALUE_NULL) row.update(column, null)
      else {
        val value = readers(column)(parser, token)
        row.update(column, value)
        isPlain = value != null
      }
      if (isPlain) name = parser.nextFieldName()
    }
    if (isPlain && (parser.currentToken eq JsonToken.END_OBJECT)) Some(row) else None
  }

  private def readerOf(kind: DataType): ValueReader = kind match {
    case StringType => (parser, token) => if (token eq JsonToken.VALUE_STRING) text(parser) else null
    case LongType => (parser, token) => if (token eq JsonToken.VALUE_NUMBER_INT) Long.box(parser.getLongValue) else null
    case TimestampType =>
      val ofSpark = makeConverter(kind)
      (parser, token) => {
        val micros = if (token eq JsonToken.VALUE_STRING) times.micros(parser) else PlainTimes.Other
        if (micros == PlainTimes.Other) ofSpark(parser) else Long.box(micros)
      }
    case _: StringType => (_, _) => null
    case _             =>
      val ofSpark = makeConverter(kind)
      (parser, _) => ofSpark(parser)
  }

  private def text(parser: JsonParser): UTF8String = {
    val length = parser.getTextLength
    val chars = parser.getTextCharacters
    val start = parser.getTextOffset
    val bytes = new Array[Byte](length)
    var i = 0
    while (i < length && chars(start + i) < 0x80) {
      bytes(i) = chars(start + i).toByte
      i += 1
    }
    if (i == length) UTF8String.fromBytes(bytes) else UTF8String.fromString(parser.getText)
  }
}

private[mullion] object PlainJsonParser {

  /** Reads a value that is not null from a parser at this token. Null if the value is not plain. */
  private type ValueReader = (JsonParser, JsonToken) => Any

  private val MostWaits = 1024

  /** True if no column has a default, and the options concern errors, tokens and the format of values at most. */
  def isUsable(schema: StructType, options: Map[String, String]): Boolean =
    options.keys.map(_.toLowerCase(Locale.ROOT)).forall(name => !all.contains(name) || allowed.contains(name)) &&
      !schema.exists(_.metadata.contains(EXISTS_DEFAULT_COLUMN_METADATA_KEY))

  // A source of files has other options too.
  private lazy val all = JSONOptions.getAllOptions.map(_.toLowerCase(Locale.ROOT))

  /** Options that concern the tokens or the format of single values. */
  val OptionsOfValues: Set[String] = Set(
    "timezone",
    "locale",
    "dateformat",
    "timestampformat",
    "timestampntzformat",
    "primitivesasstring",
    "allowcomments",
    "allowunquotedfieldnames",
    "allowsinglequotes",
    "allownumericleadingzeros",
    "allownonnumericnumbers",
    "allowbackslashescapinganycharacter",
    "allowunquotedcontrolchars"
  )

  private val allowed = OptionsOfValues ++ Set("mode", "columnnameofcorruptrecord")

  private def isAtomic(kind: DataType): Boolean = kind match {
    case _: StructType | _: ArrayType | _: MapType | _: VariantType | _: UserDefinedType[_] => false
    case _                                                                                  => true
  }

  private val HighBits = 0x8080808080808080L
  private val Ones = 0x0101010101010101L

  /** True if a text is valid UTF-8 and begins like an object, without a mark of another encoding. */
  private def isUtf8(text: UTF8String): Boolean = {
    val bytes = text.numBytes
    bytes > 1 && text.getByte(0) == '{' && (isAscii(text, bytes) || (text.getByte(1) != 0 && text.isValid))
  }

  /** True if all bytes are between 1 and 127. */
  private def isAscii(text: UTF8String, bytes: Int): Boolean = {
    val (base, offset) = (text.getBaseObject, text.getBaseOffset)
    var i = 0
    var all = 0L
    while (i + 8 <= bytes) {
      val word = Platform.getLong(base, offset + i)
      all |= (word - Ones) | word
      i += 8
    }
    while (i < bytes) {
      val byte = Platform.getByte(base, offset + i).toLong
      all |= ((byte - 1) | byte) & 0x80
      i += 1
    }
    (all & HighBits) == 0
  }
}
