package org.apache.spark.sql.mullion.topics

import java.math.{BigDecimal => JavaDecimal}

import scala.annotation.tailrec
import scala.util.Try

import com.fasterxml.jackson.core.{JsonFactoryBuilder, JsonParser, JsonProcessingException, JsonToken}
import com.fasterxml.jackson.core.json.JsonReadFeature
import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{DataType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** The shard of a JSON value without columns, by one of its fields, equal to Python's `shard_of` for the same value:
  * {{{
  *   k     {"k": "a"}  a     {"k": 1.0}  1     {"k": [1]}  ~     {"x": 1}  null     {"k": null}  null     5  5
  * }}}
  * A value that is not a record is its own shard key. Null for invalid JSON.
  */
case class JsonShard(child: Expression, field: String) extends UnaryExpression with CodegenFallback {
  override def nullable: Boolean = true

  override def dataType: DataType = StringType

  override def prettyName: String = "json_shard"

  override protected def nullSafeEval(input: Any): Any =
    JsonShard.of(input.asInstanceOf[UTF8String].toString, field).fold[UTF8String](null)(UTF8String.fromString)

  override protected def withNewChildInternal(newChild: Expression): JsonShard = copy(newChild)
}

object JsonShard {
  // Python's dialect of JSON.
  private val factory = new JsonFactoryBuilder().enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS).build()

  /** The shard of keys that are neither texts, whole numbers of 64 bits nor truth values. */
  private val Others = "~"

  def column(text: Column, field: String): Column =
    ExpressionUtils.column(JsonShard(ExpressionUtils.expression(text), field))

  /** The shard of a key in JSON. Null is the empty key. */
  private[mullion] def ofValue(text: String): String = parsed(text) { parser =>
    parser.nextToken()
    shard(parser)
  }.getOrElse("")

  /** The shard of a decimal number in digits. */
  private[mullion] def ofDecimal(digits: String): String = {
    val integer = for {
      decimal <- Try(new JavaDecimal(digits)).toOption
      // A far larger number would take as many digits to compare.
      if decimal.precision.toLong - decimal.scale <= 20
      long <- Try(decimal.longValueExact).toOption
    } yield long
    integer.fold(Others)(_.toString)
  }

  private[mullion] def of(text: String, field: String): Option[String] = parsed(text) { parser =>
    if (parser.nextToken() == JsonToken.START_OBJECT) last(parser, field, None) else shard(parser)
  }

  private def parsed(text: String)(read: JsonParser => Option[String]): Option[String] = {
    val parser = factory.createParser(text)
    try read(parser)
    catch {
      case _: JsonProcessingException => None
    } finally parser.close()
  }

  /** Of several fields with one name the last counts. */
  @tailrec private def last(parser: JsonParser, field: String, found: Option[String]): Option[String] =
    if (parser.nextToken() != JsonToken.FIELD_NAME) found
    else {
      val isIt = parser.currentName == field
      parser.nextToken()
      val one = if (isIt) shard(parser) else found
      parser.skipChildren()
      last(parser, field, one)
    }

  private def shard(parser: JsonParser): Option[String] = parser.currentToken match {
    case JsonToken.VALUE_STRING                       => Some(parser.getText)
    case JsonToken.VALUE_TRUE | JsonToken.VALUE_FALSE => Some(parser.getText)
    case JsonToken.VALUE_NUMBER_INT                   =>
      val integer = parser.getBigIntegerValue
      Some(if (integer.bitLength < 64) integer.toString else Others)
    case JsonToken.VALUE_NUMBER_FLOAT =>
      val float = parser.getDoubleValue
      val isWhole = float >= -TwoTo63 && float < TwoTo63 && float.toLong.toDouble == float
      Some(if (isWhole) float.toLong.toString else Others)
    case JsonToken.START_OBJECT | JsonToken.START_ARRAY => Some(Others)
    case _                                              => None
  }

  private final val TwoTo63 = 9223372036854775808.0
}
