package org.apache.spark.sql.mullion.expressions

import org.apache.spark.sql.catalyst.expressions.{Expression, MapSort, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types.DataType

/** A map with its entries in order of their keys, as Spark's `MapSort` evaluates it. The code that Spark 4.2 generates
  * for `MapSort` reads a null among values of a primitive type as whatever stands in its bytes, and panes of different
  * keys would fall together.
  */
private[mullion] final case class SortedMap(child: Expression) extends UnaryExpression with CodegenFallback {
  private lazy val sort = MapSort(child)

  override def dataType: DataType = child.dataType
  override def nullIntolerant: Boolean = true
  override protected def nullSafeEval(map: Any): Any = sort.nullSafeEval(map)
  override protected def withNewChildInternal(newChild: Expression): SortedMap = copy(child = newChild)
}
