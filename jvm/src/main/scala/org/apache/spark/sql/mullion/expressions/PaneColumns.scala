package org.apache.spark.sql.mullion.expressions

import org.apache.spark.sql.catalyst.expressions.{CreateNamedStruct, Expression, GetStructField, Literal}
import org.apache.spark.sql.types._

/** The types of the columns that every result has. */
object PaneColumns {
  val windowType: StructType = new StructType().add("start", TimestampType).add("end", TimestampType)
  val numbersType: StructType = new StructType().add("start", LongType).add("end", LongType)

  private val plain = new StructType().add("firing", StringType, nullable = false).add("seq", IntegerType)
  private val named = plain.add("id", StringType).add("merged", ArrayType(StringType, containsNull = false))

  /** Where in `window` its end stands. */
  val endAt: Int = windowType.fieldIndex("end")

  /** Where in `pane` the number of a firing stands. */
  val seqAt: Int = plain.fieldIndex("seq")

  def paneType(ids: Boolean): StructType = if (ids) named else plain

  /** Of a pane that has an id, what stays what it is from firing to firing. */
  def idOf(pane: Expression): Option[Expression] = Option.when(pane.dataType.sameType(named)) {
    CreateNamedStruct(
      named.fieldNames.toSeq.zipWithIndex.drop(plain.length).flatMap { case (name, at) =>
        Seq(Literal(name), GetStructField(pane, at))
      }
    )
  }

  def isPane(kind: DataType): Boolean = kind.sameType(plain) || kind.sameType(named)
}
