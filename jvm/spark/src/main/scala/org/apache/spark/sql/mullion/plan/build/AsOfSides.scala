package org.apache.spark.sql.mullion.plan.build

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.mullion.expressions.columns.KeyColumns
import org.apache.spark.sql.mullion.plan.build.analysis.{TimeColumn, WindowKeys}
import org.apache.spark.sql.mullion.plan.options.AsOfOptions
import org.apache.spark.sql.types._

import dev.mullion.windows.spec.Setting

/** Both sides of an as-of join, checked.
  *
  * @param columns
  *   the output: the columns of the left side, then those of the right side without the keys
  * @param rightFields
  *   the indexes of the right side's columns in the output
  */
private[build] final case class AsOfSides(
    left: AsOfSide,
    right: AsOfSide,
    columns: Seq[Attribute],
    rightFields: Seq[Int]
)

/** One side of an as-of join.
  *
  * @param keys
  *   with equal values where values are equal, such as one zero; without keys a constant
  * @param time
  *   the column with the event time
  */
private[build] final case class AsOfSide(df: DataFrame, keys: Seq[Alias], time: Attribute) {
  def plan: LogicalPlan = df.queryExecution.analyzed

  /** A row as a struct. */
  lazy val row: Expression = CreateNamedStruct(plan.output.flatMap(a => Seq(Literal(a.name), a)))

  /** The event time in microseconds. */
  lazy val timeColumn: Alias = {
    val time = TimeColumn.eventTime(df, col(JoinColumns.quoted(this.time.name)))
    Alias(PreciseTimestampConversion(time, TimestampType, LongType), "time")()
  }
}

private[build] object AsOfSides {

  def apply(left: DataFrame, right: DataFrame, options: AsOfOptions): AsOfSides = {
    JoinColumns.checkKinds(left, right)
    val by = JoinColumns.keys(left, right, options.by)
    Seq(left, right).foreach(df => WindowKeys.checkTypes(df, options.by.map(name => col(JoinColumns.quoted(name)))))
    def side(name: String, df: DataFrame, keys: Seq[Attribute], time: String) = {
      val named = keys.zipWithIndex.map { case (key, i) =>
        Alias(WindowKeys.normalised(key, df.queryExecution.analyzed), s"key$i")()
      }
      named.flatMap(WindowKeys.whyUnstable).headOption.foreach(throw _)
      AsOfSide(
        df,
        if (named.isEmpty) Seq(Alias(Literal(0), KeyColumns.noKey)()) else named,
        JoinColumns.time(df, name, Setting.text(s"${name}_time", time), time)
      )
    }
    val (lefts, rights) = (
      side("left", left, by.map(_._1), options.leftTime),
      side("right", right, by.map(_._2), options.rightTime)
    )
    val rightFields = rights.plan.output.indices.filterNot(i => by.exists(_._2.exprId == rights.plan.output(i).exprId))
    val ofRight = rightFields.map(rights.plan.output)
    val names =
      JoinColumns.rightNames(left, lefts.plan.output.map(_.name), ofRight.map(_.name), options.suffix)
    val columns =
      lefts.plan.output.map(a => output(a, a.name, a.nullable, keepsTime = a.exprId == lefts.time.exprId)) ++
        ofRight.zip(names).map { case (a, name) => output(a, name, nullable = true, keepsTime = false) }
    AsOfSides(lefts, rights, columns, rightFields)
  }

  /** A column of the result. Only the left side's time follows the watermark. */
  private def output(of: Attribute, name: String, nullable: Boolean, keepsTime: Boolean): Attribute = {
    val metadata =
      if (keepsTime) of.metadata
      else new MetadataBuilder().withMetadata(of.metadata).remove(EventTimeWatermark.delayKey).build()
    AttributeReference(name, of.dataType, nullable, metadata)()
  }
}
