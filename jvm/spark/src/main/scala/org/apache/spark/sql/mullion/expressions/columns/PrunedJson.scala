package org.apache.spark.sql.mullion.expressions.columns

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeGenerator, CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{
  BoundReference,
  Expression,
  GenericInternalRow,
  JsonToStructs,
  UnaryExpression
}
import org.apache.spark.sql.catalyst.json.{CreateJacksonParser, JSONOptions}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StructField, StructType}
import org.apache.spark.unsafe.types.UTF8String

/** Some columns of `from_json`, or all, with the values that Spark's `from_json` returns.
  *
  * {{{
  *   {"k": "a", "note": "...", "v": 7}     k and v are parsed, note is skipped
  *   {"k": "a", "note": ?, "v": 7}       an error: the text is parsed again, with all columns
  * }}}
  *
  * Spark's parser keeps the columns before some errors, depending on the column with the error. So Spark's expression
  * parses each text that is not plain (see [[PlainJsonParser]]). A plain text gives the same values, because Spark's
  * parser catches the errors of each column separately.
  *
  * @param child
  *   the text
  * @param all
  *   the original expression, over the text in a row of its own
  * @param fields
  *   the positions of the columns in the original struct
  */
case class PrunedJson(child: Expression, all: JsonToStructs, fields: Seq[Int]) extends UnaryExpression {

  override def dataType: DataType = StructType(columns)

  override def nullable: Boolean = true

  override def prettyName: String = "from_json"

  override def toString: String = s"$prettyName(${columns.map(_.name).mkString("[", ", ", "]")}, $child)"

  private def columns: Seq[StructField] = {
    val original = all.dataType.asInstanceOf[StructType]
    fields.map(original(_))
  }

  @transient private lazy val plain = new PlainJsonParser(
    StructType(columns),
    new JSONOptions(all.options, all.timeZoneId.get, SQLConf.get.columnNameOfCorruptRecord),
    allowArrayAsStructs = false
  )

  @transient private lazy val types = columns.map(_.dataType)

  @transient private lazy val text = new GenericInternalRow(1)

  def parse(json: UTF8String): InternalRow = {
    val row = if (json.numBytes > PrunedJson.LongestText) None else plain.plain(json, CreateJacksonParser.utf8String)
    row.getOrElse {
      text.update(0, json)
      selected(Option(all.eval(text).asInstanceOf[InternalRow]))
    }
  }

  private def selected(row: Option[InternalRow]): InternalRow = row.map { all =>
    new GenericInternalRow(fields.zip(types).map { case (field, of) => all.get(field, of) }.toArray[Any])
  }.orNull

  override protected def nullSafeEval(json: Any): Any = parse(json.asInstanceOf[UTF8String])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val json = ctx.addReferenceObj("json", this, classOf[PrunedJson].getName)
    nullSafeCodeGen(
      ctx,
      ev,
      text => s"""
        ${ev.value} = (${CodeGenerator.javaType(dataType)}) $json.parse($text);
        ${ev.isNull} = ${ev.value} == null;
      """
    )
  }

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

object PrunedJson {

  /** In a longer text, a skipped column may exceed the longest string that Spark's parser accepts, 20,000,000
    * characters. The parser does not notice that when it skips a column.
    */
  private val LongestText = 20000000

  /** The columns of `from_json` at these positions. */
  def apply(json: JsonToStructs, fields: Seq[Int]): PrunedJson = new PrunedJson(
    json.child,
    json.copy(child = BoundReference(0, json.child.dataType, nullable = false)),
    fields
  )
}
