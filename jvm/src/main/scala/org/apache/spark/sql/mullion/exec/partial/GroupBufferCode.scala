package org.apache.spark.sql.mullion.exec.partial

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, BindReferences, Expression}
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, DeclarativeAggregate}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.mullion.expressions.WithoutNulls
import org.apache.spark.sql.types.DataType

/** Generates the code that adds a row to its group's buffers, from Spark's own expressions for it: these read the row's
  * columns in their variables, and the buffers in variables that were read from the record.
  */
private[partial] final class GroupBufferCode(
    ctx: CodegenContext,
    layout: GroupLayout,
    aggregates: Seq[AggregateExpression]
) {
  import GroupKeyCode.{ofWord, word}

  /** The variable with the array that the record lies in. */
  val page: String = ctx.freshName("page")

  /** The variable with where in that its row begins. */
  val row: String = ctx.freshName("row")

  /** Declares both. */
  def place(record: String, pages: String): String = GroupKeyCode.place(record, pages, page, row)

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
           |${storeInPresent(i, code, s"$page[$row + ${layout.nullWordOfBuffer(i)}]")}
           |""".stripMargin
      }
      .mkString
  }

  /** Adds a row.
    *
    * {{{
    *   group and row without nulls    a sum is a sum: nothing is asked about what cannot be null here
    *   others                         Spark's rules for nulls
    * }}}
    *
    * @param columns
    *   the row's columns, evaluated in `input`
    * @param splitsFrom
    *   from how much code on each function gets a method of its own: a method that is too long the JVM interprets
    */
  def update(columns: Seq[Attribute], input: Seq[ExprCode], splitsFrom: Int): String = {
    val (any, isSplit) = updateAny(columns, input, splitsFrom)
    val nullable = nullWords.map { case (i, bits) => bits -> nullableBits(i) }.filter(_._2 != 0L)
    val read = AttributeSet(aggregates.flatMap(a => a.aggregateFunction +: a.filter.toSeq))
    val mayBeNull = columns.zip(input).collect {
      case (column, code) if read.contains(column) && code.isNull != FalseLiteral => code.isNull.toString
    }
    if (isSplit || any.length > splitsFrom / 2 || nullable.isEmpty)
      s"""
         |$loadNulls
         |$any
         |${if (isSplit) "" else storeNulls}
         |""".stripMargin
    else {
      val nothing =
        nullable.map { case (bits, of) => s"($bits & ${of}L) == 0L" } ++ mayBeNull.map(isNull => s"!$isNull")
      s"""
         |$loadNulls
         |if (${nothing.mkString(" && ")}) {
         |  ${updateWithoutNulls(columns, input)}
         |} else {
         |  $any
         |  $storeNulls
         |}
         |""".stripMargin
    }
  }

  /** Adds a row that may have nulls, to a group that may have them; and whether methods of their own do so. */
  private def updateAny(columns: Seq[Attribute], input: Seq[ExprCode], splitsFrom: Int): (String, Boolean) = {
    val variables = layout.buffers.indices.map(load)
    val bound = expressions(attributes ++ columns)
    val (common, updates) = codeOf(bound, variables, input, store(_, _, _))
    val calls =
      if (updates.map(_.code.length).sum <= splitsFrom) None
      else split(updates.map(_.code), bound.map(CodegenSplit.inputs(ctx, _, common.states)))
    val code =
      s"""
         |${variables.map(_.code.toString).mkString("\n")}
         |${ctx.evaluateSubExprEliminationState(common.states.values)}
         |${filtered(calls.getOrElse(updates.map(_.code)), columns, input)}
         |""".stripMargin
    (code, calls.isDefined)
  }

  private def updateWithoutNulls(columns: Seq[Attribute], input: Seq[ExprCode]): String = {
    def present(code: ExprCode) = ExprCode(code.code, FalseLiteral, code.value)
    val variables = layout.buffers.indices.map(loadPresent)
    val values = input.map(present)
    val bound = expressions((attributes ++ columns).map(_.withNullability(false))).map(_.map(WithoutNulls.simplified))
    val (common, updates) = codeOf(bound, variables, values, storeInPresent(_, _, _))
    s"""
       |${variables.map(_.code.toString).mkString("\n")}
       |${ctx.evaluateSubExprEliminationState(common.states.values)}
       |${filtered(updates.map(_.code), columns, values)}
       |${if (updates.exists(_.mayBeNull)) storeNulls else ""}
       |""".stripMargin
  }

  /** What each function makes of its buffers and a row, read from columns. */
  private def expressions(columns: Seq[Attribute]): Seq[Seq[Expression]] =
    functions.map(f => BindReferences.bindReferences[Expression](f.updateExpressions, columns))

  /** The code of each function, and what they have in common. */
  private def codeOf(
      bound: Seq[Seq[Expression]],
      variables: Seq[ExprCode],
      input: Seq[ExprCode],
      store: (Int, ExprCode, String) => String
  ): (SubExprCodes, Seq[Update]) = {
    val held = variables.map(v => ExprCode(EmptyBlock, v.isNull, v.value))
    ctx.INPUT_ROW = None.orNull
    ctx.currentVars = held ++ input
    val common = ctx.subexpressionEliminationForWholeStageCodegen(bound.flatten)
    val updates = bound.zipWithIndex.map { case (expressions, i) =>
      val codes = ctx.withSubExprEliminationExprs(common.states)(expressions.map(_.genCode(ctx)))
      val stored = codes.zipWithIndex.map { case (code, j) =>
        store(firstOf(i) + j, code, nullBits(firstOf(i) + j))
      }
      Update(
        s"""
           |${codes.map(_.code.toString).mkString("\n")}
           |${stored.mkString("\n")}
           |""".stripMargin,
        codes.exists(_.isNull != FalseLiteral)
      )
    }
    (common, updates)
  }

  /** The functions' code, each where its filter lets the row pass. */
  private def filtered(updates: Seq[String], columns: Seq[Attribute], input: Seq[ExprCode]): String = updates
    .zip(aggregates)
    .map { case (code, aggregate) =>
      s"""
         |do {
         |  ${aggregate.filter.fold("")(passes(_, columns, input))}
         |  $code
         |} while (false);
         |""".stripMargin
    }
    .mkString

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

  /** The null bits of a word that buffers may have. */
  private def nullableBits(of: Int) = layout.buffers.indices
    .filter(i => layout.nullWordOfBuffer(i) == of && attributes(i).nullable)
    .map(1L << layout.nullBitOfBuffer(_))
    .foldLeft(0L)(_ | _)

  /** Reads a buffer that is not null. */
  private def loadPresent(i: Int): ExprCode = {
    val held = ctx.freshName("held")
    val read = ofWord(typeOf(i), buffer(i))
    ExprCode(
      code"${CodeGenerator.javaType(typeOf(i))} $held = $read;",
      FalseLiteral,
      JavaCode.variable(held, typeOf(i))
    )
  }

  private def load(i: Int): ExprCode = {
    val held = ctx.freshName("held")
    val javaType = CodeGenerator.javaType(typeOf(i))
    if (!attributes(i).nullable) loadPresent(i)
    else {
      val isNull = ctx.freshName("heldIsNull")
      val read = ofWord(typeOf(i), buffer(i))
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
    */
  private def store(i: Int, code: ExprCode, nulls: String): String =
    store(i, code, nulls, if (attributes(i).nullable) s"$nulls &= ~${nullBit(i)};" else "")

  /** The same where its null bit is not set before. */
  private def storeInPresent(i: Int, code: ExprCode, nulls: String): String = store(i, code, nulls, present = "")

  private def store(i: Int, code: ExprCode, nulls: String, present: String): String = {
    val put = s"${buffer(i)} = ${word(typeOf(i), code.value.toString)};"
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

/** The code by which a function adds a row, and whether a buffer may become null by it. */
private final case class Update(code: String, mayBeNull: Boolean)

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
