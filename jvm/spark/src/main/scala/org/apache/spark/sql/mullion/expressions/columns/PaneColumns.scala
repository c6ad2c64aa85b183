package org.apache.spark.sql.mullion.expressions.columns

import org.apache.spark.sql.catalyst.expressions.{CreateNamedStruct, Expression, GetStructField, Literal}
import org.apache.spark.sql.types._

/** The types of the columns that every result has. */
object PaneColumns {
  val windowType: StructType = new StructType().add("start", TimestampType).add("end", TimestampType)
  val numbersType: StructType = new StructType().add("start", LongType).add("end", LongType)

  private val plain = new StructType().add("firing", StringType, nullable = false).add("seq", IntegerType)
  private val named = plain.add("id", StringType).add("merged", ArrayType(StringType, containsNull = false))

  /** The index of the end in `window`. */
  val endAt: Int = windowType.fieldIndex("end")

  /** The index of the kind of firing in `pane`. */
  val firingAt: Int = plain.fieldIndex("firing")

  /** The index of the firing number in `pane`. */
  val seqAt: Int = plain.fieldIndex("seq")

  def paneType(ids: Boolean): StructType = if (ids) named else plain

  /** The part of a pane with an id that is equal in all its firings. */
  def idOf(pane: Expression): Option[Expression] = Option.when(pane.dataType.sameType(named)) {
    CreateNamedStruct(
      named.fieldNames.toSeq.zipWithIndex.drop(plain.length).flatMap { case (name, at) =>
        Seq(Literal(name), GetStructField(pane, at))
      }
    )
  }

  def isPane(kind: DataType): Boolean = kind.sameType(plain) || kind.sameType(named)
}
