package org.apache.spark.sql.mullion.exec.partial

import org.apache.spark.sql.catalyst.expressions.{Attribute, BindReferences, Expression}
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, DeclarativeAggregate}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.types.DataType

/** Generates the code that adds a row to its group's buffers, from Spark's own expressions for it: these read the row's
  * columns in their variables, and the buffers in variables that were read from the record.
  *
  * @param page
  *   the variable with the array that the record lies in
  * @param row
  *   the variable with where in that its row begins
  */
private[partial] final class GroupBufferCode(
    ctx: CodegenContext,
    layout: GroupLayout,
    aggregates: Seq[AggregateExpression],
    page: String,
    row: String
) {
  import GroupKeyCode.{ofWord, word}

  private val functions = aggregates.map(_.aggregateFunction.asInstanceOf[DeclarativeAggregate])
  private val attributes: Seq[Attribute] = functions.flatMap(_.aggBufferAttributes)
  private val firstOf = functions.scanLeft(0)(_ + _.aggBufferAttributes.length)

  // The words with null bits of buffers, each in a variable while a row is added: written once, whatever has changed.
  private val nullWords: Map[Int, String] = layout.buffers.indices
    .map(layout.nullWordOfBuffer)
    .distinct
    .map(_ -> ctx.freshName("nullBits"))
    .toMap

  /** Writes what a group has before its first row. */
  def begin: String = {
    ctx.currentVars = None.orNull
    ctx.INPUT_ROW = None.orNull
    functions
      .flatMap(_.initialValues)
      .zipWithIndex
      .map { case (initial, i) =>
        val code = initial.genCode(ctx)
        s"""
           |${code.code}
           |${store(i, code, s"$page[$row + ${layout.nullWordOfBuffer(i)}]", isNew = true)}
           |""".stripMargin
      }
      .mkString
  }

  /** Adds a row.
    *
    * @param columns
    *   the row's columns, evaluated in `input`
    * @param splitsFrom
    *   from how much code on each function gets a method of its own: a method that is too long the JVM interprets
    */
  def update(columns: Seq[Attribute], input: Seq[ExprCode], splitsFrom: Int): String = {
    val variables = layout.buffers.indices.map(load)
    val loaded = variables.map(_.code.toString).mkString("\n")
    val held = variables.map(v => ExprCode(EmptyBlock, v.isNull, v.value))
    ctx.INPUT_ROW = None.orNull
    ctx.currentVars = held ++ input
    val from = attributes ++ columns
    val bound = functions.map(f => BindReferences.bindReferences[Expression](f.updateExpressions, from))
    val common = ctx.subexpressionEliminationForWholeStageCodegen(bound.flatten)
    val shared = ctx.evaluateSubExprEliminationState(common.states.values)
    val updates = bound.zipWithIndex.map { case (expressions, i) =>
      val codes = ctx.withSubExprEliminationExprs(common.states)(expressions.map(_.genCode(ctx)))
      val stored = codes.zipWithIndex.map { case (code, j) =>
        store(firstOf(i) + j, code, nullBits(firstOf(i) + j), isNew = false)
      }
      s"""
         |${codes.map(_.code.toString).mkString("\n")}
         |${stored.mkString("\n")}
         |""".stripMargin
    }
    val calls =
      if (updates.map(_.length).sum <= splitsFrom) None
      else split(updates, bound.map(CodegenSplit.inputs(ctx, _, common.states)))
    val filtered = calls.getOrElse(updates).zip(aggregates).map { case (code, aggregate) =>
      s"""
         |do {
         |  ${aggregate.filter.fold("")(passes(_, columns, input))}
         |  $code
         |} while (false);
         |""".stripMargin
    }
    s"""
       |$loadNulls
       |$loaded
       |$shared
       |${filtered.mkString}
       |${if (calls.isEmpty) storeNulls else ""}
       |""".stripMargin
  }

  private def passes(filter: Expression, columns: Seq[Attribute], input: Seq[ExprCode]): String = {
    ctx.currentVars = input
    val code = BindReferences.bindReference(filter, columns).genCode(ctx)
    s"""
       |${code.code}
       |if (${code.isNull} || !${code.value}) continue;
       |""".stripMargin
  }

  private def split(updates: Seq[String], inputs: Seq[Option[Seq[VariableValue]]]): Option[Seq[String]] =
    Option.when(inputs.forall(_.isDefined)) {
      updates.zip(inputs.flatten).map { case (code, arguments) =>
        val name = ctx.freshName("addToGroup")
        val declared = arguments.map(v => s"${CodeGenerator.typeName(v.javaType)} ${v.variableName}")
        val method = ctx.addNewFunction(
          name,
          s"""
             |private void $name(${(s"long[] $page" +: s"int $row" +: declared).mkString(", ")})
             |    throws java.io.IOException {
             |  $loadNulls
             |  $code
             |  $storeNulls
             |}
             |""".stripMargin
        )
        s"$method(${(page +: row +: arguments.map(_.variableName)).mkString(", ")});"
      }
    }

  private def buffer(i: Int) = s"$page[$row + ${layout.ofBuffer(i)}]"

  private def typeOf(i: Int): DataType = attributes(i).dataType

  private def nullBits(i: Int) = nullWords(layout.nullWordOfBuffer(i))

  private def loadNulls = nullWords.map { case (i, bits) => s"long $bits = $page[$row + $i];" }.mkString("\n")

  private def storeNulls = nullWords.map { case (i, bits) => s"$page[$row + $i] = $bits;" }.mkString("\n")

  private def nullBit(i: Int) = s"${1L << layout.nullBitOfBuffer(i)}L"

  private def load(i: Int): ExprCode = {
    val held = ctx.freshName("held")
    val javaType = CodeGenerator.javaType(typeOf(i))
    val read = ofWord(typeOf(i), buffer(i))
    if (!attributes(i).nullable)
      ExprCode(code"$javaType $held = $read;", FalseLiteral, JavaCode.variable(held, typeOf(i)))
    else {
      val isNull = ctx.freshName("heldIsNull")
      ExprCode(
        code"""
           |boolean $isNull = (${nullBits(i)} & ${nullBit(i)}) != 0L;
           |$javaType $held = $isNull ? ${CodeGenerator.defaultValue(typeOf(i))} : $read;
         """.stripMargin,
        JavaCode.isNullVariable(isNull),
        JavaCode.variable(held, typeOf(i))
      )
    }
  }

  /** Writes a buffer.
    *
    * @param nulls
    *   where its null bit is
    * @param isNew
    *   whether the record is new: it has no null bits of buffers then
    */
  private def store(i: Int, code: ExprCode, nulls: String, isNew: Boolean): String = {
    val put = s"${buffer(i)} = ${word(typeOf(i), code.value.toString)};"
    val present = if (isNew || !attributes(i).nullable) "" else s"$nulls &= ~${nullBit(i)};"
    if (code.isNull == FalseLiteral)
      s"""
         |$put
         |$present
         |""".stripMargin
    else
      s"""
         |if (${code.isNull}) {
         |  $nulls |= ${nullBit(i)};
         |  ${buffer(i)} = 0L;
         |} else {
         |  $put
         |  $present
         |}
         |""".stripMargin
  }
}

private object CodegenSplit {

  /** The variables that code of expressions reads, if a method can take as many. */
  def inputs(
      ctx: CodegenContext,
      expressions: Seq[Expression],
      common: Map[org.apache.spark.sql.catalyst.expressions.ExpressionEquals, SubExprEliminationState]
  ): Option[Seq[VariableValue]] = {
    val read = expressions.map(CodeGenerator.getLocalInputVariableValues(ctx, _, common)._1).reduce(_ ++ _).toSeq
    // The record takes three more of the JVM's words.
    val words = CodeGenerator.calculateParamLengthFromExprValues(read) + 3
    val isPlain = !common.values.exists(s => s.eval.value.isInstanceOf[SimpleExprValue])
    Option.when(isPlain && CodeGenerator.isValidParamLength(words))(read)
  }
}
