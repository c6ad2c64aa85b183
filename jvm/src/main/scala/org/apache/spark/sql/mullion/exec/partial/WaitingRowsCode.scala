package org.apache.spark.sql.mullion.exec.partial

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.types.{DecimalType, LongType}

/** Generates the code by which rows wait until there are some hundred, and are then added together, in two loops.
  *
  * {{{
  *   one by one   find [memory] add   find [memory] add   find [memory] add      each waits for its group alone
  *   together     read what all will need [memory]   find find find   add add add
  * }}}
  *
  * Where groups are many, a row's is seldom in the processor's caches, and to wait for memory takes more time than all
  * else. A processor waits for several places at a time if the code that asks for them stands close together. Where
  * groups are few, a loop that writes nothing to them finds them quicker: no read waits for a write that may be to the
  * same place, and where the processor guessed wrong whether an entry of the index is the row's, it has less to undo.
  *
  * A row waits as words, each in an array of its own: its hash, its keys, the columns that the functions read, and the
  * null bits of both.
  *
  * @param columns
  *   the columns that the functions and their filters read
  */
private[partial] final class WaitingRowsCode(
    ctx: CodegenContext,
    layout: GroupLayout,
    columns: Seq[Attribute],
    table: String
) {
  import WaitingRowsCode._

  private val hashes = new Words(CodeGenerator.JAVA_INT, "hashes")
  private val nulls = new Words(CodeGenerator.JAVA_LONG, "nulls")
  private val keys = layout.keys.map(_ => new Words(CodeGenerator.JAVA_LONG, "keys"))
  private val values = columns.map(_ => new Words(CodeGenerator.JAVA_LONG, "values"))
  private val records = new Words(CodeGenerator.JAVA_LONG, "records")

  /** How many rows have come to wait. */
  val filled: String = ctx.addMutableState(CodeGenerator.JAVA_INT, "waitingFilled")

  /** How many of them have been added. */
  private val next = ctx.addMutableState(CodeGenerator.JAVA_INT, "waitingNext")

  // The methods that add what waits, once they are declared: code of a class that is long has some in another class.
  private var add = ""

  def isDeclared: Boolean = add.nonEmpty

  /** Adds the rows that wait, or stops behind one that found no room. */
  def adding: String = s"$add();"

  /** The variables that a column's value is read into before the functions read it. */
  private val variables = columns.map { column =>
    val isNull = if (column.nullable) JavaCode.isNullVariable(ctx.freshName("isNull")) else FalseLiteral
    ExprCode(EmptyBlock, isNull, JavaCode.variable(ctx.freshName("value"), column.dataType))
  }

  // The digits of a decimal may be added without the decimal.
  private val digits: Map[Int, VariableValue] = columns.zipWithIndex.collect {
    case (column, i) if column.dataType.isInstanceOf[DecimalType] =>
      i -> JavaCode.variable(ctx.freshName("digits"), LongType)
  }.toMap

  /** Lets a row wait that comes alone, and adds all that wait when they are enough.
    *
    * @param input
    *   the columns' values, evaluated
    */
  def await(key: GroupKeyCode, input: Seq[ExprCode]): String = {
    val at = ctx.freshName("at")
    s"""
       |while ($filled == $Most) $adding
       |int $at = $filled;
       |${save(key, input, at, _.field)}
       |$filled = $at + 1;
       |if ($filled == $Most) $adding
       |""".stripMargin
  }

  private val count = ctx.freshName("count")

  /** Stands before a loop over at most [[WaitingRowsCode.Most]] rows, each of which [[put]] lets wait: adds what waits
    * of the loop before, which stopped.
    */
  def before: String = s"while ($filled > 0) { $adding if (shouldStop()) return; }"

  /** Stands at the loop's begin. */
  def begin: String =
    s"""
       |int $count = 0;
       |${locals(hashes +: nulls +: (keys ++ values))}
       |""".stripMargin

  /** Stands at its end. */
  def end: String =
    s"""
       |$filled = $count;
       |$adding
       |""".stripMargin

  /** Lets a row wait that comes in such a loop. */
  def put(key: GroupKeyCode, input: Seq[ExprCode]): String =
    s"""
       |${save(key, input, count, _.local)}
       |$count += 1;
       |""".stripMargin

  private def save(key: GroupKeyCode, input: Seq[ExprCode], at: String, name: Words => String): String = {
    val absent = ctx.freshName("absent")
    val bits = input.zipWithIndex.collect {
      case (value, i) if value.isNull != FalseLiteral => s"if (${value.isNull}) $absent |= ${columnBit(i)};"
    }
    val words = columns.zip(input).map { case (column, value) =>
      GroupKeyCode.orIfNull(value, "0L", GroupKeyCode.word(column.dataType, value.value.toString))
    }
    s"""
       |${key.words}
       |long $absent = ${key.nulls};
       |${bits.mkString("\n")}
       |${name(hashes)}[$at] = ${key.hash};
       |${name(nulls)}[$at] = $absent;
       |${keys.zip(key.variables).map { case (to, word) => s"${name(to)}[$at] = $word;" }.mkString("\n")}
       |${values.zip(words).map { case (to, word) => s"${name(to)}[$at] = $word;" }.mkString("\n")}
       |""".stripMargin
  }

  /** Declares the methods that add the rows that wait.
    *
    * @param give
    *   a method that hands a row on
    * @param makeRoom
    *   hands on all groups where a row found no room, if that can be done
    */
  def declare(
      key: GroupKeyCode,
      group: GroupBufferCode,
      give: String,
      makeRoom: Option[String],
      splitsFrom: Int
  ): Unit = {
    val begin = beginning(key, group)
    val find = finding(key, begin)
    val update = updating(group, splitsFrom)
    val again = makeRoom.fold("")(room => s"$room hasRoom = $find(row, row + 1) > row;")
    add = method("addWaiting") { name =>
      s"""
         |private void $name() throws java.io.IOException {
         |  int last = $filled;
         |  int row = $next;
         |  while (row < last) {
         |    int end = row + Math.min(last - row, $table.together());
         |    $table.touch(${hashes.field}, row, end);
         |    int until = $find(row, end);
         |    $update(row, until);
         |    row = until;
         |    if (row < end) {
         |      boolean hasRoom = false;
         |      $again
         |      if (!hasRoom) ${records.field}[row] = $begin(row, true);
         |      $update(row, row + 1);
         |      row += 1;
         |      if (!hasRoom) {
         |        $give($table.aloneRow());
         |        $next = row;
         |        if (shouldStop()) return;
         |      }
         |    }
         |  }
         |  $next = 0;
         |  $filled = 0;
         |}
         |""".stripMargin
    }
  }

  /** A method that finds the records of rows, or makes them, up to the first row that has no room. */
  private def finding(key: GroupKeyCode, begin: String): String = method("findGroups") { name =>
    s"""
       |private int $name(int from, int until) {
       |  ${locals(hashes +: nulls +: records +: keys)}
       |  long[] index = $table.index();
       |  int mask = $table.mask();
       |  long[][] pages = $table.pages();
       |  for (int i = from; i < until; i++) {
       |    ${restored(key)}
       |    long record = 0L;
       |    ${key.find("index", "mask", "pages", "record")}
       |    if (record == 0L) {
       |      record = $begin(i, false);
       |      if (record == 0L) return i;
       |      index = $table.index();
       |      mask = $table.mask();
       |      pages = $table.pages();
       |    }
       |    ${records.local}[i] = record;
       |  }
       |  return until;
       |}
       |""".stripMargin
  }

  /** A method that makes a group for a row, or says 0 where there is no room; or a record of its own for such a row. */
  private def beginning(key: GroupKeyCode, group: GroupBufferCode): String = method("beginGroup") { name =>
    s"""
       |private long $name(int i, boolean isAlone) {
       |  ${locals(hashes +: nulls +: keys)}
       |  ${restored(key)}
       |  long record = isAlone ? ${key.alone(table)} : ${key.add(table)};
       |  if (record == 0L) return 0L;
       |  ${group.place("record", s"$table.pages()")}
       |  ${key.write(group.page, group.row)}
       |  ${group.begin}
       |  return record;
       |}
       |""".stripMargin
  }

  /** Declares what a row waits with about its group. */
  private def restored(key: GroupKeyCode): String =
    s"""
       |int ${key.hash} = ${hashes.local}[i];
       |long ${key.nulls} = ${nulls.local}[i] & ${layout.keyNulls}L;
       |${key.variables.zip(keys).map { case (word, from) => s"long $word = ${from.local}[i];" }.mkString("\n")}
       |""".stripMargin

  /** A method that adds rows to the records that were found for them. */
  private def updating(group: GroupBufferCode, splitsFrom: Int): String = method("addToGroups") { name =>
    val reads = columns.zip(variables).zip(values).zipWithIndex.map { case (((column, variable), from), i) =>
      val value = s"${CodeGenerator.javaType(column.dataType)} ${variable.value}"
      val word = digits.get(i)
      val read = GroupKeyCode.ofWord(column.dataType, word.fold(s"${from.local}[i]")(_.toString))
      val declared = word.fold("")(of => s"long $of = ${from.local}[i];")
      if (variable.isNull == FalseLiteral)
        s"""
           |$declared
           |$value = $read;
           |""".stripMargin
      else
        s"""
           |$declared
           |boolean ${variable.isNull} = (${nulls.local}[i] & ${columnBit(i)}) != 0L;
           |$value = ${variable.isNull} ? ${CodeGenerator.defaultValue(column.dataType)} : $read;
           |""".stripMargin
    }
    s"""
       |private void $name(int from, int until) throws java.io.IOException {
       |  ${locals(nulls +: records +: values)}
       |  long[][] pages = $table.pages();
       |  for (int i = from; i < until; i++) {
       |    long record = ${records.local}[i];
       |    ${group.place("record", "pages")}
       |    ${reads.mkString("\n")}
       |    ${group.update(columns, variables, digits, splitsFrom)}
       |  }
       |}
       |""".stripMargin
  }

  private def method(name: String)(code: String => String): String = {
    val fresh = ctx.freshName(name)
    ctx.addNewFunction(fresh, code(fresh))
  }

  private def columnBit(i: Int) = s"${1L << (keys.length + i)}L"

  private def locals(of: Seq[Words]) = of.map(w => s"${w.javaType}[] ${w.local} = ${w.field};").mkString("\n")

  /** One word of each row that waits, in a field and, while a loop reads or writes it, in a local variable: a field is
    * read again after each call that the JVM does not know.
    */
  private final class Words(val javaType: String, name: String) {
    val field: String =
      ctx.addMutableState(s"$javaType[]", name, field => s"$field = new $javaType[$Most];", forceInline = true)
    val local: String = ctx.freshName(name)
  }
}

private[partial] object WaitingRowsCode {

  /** How many rows wait: what they bring stays in the processor's first cache. */
  val Most = 256

  // Their null bits stand in one word behind those of the keys.
  private val MostColumns = 64

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
    Option.when(plain && whenever && layout.keys.length + columns.length <= MostColumns)(columns)
  }
}
