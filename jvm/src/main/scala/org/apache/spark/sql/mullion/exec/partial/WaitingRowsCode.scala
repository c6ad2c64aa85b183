package org.apache.spark.sql.mullion.exec.partial

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.expressions.codegen._

/** Generates the code by which rows wait until there are some dozens, and are then added one after the other.
  *
  * {{{
  *   one by one   find [memory] add   find [memory] add   find [memory] add      each waits for its group alone
  *   together     read what all will need [memory]   find add  find add  find add
  * }}}
  *
  * Where groups are many, a row's is seldom in the processor's caches, and to wait for memory takes more time than all
  * else. A processor waits for several places at a time if the code that asks for them stands close together.
  *
  * A row waits as words: its hash, its keys, and the columns that the functions read.
  *
  * @param columns
  *   the columns that the functions and their filters read
  */
private[partial] final class WaitingRowsCode(ctx: CodegenContext, keys: Int, columns: Seq[Attribute]) {
  import WaitingRowsCode.Most

  private val width = 2 + keys + 1 + columns.length
  private val ofNulls = 2 + keys

  private val words =
    ctx.addMutableState("long[]", "waiting", name => s"$name = new long[${Most * width}];", forceInline = true)

  /** How many rows have come to wait. */
  val filled: String = ctx.addMutableState(CodeGenerator.JAVA_INT, "waitingFilled")

  /** How many of them have been added. */
  private val next = ctx.addMutableState(CodeGenerator.JAVA_INT, "waitingNext")

  /** Lets a row wait, and calls `add` when there are enough.
    *
    * @param input
    *   the columns' values, evaluated
    * @param atOnce
    *   the code that adds the row where groups are few and none wait, if it is short
    */
  def await(table: String, key: GroupKeyCode, input: Seq[ExprCode], add: String, atOnce: Option[String]): String = {
    val (at, nulls) = (ctx.freshName("at"), ctx.freshName("absent"))
    val of = columns.zip(input).zipWithIndex.map { case ((column, value), i) =>
      val word = GroupKeyCode.word(column.dataType, value.value.toString)
      val place = s"$words[$at + ${ofNulls + 1 + i}]"
      if (value.isNull == FalseLiteral) s"$place = $word;"
      else s"if (${value.isNull}) { $nulls |= ${1L << i}L; } else { $place = $word; }"
    }
    val waits = s"""
       |while ($filled == $Most) $add();
       |int $at = $filled * $width;
       |${key.save(words, at)}
       |long $nulls = 0L;
       |${of.mkString("\n")}
       |$words[$at + $ofNulls] = $nulls;
       |$filled += 1;
       |if ($filled == $Most) $add();
       |""".stripMargin
    val code = atOnce.fold(waits)(now => s"if ($filled == 0 && $table.isSmall()) { $now } else { $waits }")
    s"""
       |${key.words}
       |$code
       |""".stripMargin
  }

  // Of the method that adds: a field would be read again after each word that is written to a record.
  private val (waiting, row, last) = (ctx.freshName("rows"), ctx.freshName("row"), ctx.freshName("last"))

  /** The variables that a row's columns are read into: those of `values`, where these are variables. So the code that
    * adds a row is made once for both: as it comes, and as it has waited.
    */
  def variablesLike(values: Seq[ExprCode]): Seq[ExprCode] = columns.zip(values).zipWithIndex.map {
    // Of two columns that are one variable, as of a column with two names, the second has its own.
    case ((_, of), i) if WaitingRowsCode.areVariables(of) && !values.take(i).exists(WaitingRowsCode.share(_, of)) =>
      of.copy(code = EmptyBlock)
    case ((column, _), _) =>
      val isNull = if (column.nullable) JavaCode.isNullVariable(ctx.freshName("isNull")) else FalseLiteral
      ExprCode(EmptyBlock, isNull, JavaCode.variable(ctx.freshName("value"), column.dataType))
  }

  def areSame(variables: Seq[ExprCode], values: Seq[ExprCode]): Boolean = variables.zip(values).forall {
    case (one, other) => one.isNull == other.isNull && one.value == other.value
  }

  /** A method that adds the rows that wait; it stops behind one that found no room.
    *
    * @param variables
    *   what it reads a row's columns into
    * @param add
    *   the code that adds a row from there
    */
  def adding(table: String, key: GroupKeyCode, variables: Seq[ExprCode], add: String): String = {
    val (name, at, nulls) = (ctx.freshName("addWaiting"), ctx.freshName("at"), ctx.freshName("absent"))
    val reads = columns.zip(variables).zipWithIndex.map { case ((column, variable), i) =>
      val read = GroupKeyCode.ofWord(column.dataType, s"$waiting[$at + ${ofNulls + 1 + i}]")
      val javaType = CodeGenerator.javaType(column.dataType)
      if (variable.isNull == FalseLiteral) s"$javaType ${variable.value} = $read;"
      else
        s"""
           |boolean ${variable.isNull} = ($nulls & ${1L << i}L) != 0L;
           |$javaType ${variable.value} = ${variable.isNull} ? ${CodeGenerator.defaultValue(column.dataType)} : $read;
           |""".stripMargin
    }
    ctx.addNewFunction(
      name,
      s"""
         |private void $name() throws java.io.IOException {
         |  long[] $waiting = $words;
         |  int $last = $filled;
         |  int $row = $next;
         |  if ($row == 0) $table.touch($waiting, $width, $last);
         |  while ($row < $last) {
         |    int $at = $row * $width;
         |    $row += 1;
         |    ${key.restore(waiting, at)}
         |    long $nulls = $waiting[$at + $ofNulls];
         |    ${reads.mkString("\n")}
         |    $add
         |  }
         |  $next = 0;
         |  $filled = 0;
         |}
         |""".stripMargin
    )
  }

  /** Behind a row that found no room: those after it wait on. */
  def stop: String =
    s"""
       |if ($row < $last) {
       |  $next = $row;
       |  return;
       |}
       |""".stripMargin
}

private[partial] object WaitingRowsCode {
  // More than a processor waits for at a time, and few enough to stay in its first cache with what they need.
  private val Most = GroupTable.Together
  private val MostColumns = 64

  /** Whether a value is in local variables, whose names can be those of another method's too. */
  private def areVariables(of: ExprCode): Boolean = of.value.isInstanceOf[VariableValue] &&
    (of.isNull == FalseLiteral || of.isNull.isInstanceOf[VariableValue])

  private def share(one: ExprCode, other: ExprCode): Boolean =
    one.value == other.value || one.isNull == other.isNull && one.isNull != FalseLiteral

  /** The columns of rows that wait, if these rows can: all they bring is words, and it does not matter when they are
    * looked at.
    */
  def columns(
      layout: GroupLayout,
      aggregates: Seq[AggregateExpression],
      input: Seq[Attribute]
  ): Option[Seq[Attribute]] = {
    val read = AttributeSet(aggregates.flatMap(a => a.aggregateFunction +: a.filter.toSeq))
    val columns = input.filter(read.contains)
    val plain = (layout.keys ++ columns).forall(c => GroupLayout.isFixed(c.dataType))
    val whenever = aggregates.forall(a => a.aggregateFunction.deterministic && a.filter.forall(_.deterministic))
    Option.when(plain && whenever && columns.length <= MostColumns)(columns)
  }
}
