package org.apache.spark.sql.mullion.operator.partial

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Partial}
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.util.truncatedString
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{CodegenSupport, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.mullion.operator.bounded.AggregateExecs
import org.apache.spark.sql.mullion.operator.partial.group.{GroupLayout, GroupTable}
import org.apache.spark.sql.mullion.shim.DescribedExec

/** Aggregates the rows of each group before the shuffle: emits one row per group and task, with its keys and the
  * buffers of its functions, like Spark's own partial aggregate.
  *
  * {{{
  *   scan - AssignSlices - this - [shuffle by key]       one loop over a task's rows, compiled
  *                          |
  *                       GroupTable                      groups in flat memory
  * }}}
  *
  * If memory runs out, the existing groups are emitted and the table starts over: a group may then have several rows
  * from one task, as it may from several tasks. Nothing is written to disk or sorted. The row that found no room is
  * emitted alone and stops the loop below, because generated code stops when a row is ready.
  *
  * @param grouping
  *   the columns to group by
  * @param expressed
  *   the aggregates whose buffers are updated by expressions
  * @param called
  *   the other aggregates
  * @param buffers
  *   the columns of the functions' buffers in the output
  * @param limit
  *   the maximum number of bytes that a task acquires for its groups
  */
case class PartialAggregateExec(
    isStreaming: Boolean,
    grouping: Seq[Attribute],
    expressed: Seq[AggregateExpression],
    called: CalledAggregates,
    buffers: Seq[Attribute],
    limit: Long,
    child: SparkPlan
) extends UnaryExecNode
    with CodegenSupport
    with DescribedExec {

  /** All aggregates, in the order of their buffers. */
  def aggregates: Seq[AggregateExpression] = called.among(expressed)

  override def nodeName: String = "PartialAggregate"

  override def output: Seq[Attribute] = grouping ++ buffers

  override def producedAttributes: AttributeSet = AttributeSet(buffers)

  override lazy val allAttributes: AttributeSeq =
    child.output ++ aggregates.flatMap(a =>
      a.aggregateFunction.aggBufferAttributes ++ a.aggregateFunction.inputAggBufferAttributes
    )

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "handedOnEarly" -> SQLMetrics.createMetric(sparkContext, "groups handed on for want of memory"),
    "peakMemory" -> SQLMetrics.createSizeMetric(sparkContext, "peak memory")
  )

  // Like Spark's aggregates, so that input is passed by a call, and the loop below stays short. A loop over a block of
  // rows has its own variables, which a call cannot access.
  override def usedInputs: AttributeSet = if (columnsBelow.isEmpty) inputSet else AttributeSet.empty

  // A row below may become several, each of which may find no room.
  override def needCopyResult: Boolean = below.needCopyResult

  override def inputRDDs(): Seq[RDD[InternalRow]] = below.inputRDDs()

  private def below = child.asInstanceOf[CodegenSupport]

  @transient private lazy val layout = new GroupLayout(grouping, buffers, aggregates.map(_.aggregateFunction))

  @transient private lazy val calls = new ImperativeCalls(layout, aggregates, child.output)

  /** The columns of buffered rows, if buffering is possible. */
  @transient private lazy val waitingColumns = WaitingRowsCode.columns(layout, aggregates, child.output)

  /** The node that reads the rows in blocks, if each of them yields at most one row here. */
  @transient private lazy val columnsBelow: Option[ReadColumnsExec] =
    if (waitingColumns.isEmpty || below.needCopyResult) None else ReadColumns.under(child)

  // Names in the generated code, which is generated in two parts.
  private var table = ""
  private var give = ""
  @transient private var waiting: Option[WaitingRowsCode] = None

  override protected def doProduce(ctx: CodegenContext): String = {
    val tableClass = classOf[GroupTable].getName
    val maker =
      ctx.addReferenceObj("tables", new GroupTable.Maker(layout.fields, layout.decimals, limit, calls.kinds))
    table = ctx.addMutableState(tableClass, "groups", name => s"$name = $maker.make();", forceInline = true)
    give = giving(ctx)
    waiting = waitingColumns.map(new WaitingRowsCode(ctx, layout, _, table))
    waiting.zip(columnsBelow).foreach { case (rows, columns) => columns.readFor(rows) }
    val inputEnded = ctx.addMutableState(CodeGenerator.JAVA_BOOLEAN, "inputEnded")
    val ended = ctx.addMutableState(CodeGenerator.JAVA_BOOLEAN, "groupsEnded")
    val read = ctx.freshName("readIntoGroups")
    val reading = ctx.addNewFunction(
      read,
      s"""
         |private void $read(int partitionIndex) throws java.io.IOException {
         |  ${below.produce(ctx, this)}
         |}
         |""".stripMargin
    )
    val rest = waiting.fold("")(w => s"while (${w.filled} > 0 && !shouldStop()) ${w.adding}")
    val noneLeft = waiting.fold("")(w => s" && ${w.filled} == 0")
    s"""
       |while (!$ended || $table.isHandingOn()) {
       |  if (!$table.isHandingOn()) {
       |    if (!$inputEnded) {
       |      $reading(partitionIndex);
       |      $inputEnded = !shouldStop();
       |    }
       |    $rest
       |    $ended = $inputEnded$noneLeft;
       |    $table.handOn(!$ended);
       |    if ($ended) {
       |      ${metricTerm(ctx, "handedOnEarly")}.add($table.handedOnEarly());
       |      ${metricTerm(ctx, "peakMemory")}.add($table.peakBytes());
       |    }
       |    if (shouldStop()) return;
       |  }
       |  while ($table.advance()) {
       |    $give($table.current());
       |    if (shouldStop()) return;
       |  }
       |}
       |""".stripMargin
  }

  /** A method that emits a group's row. */
  private def giving(ctx: CodegenContext): String = {
    val (name, row) = (ctx.freshName("giveGroup"), ctx.freshName("group"))
    ctx.currentVars = None.orNull
    ctx.INPUT_ROW = row
    ctx.addNewFunction(
      name,
      s"""
         |private void $name(UnsafeRow $row) throws java.io.IOException {
         |  ${metricTerm(ctx, "numOutputRows")}.add(1L);
         |  ${consume(ctx, None.orNull, row)}
         |}
         |""".stripMargin
    )
  }

  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String = {
    def of(column: Attribute) = input(child.output.indexWhere(_.exprId == column.exprId))
    val keys = grouping.map(of)
    val key = new GroupKeyCode(ctx, layout, keys)
    val group = new GroupBufferCode(ctx, layout, aggregates, calls, table)
    waiting match {
      case None       => add(ctx, key, group, input)
      case Some(rows) =>
        val values = waitingColumns.toSeq.flatten.map(of)
        val evaluated = evaluateVariables(keys ++ values)
        if (!rows.isDeclared) rows.declare(key, group, give, makeRoom, PartialAggregateExec.splitsFrom)
        s"""
           |$evaluated
           |${if (columnsBelow.isEmpty) rows.await(key, keys, values) else rows.put(key, keys, values)}
           |""".stripMargin
    }
  }

  /** Emits all groups when a row found no room, if the node above consumes all rows at once. */
  private def makeRoom: Option[String] = Option.when(!needStopCheck)(
    s"$table.handOn(true); while ($table.advance()) $give($table.current());"
  )

  /** The code that adds a row immediately. */
  private def add(ctx: CodegenContext, key: GroupKeyCode, group: GroupBufferCode, input: Seq[ExprCode]): String = {
    val (record, isNew) = (ctx.freshName("record"), ctx.freshName("isNew"))
    val (index, mask, pages) = (ctx.freshName("index"), ctx.freshName("mask"), ctx.freshName("pages"))
    val again = makeRoom.fold("")(room => s"if ($record == 0L) { $room $record = ${key.add(table)}; }")
    s"""
       |${key.words}
       |long $record = 0L;
       |long[] $index = $table.index();
       |int $mask = $table.mask();
       |long[][] $pages = $table.pages();
       |${key.find(index, mask, pages, record)}
       |boolean $isNew = $record == 0L;
       |if ($isNew) {
       |  $record = ${key.add(table)};
       |  $again
       |  if ($record == 0L) $record = ${key.alone(table)};
       |}
       |${group.place(record, s"$table.pages()")}
       |if ($isNew) {
       |  ${key.write(group.page, group.row)}
       |  ${group.begin}
       |}
       |${group.update(child.output, input, words = Map.empty, PartialAggregateExec.splitsFrom)}
       |if ($table.isAlone($record)) $give($table.aloneRow());
       |""".stripMargin
  }

  /** Without generated code: Spark's own aggregate. */
  override protected def doExecute(): RDD[InternalRow] = AggregateExecs(
    Partial,
    distribution = None,
    isStreaming,
    grouping,
    aggregates,
    output,
    child
  ).execute()

  override def simpleString(maxFields: Int): String = {
    def listed(name: String, of: Seq[Any]) = name + truncatedString(of, "=[", ", ", "]", maxFields)
    val (objects, words) = aggregates.partition { a =>
      a.aggregateFunction.aggBufferAttributes.exists(b => GroupLayout.isObject(b.dataType))
    }
    val functions = Seq("in place" -> words, "as objects" -> objects).filter(_._2.nonEmpty)
    (listed("keys", grouping) +: functions.map { case (how, of) => listed(how, of) }).mkString(s"$nodeName(", ", ", ")")
  }

  override protected def withNewChildInternal(newChild: SparkPlan): PartialAggregateExec = copy(child = newChild)
}

private object PartialAggregateExec {
  // The JVM interprets methods of more than 8000 bytes, about 40,000 characters.
  private val splitsFrom = 16 * 1024
}
