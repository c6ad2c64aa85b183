package org.apache.spark.sql.mullion.operator.partial

import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, DeclarativeAggregate}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  AttributeSet,
  BindReferences,
  BoundReference,
  Expression,
  GenericInternalRow
}
import org.apache.spark.sql.mullion.expressions.rows.WithoutNulls
import org.apache.spark.sql.mullion.operator.partial.group.{GroupDecimals, GroupLayout, TextExtreme}
import org.apache.spark.sql.types.{DataType, DecimalType}

/** Generates the code that adds a row to its group's buffers, from Spark's own expressions. These read the row's
  * columns and the buffers from variables. Sums of decimals are computed in the record itself (see [[DecimalSum]]).
  * Imperative functions are called (see [[GroupObjects]]).
  *
  * @param table
  *   the variable with the table
  */
private[partial] final class GroupBufferCode(
    ctx: CodegenContext,
    layout: GroupLayout,
    aggregates: Seq[AggregateExpression],
    calls: ImperativeCalls,
    table: String
) {
  import GroupBufferCode._
  import GroupKeyCode.{ofWord, word}

  /** The variable with the array that contains the record. */
  val page: String = ctx.freshName("page")

  /** The variable with the start of the record's row in it. */
  val row: String = ctx.freshName("row")

  /** Declares both. */
  def place(record: String, pages: String): String = GroupKeyCode.place(record, pages, page, row)

  private val functions = aggregates.map(_.aggregateFunction)
  private val attributes: Seq[Attribute] = functions.flatMap(_.aggBufferAttributes)
  private val firstOf = functions.scanLeft(0)(_ + _.aggBufferAttributes.length)
  private val sums: Map[Int, DecimalSum] = functions
    .zip(firstOf)
    .flatMap {
      case (f: DeclarativeAggregate, first) => sumsOf(f, first)
      case _                                => Nil
    }
    .toMap

  private val extremes: Map[Int, TextExtreme] =
    functions.zip(firstOf).flatMap { case (f, first) => TextExtreme.of(f).map(first -> _) }.toMap

  // The buffers that expressions update.
  private val isExpressed: IndexedSeq[Boolean] =
    functions.flatMap(f => f.aggBufferAttributes.map(_ => f.isInstanceOf[DeclarativeAggregate])).toIndexedSeq

  // The variable with the index of the group's first object.
  private val firstObject = ctx.freshName("firstObject")

  // The words with null bits of buffers, each in a variable while a row is added: written once.
  private val nullWords: Map[Int, String] = layout.buffers.indices
    .map(layout.nullWordOfBuffer)
    .distinct
    .map(_ -> ctx.freshName("nullBits"))
    .toMap

  /** The buffers of a function that are only read by sums of decimals, by index. */
  private def sumsOf(function: DeclarativeAggregate, first: Int) = {
    val buffers = function.aggBufferAttributes
    buffers.zip(function.updateExpressions).zipWithIndex.flatMap { case ((buffer, update), i) =>
      val isRead = function.updateExpressions.patch(i, Nil, 1).exists(_.references.contains(buffer))
      if (isRead || !GroupLayout.isWide(buffer.dataType)) None else DecimalSum.of(buffer, update).map(first + i -> _)
    }
  }

  /** Writes the initial buffers of a group. */
  def begin: String = {
    ctx.currentVars = None.orNull
    ctx.INPUT_ROW = None.orNull
    val initial = functions.zip(firstOf).flatMap {
      case (f: DeclarativeAggregate, first) =>
        f.initialValues.zipWithIndex.map { case (value, i) =>
          val code = value.genCode(ctx)
          s"""
             |${code.code}
             |${storeInPresent(first + i, code, s"$page[$row + ${layout.nullWordOfBuffer(first + i)}]")}
             |""".stripMargin
        }
      case (f, first) => f.aggBufferAttributes.indices.map(i => s"${buffer(first + i)} = 0L;")
    }
    if (!layout.hasObjects) initial.mkString
    else {
      val place = s"$page[$row + ${layout.objectsWord}]"
      s"""
         |$place = (long) $table.objects().begin();
         |$loadObjects
         |${initial.mkString}
         |$table.objects().initialize($page, $row, $firstObject);
         |""".stripMargin
    }
  }

  private def loadObjects: String =
    if (layout.hasObjects) s"int $firstObject = (int) $page[$row + ${layout.objectsWord}];" else ""

  /** Adds a row.
    *
    * {{{
    *   group and row without nulls    no null checks
    *   others                         Spark's rules for nulls
    * }}}
    *
    * @param columns
    *   the row's columns, evaluated in `input`
    * @param words
    *   the variables with the words of columns that are available as words
    * @param splitsFrom
    *   the code size from which each function gets its own method: the JVM interprets methods that are too long
    */
  def update(columns: Seq[Attribute], input: Seq[ExprCode], words: Words, splitsFrom: Int): String = {
    val (any, isSplit) = updateAny(columns, input, words, splitsFrom)
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
         |  ${updateWithoutNulls(columns, input, words)}
         |} else {
         |  $any
         |  $storeNulls
         |}
         |""".stripMargin
    }
  }

  /** Adds a row with possible nulls, to a group with possible nulls. Returns also whether it uses separate methods. */
  private def updateAny(
      columns: Seq[Attribute],
      input: Seq[ExprCode],
      words: Words,
      splitsFrom: Int
  ): (String, Boolean) = {
    val variables = layout.buffers.indices.map(i => if (isExpressed(i)) load(i) else notRead(i))
    val bound = expressions(attributes ++ columns, columns)
    val (common, updates) = codeOf(bound, variables, input, words, isPresent = false)
    val calls =
      if (updates.map(_.code.length).sum <= splitsFrom) None
      else
        split(
          updates.map(_.code),
          bound.zip(updates).map { case (of, update) => CodegenSplit.inputs(ctx, of, common.states, update.words) }
        )
    val code =
      s"""
         |${variables.map(_.code.toString).mkString("\n")}
         |${ctx.evaluateSubExprEliminationState(common.states.values)}
         |${filtered(calls.getOrElse(updates.map(_.code)), columns, input)}
         |""".stripMargin
    (code, calls.isDefined)
  }

  private def updateWithoutNulls(columns: Seq[Attribute], input: Seq[ExprCode], words: Words): String = {
    def present(code: ExprCode) = ExprCode(code.code, FalseLiteral, code.value)
    val variables = layout.buffers.indices.map(i => if (isExpressed(i)) loadPresent(i) else notRead(i))
    val values = input.map(present)
    val bound = expressions((attributes ++ columns).map(_.withNullability(false)), columns)
      .map(_.map(WithoutNulls.simplified))
    val (common, updates) = codeOf(bound, variables, values, words, isPresent = true)
    s"""
       |${variables.map(_.code.toString).mkString("\n")}
       |${ctx.evaluateSubExprEliminationState(common.states.values)}
       |${filtered(updates.map(_.code), columns, values)}
       |${if (updates.exists(_.mayBeNull)) storeNulls else ""}
       |""".stripMargin
  }

  // The values that are added to buffers which are not read by expressions.
  private lazy val inputs: Map[Int, Expression] =
    sums.map { case (i, sum) => i -> sum.summand } ++ extremes.map { case (i, extreme) => i -> extreme.text }

  /** The new buffers of each function, or the summand of a sum of decimals, or the text of an extreme; of an imperative
    * function the columns that it reads.
    */
  private def expressions(columns: Seq[Attribute], read: Seq[Attribute]): Seq[Seq[Expression]] =
    functions.zip(firstOf).map { case (f, first) =>
      val of = f match {
        case d: DeclarativeAggregate =>
          d.updateExpressions.zipWithIndex.map { case (update, i) => inputs.getOrElse(first + i, update) }
        case other => read.filter(other.references.contains)
      }
      BindReferences.bindReferences[Expression](of, columns)
    }

  /** The code of each function, and their common subexpressions.
    *
    * @param isPresent
    *   whether no buffer is null before
    */
  private def codeOf(
      bound: Seq[Seq[Expression]],
      variables: Seq[ExprCode],
      input: Seq[ExprCode],
      words: Words,
      isPresent: Boolean
  ): (SubExprCodes, Seq[Update]) = {
    def wordOf(expression: Expression) = expression match {
      case BoundReference(at, _, _) => words.get(at - variables.length)
      case _                        => None
    }

    val heldValue = variables.map(v => ExprCode(EmptyBlock, v.isNull, v.value))
    ctx.INPUT_ROW = None.orNull
    ctx.currentVars = heldValue ++ input
    // Common subexpressions are computed before filters, which may guard them.
    val unfiltered = bound.zip(aggregates).collect { case (expressions, of) if of.filter.isEmpty => expressions }
    val common = ctx.subexpressionEliminationForWholeStageCodegen(unfiltered.flatten)
    def expressed(i: Int, expressions: Seq[Expression]) = {
      val codes = ctx
        .withSubExprEliminationExprs(common.states)(expressions.map(_.genCode(ctx)))
        .zip(expressions)
        .zipWithIndex
        .map { case ((code, of), j) => (firstOf(i) + j, code, of) }
      val evaluated = codes.map { case (buffer, code, of) =>
        sums
          .get(buffer)
          .map(add(buffer, _, code, wordOf(of), isPresent))
          .orElse(extremes.get(buffer).map(replace(buffer, _, code, isPresent)))
          .getOrElse(code.code.toString)
      }
      val others = codes.collect { case (buffer, code, _) if !inputs.contains(buffer) => buffer -> code }
      val stored = others.map { case (buffer, code) =>
        if (isPresent) storeInPresent(buffer, code, nullBits(buffer)) else store(buffer, code, nullBits(buffer))
      }
      Update(
        s"""
           |${evaluated.mkString("\n")}
           |${stored.mkString("\n")}
           |""".stripMargin,
        others.exists { case (buffer, code) => code.isNull != FalseLiteral || isWide(buffer) },
        codes.flatMap { case (buffer, _, of) => if (sums.contains(buffer)) wordOf(of) else None }.distinct
      )
    }
    val updates = bound.zipWithIndex.map {
      case (columns, i) if !functions(i).isInstanceOf[DeclarativeAggregate] => called(i, columns)
      case (expressions, i)                                                 => expressed(i, expressions)
    }
    (common, updates)
  }

  /** The call of an imperative function. */
  private def called(i: Int, columns: Seq[Expression]): Update = {
    val input = ctx.freshName("input")
    val read = columns.zip(calls.inputsOf(i)).map { case (column, at) =>
      val code = column.genCode(ctx)
      val set =
        if (CodeGenerator.isPrimitiveType(column.dataType))
          s"$input.set${CodeGenerator.primitiveTypeName(column.dataType)}($at, ${code.value});"
        else s"$input.update($at, ${code.value});"
      s"""
         |${code.code}
         |${if (code.isNull == FalseLiteral) set else s"if (${code.isNull}) $input.setNullAt($at); else { $set }"}
         |""".stripMargin
    }
    Update(
      s"""
         |${classOf[GenericInternalRow].getName} $input = $table.objects().input();
         |${read.mkString}
         |$table.objects().update(${calls.numberOf(i)}, $page, $row, $firstObject);
         |""".stripMargin,
      mayBeNull = false,
      Nil
    )
  }

  /** The functions' code, guarded by their filters. */
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

  /** Adds to a sum of decimals in place.
    *
    * @param word
    *   the variable with the summand's digits, if there is one
    */
  private def add(
      i: Int,
      sum: DecimalSum,
      summand: ExprCode,
      word: Option[VariableValue],
      isPresent: Boolean
  ): String = {
    val kind = decimalOf(i)
    val to = s"$page, $row + ${layout.ofDecimal(i)}"
    val added = word match {
      case Some(digits) => s"$decimalsClass.add($to, $digits, ${kind.precision})"
      case None         =>
        val isCast = sum.summand.dataType != kind
        s"$decimalsClass.add($to, ${summand.value}, ${kind.precision}, ${kind.scale}, $isCast)"
    }
    val nulls = nullBits(i)
    def where(conditions: String*)(code: String) = {
      val some = conditions.filter(_.nonEmpty)
      if (some.isEmpty) code else s"if (${some.mkString(" && ")}) { $code }"
    }
    val isHeld = if (isPresent) "" else s"($nulls & ${nullBit(i)}) == 0L"
    val isAdded = if (summand.isNull == FalseLiteral) "" else s"!${summand.isNull}"
    val code =
      s"""
         |if (!$added) {
         |  $nulls |= ${nullBit(i)};
         |  $page[$row + ${layout.nullWordOfBuffer(i)}] = $nulls;
         |}
         |""".stripMargin
    if (sum.isFirst) s"${summand.code}\n${where(isHeld, isAdded)(code)}"
    else where(isHeld)(s"${summand.code}\n${where(isAdded)(code)}")
  }

  /** Replaces a text if that of the row is larger, or smaller. */
  private def replace(i: Int, extreme: TextExtreme, text: ExprCode, isPresent: Boolean): String = {
    val isMissing = if (isPresent) "" else s"(${nullBits(i)} & ${nullBit(i)}) != 0L"
    val present = if (isPresent) "" else s"${nullBits(i)} &= ~${nullBit(i)};"
    val put = s"$table.objects().put(${objectOf(i)}, ${text.value}); $present"
    extreme.update(text, ctx.freshName, buffer(i), read(i), isMissing, put)
  }

  private def buffer(i: Int) = s"$page[$row + ${layout.ofBuffer(i)}]"

  private def isWide(i: Int) = GroupLayout.isWide(typeOf(i))

  private def decimalOf(i: Int) = typeOf(i).asInstanceOf[DecimalType]

  private def typeOf(i: Int): DataType = attributes(i).dataType

  private def nullBits(i: Int) = nullWords(layout.nullWordOfBuffer(i))

  private def loadNulls =
    (nullWords.map { case (i, bits) => s"long $bits = $page[$row + $i];" } ++ Seq(loadObjects)).mkString("\n")

  private def storeNulls = nullWords.map { case (i, bits) => s"$page[$row + $i] = $bits;" }.mkString("\n")

  private def nullBit(i: Int) = s"${1L << layout.nullBitOfBuffer(i)}L"

  /** The bits of a null word that buffers may set. */
  private def nullableBits(of: Int) = layout.buffers.indices
    .filter(i => layout.nullWordOfBuffer(i) == of && attributes(i).nullable && isExpressed(i))
    .map(1L << layout.nullBitOfBuffer(_))
    .foldLeft(0L)(_ | _)

  /** Reads a buffer that is not null. */
  private def read(i: Int) =
    if (isObject(i)) s"((${CodeGenerator.boxedType(typeOf(i))}) $table.objects().get(${objectOf(i)}))"
    else if (isWide(i))
      s"$decimalsClass.get($page, $row + ${layout.ofDecimal(i)}, ${decimalOf(i).precision}, ${decimalOf(i).scale})"
    else ofWord(typeOf(i), buffer(i))

  private def isObject(i: Int) = GroupLayout.isObject(typeOf(i))

  private def objectOf(i: Int) = s"$firstObject + ${layout.slotOf(i)}"

  // Not read by any expression: a decimal is added in place, a text is compared by its first bytes, or an imperative
  // function has the buffer.
  private def notRead(i: Int) = ExprCode(EmptyBlock, FalseLiteral, JavaCode.defaultLiteral(typeOf(i)))

  private def loadPresent(i: Int): ExprCode = if (inputs.contains(i)) notRead(i)
  else {
    val heldValue = ctx.freshName("held")
    ExprCode(
      code"${CodeGenerator.javaType(typeOf(i))} $heldValue = ${read(i)};",
      FalseLiteral,
      JavaCode.variable(heldValue, typeOf(i))
    )
  }

  private def load(i: Int): ExprCode = {
    val heldValue = ctx.freshName("held")
    val javaType = CodeGenerator.javaType(typeOf(i))
    if (!attributes(i).nullable || inputs.contains(i)) loadPresent(i)
    else {
      val isNull = ctx.freshName("heldIsNull")
      ExprCode(
        code"""
           |boolean $isNull = (${nullBits(i)} & ${nullBit(i)}) != 0L;
           |$javaType $heldValue = $isNull ? ${CodeGenerator.defaultValue(typeOf(i))} : ${read(i)};
         """.stripMargin,
        JavaCode.isNullVariable(isNull),
        JavaCode.variable(heldValue, typeOf(i))
      )
    }
  }

  /** Writes a buffer.
    *
    * @param nulls
    *   the variable with its null bit
    */
  private def store(i: Int, code: ExprCode, nulls: String): String =
    store(i, code, nulls, if (attributes(i).nullable) s"$nulls &= ~${nullBit(i)};" else "")

  /** The same if its null bit is not set before. */
  private def storeInPresent(i: Int, code: ExprCode, nulls: String): String = store(i, code, nulls, present = "")

  private def store(i: Int, code: ExprCode, nulls: String, present: String): String = if (isWide(i)) {
    val isNull = if (code.isNull == FalseLiteral) "" else s"${code.isNull} || "
    val put = s"$decimalsClass.put($page, $row + ${layout.ofDecimal(i)}, ${code.value}, ${decimalOf(i).precision})"
    s"""
       |if ($isNull!$put) {
       |  $nulls |= ${nullBit(i)};
       |} else {
       |  $present
       |}
       |""".stripMargin
  } else {
    val put =
      if (isObject(i)) s"$table.objects().put(${objectOf(i)}, ${code.value});"
      else s"${buffer(i)} = ${word(typeOf(i), code.value.toString)};"
    val none = if (isObject(i)) s"$table.objects().put(${objectOf(i)}, null);" else s"${buffer(i)} = 0L;"
    if (code.isNull == FalseLiteral)
      s"""
         |$put
         |$present
         |""".stripMargin
    else
      s"""
         |if (${code.isNull}) {
         |  $nulls |= ${nullBit(i)};
         |  $none
         |} else {
         |  $put
         |  $present
         |}
         |""".stripMargin
  }
}

private[partial] object GroupBufferCode {

  /** Variables with the words of columns, by the columns' index in a row. */
  type Words = Map[Int, VariableValue]

  private val decimalsClass = GroupDecimals.getClass.getName.stripSuffix("$")
}
