package org.apache.spark.sql.mullion.operator.partial

import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.mullion.operator.partial.group.GroupLayout
import org.apache.spark.sql.types.{DataType, DecimalType, LongType, StringType}

/** Generates the code that buffers a few hundred rows and then adds them together, in two loops.
  *
  * {{{
  *   one by one   find [memory] add   find [memory] add   find [memory] add      a cache miss per group
  *   together     read the memory of all [memory]   find find find   add add add
  * }}}
  *
  * With many groups, a row's group is rarely cached, and cache misses dominate the time. A processor overlaps several
  * misses if the reads are close together in the code. With few groups, a loop without writes to groups finds them
  * faster: no read waits for a possibly aliased write, and mispredicted index lookups cost less.
  *
  * A buffered row consists of words, each in its own array: its hash, its keys, the columns that the functions read,
  * and the null bits of both. The word of a text is its place among the copied texts.
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
  private val textsClass = classOf[WaitingTexts].getName
  private val texts =
    if (!(layout.keys ++ columns).exists(c => isText(c.dataType))) ""
    else ctx.addMutableState(textsClass, "waitingTexts", name => s"$name = new $textsClass();", forceInline = true)

  /** The number of buffered rows. */
  val filled: String = ctx.addMutableState(CodeGenerator.JAVA_INT, "waitingFilled")

  /** The number of them that have been added. */
  private val next = ctx.addMutableState(CodeGenerator.JAVA_INT, "waitingNext")

  // The methods that add buffered rows, once declared: long classes have some code in another class.
  private var add = ""

  def isDeclared: Boolean = add.nonEmpty

  /** Adds the buffered rows, or stops after one that found no room. */
  def adding: String = s"$add();"

  /** The variables for a column's value before the functions read it. */
  private val variables = columns.map { column =>
    val isNull = if (column.nullable) JavaCode.isNullVariable(ctx.freshName("isNull")) else FalseLiteral
    ExprCode(EmptyBlock, isNull, JavaCode.variable(ctx.freshName("value"), column.dataType))
  }

  // The unscaled value of a decimal may be added without an object.
  private val digits: Map[Int, VariableValue] = columns.zipWithIndex.collect {
    case (column, i) if column.dataType.isInstanceOf[DecimalType] =>
      i -> JavaCode.variable(ctx.freshName("digits"), LongType)
  }.toMap

  /** Buffers a row that comes alone, and adds all rows if the buffer is full.
    *
    * @param input
    *   the columns' values, evaluated
    */
  def await(key: GroupKeyCode, keyInput: Seq[ExprCode], input: Seq[ExprCode]): String = {
    val at = ctx.freshName("at")
    val isFull = if (texts.isEmpty) s"$filled == $Most" else s"$filled == $Most || ($filled > 0 && $texts.isFull())"
    s"""
       |while ($isFull) $adding
       |int $at = $filled;
       |${save(key, keyInput, input, at, _.field)}
       |$filled = $at + 1;
       |if ($isFull) $adding
       |""".stripMargin
  }

  private val count = ctx.freshName("count")

  /** The code before a loop over at most [[WaitingRowsCode.Most]] rows, each of which [[put]] buffers and [[stop]]
    * follows: adds the remaining rows of the previous loop, which stopped.
    */
  def before: String = s"while ($filled > 0) { $adding if (shouldStop()) return; }"

  /** The code at the loop's start. */
  def begin: String =
    s"""
       |int $count = 0;
       |${locals(hashes +: nulls +: (keys ++ values))}
       |""".stripMargin

  /** The code at its end. */
  def end: String =
    s"""
       |$filled = $count;
       |$adding
       |""".stripMargin

  /** Buffers a row in such a loop. */
  def put(key: GroupKeyCode, keyInput: Seq[ExprCode], input: Seq[ExprCode]): String =
    s"""
       |${save(key, keyInput, input, count, _.local)}
       |$count += 1;
       |""".stripMargin

  /** The code after a row in such a loop: makes it the last one if the texts take much memory.
    *
    * @param row
    *   the index of the row
    * @param until
    *   the variable for the end of the loop
    */
  def stop(row: String, until: String): String = if (texts.isEmpty) "" else s"if ($texts.isFull()) $until = $row + 1;"

  private def save(
      key: GroupKeyCode,
      keyInput: Seq[ExprCode],
      input: Seq[ExprCode],
      at: String,
      name: Words => String
  ): String = {
    val absent = ctx.freshName("absent")
    val bits = input.zipWithIndex.collect {
      case (value, i) if value.isNull != FalseLiteral => s"if (${value.isNull}) $absent |= ${columnBit(i)};"
    }
    def put(value: ExprCode) = GroupKeyCode.orIfNull(value, "0L", s"$texts.put(${value.value})")
    val words = columns.zip(input).map { case (column, value) =>
      if (isText(column.dataType)) put(value)
      else GroupKeyCode.orIfNull(value, "0L", GroupKeyCode.word(column.dataType, value.value.toString))
    }
    val keyWords = layout.keys.zip(keyInput).zip(key.variables).map { case ((column, value), word) =>
      if (isText(column.dataType)) put(value) else word
    }
    s"""
       |${key.words}
       |long $absent = ${key.nulls};
       |${bits.mkString("\n")}
       |${name(hashes)}[$at] = ${key.hash};
       |${name(nulls)}[$at] = $absent;
       |${keys.zip(keyWords).map { case (to, word) => s"${name(to)}[$at] = $word;" }.mkString("\n")}
       |${values.zip(words).map { case (to, word) => s"${name(to)}[$at] = $word;" }.mkString("\n")}
       |""".stripMargin
  }

  /** Declares the methods that add buffered rows.
    *
    * @param give
    *   a method that emits a row
    * @param makeRoom
    *   emits all groups if a row found no room, if possible
    */
  def declare(
      key: GroupKeyCode,
      group: GroupBufferCode,
      give: String,
      makeRoom: Option[String],
      splitsFrom: Int
  ): Unit = {
    val keyCode = new GroupKeyCode(ctx, layout, heldKeys(key))
    val begin = beginning(keyCode, group)
    val find = finding(keyCode, begin)
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
         |  ${if (texts.isEmpty) "" else s"$texts.clear();"}
         |}
         |""".stripMargin
    }
  }

  /** A method that finds or creates the records of rows, up to the first row that has no room. */
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

  /** A method that creates a group for a row, or returns 0 if there is no room; or a separate record for such a row. */
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

  // The variables for a buffered row's texts among its keys; other keys are words.
  private var keyTexts: Seq[ExprCode] = Nil

  private def heldKeys(key: GroupKeyCode): Seq[ExprCode] = {
    keyTexts = layout.keys.zip(key.mayBeNull).map { case (column, mayBeNull) =>
      val isNull = if (mayBeNull) JavaCode.isNullVariable(ctx.freshName("keyIsNull")) else FalseLiteral
      ExprCode(EmptyBlock, isNull, JavaCode.variable(ctx.freshName("keyText"), column.dataType))
    }
    keyTexts
  }

  /** Declares the variables of a buffered row's key. */
  private def restored(key: GroupKeyCode): String = {
    val restoredKeys = key.variables.zip(keys).zip(layout.keys.zip(keyTexts)).zipWithIndex.map {
      case (((_, from), (column, text)), k) if isText(column.dataType) =>
        val isNull =
          if (text.isNull == FalseLiteral) "" else s"boolean ${text.isNull} = (${key.nulls} & ${1L << k}L) != 0L;"
        val value = GroupKeyCode.orIfNull(text, "null", s"$texts.get(${from.local}[i])")
        s"$isNull UTF8String ${text.value} = $value;"
      case (((word, from), _), _) => s"long $word = ${from.local}[i];"
    }
    s"""
       |int ${key.hash} = ${hashes.local}[i];
       |long ${key.nulls} = ${nulls.local}[i] & ${layout.keyNulls}L;
       |${restoredKeys.mkString("\n")}
       |""".stripMargin
  }

  /** A method that adds rows to their records. */
  private def updating(group: GroupBufferCode, splitsFrom: Int): String = method("addToGroups") { name =>
    val reads = columns.zip(variables).zip(values).zipWithIndex.map { case (((column, variable), from), i) =>
      val value = s"${CodeGenerator.javaType(column.dataType)} ${variable.value}"
      val word = digits.get(i)
      val read =
        if (isText(column.dataType)) s"$texts.get(${from.local}[i])"
        else GroupKeyCode.ofWord(column.dataType, word.fold(s"${from.local}[i]")(_.toString))
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

  /** One word of each buffered row, in a field and, while a loop uses it, in a local variable: a field is read again
    * after each unknown call.
    */
  private final class Words(val javaType: String, name: String) {
    val field: String =
      ctx.addMutableState(s"$javaType[]", name, field => s"$field = new $javaType[$Most];", forceInline = true)
    val local: String = ctx.freshName(name)
  }
}

private[partial] object WaitingRowsCode {

  /** The number of buffered rows: their words fit into the first-level cache. */
  val Most = 256

  // Their null bits are in one word after those of the keys.
  private val MostColumns = 64

  private def isText(kind: DataType): Boolean = kind.isInstanceOf[StringType]

  /** The columns of buffered rows, if buffering is possible: all values must be words or texts, and evaluation may be
    * delayed.
    */
  def columns(
      layout: GroupLayout,
      aggregates: Seq[AggregateExpression],
      input: Seq[Attribute]
  ): Option[Seq[Attribute]] = {
    val read = AttributeSet(aggregates.flatMap(a => a.aggregateFunction +: a.filter.toSeq))
    val columns = input.filter(read.contains)
    val plain = (layout.keys ++ columns).forall(c => GroupLayout.isFixed(c.dataType) || isText(c.dataType))
    val whenever = aggregates.forall(a => a.aggregateFunction.deterministic && a.filter.forall(_.deterministic))
    Option.when(plain && whenever && layout.keys.length + columns.length <= MostColumns)(columns)
  }
}
