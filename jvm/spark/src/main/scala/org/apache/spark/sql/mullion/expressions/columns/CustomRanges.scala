package org.apache.spark.sql.mullion.expressions.columns

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.{Cast, CreateArray, Expression, If, IsNull, Literal}
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.functions.lit
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.spec.Setting

/** The ranges of a row for custom windows: a column of the input that is an array of `struct<start, end>`, or one such
  * struct.
  */
object CustomRanges {

  def apply(df: DataFrame, ranges: Column): Expression = {
    val column = OfRow.one(df, ranges, "The ranges are")
    column.dataType match {
      case ArrayType(range: StructType, _) if isRange(range) => column
      case range: StructType if isRange(range)               =>
        If(IsNull(column), Literal(None.orNull, ArrayType(range)), CreateArray(Seq(column)))
      case NullType => Cast(column, TimeRange.array)
      case other    =>
        throw MullionException.invalid(
          s"The column of ranges, ${column.sql}, is of type ${other.simpleString}, and must be an array<struct<start: timestamp, end: " +
            s"timestamp>>. Make one with ${Setting.Ranges}."
        )
    }
  }

  /** A null, for state that is only read. */
  def none: Column = lit(None.orNull).cast(TimeRange.array)

  private def isRange(struct: StructType): Boolean =
    struct.fields.map(_.dataType).toSeq == Seq(TimestampType, TimestampType) &&
      struct.fieldNames.map(_.toLowerCase(java.util.Locale.ROOT)).toSeq == Seq("start", "end")
}
