package org.apache.spark.sql.mullion.plan.build

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Window => _, _}
import org.apache.spark.sql.classic.{DataFrame, Dataset}
import org.apache.spark.sql.expressions.Window
import org.apache.spark.sql.functions.{col, last, lit, struct, when}
import org.apache.spark.sql.mullion.plan.options.AsOfOptions
import org.apache.spark.sql.mullion.plan.{AsOfTerms, StreamAsOfJoin}

import dev.mullion.windows.rules.{AsOfDirection, AsOfRules}
import dev.mullion.windows.spec.Language

/** Converts an as-of join to a plan. The rows of both sides are one input, with their keys, their time, and the row
  * itself as a struct:
  *
  * {{{
  *   key0   time    left         right
  *   a      12:00   {12:00, 7}   null
  *   a      11:59   null         {11:59, 6}
  * }}}
  *
  * A stream becomes an [[StreamAsOfJoin]]. In a batch DataFrame, Spark's window functions find the last right row
  * before each row, and, in the reverse order of times, the first one after it.
  */
object AsOfBuilder {

  def apply(left: DataFrame, right: DataFrame, options: AsOfOptions): DataFrame = {
    val rules = options.rules
    val sides = AsOfSides(left, right, options)
    val input = union(sides)
    if (left.isStreaming) stream(sides, input, rules) else batch(sides, input, rules)
  }

  private def union(sides: AsOfSides): Union = {
    def rows(side: AsOfSide) = {
      def row(of: AsOfSide) = if (of eq side) of.row else Literal(None.orNull, of.row.dataType)
      val columns = Seq(side.timeColumn, Alias(row(sides.left), "left")(), Alias(row(sides.right), "right")())
      Project(side.keys ++ columns, side.plan)
    }
    Union(Seq(rows(sides.left), rows(sides.right)))
  }

  private def stream(sides: AsOfSides, input: Union, rules: AsOfRules): DataFrame = {
    val (columns, keys) = (input.output, input.output.length - 3)
    val terms = AsOfTerms(rules, sides.rightFields, Language.current)
    val node = StreamAsOfJoin(
      columns.take(keys),
      time = columns(keys),
      left = columns(keys + 1),
      right = columns(keys + 2),
      sides.columns,
      terms,
      input
    )
    // New column ids: Spark distinguishes two uses of one DataFrame by renaming the columns of projections.
    Dataset.ofRows(sides.left.df.sparkSession, Project(node.output.map(a => Alias(a, a.name)()), node))
  }

  private def batch(sides: AsOfSides, input: Union, rules: AsOfRules): DataFrame = {
    val spark = sides.left.df.sparkSession
    val numbered = Project(input.output :+ Alias(MonotonicallyIncreasingID(), "arrival")(), input)
    val keys = input.output.dropRight(3).map(key => col(key.name))
    val (time, isRight) = (col("time"), col("left").isNull)
    // A null matches nothing.
    val rows =
      Dataset.ofRows(spark, numbered).where(time.isNotNull && (!isRight || keys.map(_.isNotNull).reduce(_ && _)))
    // False sorts first.
    val rightsFirst = if (rules.allowExact) !isRight else isRight
    val candidate = when(isRight, struct(time, col("right")))
    def lastSoFar(order: Column) = last(candidate, ignoreNulls = true).over(
      Window
        .partitionBy(keys: _*)
        .orderBy(order, rightsFirst, col("arrival"))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    def within(side: String, distance: Column) =
      rules.tolerance.fold(lit(true))(distance <= lit(_)) && col(side).isNotNull
    val (behind, ahead) = (col("behind"), col("ahead"))
    val (back, forth) = (time - behind.getField("time"), ahead.getField("time") - time)
    val isBehind = within("behind", back) && (!within("ahead", forth) || back <= forth)
    val (found, matched) = rules.direction match {
      case AsOfDirection.Backward =>
        rows.withColumn("behind", lastSoFar(time.asc)) -> when(within("behind", back), behind)
      case AsOfDirection.Forward =>
        rows.withColumn("ahead", lastSoFar(time.desc)) -> when(within("ahead", forth), ahead)
      case AsOfDirection.Nearest =>
        rows.withColumn("behind", lastSoFar(time.asc)).withColumn("ahead", lastSoFar(time.desc)) ->
          when(isBehind, behind).when(within("ahead", forth), ahead)
    }
    val pairs = found.where(!isRight).select(col("left"), matched.getField("right").as("right")).queryExecution.analyzed
    val fields = sides.columns.dropRight(sides.rightFields.length).indices.map(GetStructField(pairs.output.head, _)) ++
      sides.rightFields.map(GetStructField(pairs.output.last, _))
    Dataset.ofRows(
      spark,
      Project(
        fields.zip(sides.columns).map { case (field, column) =>
          Alias(field, column.name)(explicitMetadata = Some(column.metadata))
        },
        pairs
      )
    )
  }
}
