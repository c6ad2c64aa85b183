package org.apache.spark.sql.mullion.calls

import java.util.UUID

import scala.util.Try

import org.json4s._

import org.apache.spark.sql.{Column, Row}
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Union}
import org.apache.spark.sql.classic.{DataFrame, Dataset, ExpressionUtils, SparkSession}
import org.apache.spark.sql.mullion.builders.{CallDescription, Installation, TogetherBuilder, WindowedBuilder}
import org.apache.spark.sql.mullion.checkpoint.{OpenPanes, PanesReader}
import org.apache.spark.sql.mullion.plan.DroppedBefore
import org.apache.spark.sql.mullion.shim.{BuildInfo, Distribution}
import org.apache.spark.sql.types.StringType

import dev.mullion.MullionException

/** What a call may ask for, in JSON under `call`:
  *
  * {{{
  *   version                                 which Mullion this is
  *   windowed                                CallDescription, over the rows
  *   check                                   the same, without aggregates: refused or nothing
  *   dropped_before                          what is to be said of rows that no window over these sees, a line each
  *   watermark       time, delay             withWatermark, for rows that are not there yet when it is called
  *   together        names                   over the union of windows, or [[Several]]
  *   read_panes      checkpoint, operator, window or null, of: whether the rows are the query's own panes
  *   open_panes      the same, or a query's id instead of a checkpoint
  *   recover         checkpoint
  * }}}
  *
  * `version` says which Mullion the call comes from, and `dialect` is `sql` where it was written so.
  */
private[calls] object Calls {

  def apply(session: SparkSession, json: String, columns: Seq[Expression], rows: LogicalPlan): LogicalPlan = {
    Distribution.check(session, BuildInfo.sparkLine)
    Installation.install(session)
    val said = CallDescription.parsed(json)
    checkVersion(said)
    new Calls(session, said, columns.map(ExpressionUtils.column), rows).plan
  }

  /** A client asks for the version first, and compares; but in a declarative pipeline it cannot. */
  private def checkVersion(said: JValue): Unit = (said \ "call", said \ "version") match {
    case (JString(call), JString(version)) if call != "version" && version != BuildInfo.version =>
      throw MullionException.versionMismatch(
        s"The Spark Connect server has Mullion ${BuildInfo.version}, and the client's Python package is $version. They must be " +
          s"the same: pip install mullion-spark==${BuildInfo.version}, or start the server with the JAR of $version."
      )
    case _ =>
  }
}

private[calls] final class Calls(session: SparkSession, said: JValue, columns: Seq[Column], rows: LogicalPlan) {
  private lazy val df: DataFrame = Dataset.ofRows(session, rows)

  def plan: LogicalPlan = text("call") match {
    case "version"        => lines(Seq(BuildInfo.version))
    case "windowed"       => windowed.queryExecution.analyzed
    case "check"          => check()
    case "dropped_before" => lines(DroppedBefore.warnings(df.queryExecution.analyzed))
    case "watermark"      => df.withWatermark(text("time"), text("delay")).queryExecution.analyzed
    case "together"       => together.queryExecution.analyzed
    case "read_panes"     => readPanes.queryExecution.analyzed
    case "open_panes"     => openPanes.queryExecution.analyzed
    case "recover"        => RecoverCommand(text("checkpoint"))
    case other            =>
      throw MullionException.unsupported(
        s"Mullion ${BuildInfo.version} on this server knows no call '$other'. Install the same version on both sides."
      )
  }

  private def windowed: DataFrame = {
    val call = CallDescription.read(said, columns)
    val isSql = some("dialect").contains("sql")
    UnknownColumns.named(df, CallDescription.rolesOf(said).map(parameter(_, isSql)).zip(columns), isSql) {
      WindowedBuilder(df, call.window, call.by, call.options, call.aggregates)
    }
  }

  /** The parameter that a column of a call was given for. */
  private def parameter(role: String, isSql: Boolean): String = (role, said \ "window" \ "kind") match {
    case ("aggregate", _)           => "aggregates"
    case ("gap", _) if isSql        => "gap_column"
    case ("trigger", JString(kind)) => kind
    case _                          => role
  }

  private def check(): LogicalPlan = {
    val call = CallDescription.read(said, columns)
    WindowedBuilder.check(df, call.window, call.by, call.options)
    lines(Nil)
  }

  private def together: DataFrame = {
    val names = (said \ "names") match {
      case JArray(all) => all.collect { case JString(name) => name }
      case other       => throw CallDescription.unreadable(s"$other is not a list of names")
    }
    val windows = unionOf(rows)
    // A window that is a union itself is nothing that windowed(...) gave.
    if (windows.length != names.length)
      throw MullionException.invalid(
        s"One of ${names.mkString("'", "', '", "'")} is not a result of windowed(...).agg(...) or .collect(), but a union. Put the " +
          "windows together first, and work on the result: each row has its window's name."
      )
    TogetherBuilder(names.zip(windows.map(Dataset.ofRows(session, _))))
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

  private def operator: Int = (said \ "operator") match {
    case JInt(number) if number.isValidInt => number.toInt
    case JInt(number) => throw MullionException.invalid(s"operator=$number is not the number of an operator.")
    case _            => -1
  }

  private def window: Option[String] = some("window")

  /** The query's own panes, where the call brings them. */
  private def ofPanes: Option[DataFrame] = Option.when(said \ "of" == JBool(true))(df)

  private def text(name: String): String =
    some(name).getOrElse(throw CallDescription.unreadable(s"the call says no $name"))

  private def some(name: String): Option[String] = (said \ name) match {
    case JString(value) => Some(value)
    case _              => None
  }

  private def lines(all: Seq[String]): LogicalPlan =
    LocalRelation.fromExternalRows(Seq(AttributeReference("said", StringType)()), all.map(Row(_)))
}
