package org.apache.spark.sql.mullion.operator.partial

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.mullion.operator.partial.group.{GroupBytes, GroupLayout, GroupTable}
import org.apache.spark.sql.types._

/** Generates the code that finds or creates a row's group: the row's keys as words in variables, their hash, and one
  * comparison for each record with the same hash.
  *
  * @param values
  *   the keys' values, evaluated
  */
private[partial] final class GroupKeyCode(ctx: CodegenContext, layout: GroupLayout, values: Seq[ExprCode]) {
  import GroupKeyCode._

  /** The variable with the null bits of the keys. */
  val nulls: String = ctx.freshName("nulls")

  /** The variable with their hash. */
  val hash: String = ctx.freshName("hash")

  private val keys = layout.keys.zip(values).zipWithIndex.map { case ((column, value), i) =>
    Key(column, value, layout.ofKey(i), ctx.freshName("word"))
  }

  /** The variables with their words: for strings their hashes. */
  def variables: Seq[String] = keys.map(_.word)

  /** True for each key that may be null. */
  def mayBeNull: Seq[Boolean] = keys.map(_.mayBeNull)

  /** Declares the words and the hash of the row's keys. */
  def words: String = {
    val bits = keys.zipWithIndex.collect {
      case (key, i) if key.mayBeNull => s"if (${key.value.isNull}) $nulls |= ${1L << i}L;"
    }
    val declared = keys.map { key =>
      val of =
        if (key.isText) s"$bytesClass.hash(${key.value.value})" else word(key.column.dataType, key.value.value.toString)
      s"long ${key.word} = ${orIfNull(key.value, "0L", of)};"
    }
    val mixed = ctx.freshName("mixed")
    val mixing = keys.map { key =>
      s"""
         |$mixed = ($mixed ^ ${key.word}) * ${Golden}L;
         |$mixed ^= $mixed >>> 32;
         |""".stripMargin
    }
    s"""
       |long $nulls = 0L;
       |${bits.mkString("\n")}
       |${declared.mkString("\n")}
       |long $mixed = $nulls;
       |${mixing.mkString}
       |int $hash = (int) $mixed;
       |""".stripMargin
  }

  /** Searches for the group, and assigns the result to the variable `record`.
    *
    * @param index
    *   variables with the table's index, its mask and its pages
    */
  def find(index: String, mask: String, pages: String, record: String): String = {
    val (page, row) = (ctx.freshName("page"), ctx.freshName("row"))
    val same = s"($page[$row] & ${layout.keyNulls}L) == $nulls" +: keys.map { key =>
      if (key.isText)
        s"(${if (key.mayBeNull) s"${key.value.isNull} || " else ""}" +
          s"$bytesClass.equal($page, $row, ${key.place}, ${key.value.value}))"
      else s"$page[$row + ${key.place}] == ${key.word}"
    }
    val (at, entry) = (ctx.freshName("at"), ctx.freshName("entry"))
    s"""
       |int $at = $hash & $mask;
       |long $entry = $index[$at];
       |while ($entry != 0L) {
       |  if ((int) ($entry >>> ${GroupTable.AddressBits}) == ($hash >>> ${GroupTable.TagShift})) {
       |    $record = $entry & ${GroupTable.AddressMask}L;
       |    ${place(record, pages, page, row)}
       |    if (${same.mkString(" && ")}) break;
       |    $record = 0L;
       |  }
       |  $at = ($at + 1) & $mask;
       |  $entry = $index[$at];
       |}
       |""".stripMargin
  }

  /** An expression for a new record of the group, or 0 if there is no room. */
  def add(table: String): String = s"$table.add($hash, $size)"

  /** The same for a record to which no other row is added. */
  def alone(table: String): String = s"$table.alone($size)"

  private def size: String = (layout.bytes.toString +: keys
    .filter(_.isText)
    .map(key => orIfNull(key.value, "0", s"$bytesClass.size(${key.value.value})"))).mkString(" + ")

  /** Writes the keys into a new record. */
  def write(page: String, row: String): String = {
    val place = ctx.freshName("place")
    val texts = if (keys.exists(_.isText)) s"int $place = ${layout.bytes};" else ""
    val remaining = (1 until layout.nullWords).map(i => s"$page[$row + $i] = 0L;")
    val written = keys.map { key =>
      val none = s"$page[$row + ${key.place}] = 0L;"
      if (!key.isText) s"$page[$row + ${key.place}] = ${key.word};"
      else {
        val put = s"$place = $bytesClass.put($page, $row, ${key.place}, $place, ${key.value.value});"
        if (key.mayBeNull) s"if (${key.value.isNull}) { $none } else { $put }" else put
      }
    }
    s"""
       |$page[$row] = $nulls;
       |${remaining.mkString("\n")}
       |$texts
       |${written.mkString("\n")}
       |""".stripMargin
  }
}

private[partial] object GroupKeyCode {
  private val bytesClass = GroupBytes.getClass.getName.stripSuffix("$")

  // The golden ratio of a word: spreads hashes of neighbours.
  private val Golden = 0x9e3779b97f4a7c15L

  /** Declares the location of a record: the array, and the start of its row. */
  def place(record: String, pages: String, page: String, row: String): String =
    s"""
       |long[] $page = $pages[(int) ($record >>> ${GroupTable.WordBits})];
       |int $row = (int) ($record & ${GroupTable.WordMask}L);
       |""".stripMargin

  def orIfNull(value: ExprCode, other: String, of: String): String =
    if (value.isNull == FalseLiteral) of else s"(${value.isNull} ? $other : $of)"

  /** A value as a word in Spark's form, on little-endian machines. */
  def word(kind: DataType, value: String): String = kind match {
    case BooleanType                                       => s"($value ? 1L : 0L)"
    case ByteType                                          => s"(((long) $value) & 0xFFL)"
    case ShortType                                         => s"(((long) $value) & 0xFFFFL)"
    case IntegerType | DateType | _: YearMonthIntervalType => s"(((long) $value) & 0xFFFFFFFFL)"
    case FloatType      => s"(((long) Float.floatToRawIntBits($value)) & 0xFFFFFFFFL)"
    case DoubleType     => s"Double.doubleToRawLongBits($value)"
    case _: DecimalType => s"$value.toUnscaledLong()"
    case _              => s"((long) $value)"
  }

  /** The value of a word. */
  def ofWord(kind: DataType, word: String): String = kind match {
    case BooleanType                                       => s"($word != 0L)"
    case ByteType                                          => s"((byte) $word)"
    case ShortType                                         => s"((short) $word)"
    case IntegerType | DateType | _: YearMonthIntervalType => s"((int) $word)"
    case FloatType                                         => s"Float.intBitsToFloat((int) $word)"
    case DoubleType                                        => s"Double.longBitsToDouble($word)"
    case decimal: DecimalType => s"Decimal.createUnsafe($word, ${decimal.precision}, ${decimal.scale})"
    case _                    => word
  }

  /** A key's value, and the variable with its word, or the hash of its string. */
  private final case class Key(column: Attribute, value: ExprCode, place: Int, word: String) {
    val isText: Boolean = GroupLayout.isText(column.dataType)
    val mayBeNull: Boolean = value.isNull != FalseLiteral
  }
}
