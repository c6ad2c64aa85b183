package org.apache.spark.sql.mullion.operator.engine.rowwise

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.operator.engine.accumulators.{Accumulators, DistinctRecords}
import org.apache.spark.sql.mullion.operator.engine.timers.{EarlyKeys, KeyRecord, KeyedPanes}
import org.apache.spark.sql.mullion.operator.engine.{PaneProgram, RowProgram}
import org.apache.spark.sql.mullion.state.record.{FamilySpec, RecordOrder}
import org.apache.spark.sql.types._

import dev.mullion.windows.rules.NumberedRules

/** The records of panes whose rows are processed one by one, for [[ArrivalPanes]].
  *
  * {{{
  *   slots   (key, slot)          -> accumulator                   aggregates: one record per slot
  *   values  (key, slot, ...)     -> distinct values               many ones: see `DistinctRecords`
  *   pieces  (key, slot, number)  -> rows of one batch             rows: by the first; one or more per slot and batch
  *   keys    (key)                -> the close time of its next pane, its panes [, the number of rows of its slots]
  *   timers  (due, key)           -> the keys with a pane to close by the stream's clock, or by the wall clock
  *   early   (event, wall, key)   -> the keys that wait to fire early
  *   forget  (due, key)           -> all keys, if they are forgotten after a time without rows
  * }}}
  */
private[operator] object ArrivalFamilies {
  import KeyedPanes.timersFamily
  import PaneProgram.time

  def apply(program: PaneProgram, rows: RowProgram): Seq[FamilySpec] =
    Seq(content(program, rows), keys(program)) ++
      DistinctRecords.families(program.functions, content(program, rows)) ++
      Option.when(hasTimers(program, rows))(timersFamily(program)) ++
      program.rules.early.filter(_ => rows.byRow.delayByKey.isEmpty).map(_ => EarlyKeys.family(program)) ++
      rows.byRow.forgetAfter.map(_ => forget(program))

  private def hasTimers(program: PaneProgram, rows: RowProgram): Boolean =
    rows.byRow.closesByWall || (rows.byRow.delayByKey.isEmpty && !program.rules.isInstanceOf[NumberedRules])

  def content(program: PaneProgram, rows: RowProgram): FamilySpec =
    if (!rows.keepsRows) KeyedPanes.accumulatorsFamily(program, "slots", "slot", Nil)
    else
      FamilySpec(
        "pieces",
        StructType(program.keyFields ++ Seq(time("slot"), time("number"))),
        Accumulators.schema(program.functions, Nil),
        RecordOrder.WithinKey
      )

  def forget(program: PaneProgram): FamilySpec = timersFamily(program).copy(name = "forget")

  def keys(program: PaneProgram): FamilySpec = KeyRecord.family(program, "sizes")

  /** Keys with a slot and the number of a row. */
  final class PieceKey(keyTypes: Seq[DataType]) {
    private val numbers = new GenericInternalRow(2)
    private val both = new JoinedRow()
    private val projection = UnsafeProjection.create(
      keyTypes.zipWithIndex.map { case (t, i) => BoundReference(2 + i, t, nullable = true) } ++
        Seq(BoundReference(0, LongType, nullable = false), BoundReference(1, LongType, nullable = false))
    )

    def apply(slot: Long, number: Long, key: UnsafeRow): UnsafeRow = {
      numbers.update(0, slot)
      numbers.update(1, number)
      projection(both(numbers, key))
    }
  }
}
