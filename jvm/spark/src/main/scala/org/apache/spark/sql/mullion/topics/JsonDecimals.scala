package org.apache.spark.sql.mullion.topics

import scala.util.Try

import com.fasterxml.jackson.core.{JsonFactoryBuilder, JsonParser, JsonProcessingException, JsonToken}
import com.fasterxml.jackson.core.json.JsonReadFeature

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{ArrayType, BooleanType, DataType, DecimalType, MapType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/** True if a JSON text has a number with more digits after the point than its decimal column, which `from_json` rounds
  * silently.
  * {{{
  *   x decimal(10, 2)    {"x": 1.50}  false    {"x": 1.505}  true    {"x": 15e-1}  false
  * }}}
  */
case class JsonDecimals(child: Expression, kind: DataType) extends UnaryExpression with CodegenFallback {
  override def dataType: DataType = BooleanType

  override def prettyName: String = "json_decimals"

  override protected def nullSafeEval(input: Any): Any =
    JsonDecimals.areCut(input.asInstanceOf[UTF8String].getBytes, kind)

  override protected def withNewChildInternal(newChild: Expression): JsonDecimals = copy(newChild)
}

object JsonDecimals {
  // The default options of from_json.
  private val factory = new JsonFactoryBuilder().enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS).build()

  def column(text: Column, kind: DataType): Column =
    ExpressionUtils.column(JsonDecimals(ExpressionUtils.expression(text), kind))

  private[mullion] def areCut(text: Array[Byte], kind: DataType): Boolean = {
    val parser = factory.createParser(text)
    try {
      parser.nextToken()
      isCut(parser, kind)
    } catch {
      // Invalid JSON has no value to round.
      case _: JsonProcessingException => false
    } finally parser.close()
  }

  private def isCut(parser: JsonParser, kind: DataType): Boolean = (parser.currentToken, kind) match {
    case (JsonToken.START_OBJECT, fields: StructType) =>
      members(parser, name => fields.find(_.name == name).map(_.dataType))
    case (JsonToken.START_OBJECT, MapType(_, values, _)) => members(parser, _ => Some(values))
    case (JsonToken.START_ARRAY, ArrayType(elements, _)) =>
      var exceeds = false
      while (parser.nextToken() != JsonToken.END_ARRAY) exceeds = isCut(parser, elements) || exceeds
      exceeds
    case (token, decimal: DecimalType) if token.isScalarValue =>
      // from_json also reads text as a number, ignoring commas.
      Try(new java.math.BigDecimal(parser.getText.replace(",", ""))).toOption
        .exists(_.stripTrailingZeros.scale > decimal.scale)
    case _ =>
      parser.skipChildren()
      false
  }

  private def members(parser: JsonParser, kindOf: String => Option[DataType]): Boolean = {
    var exceeds = false
    while (parser.nextToken() != JsonToken.END_OBJECT) {
      val kind = kindOf(parser.currentName)
      parser.nextToken()
      kind match {
        case Some(of) => exceeds = isCut(parser, of) || exceeds
        case None     => parser.skipChildren()
      }
    }
    exceeds
  }
}
