package org.apache.spark.sql.mullion.request.sql

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions.{
  Expression,
  FunctionTableSubqueryArgumentExpression,
  NamedArgumentExpression,
  Unevaluable
}
import org.apache.spark.sql.catalyst.parser.{CatalystSqlParser, ParseException}
import org.apache.spark.sql.catalyst.plans.logical.{OneRowRelation, Project}
import org.apache.spark.sql.mullion.request.CloseName
import org.apache.spark.sql.mullion.sqlfunctions.LengthArgument
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.MullionException

/** The arguments of a SQL table function call, by parameter name.
  *
  * @param example
  *   a valid call
  */
private[request] final class SqlArguments private (
    val function: String,
    example: String,
    arguments: Map[String, Expression]
) {
  private val lengths = new LengthArgument(function)

  /** An argument that is present and not NULL. */
  private def some(name: String): Option[Expression] =
    arguments.get(name).filterNot(e => isConstant(e) && Option(e.eval()).isEmpty)

  /** True for an expression with a value. Spark evaluates some constants, such as `current_user()`, in a plan only. */
  private def isConstant(e: Expression): Boolean = e.foldable && !e.exists(_.isInstanceOf[Unevaluable])

  def has(name: String): Boolean = arguments.contains(name)

  def table(name: String): FunctionTableSubqueryArgumentExpression = arguments.get(name) match {
    case Some(table: FunctionTableSubqueryArgumentExpression) => table
    case other                                                =>
      throw MullionException.invalid(
        s"$function was given ${other.fold("nothing")(_.sql)} instead of rows. Give a table, a view or a query: " +
          s"$example."
      )
  }

  def needed[A](name: String, of: String => Option[A]): A = of(name).getOrElse {
    throw MullionException.invalid(s"$function was not given $name. Write, for instance, $example.")
  }

  def text(name: String): Option[String] = some(name).map { e =>
    val value = if (isConstant(e)) e.eval() else None
    (e.dataType, value) match {
      case (_: StringType, text: UTF8String) => text.toString
      case _                                 => throw wrong(name, e, "text", s"$name => '...'")
    }
  }

  /** The argument if it is a text; none if it is an interval. */
  def ifText(name: String): Option[String] =
    some(name).filter(_.dataType.isInstanceOf[StringType]).flatMap(_ => text(name))

  def truth(name: String): Option[Boolean] = some(name).map { e =>
    constant(name, e) match {
      case truth: Boolean => truth
      case _              => throw wrong(name, e, "true or false", s"$name => true")
    }
  }

  def number(name: String): Option[Long] = some(name).map { e =>
    constant(name, e) match {
      case number: Byte  => number.toLong
      case number: Short => number.toLong
      case number: Int   => number.toLong
      case number: Long  => number
      case _             => throw wrong(name, e, "a whole number", s"$name => 100")
    }
  }

  /** A length of time, in microseconds. */
  def length(name: String): Option[Long] = some(name).map(lengths.any(name, _))

  def positive(name: String): Option[Long] = some(name).map(lengths.positive(name, _))

  def oneOf(name: String, choices: Seq[String]): Option[String] = text(name).map { text =>
    if (!choices.contains(text))
      throw MullionException.invalid(
        s"$name => '$text' of $function is none of ${choices.mkString("'", "', '", "'")}." +
          CloseName(text, choices).fold(" Write one of these.")(close => s" Did you mean '$close'?")
      )
    text
  }

  /** Columns, from a text in the form of a SELECT list. */
  def columns(name: String): Seq[Expression] = text(name).toSeq.flatMap { text =>
    val parsed =
      try CatalystSqlParser.parsePlan(s"SELECT $text")
      catch {
        case theirs: ParseException =>
          throw MullionException.invalid(
            s"$name => '$text' of $function is not a list of columns: ${theirs.getMessage.trim.linesIterator.nextOption().getOrElse("")} " +
              "Write it as after SELECT, such as 'carrier, upper(origin) AS origin'."
          )
      }
    parsed match {
      case Project(columns, _: OneRowRelation) => columns
      case _                                   =>
        throw MullionException.invalid(
          s"$name => '$text' of $function is more than a list of columns. Write a SELECT list, such as 'carrier, " +
            "upper(origin) AS origin'; filters and joins belong into TABLE(SELECT ...)."
        )
    }
  }

  def column(name: String): Option[Expression] = columns(name) match {
    case Nil      => None
    case Seq(one) => Some(one)
    case several  =>
      throw MullionException.invalid(s"$name of $function is one column, and was given ${several.length}. Name one.")
  }

  private def constant(name: String, e: Expression): Any =
    if (isConstant(e)) e.eval() else throw wrong(name, e, "the same for all rows", s"$name => '...'")

  private def wrong(name: String, e: Expression, meant: String, valid: String): MullionException =
    MullionException.invalid(s"$name => ${e.sql} of $function must be $meant. Write, for instance, $valid.")
}

private[request] object SqlArguments {

  /** The replacements of former parameters. */
  private val renamed = Map(
    "running" -> "early_each_row",
    "watermark" -> "clock",
    "idle_after" -> "clock_idle_after",
    "late_by" -> "clock_late_by",
    "new_aggregates" -> "upgrade_new_aggregates",
    "on_change" -> "upgrade_window"
  )

  def apply(function: String, parameters: Seq[String], values: Seq[Expression], example: String): SqlArguments = {
    val (named, placed) = values.partition(_.isInstanceOf[NamedArgumentExpression])
    if (placed.length > parameters.length)
      throw MullionException.invalid(
        s"$function takes at most ${parameters.length} arguments, and was given ${values.length}. Write, for instance, $example."
      )
    val pairs = named.collect { case NamedArgumentExpression(name, value) => name.toLowerCase(Locale.ROOT) -> value }
    lazy val byName = pairs.toMap
    val all = parameters.zip(placed) ++ pairs
    all.map(_._1).find(!parameters.contains(_)).foreach { name =>
      val close = renamed.get(name).filter(parameters.contains).orElse(CloseName(name, parameters))
      def meant(of: String) = s" Did you mean '$of'? Write $of => ${shown(byName(name))}."
      throw MullionException.invalid(
        s"$function has no argument '$name'." +
          close.fold(s" It accepts ${parameters.mkString(", ")}. Write, for instance, $example.")(meant)
      )
    }
    all.map(_._1).diff(all.map(_._1).distinct).headOption.foreach { name =>
      throw MullionException.invalid(s"$function was given '$name' twice.")
    }
    new SqlArguments(function, example, all.toMap)
  }

  private def shown(e: Expression): String = e match {
    case _: FunctionTableSubqueryArgumentExpression => "TABLE(...)"
    case other                                      => other.sql
  }
}
