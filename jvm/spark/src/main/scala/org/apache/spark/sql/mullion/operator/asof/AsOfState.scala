package org.apache.spark.sql.mullion.operator.asof

import org.apache.spark.sql.mullion.operator.engine.PartitionTotals
import org.apache.spark.sql.mullion.operator.engine.timers.KeyOnly
import org.apache.spark.sql.mullion.state.record.{FamilySpec, RecordOrder}
import org.apache.spark.sql.types._

import dev.mullion.windows.rules.{AsOfDirection, AsOfRules}

/** The kinds of record of an as-of join:
  *
  * {{{
  *   waiting   (time, number, key) -> row       left rows that are not due; backward: right rows after the clock too
  *   latest    (key)               -> time, row     backward: the last right row up to the clock
  *   rights    (key, time)         -> time, row     forward, nearest: right rows
  *   expiry    (time, key)                      when a right row is not needed any more
  * }}}
  *
  * @param left
  *   the type of a left row
  * @param right
  *   the type of a right row
  */
private[mullion] final case class AsOfState(keys: Seq[DataType], left: DataType, right: DataType, rules: AsOfRules) {
  private val keyFields = keys.zipWithIndex.map { case (of, i) => StructField(AsOfState.keyName(i), of) }
  private def long(name: String) = StructField(name, LongType, nullable = false)
  private val rightValue = StructType(Seq(long("time"), StructField("row", right)))

  private[asof] val isBackward: Boolean = rules.direction == AsOfDirection.Backward

  val waiting: FamilySpec = FamilySpec(
    "waiting",
    StructType(Seq(long("time"), long("number")) ++ keyFields),
    StructType(Seq(StructField("left", left), StructField("right", right))),
    RecordOrder.ByFirst(2)
  )

  private[asof] val latest: FamilySpec =
    FamilySpec("latest", StructType(keyFields), rightValue, RecordOrder.Unordered)

  private[asof] val rights: FamilySpec =
    FamilySpec("rights", StructType(keyFields :+ long("time")), rightValue, RecordOrder.WithinKey)

  private[asof] val expiry: FamilySpec =
    FamilySpec("expiry", StructType(long("time") +: keyFields), KeyOnly.schema, RecordOrder.ByFirst(1))

  /** All of them; the first is the one that Spark records. */
  val families: Seq[FamilySpec] =
    Seq(waiting, if (isBackward) latest else rights) ++ rules.keep.map(_ => expiry) :+ PartitionTotals.family
}

private[mullion] object AsOfState {

  /** The name of a key's column in the key of a record. */
  def keyName(number: Int): String = s"key$number"
}
