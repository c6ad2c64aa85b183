package org.apache.spark.sql.mullion.request

import java.util.UUID

import scala.util.Try

import org.json4s._

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Expression, PythonUDF}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Union}
import org.apache.spark.sql.classic.{ColumnNodeToExpressionConverter, DataFrame, Dataset, ExpressionUtils, SparkSession}
import org.apache.spark.sql.functions.lit
import org.apache.spark.sql.mullion.checkpoint.inspect.{OpenPanes, PanesReader}
import org.apache.spark.sql.mullion.expressions.columns.{BatchNumber, RowInBatch}
import org.apache.spark.sql.mullion.plan.DroppedBefore
import org.apache.spark.sql.mullion.plan.build.{
  AsOfBuilder,
  KeyedFunctionBuilder,
  TogetherBuilder,
  WindowedBuilder,
  WindowedJoinBuilder
}
import org.apache.spark.sql.mullion.plan.options.{AsOfOptions, CallDescription, WindowedJoinOptions}
import org.apache.spark.sql.mullion.pyfunction.keyed.StatefulOptions
import org.apache.spark.sql.mullion.shim.{BuildInfo, Distribution, PythonFrames}
import org.apache.spark.sql.types.StringType
import org.apache.spark.sql.{Column, Row}

import dev.mullion.MullionException
import dev.mullion.windows.spec.{Language, Setting}

/** The requests, in JSON under `call`:
  *
  * {{{
  *   version                                 the version of Mullion
  *   windowed                                CallDescription, over the rows
  *   check                                   the same, without aggregates: an error or nothing
  *   dropped_before                          warnings about rows that are lost before windows over these, one per line
  *   watermark       time, delay             withWatermark, for rows that do not exist yet at the call
  *   together        names                   over the union of windows, or [[Several]]
  *   asof_join       AsOfOptions, over the union of both sides, or [[Several]]
  *   windowed_join   CallDescription, with WindowedJoinOptions under `join`, over the same
  *   read_panes      checkpoint, operator, window or null, of: whether the rows are the query's own panes
  *   open_panes      the same, or a query's id instead of a checkpoint
  *   recover         checkpoint
  *   arrival         batch, row: the rows with their order of arrival in two columns of these names
  *   keyed           schema: a Python function with state over the rows, and the columns of its shards
  * }}}
  *
  * `version` is the caller's version of Mullion, and `language` is `sql` for a call written in SQL.
  */
private[request] object Calls {

  def apply(session: SparkSession, json: String, columns: Seq[Expression], rows: LogicalPlan): LogicalPlan = {
    Distribution.check(session, BuildInfo.sparkLine)
    Installation.install(session)
    val request = CallDescription.parsed(json)
    checkVersion(request)
    new Calls(session, request, columns.map(ExpressionUtils.column), rows).plan
  }

  /** A client first requests the version and compares; a declarative pipeline cannot. */
  private def checkVersion(request: JValue): Unit = (request \ "call", request \ "version") match {
    case (JString(call), JString(version)) if call != "version" && version != BuildInfo.version =>
      throw MullionException.versionMismatch(
        s"The Spark Connect server has Mullion ${BuildInfo.version}, and the client's Python package is $version. They must be " +
          s"the same: install the Python package ${BuildInfo.version}, or start the server with the JAR of $version."
      )
    case _ =>
  }
}

