package org.apache.spark.sql.mullion.expressions.columns

import org.apache.spark.sql.catalyst.expressions.BaseGenericInternalRow
import org.apache.spark.sql.types.{ArrayType, StructType, TimestampType}

/** A half-open interval of time as a SQL row, whose times are read without boxing. */
final class TimeRange(start: Long, end: Long) extends BaseGenericInternalRow {

  override def numFields: Int = 2

  override def getLong(ordinal: Int): Long = if (ordinal == 0) start else end

  override def isNullAt(ordinal: Int): Boolean = false

  override protected def genericGet(ordinal: Int): Any = getLong(ordinal)

  override def setNullAt(ordinal: Int): Unit = update(ordinal, None)

  override def update(ordinal: Int, value: Any): Unit =
    throw new UnsupportedOperationException("an interval of time is a value")
}

object TimeRange {
  val schema: StructType =
    new StructType().add("start", TimestampType, nullable = false).add("end", TimestampType, nullable = false)

  val array: ArrayType = ArrayType(schema, containsNull = false)
}
