package org.apache.spark.sql.mullion.operator.asof

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.columns.KeyColumns
import org.apache.spark.sql.mullion.operator.engine.PartitionTotals
import org.apache.spark.sql.mullion.operator.engine.timers.KeyOnly
import org.apache.spark.sql.mullion.state.record.{FamilySpec, RecordOrder}
import org.apache.spark.sql.types._

import dev.mullion.windows.rules.{AsOfDirection, AsOfRules}
import dev.mullion.windows.spec.Duration

/** The program of an as-of join: its columns, its rules, and its kinds of record.
  *
  * {{{
  *   waiting   (time, number, key) -> row       left rows that are not due; backward: right rows after the clock too
  *   latest    (key)               -> time, row     backward: the last right row up to the clock
  *   rights    (key, time)         -> time, row     forward, nearest: right rows
  *   expiry    (time, key)                      when a right row is not needed any more
  * }}}
  *
  * @param time
  *   the time of a row, in microseconds
  * @param arrival
  *   the order of arrival within a batch
  * @param left
  *   a left row, as a struct; null in right rows
  * @param right
  *   a right row, as a struct; null in left rows
  * @param input
  *   the columns of input rows
  * @param output
  *   the columns of the left side, then some of the right side
  * @param rightFields
  *   the indexes of the right side's columns in the output
  */
final case class AsOfProgram(
    keys: Seq[Attribute],
    time: Attribute,
    arrival: Attribute,
    left: Attribute,
    right: Attribute,
    input: Seq[Attribute],
    output: Seq[Attribute],
    rightFields: Seq[Int],
    rules: AsOfRules
) {
  private val keyFields = keys.zipWithIndex.map { case (k, i) => StructField(s"key$i", k.dataType) }
  private def long(name: String) = StructField(name, LongType, nullable = false)
  private val rightValue = StructType(Seq(long("time"), StructField("row", right.dataType)))

  private[asof] val isBackward: Boolean = rules.direction == AsOfDirection.Backward

  private[asof] val waiting: FamilySpec = FamilySpec(
    "waiting",
    StructType(Seq(long("time"), long("number")) ++ keyFields),
    StructType(Seq(StructField("left", left.dataType), StructField("right", right.dataType))),
    RecordOrder.ByFirst(2)
  )

  private[asof] val latest: FamilySpec =
    FamilySpec("latest", StructType(keyFields), rightValue, RecordOrder.Unordered)

  private[asof] val rights: FamilySpec =
    FamilySpec("rights", StructType(keyFields :+ long("time")), rightValue, RecordOrder.WithinKey)

  private[asof] val expiry: FamilySpec =
    FamilySpec("expiry", StructType(long("time") +: keyFields), KeyOnly.schema, RecordOrder.ByFirst(1))

  /** The kinds of record in state; the first is the one that Spark records. */
  val families: Seq[FamilySpec] =
    Seq(waiting, if (isBackward) latest else rights) ++ rules.keep.map(_ => expiry) :+ PartitionTotals.family

  /** Both sides in order of time, and of arrival among equal times. */
  def ordering: Seq[SortOrder] = Seq(SortOrder(time, Ascending), SortOrder(arrival, Ascending))

  /** An output row over a value of `waiting` and one of `latest` or `rights`. */
  private[asof] def columns: Seq[Expression] = {
    val (ofLeft, ofRight) =
      (BoundReference(0, left.dataType, nullable = false), BoundReference(3, right.dataType, nullable = true))
    output.indices.dropRight(rightFields.length).map(GetStructField(ofLeft, _)) ++ rightFields.map(
      GetStructField(ofRight, _)
    )
  }

  def describe: String = {
    val within = rules.tolerance.map(of => s"within ${Duration.describe(of)}")
    val by = KeyColumns.named(keys).map(_.name).mkString("by [", ", ", "]")
    (Seq(rules.direction.name) ++ within ++ Option.when(!rules.allowExact)("not at equal times") :+ by).mkString(", ")
  }

  def header: AsOfHeader = AsOfHeader(
    AsOfHeader.currentFormat,
    rules.direction.name,
    rules.tolerance,
    rules.allowExact,
    KeyColumns.named(keys).map(_.dataType.sql).toList,
    AsOfHeader.columns(left.dataType),
    AsOfHeader.columns(right.dataType)
  )
}
