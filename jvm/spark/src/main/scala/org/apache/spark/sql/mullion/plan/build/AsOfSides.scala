package org.apache.spark.sql.mullion.plan.build

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.mullion.expressions.columns.KeyColumns
import org.apache.spark.sql.mullion.plan.build.analysis.{TimeColumn, WindowKeys}
import org.apache.spark.sql.mullion.plan.options.AsOfOptions
import org.apache.spark.sql.types._

import dev.mullion.MullionException
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
    val time = TimeColumn.eventTime(df, col(AsOfSide.quoted(this.time.name)))
    Alias(PreciseTimestampConversion(time, TimestampType, LongType), "time")()
  }
}

private[build] object AsOfSides {

  def apply(left: DataFrame, right: DataFrame, options: AsOfOptions): AsOfSides = {
    checkKinds(left, right)
    val by = options.by.map(name => (column(left, "left", "by", name), column(right, "right", "by", name)))
    by.foreach { case (of, other) => checkKey(of, other) }
    Seq(left, right).foreach(df => WindowKeys.checkTypes(df, options.by.map(name => col(AsOfSide.quoted(name)))))
    def side(name: String, df: DataFrame, keys: Seq[Attribute], time: String) = {
      val named = keys.zipWithIndex.map { case (key, i) =>
        Alias(WindowKeys.normalised(key, df.queryExecution.analyzed), s"key$i")()
      }
      named.flatMap(WindowKeys.whyUnstable).headOption.foreach(throw _)
      AsOfSide(
        df,
        if (named.isEmpty) Seq(Alias(Literal(0), KeyColumns.noKey)()) else named,
        checkTime(df, name, s"${name}_time", time)
      )
    }
    val (lefts, rights) = (
      side("left", left, by.map(_._1), options.leftTime),
      side("right", right, by.map(_._2), options.rightTime)
    )
    val rightFields = rights.plan.output.indices.filterNot(i => by.exists(_._2.exprId == rights.plan.output(i).exprId))
    val names = lefts.plan.output.map(_.name)
    val same = left.sparkSession.sessionState.conf.resolver
    val ofLeft = lefts.plan.output.map(a => output(a, a.name, a.nullable, keepsTime = a.exprId == lefts.time.exprId))
    val ofRight = rightFields.map(rights.plan.output).map { a =>
      val name = if (names.exists(same(_, a.name))) a.name + options.suffix else a.name
      output(a, name, nullable = true, keepsTime = false)
    }
    val columns = ofLeft ++ ofRight
    columns.map(_.name).find(name => columns.count(c => same(c.name, name)) > 1).foreach { name =>
      throw MullionException.invalid(
        s"The result of the join would have several columns named '$name'. Rename or drop all but one of them before the " +
          s"join, or give another ${Setting.named("suffix")}."
      )
    }
    AsOfSides(lefts, rights, columns, rightFields)
  }

  /** A column of the result. Only the left side's time follows the watermark. */
  private def output(of: Attribute, name: String, nullable: Boolean, keepsTime: Boolean): Attribute = {
    val metadata =
      if (keepsTime) of.metadata
      else new MetadataBuilder().withMetadata(of.metadata).remove(EventTimeWatermark.delayKey).build()
    AttributeReference(name, of.dataType, nullable, metadata)()
  }

  private def checkKinds(left: DataFrame, right: DataFrame): Unit = if (left.isStreaming != right.isStreaming) {
    val (stream, other) = if (left.isStreaming) ("left", "right") else ("right", "left")
    throw MullionException.unsupported(
      s"The $stream side of the join is a stream and the $other side is a batch DataFrame. Read both as streams, or both " +
        "as batches."
    )
  }

  private def column(df: DataFrame, side: String, option: String, name: String): Attribute = {
    val resolver = df.sparkSession.sessionState.conf.resolver
    df.queryExecution.analyzed.output.filter(a => resolver(a.name, name)) match {
      case Seq(one) => one
      case Seq()    =>
        throw MullionException.unknownColumn(
          s"${Setting.text(option, name)}: the $side side has no column '$name'. It has ${df.columns.mkString("'", "', '", "'")}."
        )
      case several =>
        throw MullionException.invalid(
          s"${Setting.text(option, name)}: the $side side has ${several.length} columns of that name. Rename or drop all " +
            "but one of them before the join."
        )
    }
  }

  private def checkKey(left: Attribute, right: Attribute): Unit =
    if (!DataType.equalsIgnoreNullability(left.dataType, right.dataType))
      throw MullionException.invalid(
        s"${Setting.text("by", left.name)} is of type ${left.dataType.sql} on the left and ${right.dataType.sql} on the " +
          s"right. Cast one of them first, as in ${Setting.cast(right.name, left.dataType.sql)}."
      )

  private def checkTime(df: DataFrame, side: String, option: String, name: String): Attribute = {
    val time = column(df, side, option, name)
    val isTime = time.dataType match {
      case TimestampType => true
      case s: StructType => s.fieldNames.sameElements(Array("start", "end")) && s("end").dataType == TimestampType
      case _             => false
    }
    if (!isTime)
      throw MullionException.invalid(
        s"${Setting.text(option, name)} is of type ${time.dataType.sql}, and a join needs a timestamp. Convert it before the " +
          s"watermark is set, as in ${Setting.function("to_timestamp", name)}."
      )
    if (df.isStreaming && !time.metadata.contains(EventTimeWatermark.delayKey))
      throw MullionException.invalid(
        s"${Setting.text(option, name)} has no watermark on the $side side: without one no row would ever be emitted. Call " +
          s"${Setting.withWatermark(name, "10 minutes")} on it before the join."
      )
    time
  }
}

private[build] object AsOfSide {
  def quoted(name: String): String = s"`${name.replace("`", "``")}`"
}
