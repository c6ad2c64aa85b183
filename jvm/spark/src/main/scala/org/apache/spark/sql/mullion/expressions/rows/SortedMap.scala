package org.apache.spark.sql.mullion.expressions.rows

import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.{Expression, MapSort, UnaryExpression}
import org.apache.spark.sql.types.DataType

/** A map sorted by key, with the result of Spark's `MapSort` without code generation. The code that Spark 4.2 generates
  * for `MapSort` ignores nulls among values of primitive types, so that panes of different keys would be merged.
  */
private[mullion] final case class SortedMap(child: Expression) extends UnaryExpression with CodegenFallback {
  private lazy val sort = MapSort(child)

  override def dataType: DataType = child.dataType
  override def nullIntolerant: Boolean = true
  override protected def nullSafeEval(map: Any): Any = sort.nullSafeEval(map)
  override protected def withNewChildInternal(newChild: Expression): SortedMap = copy(child = newChild)
}
