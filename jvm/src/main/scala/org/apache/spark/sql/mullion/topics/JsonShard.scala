package org.apache.spark.sql.mullion.topics

import scala.annotation.tailrec

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
  private val Others = Some("~")

  def column(text: Column, field: String): Column =
    ExpressionUtils.column(JsonShard(ExpressionUtils.expression(text), field))

  private[mullion] def of(text: String, field: String): Option[String] = {
    val parser = factory.createParser(text)
    try if (parser.nextToken() == JsonToken.START_OBJECT) last(parser, field, None) else shard(parser)
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
      val number = parser.getBigIntegerValue
      if (number.bitLength < 64) Some(number.toString) else Others
    case JsonToken.VALUE_NUMBER_FLOAT =>
      val float = parser.getDoubleValue
      val isWhole = float >= -TwoTo63 && float < TwoTo63 && float.toLong.toDouble == float
      if (isWhole) Some(float.toLong.toString) else Others
    case JsonToken.START_OBJECT | JsonToken.START_ARRAY => Others
    case _                                              => None
  }

  private final val TwoTo63 = 9223372036854775808.0
}
