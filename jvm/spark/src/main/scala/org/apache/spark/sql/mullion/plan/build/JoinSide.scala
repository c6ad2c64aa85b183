package org.apache.spark.sql.mullion.plan.build

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute}
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.classic.{DataFrame, ExpressionUtils}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.plan.build.analysis.TimeColumn
import org.apache.spark.sql.types._

import dev.mullion.windows.rules.JoinKind

/** One side of a windowed join.
  *
  * @param name
  *   `left` or `right`
  * @param keys
  *   its keys, in the order of the call
  */
private[build] final class JoinSide(val name: String, val df: DataFrame, keys: Seq[Attribute], time: Attribute) {
  import JoinSide._

  private val all = df.queryExecution.analyzed.output

  /** The columns without the keys. */
  val fields: Seq[Attribute] = all.filterNot(a => keys.exists(_.exprId == a.exprId))

  /** The column with its rows, next to those of the other side. */
  val tag: String = s"_mullion_$name"

  /** The metadata of renamed columns on the right. The optimizer removes renamings without metadata, even if a union
    * then has one column twice, which Spark rejects. The result of a union has the metadata of its left side.
    */
  private def renamedMetadata: Metadata =
    if (name == "left") Metadata.empty else new MetadataBuilder().putBoolean(Kept, true).build()

  /** Its rows with their event time as an additional column. */
  val timed: DataFrame = {
    val metadata = new MetadataBuilder().withMetadata(renamedMetadata)
    if (df.isStreaming)
      metadata.putLong(EventTimeWatermark.delayKey, time.metadata.getLong(EventTimeWatermark.delayKey))
    val event = TimeColumn.eventTime(df, col(JoinColumns.quoted(time.name)))
    val column = Alias(event, WindowedJoinBuilder.timeName)(explicitMetadata = Some(metadata.build()))
    df.select(col("*"), ExpressionUtils.column(column))
  }

  /** A row without its keys. Its event time is older than the watermark when its window closes, so it carries none. */
  private val rowType = StructType(fields.map(field => StructField(field.name, field.dataType)))
  private def row: Column = struct(fields.map(field => ofName(field.name)): _*).cast(rowType)

  /** Its rows: the keys, the time, the row under its tag and null under the other, and columns of the window.
    *
    * @param names
    *   of the keys in the result
    * @param window
    *   the columns of the window, on each side
    */
  def tagged(names: Seq[String], sides: Seq[JoinSide], how: JoinKind, window: JoinSide => Seq[Column]): DataFrame = {
    val hasKeys = keys.map(key => ofName(key.name).isNotNull).reduceOption(_ && _)
    // Nulls match nothing. The event time keeps the condition above the watermark, which all rows advance.
    val isDropped = how == JoinKind.Inner || (how == JoinKind.Left && name == "right")
    val rows = hasKeys.filter(_ => isDropped).fold(timed)(has => timed.where(ofName(time.name).isNull || has))
    // Rows with null keys are emitted in panes of their own side.
    val alone = hasKeys.filter(_ => how == JoinKind.Full).map(has => when(!has, name).as(Alone))
    val tags = sides.map(of => (if (of eq this) row else lit(None.orNull).cast(of.rowType)).as(of.tag))
    rows.select(
      keys.zip(names).map { case (key, shown) => ofName(key.name).as(shown, renamedMetadata) } ++ alone ++
        (col(WindowedJoinBuilder.timeName) +: tags) ++ window(this): _*
    )
  }

  /** A late row with all its columns; null for a late row of the other side.
    *
    * @param names
    *   of the keys in the late row
    */
  def lateRow(names: Seq[String]): Column = {
    val late = col("late_row")
    val columns = all.map { column =>
      val key = keys.indexWhere(_.exprId == column.exprId)
      val value = if (key < 0) late.getField(tag).getField(column.name) else late.getField(names(key))
      value.as(column.name)
    }
    when(late.getField(tag).isNotNull, struct(columns: _*))
  }
}

private[build] object JoinSide {
  // The side of a row with a null key, as another key.
  private val Alone = "_mullion_side_of_null_keys"

  private val Kept = "mullion.isKept"

  private def ofName(name: String): Column = col(JoinColumns.quoted(name))
}
