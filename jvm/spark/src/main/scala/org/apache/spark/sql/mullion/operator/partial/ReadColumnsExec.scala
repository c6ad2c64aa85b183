package org.apache.spark.sql.mullion.operator.partial

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{CodegenSupport, ColumnarToRowExec, ColumnarToRowTransition, SparkPlan}
import org.apache.spark.sql.mullion.operator.partial.group.GroupLayout
import org.apache.spark.sql.types.{Decimal, DecimalType}
import org.apache.spark.sql.vectorized.ColumnarBatch

/** Reads columnar batches below a partial aggregate, a few hundred rows of a column at a time.
  *
  * {{{
  *   ColumnarToRow   for each row: for each column: find the array, check null, check dictionary, look up
  *   this            for each column: a loop that copies or looks up values       for each row: its values
  * }}}
  *
  * The loop over rows calls unknown code, so the JVM repeats a column's checks for each row. A loop over one column
  * makes them once, and the other loop reads arrays in local variables.
  *
  * It replaces Spark's node if the column classes are Spark's own (see [[ReadColumns]]).
  */
case class ReadColumnsExec(child: SparkPlan) extends ColumnarToRowTransition with CodegenSupport {

  override def nodeName: String = "ReadColumns"

  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override def needCopyResult: Boolean = false

  override protected def canCheckLimitNotReached: Boolean = true

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "numInputBatches" -> SQLMetrics.createMetric(sparkContext, "number of input batches")
  )

  // Of batches, although the type is of rows, like Spark's node.
  override def inputRDDs(): Seq[RDD[InternalRow]] = Seq(child.executeColumnar().asInstanceOf[RDD[InternalRow]])

  // Set by the node above, in the same thread, before code generation.
  @transient private var waiting: Option[WaitingRowsCode] = None

  /** Reads rows in blocks, each of which is buffered by `rows`. */
  private[partial] def readFor(rows: WaitingRowsCode): Unit = waiting = Some(rows)

  override protected def doProduce(ctx: CodegenContext): String = {
    val input = ctx.addMutableState("scala.collection.Iterator", "input", v => s"$v = inputs[0];", forceInline = true)
    val batchClass = classOf[ColumnarBatch].getName
    val batch = ctx.addMutableState(batchClass, "batch", forceInline = true)
    val next = ctx.addMutableState(CodeGenerator.JAVA_INT, "nextRow")
    val (row, i) = (ctx.freshName("row"), ctx.freshName("i"))
    val columns = output.zip(child.vectorTypes.get).zipWithIndex.map { case ((column, kind), at) =>
      val vector = ctx.addMutableState(kind, "column", forceInline = true)
      val take = s"$vector = ($kind) $batch.column($at);"
      if (GroupLayout.isFixed(column.dataType)) new Copied(ctx, column, kind, vector, take, i)
      else new InPlace(ctx, column, vector, take, row)
    }
    val nextBatch = ctx.freshName("nextBatch")
    val nextBatchCall = ctx.addNewFunction(
      nextBatch,
      s"""
         |private void $nextBatch() throws java.io.IOException {
         |  if (!$input.hasNext()) return;
         |  $batch = ($batchClass) $input.next();
         |  ${metricTerm(ctx, "numInputBatches")}.add(1);
         |  ${metricTerm(ctx, "numOutputRows")}.add($batch.numRows());
         |  $next = 0;
         |  ${columns.map(_.take).mkString("\n")}
         |}
         |""".stripMargin
    )
    ctx.currentVars = None.orNull
    val consumption = consume(ctx, columns.map(_.value)).trim
    val (rows, from, count) = (ctx.freshName("rows"), ctx.freshName("from"), ctx.freshName("count"))

    def loop(begin: String, stop: String, end: String) =
      s"""
         |${columns.map(_.read(from, count)).mkString("\n")}
         |$begin
         |for (int $i = 0; $i < $count; $i++) {
         |  int $row = $from + $i;
         |  $consumption
         |  $stop
         |}
         |$end
         |""".stripMargin

    // A buffered block has its own method, because the JVM compiles it after some calls, whereas the loop around runs
    // once.
    val block = waiting match {
      case None =>
        val stop = if (parent.needStopCheck) s"if (shouldStop()) { $next = $row + 1; return; }" else ""
        loop("", stop, s"$next = $from + $count;")
      case Some(waits) =>
        val name = ctx.freshName("readBlock")
        val read = ctx.addNewFunction(
          name,
          s"""
             |private int $name(int $from, int $count) throws java.io.IOException {
             |  ${loop(waits.begin, waits.stop(i, count), waits.end)}
             |  return $count;
             |}
             |""".stripMargin
        )
        s"""
           |$next = $from + $read($from, $count);
           |if (shouldStop()) return;
           |""".stripMargin
    }
    s"""
       |if ($batch == null) $nextBatchCall();
       |while ($limitNotReachedCond $batch != null) {
       |  int $rows = $batch.numRows();
       |  while ($next < $rows) {
       |    ${waiting.fold("")(_.before)}
       |    int $from = $next;
       |    int $count = Math.min(${ReadColumnsExec.Together}, $rows - $from);
       |    $block
       |  }
       |  $batch.closeIfFreeable();
       |  $batch = null;
       |  $nextBatchCall();
       |}
       |if ($batch != null) $batch.close();
       |""".stripMargin
  }

  override protected def doExecute(): RDD[InternalRow] = ColumnarToRowExec(child).execute()

  override protected def withNewChildInternal(newChild: SparkPlan): ReadColumnsExec = copy(child = newChild)

  /** The code for one column.
    *
    * @param take
    *   takes its vector from a new batch
    */
  private abstract class Column(val take: String) {

    /** Reads some rows before the loop over them. */
    def read(from: String, count: String): String

    /** The value of a row in that loop. */
    def value: ExprCode
  }

  /** A column that is copied into an array of words: `at` is the index of a row. */
  private final class Copied(
      ctx: CodegenContext,
      column: Attribute,
      kind: String,
      vector: String,
      take: String,
      at: String
  ) extends Column(take) {
    private val most = ReadColumnsExec.Together
    private val words =
      ctx.addMutableState("long[]", "words", name => s"$name = new long[$most];", forceInline = true)
    private val absent =
      if (column.nullable)
        ctx.addMutableState("boolean[]", "absent", name => s"$name = new boolean[$most];", forceInline = true)
      else ""
    private val (ofRows, absentOfRows, some) =
      (ctx.freshName("words"), ctx.freshName("absent"), ctx.freshName("hasNulls"))

    private val copy = {
      val (name, of, to, nulls) =
        (ctx.freshName("copyColumn"), ctx.freshName("of"), ctx.freshName("to"), ctx.freshName("nulls"))
      val (value, none) = column.dataType match {
        // Its unscaled value; Spark would create an object for each row.
        case decimal: DecimalType =>
          val get = if (decimal.precision <= Decimal.MAX_INT_DIGITS) "getInt" else "getLong"
          (s"((long) $of.$get(from + i))", "0L")
        // Null has the default value, as in Spark's code.
        case kind =>
          val none = s"((${CodeGenerator.javaType(kind)}) ${CodeGenerator.defaultValue(kind)})"
          val some = CodeGenerator.getValueFromVector(of, kind, "from + i")
          (GroupKeyCode.word(kind, some), GroupKeyCode.word(kind, none))
      }
      val withNulls =
        if (!column.nullable) ""
        else
          s"""
             |if ($of.hasNull()) {
             |  boolean[] $nulls = $absent;
             |  for (int i = 0; i < count; i++) {
             |    boolean isNull = $of.isNullAt(from + i);
             |    $nulls[i] = isNull;
             |    $to[i] = isNull ? $none : $value;
             |  }
             |  return true;
             |}
             |""".stripMargin
      ctx.addNewFunction(
        name,
        s"""
           |private boolean $name(int from, int count) {
           |  $kind $of = $vector;
           |  long[] $to = $words;
           |  $withNulls
           |  for (int i = 0; i < count; i++) $to[i] = $value;
           |  return false;
           |}
           |""".stripMargin
      )
    }

    override def read(from: String, count: String): String =
      if (column.nullable)
        s"""
           |boolean $some = $copy($from, $count);
           |long[] $ofRows = $words;
           |boolean[] $absentOfRows = $absent;
           |""".stripMargin
      else
        s"""
           |$copy($from, $count);
           |long[] $ofRows = $words;
           |""".stripMargin

    override def value: ExprCode = {
      val (value, isNull) = (ctx.freshName("value"), ctx.freshName("isNull"))
      val javaType = CodeGenerator.javaType(column.dataType)
      val read = code"$javaType $value = ${GroupKeyCode.ofWord(column.dataType, s"$ofRows[$at]")};"
      val of = JavaCode.variable(value, column.dataType)
      if (!column.nullable) ExprCode(read, FalseLiteral, of)
      else ExprCode(code"boolean $isNull = $some && $absentOfRows[$at];" + read, JavaCode.isNullVariable(isNull), of)
    }
  }

  /** A column that is read in place, like Spark's: strings, and others that are not one word. */
  private final class InPlace(ctx: CodegenContext, column: Attribute, vector: String, take: String, row: String)
      extends Column(take) {

    override def read(from: String, count: String): String = ""

    override def value: ExprCode = {
      val (value, isNull) = (ctx.freshName("value"), ctx.freshName("isNull"))
      val javaType = CodeGenerator.javaType(column.dataType)
      val get = CodeGenerator.getValueFromVector(vector, column.dataType, row)
      val of = JavaCode.variable(value, column.dataType)
      if (!column.nullable) ExprCode(code"$javaType $value = $get;", FalseLiteral, of)
      else
        ExprCode(
          code"""
             |boolean $isNull = $vector.isNullAt($row);
             |$javaType $value = $isNull ? ${CodeGenerator.defaultValue(column.dataType)} : ($get);
           """.stripMargin,
          JavaCode.isNullVariable(isNull),
          of
        )
    }
  }
}

private object ReadColumnsExec {
  // The buffer's size: a few columns of these fit into the first-level cache too.
  private val Together = WaitingRowsCode.Most
}
