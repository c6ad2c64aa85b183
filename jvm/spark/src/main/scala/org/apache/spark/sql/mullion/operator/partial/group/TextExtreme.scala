package org.apache.spark.sql.mullion.operator.partial.group

import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateFunction, Max, Min}
import org.apache.spark.sql.catalyst.expressions.codegen.{ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.types.{DataType, StringType}

/** The `max` or `min` of texts that are ordered by their bytes. The first eight bytes of the group's text are also in
  * the record, in the word of its buffer, which a buffer with an object does not need otherwise. They decide most
  * comparisons, so that most rows do not read the object, which is rarely cached.
  *
  * {{{
  *   record    ... [ "name-499" ] ...        the text of a row: "name-12"     smaller by its first bytes
  *   object          "name-4999"
  * }}}
  *
  * @param text
  *   the text of a row; null adds nothing
  */
private[partial] final case class TextExtreme(text: Expression, isMax: Boolean) {

  /** The code that adds a row.
    *
    * @param value
    *   the row's text
    * @param prefix
    *   the word of the buffer
    * @param held
    *   the group's text
    * @param isMissing
    *   true if the group has no text; empty if it always has
    * @param put
    *   replaces the group's text
    */
  def update(
      value: ExprCode,
      freshName: String => String,
      prefix: String,
      held: String,
      isMissing: String,
      put: String
  ): String = {
    val (own, order) = (freshName("prefix"), freshName("order"))
    val isBetter = s"$order ${if (isMax) ">" else "<"} 0"
    val isPresent = if (value.isNull == FalseLiteral) "" else s"if (!${value.isNull})"
    s"""
       |${value.code}
       |$isPresent {
       |  long $own = ${value.value}.getPrefix();
       |  int $order = ${if (isMissing.isEmpty) ""
      else s"$isMissing ? ${if (isMax) 1 else -1} : "}Long.compareUnsigned($own, $prefix);
       |  if ($order == 0) $order = ${value.value}.binaryCompare($held);
       |  if ($isBetter) {
       |    $put
       |    $prefix = $own;
       |  }
       |}
       |""".stripMargin
  }
}

private[partial] object TextExtreme {
  def of(function: AggregateFunction): Option[TextExtreme] = function match {
    case Max(text) if isOrderedByBytes(text.dataType) => Some(TextExtreme(text, isMax = true))
    case Min(text) if isOrderedByBytes(text.dataType) => Some(TextExtreme(text, isMax = false))
    case _                                            => None
  }

  private def isOrderedByBytes(kind: DataType) = kind.isInstanceOf[StringType] && GroupLayout.isText(kind)
}
