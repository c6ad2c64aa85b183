package org.apache.spark.sql.mullion.operator.asof

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.columns.KeyColumns

import dev.mullion.windows.rules.AsOfRules
import dev.mullion.windows.spec.Duration

/** The program of an as-of join: its columns, its rules, and its state.
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

  /** The kinds of record in state. */
  val state: AsOfState = AsOfState(keys.map(_.dataType), left.dataType, right.dataType, rules)

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
    AsOfHeader.json(left.dataType),
    AsOfHeader.json(right.dataType)
  )
}
