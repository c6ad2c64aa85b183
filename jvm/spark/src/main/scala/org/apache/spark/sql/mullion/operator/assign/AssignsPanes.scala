package org.apache.spark.sql.mullion.operator.assign

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.{
  CodeGenerator,
  CodegenContext,
  ExprCode,
  GenerateUnsafeProjection
}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, BoundReference}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.{CodegenSupport, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.mullion.operator.metrics.{LatenessCounts, WindowMetrics}
import org.apache.spark.sql.mullion.shim.{DescribedExec, SparkVersionShim}

import dev.mullion.windows.rules.{LatePolicy, PaneRules}

/** A node below the partial aggregate that determines the panes of a row. It counts rows without panes, and puts aside
  * those to emit. Compiled into the same loop as the scan and the aggregate.
  */
private[mullion] trait AssignsPanes extends UnaryExecNode with CodegenSupport with DescribedExec {

  /** The operator that this belongs to: there may be others in the plan. */
  def operator: String

  def time: Attribute

  def rules: PaneRules

  /** This node with the facts of a batch, in microseconds, once the batch is known.
    *
    * @param before
    *   the event clock before the batch
    * @param ahead
    *   the latest time of rows that are not too far ahead of the wall clock, if that is limited
    */
  final def forBatch(before: Option[Long], ahead: Option[Long]): SparkPlan = {
    val informed = since(before, ahead)
    informed.copyTagsFrom(this)
    informed
  }

  protected def since(before: Option[Long], ahead: Option[Long]): SparkPlan

  override lazy val metrics: Map[String, SQLMetric] =
    (WindowMetrics.assigned :+ WindowMetrics.rowsDropped).map { metric =>
      metric.name -> metric.createSQLMetric(sparkContext)
    }.toMap

  /** The lateness of the rows that this node finds to be late. */
  @transient lazy val lateness: LatenessCounts = LatenessCounts.register(sparkContext)

  /** Code that counts a late row, with an expression of its lateness. */
  protected def countLate(ctx: CodegenContext, of: String): String = {
    val dropped = if (rules.late == LatePolicy.Drop) s"${metricTerm(ctx, "rowsDropped")}.add(1L);" else ""
    s"${metricTerm(ctx, "rowsLate")}.add(1L); ${countLateness(ctx, of)} $dropped"
  }

  protected def countLateness(ctx: CodegenContext, of: String): String =
    s"${ctx.addReferenceObj("lateness", lateness, classOf[LatenessCounts].getName)}.count($of);"

  /** The metrics of late rows, and of dropped ones, for tasks without generated code. */
  protected def lateCounts: Seq[SQLMetric] =
    longMetric("rowsLate") +: Option.when(rules.late == LatePolicy.Drop)(longMetric("rowsDropped")).toSeq

  protected def putsAside: Boolean = rules.late == LatePolicy.Emit

  // Evaluated on use: most rows of a selective plan only need their time.
  override def usedInputs: AttributeSet = AttributeSet.empty

  override def inputRDDs(): Seq[RDD[InternalRow]] = child.asInstanceOf[CodegenSupport].inputRDDs()

  override protected def doProduce(ctx: CodegenContext): String = child.asInstanceOf[CodegenSupport].produce(ctx, this)

  /** The latest time of rows that are not too far ahead of the wall clock, in microseconds, if that is limited. */
  def ahead: Option[Long]

  /** Code that leaves out a row that is too far ahead. */
  protected def aheadCode(ctx: CodegenContext, time: String, aside: String): String = ahead.fold("") { limit =>
    val latest = LatestTime.variable(ctx, limit)
    s"""
       |if ($time > $latest) {
       |  ${metricTerm(ctx, "rowsAhead")}.add(1L);
       |  $aside
       |  continue;
       |}
       |""".stripMargin
  }

  protected def variable(input: Seq[ExprCode], column: Attribute): ExprCode =
    input(child.output.indexWhere(_.exprId == column.exprId))

  /** Code that puts the entire row aside: `columns`, which are evaluated in `input`. */
  protected def putAside(
      ctx: CodegenContext,
      input: Seq[ExprCode],
      columns: Seq[Attribute] = child.output
  ): String = {
    val sideClass = classOf[SideRows].getName
    val factory = ctx.addReferenceObj("sideRows", newSide)
    val side = ctx.addMutableState(sideClass, "side")
    // Some of the loop's own fields are inaccessible if the code is split.
    val partition = ctx.addMutableState(CodeGenerator.JAVA_INT, "partition")
    ctx.addPartitionInitializationStatement(s"$partition = partitionIndex;")
    ctx.currentVars = input
    ctx.INPUT_ROW = None.orNull
    val bound = columns.zipWithIndex.map { case (a, i) => BoundReference(i, a.dataType, a.nullable) }
    val allColumns = GenerateUnsafeProjection.createCode(ctx, bound, useSubexprElimination = false)
    s"""
       |if ($side == null) { $side = $factory.of($partition); }
       |${allColumns.code}
       |$side.add(${allColumns.value});
       |""".stripMargin
  }

  override def simpleString(maxFields: Int): String =
    (Seq(rules.window.describe, rules.on(time.name)).filter(_.nonEmpty) ++ bySpark).mkString(s"$nodeName ", ", ", "")

  /** The reason why the partial aggregate above is Spark's, if it is, for `explain`. */
  protected def bySpark: Option[String] =
    getTagValue(AssignsPanes.aggregatedBySpark).map(why => s"partial aggregate by Spark: $why")

  protected def newSide: SlicesAside.Side = new SlicesAside.Side(operator, SparkVersionShim.spillLimits(conf))
}

/** The latest time of rows that are not too far ahead of the wall clock, in generated code. */
private[assign] object LatestTime {

  /** The name of a variable. As a literal, each batch would compile its own code. */
  def variable(ctx: CodegenContext, us: Long): String = {
    val reference = ctx.addReferenceObj("latestTime", Long.box(us), "java.lang.Long")
    ctx.addMutableState(
      CodeGenerator.JAVA_LONG,
      "latestTime",
      name => s"$name = $reference.longValue();",
      forceInline = true
    )
  }
}

private[mullion] object AssignsPanes {
  val aggregatedBySpark = TreeNodeTag[String]("mullion_aggregated_by_spark")
}
