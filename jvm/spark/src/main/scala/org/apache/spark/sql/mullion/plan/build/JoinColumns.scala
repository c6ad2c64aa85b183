package org.apache.spark.sql.mullion.plan.build

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.spec.Setting

/** Columns of the two sides of a join, checked. */
private[build] object JoinColumns {

  def quoted(name: String): String = s"`${name.replace("`", "``")}`"

  /** Rejects a stream with a batch DataFrame. */
  def checkKinds(left: DataFrame, right: DataFrame): Unit = if (left.isStreaming != right.isStreaming) {
    val (stream, other) = if (left.isStreaming) ("left", "right") else ("right", "left")
    throw MullionException.unsupported(
      s"The $stream side of the join is a stream and the $other side is a batch DataFrame. Read both as streams, or both " +
        "as batches."
    )
  }

  /** The keys on the left and on the right. */
  def keys(left: DataFrame, right: DataFrame, by: Seq[String]): Seq[(Attribute, Attribute)] = {
    val pairs = by.map { name =>
      val setting = Setting.text("by", name)
      (column(left, "left", setting, name), column(right, "right", setting, name))
    }
    pairs.foreach { case (of, other) => checkKey(of, other) }
    pairs.groupBy(_._1.exprId).values.find(_.length > 1).foreach { same =>
      throw MullionException.invalid(
        s"${Setting.By} has the column '${same.head._1.name}' ${same.length} times. Name it once."
      )
    }
    pairs
  }

  /** The event time of a side, which in a stream has a watermark. */
  def time(df: DataFrame, side: String, setting: Setting, name: String): Attribute = {
    val time = column(df, side, setting, name)
    val isTime = time.dataType match {
      case TimestampType => true
      case s: StructType => s.fieldNames.sameElements(Array("start", "end")) && s("end").dataType == TimestampType
      case _             => false
    }
    if (!isTime)
      throw MullionException.invalid(
        s"$setting is of type ${time.dataType.sql} on the $side, and a join needs a timestamp. Convert it before the " +
          s"watermark is set, as in ${Setting.function("to_timestamp", name)}."
      )
    if (df.isStreaming && !time.metadata.contains(EventTimeWatermark.delayKey))
      throw MullionException.invalid(
        s"$setting has no watermark on the $side side: without one no row would ever be emitted. Call " +
          s"${Setting.withWatermark(name, "10 minutes")} on it before the join."
      )
    time
  }

  /** The names of right columns in the result, with the suffix where the left side has them too.
    *
    * @param taken
    *   the names of the result's other columns
    */
  def rightNames(df: DataFrame, taken: Seq[String], right: Seq[String], suffix: String): Seq[String] = {
    val same = df.sparkSession.sessionState.conf.resolver
    val names = right.map(name => if (taken.exists(same(name, _))) name + suffix else name)
    val all = taken ++ names
    all.find(name => all.count(same(_, name)) > 1).foreach { name =>
      throw MullionException.invalid(
        s"The result of the join would have several columns named '$name'. Rename or drop all but one of them before the " +
          s"join, or give another ${Setting.named("suffix")}."
      )
    }
    names
  }

  private def column(df: DataFrame, side: String, setting: Setting, name: String): Attribute = {
    val resolver = df.sparkSession.sessionState.conf.resolver
    df.queryExecution.analyzed.output.filter(a => resolver(a.name, name)) match {
      case Seq(one) => one
      case Seq()    =>
        throw MullionException.unknownColumn(
          s"$setting: the $side side has no column '$name'. It has ${df.columns.mkString("'", "', '", "'")}."
        )
      case several =>
        throw MullionException.invalid(
          s"$setting: the $side side has ${several.length} columns of that name. Rename or drop all " +
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
}
