package org.apache.spark.sql.mullion.request.sql

import org.json4s._

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.mullion.request.ResolveCalls

import dev.mullion.MullionException

/** SQL table functions, documented by `DESCRIBE FUNCTION EXTENDED mullion_windowed`. Each creates a call, which
  * [[ResolveCalls]] replaces by a plan. They exist in sessions with the extension.
  */
object TableFunctions {

  /** A function.
    *
    * @param tables
    *   the number of leading parameters that are tables; all are without `parameters`
    */
  private[sql] final case class TableFunction(
      name: String,
      parameters: Seq[String],
      tables: Int,
      usage: String,
      make: Seq[Expression] => LogicalPlan
  ) {
    def isTable(parameter: Option[String], position: Int): Boolean =
      parameters.isEmpty || parameter.fold(position < tables)(parameters.take(tables).contains)

    def info: ExpressionInfo =
      new ExpressionInfo(
        TableFunctions.getClass.getName,
        None.orNull,
        name,
        usage,
        "",
        "",
        "",
        "table_funcs",
        "",
        "",
        "built-in"
      )
  }

  private val all: Seq[TableFunction] = Seq(
    TableFunction(
      SqlWindowed.name,
      SqlWindowed.parameters,
      tables = 1,
      s"_FUNC_(TABLE(rows), ${SqlWindowed.parameters.mkString(" => ..., ")} => ...) - Assigns rows to panes, one for each window " +
        "and key, and returns a row for each firing of a pane. Omitted options have the defaults of Python.",
      arguments => SqlWindowed(arguments).call
    ),
    TableFunction(
      "mullion_read_panes",
      SqlPanes.parameters,
      tables = 0,
      s"_FUNC_(${SqlPanes.parameters.mkString(", ")}) - The panes that are open in a query's checkpoint.",
      arguments => panes("read_panes", "mullion_read_panes", arguments)
    ),
    TableFunction(
      "mullion_open_panes",
      SqlPanes.parameters,
      tables = 0,
      s"_FUNC_(${SqlPanes.parameters.mkString(", ")}) - The reasons why panes in a query's checkpoint are open.",
      arguments => panes("open_panes", "mullion_open_panes", arguments)
    ),
    TableFunction(
      SqlTogether.name,
      Nil,
      tables = 0,
      "_FUNC_(name => TABLE(panes), name => TABLE(panes), ...) - Emits the panes of several windows in one table. The first column " +
        "is the name of the window. Windows over the same stream share an operator.",
      arguments => SqlTogether(arguments)
    ),
    TableFunction(
      SqlAsOf.name,
      SqlAsOf.parameters,
      tables = 2,
      s"_FUNC_(TABLE(left), TABLE(right), ${SqlAsOf.parameters.drop(2).mkString(" => ..., ")} => ...) - Joins each row of the left " +
        "side with the row of the right side that is nearest in time.",
      arguments => SqlAsOf(arguments)
    ),
    TableFunction(
      SqlWindowedJoin.name,
      SqlWindowedJoin.parameters,
      tables = 2,
      s"_FUNC_(TABLE(left), TABLE(right), ${SqlWindowedJoin.parameters.drop(2).mkString(" => ..., ")} => ...) - Joins the rows of " +
        "both sides that have the same key and are in the same window.",
      arguments => SqlWindowedJoin(arguments)
    ),
    TableFunction(
      "mullion_recover",
      Seq("checkpoint"),
      tables = 0,
      "_FUNC_(checkpoint) - Resets a checkpoint that has lost state to an earlier batch. Returns the number of batches " +
        "that will run again.",
      arguments => recover(arguments)
    )
  )

  private[sql] def named(name: String): Option[TableFunction] = all.find(_.name == name)

  def inject(extensions: SparkSessionExtensions): Unit = {
    all.foreach(add(extensions, _)(_.make))
    extensions.injectResolutionRule(_ => RejectReferences)
  }

  /** Functions of the same names that fail, for a Spark on which Mullion cannot run. */
  def injectRefusals(extensions: SparkSessionExtensions, why: MullionException): Unit =
    all.foreach(add(extensions, _)(_ => _ => throw why))

  private def add(extensions: SparkSessionExtensions, function: TableFunction)(
      make: TableFunction => Seq[Expression] => LogicalPlan
  ): Unit = extensions.injectTableFunction((FunctionIdentifier(function.name), function.info, make(function)))

  private object SqlPanes {
    val parameters: Seq[String] = Seq("checkpoint", "operator", "window")
  }

  private def panes(call: String, name: String, values: Seq[Expression]): LogicalPlan = {
    val arguments = SqlArguments(name, SqlPanes.parameters, values, s"$name('checkpoints/flights')")
    val request =
      Seq("call" -> JString(call), "checkpoint" -> JString(arguments.needed("checkpoint", arguments.text))) ++
        arguments.number("operator").map(number => "operator" -> JLong(number)) ++
        arguments.text("window").map(window => "window" -> JString(window))
    ResolveCalls.callInSql(request, Nil, LocalRelation())
  }

  private def recover(values: Seq[Expression]): LogicalPlan = {
    val arguments = SqlArguments("mullion_recover", Seq("checkpoint"), values, "mullion_recover('checkpoints/flights')")
    val request =
      Seq("call" -> JString("recover"), "checkpoint" -> JString(arguments.needed("checkpoint", arguments.text)))
    ResolveCalls.callInSql(request, Nil, LocalRelation())
  }
}