private[request] final class Calls(session: SparkSession, request: JValue, columns: Seq[Column], rows: LogicalPlan) {
  private lazy val df: DataFrame = Dataset.ofRows(session, rows)

  private val language = if (some("language").contains("sql")) Language.Sql else Language.Python

  def plan: LogicalPlan = language(planned)

  private def planned: LogicalPlan = text("call") match {
    case "version"        => lines(Seq(BuildInfo.version))
    case "windowed"       => windowed.queryExecution.analyzed
    case "check"          => check()
    case "dropped_before" => lines(DroppedBefore.warnings(df.queryExecution.analyzed))
    case "watermark"      => df.withWatermark(text("time"), text("delay")).queryExecution.analyzed
    case "together"       => together.queryExecution.analyzed
    case "asof_join"      => asOfJoin.queryExecution.analyzed
    case "windowed_join"  => windowedJoin.queryExecution.analyzed
    case "read_panes"     => readPanes.queryExecution.analyzed
    case "open_panes"     => openPanes.queryExecution.analyzed
    case "recover"        => RecoverCommand(text("checkpoint"))
    case "arrival"        => arrival.queryExecution.analyzed
    case "keyed"          => keyed.queryExecution.analyzed
    case other            =>
      throw MullionException.unsupported(
        s"Mullion ${BuildInfo.version} on this server has no call '$other'. Install the same version on both sides."
      )
  }

  private def windowed: DataFrame = {
    val call = CallDescription.read(request, columns)
    UnknownColumns.named(df, CallDescription.rolesOf(request).map(parameter).zip(columns)) {
      WindowedBuilder(df, call.window, call.by, call.options, call.aggregates)
    }
  }

  /** The parameter of a column of a call. */
  private def parameter(role: String): String = (role, request \ "window" \ "kind") match {
    case ("aggregate", _)                       => "aggregates"
    case ("gap", _) if language == Language.Sql => "gap_column"
    case ("trigger", JString(kind))             => kind
    case _                                      => role
  }

  private def check(): LogicalPlan = {
    val call = CallDescription.read(request, columns)
    WindowedBuilder.check(df, call.window, call.by, call.options)
    lines(Nil)
  }

  private def together: DataFrame = {
    val names = (request \ "names") match {
      case JArray(all) => all.collect { case JString(name) => name }
      case other       => throw CallDescription.unreadable(s"$other is not a list of names")
    }
    val windows = unionOf(rows)
    // A union that `windowed(...)` did not return.
    if (windows.length != names.length)
      throw MullionException.invalid(
        s"One of ${names.mkString("'", "', '", "'")} is not a result of windowed(...).agg(...) or .collect(), but a union. Call " +
          "together first, and use the union on its result: each row has its window's name."
      )
    TogetherBuilder(names.zip(windows.map(Dataset.ofRows(session, _))))
  }

  private def asOfJoin: DataFrame = {
    val (left, right) = sides
    AsOfBuilder(left, right, AsOfOptions.read(request))
  }

  private def windowedJoin: DataFrame = {
    val (call, join) = (CallDescription.read(request, columns), WindowedJoinOptions.read(request \ "join"))
    val (left, right) = sides
    WindowedJoinBuilder(left, right, call.window, call.options, join)
  }

  /** The sides of a join. Those of a client's union are aliases, so that Spark does not merge them with unions of
    * theirs.
    */
  private def sides: (DataFrame, DataFrame) = (rows match {
    case Several(sides)     => sides
    case Union(sides, _, _) => sides
    case other              => Seq(other)
  }) match {
    case Seq(left, right) => (Dataset.ofRows(session, left), Dataset.ofRows(session, right))
    case other            => throw CallDescription.unreadable(s"a join has two sides, and this has ${other.length}")
  }

  /** A batch DataFrame has no number of a micro-batch. */
  private def arrival: DataFrame =
    df.withColumn(text("batch"), if (df.isStreaming) BatchNumber.column else lit(0L))
      .withColumn(text("row"), RowInBatch.column)

  private def keyed: DataFrame = {
    val code = columns.headOption
      .map(column => ColumnNodeToExpressionConverter(column.node))
      .collect { case udf: PythonUDF => PythonFrames.Code(udf.name, udf.func) }
      .getOrElse(throw CallDescription.unreadable("the first column calls no Python function"))
    KeyedFunctionBuilder(df, StatefulOptions(code, text("schema"), columns.drop(1)))
  }

  private def unionOf(plan: LogicalPlan): Seq[LogicalPlan] = plan match {
    case Several(children)     => children
    case Union(children, _, _) => children.flatMap(unionOf)
    case one                   => Seq(one)
  }

  private def readPanes: DataFrame = (window, ofPanes) match {
    case (Some(name), _) => PanesReader.readBranch(session, text("checkpoint"), operator, name)
    case (_, Some(own))  => PanesReader.readOf(own, text("checkpoint"), operator)
    case _               => PanesReader.read(session, text("checkpoint"), operator)
  }

  private def openPanes: DataFrame = some("query") match {
    case Some(id) =>
      val query = Try(UUID.fromString(id)).toOption.flatMap(id => Option(session.streams.get(id))).getOrElse {
        throw MullionException.invalid(
          s"The query $id does not run in this session. Give its checkpointLocation, whose panes are those of its last batch."
        )
      }
      OpenPanes.of(query, operator, ofPanes, window)
    case None => OpenPanes.in(session, text("checkpoint"), operator, ofPanes, window)
  }

  private def operator: Int = (request \ "operator") match {
    case JInt(number) if number.isValidInt => number.toInt
    case JInt(number)                      =>
      throw MullionException.invalid(s"${Setting.named("operator")} $number is not the number of an operator.")
    case _ => -1
  }

  private def window: Option[String] = some("window")

  /** The query's own panes, if the call contains them. */
  private def ofPanes: Option[DataFrame] = Option.when(request \ "of" == JBool(true))(df)

  private def text(name: String): String =
    some(name).getOrElse(throw CallDescription.unreadable(s"the call has no $name"))

  private def some(name: String): Option[String] = (request \ name) match {
    case JString(value) => Some(value)
    case _              => None
  }

  private def lines(all: Seq[String]): LogicalPlan =
    LocalRelation.fromExternalRows(Seq(AttributeReference("said", StringType)()), all.map(Row(_)))
}
