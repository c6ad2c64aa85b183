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
import org.apache.spark.sql.types.{DataType, StringType, StructField, StructType}
import org.apache.spark.unsafe.types.UTF8String

/** Some columns of `from_json`, with the values that they have if all columns are parsed.
  *
  * {{{
  *   {"k": "a", "note": "...", "v": 7}     k and v are parsed, note is skipped
  *   {"k": "a", "note": ?, "v": 7}       an error: the text is parsed again, with all columns
  * }}}
  *
  * Spark's parser keeps the columns before some errors, depending on the column with the error. So a text with an error
  * is parsed again with all columns. A text without one gives the same values, because Spark's parser catches the
  * errors of each column separately.
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

  /** Has one more column at the end: the text, if it has an error. */
  @transient private lazy val pruned: JsonToStructs = all.copy(
    schema = StructType(columns :+ StructField(PrunedJson.HasError, StringType)),
    options = all.options + ("columnNameOfCorruptRecord" -> PrunedJson.HasError)
  )

  @transient private lazy val types = columns.map(_.dataType)

  @transient private lazy val text = new GenericInternalRow(1)

  /** The row is valid until the next call. */
  def parse(json: UTF8String): InternalRow = {
    text.update(0, json)
    if (json.numBytes > PrunedJson.LongestText) selected(parsed(all))
    else
      parsed(pruned) match {
        case Some(row) if !row.isNullAt(fields.length) => selected(parsed(all))
        case row                                       => row.orNull
      }
  }

  private def parsed(by: JsonToStructs): Option[InternalRow] = Option(by.eval(text).asInstanceOf[InternalRow])

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

  /** The column of the parser's schema that marks errors. No JSON schema of a user has this name. */
  private val HasError = "\u0000error"

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
