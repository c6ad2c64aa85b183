package org.apache.spark.sql.mullion.plan

import java.util.Locale

import scala.annotation.tailrec

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, ExprId, Expression, GetStructField, JsonToStructs}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, Filter, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.expressions.columns.{PlainJsonParser, PrunedJson}
import org.apache.spark.sql.types.StructType

/** In a query with windows, parses only the columns of `from_json` that the query reads, by [[PrunedJson]].
  *
  * {{{
  *   Project j.k, j.ts         Project j.k, j.ts
  *   Project from_json AS j    Project PrunedJson [k, ts] AS j
  * }}}
  *
  * Spark's own rule, `OptimizeCsvJsonExprs`, prunes `from_json(...).k` in one expression. `CollapseProject` does not
  * produce that expression if a query reads several columns, because each would parse the text again.
  */
object PruneJson extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!SQLConf.get.jsonExpressionOptimization || !plan.exists(isWindow)) plan
    else plan.transform { case outer: Project => parsers(outer).foldLeft(outer)(prune) }

  private def isWindow(node: LogicalPlan): Boolean = node match {
    case _: WindowedAggregate | _: WindowsTogether | _: StreamAsOfJoin => true
    case _                                                             => false
  }

  /** The columns of `from_json` that a project reads, through filters and watermarks at most. */
  private def parsers(outer: Project): Seq[(Attribute, JsonToStructs)] = inner(outer.child).toSeq.flatMap {
    _.projectList.collect {
      case column @ Alias(json: JsonToStructs, _) if isPrunable(json) => (column.toAttribute, json)
    }
  }

  @tailrec private def inner(node: LogicalPlan): Option[Project] = node match {
    case project: Project                            => Some(project)
    case other @ (_: Filter | _: EventTimeWatermark) => inner(other.children.head)
    case _                                           => None
  }

  private def prune(outer: Project, parser: (Attribute, JsonToStructs)): Project = {
    val (column, json) = parser
    // Of the nodes below, only those between the two projects have the column.
    val expressions = (outer +: outer.child.collect { case node @ (_: Filter | _: EventTimeWatermark) => node })
      .flatMap(_.expressions)
    val uses = expressions.flatMap(_.collect { case use: Attribute if use.exprId == column.exprId => use })
    val read = expressions.flatMap(_.collect { case Field(parsed, field) if parsed == column.exprId => field })
    val fields = read.distinct.sorted
    if (uses.length != read.length) outer
    else replaced(outer, column.exprId, PrunedJson(json, fields), fields.zipWithIndex.toMap).asInstanceOf[Project]
  }

  /** A plan down to the project with the parser, which has other columns now. */
  private def replaced(node: LogicalPlan, parser: ExprId, json: PrunedJson, positions: Map[Int, Int]): LogicalPlan =
    node match {
      case inner: Project if inner.projectList.exists(_.exprId == parser) =>
        inner.copy(projectList = inner.projectList.map {
          case column: Alias if column.exprId == parser =>
            Alias(json, column.name)(column.exprId, column.qualifier, column.explicitMetadata)
          case other => other
        })
      case _ =>
        node
          .withNewChildren(node.children.map(replaced(_, parser, json, positions)))
          .transformExpressions {
            case field @ GetStructField(of: Attribute, at, _) if of.exprId == parser =>
              field.copy(child = of.withDataType(json.dataType), ordinal = positions(at))
          }
    }

  private object Field {
    def unapply(expression: Expression): Option[(ExprId, Int)] = expression match {
      case GetStructField(of: Attribute, field, _) => Some((of.exprId, field))
      case _                                       => None
    }
  }

  /** True if each column has its value independently of the other columns, in a text without errors of syntax.
    *
    *   - The mode FAILFAST and the column of corrupt records depend on the errors of all columns.
    *   - Without partial results, an error within a column ends the row.
    *   - With `spark.sql.legacy.timeParserPolicy=EXCEPTION`, a time of any column may end the query.
    */
  private def isPrunable(json: JsonToStructs): Boolean = json.schema match {
    case columns: StructType =>
      val options = CaseInsensitiveMap(json.options)
      json.deterministic &&
      options.keys
        .map(_.toLowerCase(Locale.ROOT))
        .forall(o => o == "mode" || PlainJsonParser.OptionsOfValues.contains(o)) &&
      PlainJsonParser.isUsable(columns, options) &&
      options.get("mode").forall(_.equalsIgnoreCase("PERMISSIVE")) &&
      !columns.fieldNames.contains(SQLConf.get.columnNameOfCorruptRecord) &&
      columns.fieldNames.distinct.length == columns.length &&
      SQLConf.get.getConf(SQLConf.JSON_ENABLE_PARTIAL_RESULTS) &&
      SQLConf.get.legacyTimeParserPolicy.toString != "EXCEPTION"
    case _ => false
  }
}
