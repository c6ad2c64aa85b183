package org.apache.spark.sql.mullion.operator.scan

import scala.util.Try

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.functions.udf
import org.apache.spark.sql.mullion.SparkSuite
import org.apache.spark.sql.mullion.expressions.columns.{RowInBatch, SessionGap}
import org.apache.spark.sql.mullion.expressions.functions.KnownAggregates
import org.apache.spark.sql.mullion.expressions.rows.{Counted, PerText}
import org.apache.spark.sql.types.{DataType, DayTimeIntervalType, LongType}

/** Every built-in function of Spark, by the examples of its documentation. */
class RepeatableExpressionsSuite extends SparkSuite {
  import RepeatableExpressionsSuite._

  private val optimizer = "org.apache.spark.sql.catalyst.optimizer"

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.optimizer.excludedRules" ->
      Seq("ConstantFolding", "ConvertToLocalRelation", "NullPropagation", "OptimizeOneRowRelationSubquery")
        .map(rule => s"$optimizer.$rule")
        .mkString(","),
    "spark.sql.adaptive.enabled" -> "false"
  )

  /** The optimized plans of a function's examples. An example that needs a table, or shows an error, has none. */
  private def examples(function: ExpressionInfo): Seq[LogicalPlan] = function.getExamples.linesIterator
    .map(_.trim)
    .collect { case line if line.startsWith("> SELECT") => line.drop(2).stripSuffix(";") }
    .flatMap(text => Try(spark.sql(text.replace("_FUNC_", function.getName)).queryExecution.optimizedPlan).toOption)
    .toSeq

  private lazy val functions: Seq[(String, Seq[LogicalPlan])] = FunctionRegistry.functionSet.toSeq
    .flatMap(FunctionRegistry.builtin.lookupFunction(_))
    .distinctBy(_.getName)
    .sortBy(_.getName)
    .map(info => info.getName -> examples(info))
    .filter(_._2.nonEmpty)

  test("built-in functions are repeatable, but for those whose value depends on more than the row") {
    val rejected = functions.collect {
      case (name, plans) if !plans.forall(_.expressions.forall(RepeatableExpressions.isRepeatable)) => name
    }.toSet
    assertEquals(rejected -- dependOnMore, Set.empty[String])
    assertEquals(dependOnMore & functions.map(_._1).toSet -- rejected, Set.empty[String])
    assert(clue(functions.length) > 400)
  }

  private def valueIn(partition: Int, expression: Expression): Option[InternalRow] = Try {
    val projection = UnsafeProjection.create(Seq(expression.clone()))
    projection.initialize(partition)
    projection(InternalRow.empty).copy()
  }.toOption

  test("a repeatable expression has one value in all tasks") {
    val evaluated = for {
      (name, plans) <- functions
      plan <- plans
      expression <- plan.expressions
      if RepeatableExpressions.isRepeatable(expression) && expression.references.isEmpty
      if !expression.exists(e => e.isInstanceOf[AggregateExpression] || e.isInstanceOf[Generator])
    } yield name -> (valueIn(0, expression) == valueIn(7, expression))
    assertEquals(evaluated.collect { case (name, false) => name }.distinct, Nil)
    assert(clue(evaluated.length) > 400)
  }

  private def physical(plan: SparkPlan): Seq[Expression] = plan.flatMap(_.expressions)

  for (
    (what, column) <- Seq(
      "a scalar subquery" -> "(SELECT max(id) FROM range(9)) + id",
      "an EXISTS subquery" -> "id > 1 OR EXISTS (SELECT 1 FROM range(9) WHERE id > 3)",
      "a subquery in a condition" -> "CASE WHEN id > (SELECT max(id) FROM range(9)) THEN 1 END",
      "the name of a file" -> "input_file_name()",
      "a user's function" -> "users(id)",
      "Java by reflection" -> "java_method('java.lang.Math', 'abs', 1)"
    )
  ) test(s"$what is not repeatable in a physical plan") {
    spark.udf.register("users", udf((x: Long) => x + 1))
    val plan = physical(spark.range(3).selectExpr(s"$column AS it").queryExecution.executedPlan)
    assert(!plan.forall(RepeatableExpressions.isRepeatable), plan)
  }

  test("an expression of an extension is not repeatable, even if it is marked as deterministic") {
    assert(!RepeatableExpressions.isRepeatable(FromAnExtension(Literal(1L))))
    assert(!RepeatableExpressions.isRepeatable(Add(Literal(1L), FromAnExtension(Literal(1L)))))
    assert(RepeatableExpressions.isRepeatable(Add(Literal(1L), Literal(1L))))
  }

  test("Mullion's expressions of a row are repeatable, but those that count rows are not") {
    val gap = SessionGap(Literal(1L, DayTimeIntervalType()))
    assert(RepeatableExpressions.isRepeatable(gap))
    assert(RepeatableExpressions.isRepeatable(PerText(Literal("a"), Literal(true))))
    assert(RepeatableExpressions.isRepeatable(KnownAggregates()))
    assert(!RepeatableExpressions.isRepeatable(RowInBatch()))
    assert(!RepeatableExpressions.isRepeatable(Counted(Literal(true), spark.sparkContext.longAccumulator)))
  }

  test("a call of a catalog's function is not repeatable") {
    val call = objects.StaticInvoke(classOf[java.lang.Math], LongType, "abs", Seq(Literal(1L)))
    assert(!RepeatableExpressions.isRepeatable(call))
  }
}

private object RepeatableExpressionsSuite {

  final case class FromAnExtension(child: Expression) extends UnaryExpression with CodegenFallback {
    override def dataType: DataType = child.dataType
    override protected def nullSafeEval(value: Any): Any = value
    override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
  }

  /** The functions that depend on more than the row: on randomness, the file, the task, or a method of any class. */
  val dependOnMore: Set[String] = Set(
    "aes_encrypt",
    "input_file_block_length",
    "input_file_block_start",
    "input_file_name",
    "java_method",
    "monotonically_increasing_id",
    "rand",
    "randn",
    "random",
    "randstr",
    "reflect",
    "shuffle",
    "spark_partition_id",
    "try_reflect",
    "uniform",
    "uuid"
  )
}
