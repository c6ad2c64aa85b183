package org.apache.spark.sql.mullion.pyfunction.agents

import org.json4s._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.mullion.pyfunction.expression.{Untranslatable, Value}
import org.apache.spark.sql.mullion.topics.JsonText
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** An event as a row, and its parts as expressions. Values that are not supported here throw [[Untranslatable]]:
  *
  * {{{
  *   a dict       a null item is None if the row has it, and unsupported if not (a KeyError)
  *   a record     null in a required field is unsupported; in another field it is the default
  *   a scalar     the one column
  * }}}
  *
  * An int in a column of floats is an int, by its mark. A field of another type than declared is unsupported if the
  * model checks types. So is a value that did not fit the topic's columns, which is stored as text, and a message
  * without a value.
  *
  * @param column
  *   the struct with the topic's values
  * @param model
  *   the fields of a record, in order, or the type of a scalar: each `{"name", "kind", "strict", "default"}`
  * @param isSharded
  *   whether events are in shards, by the column `_shard`
  */
private[agents] final class FoldEvent(
    layout: Seq[Attribute],
    column: String,
    model: JValue,
    isScalar: Boolean,
    isSharded: Boolean
) {
  import FoldEvent._

  private def ordinal(name: String) = layout.indexWhere(_.name == name)

  private val valueAt = ordinal(column)
  private val keyAt = ordinal("_key")
  private val timeAt = ordinal("_timestamp")
  private val columnsAt = ordinal("_columns")
  private val unfitAt = ordinal("_unfit")
  private val shardAt = ordinal("_shard")
  private val struct = layout(valueAt).dataType match {
    case fields: StructType => fields
    case other              => throw new IllegalArgumentException(s"${other.sql} holds no values of a topic")
  }

  private var row: InternalRow = InternalRow.empty
  private var content: InternalRow = InternalRow.empty
  private var hasWhole: Boolean = false

  /** The event's time. */
  var us: Long = 0L

  private val declared: Map[String, Declared] = FoldProgram
    .list(model)
    .map { said =>
      val default = said \ "default" match {
        case JNothing | JNull => None
        case one              => Some(FoldProgram.constant(one))
      }
      val strict = said \ "strict" == JBool(true)
      FoldProgram.text(said \ "name") -> Declared(kinds(FoldProgram.text(said \ "kind")), strict, default)
    }
    .toMap
  private val isRecord = declared.nonEmpty && !isScalar
  private val checked: Array[Field] = if (isRecord) declared.keys.toArray.map(field) else Array.empty

  def take(of: InternalRow): Unit = {
    row = of
    if (unfitAt >= 0 && !row.isNullAt(unfitAt)) throw Untranslatable
    // A tombstone, which is None in Python.
    if (!isScalar && columnsAt >= 0 && row.isNullAt(columnsAt)) throw Untranslatable
    us = row.getLong(timeAt)
    hasWhole = columnsAt >= 0 && !row.isNullAt(columnsAt) && row.getUTF8String(columnsAt).contains(wholes)
    content = if (row.isNullAt(valueAt)) InternalRow.empty else row.getStruct(valueAt, struct.length)
    // Checked even if unused: a value that does not fit is put aside.
    checked.foreach(_.compute())
  }

  /** Rejects a table key of another shard than the event's: Python reports the error. */
  def requireOwn(key: Value): Unit =
    if (isSharded && (row.isNullAt(shardAt) || !Shards.holds(row.getUTF8String(shardAt), key))) throw Untranslatable

  def field(name: String): Field = new Field(
    struct.getFieldIndex(name),
    UTF8String.fromString(s"\n$name\n"),
    UTF8String.fromString(s"\n${JsonText.WholeMark}$name\n"),
    if (isScalar) declared.get("value") else declared.get(name)
  )

  def value: Expression = field("value")

  object key extends Expression {
    override def compute(): Unit = if (row.isNullAt(keyAt)) setNothing() else setText(row.getUTF8String(keyAt))
  }

  object time extends Expression {
    override def compute(): Unit = setFloat(us / 1e6)
  }

  final class Field(at: Option[Int], mark: UTF8String, whole: UTF8String, declared: Option[Declared])
      extends Expression {
    private val index = at.getOrElse(-1)
    private val read: (InternalRow, Int, Value) => Unit = at.fold(odd)(i => reader(struct(i).dataType))

    override def compute(): Unit = {
      if (index >= 0 && content.numFields > 0 && !content.isNullAt(index)) {
        read(content, index, this)
        if (hasWhole && kind == Value.Float && row.getUTF8String(columnsAt).contains(whole)) setInt(asDouble.toLong)
        declared.foreach(_.check(this))
      } else if (isRecord) declared.flatMap(_.default) match {
        case Some(default) => set(default)
        case None          => throw Untranslatable
      }
      else if (isScalar || (!row.isNullAt(columnsAt) && row.getUTF8String(columnsAt).contains(mark))) setNothing()
      else throw Untranslatable
    }
  }
}

private[agents] object FoldEvent {

  /** A field's declaration in a model. */
  private[agents] final case class Declared(kind: Int, strict: Boolean, default: Option[Value]) {
    def check(value: Value): Unit = if (strict && value.kind != kind) {
      // An int is a float of the same value.
      if (kind == Value.Float && value.kind == Value.Int) value.setFloat(value.asDouble) else throw Untranslatable
    }
  }

  private val kinds =
    Map("int" -> Value.Int, "float" -> Value.Float, "str" -> Value.Text, "bool" -> Value.Bool)

  private val wholes = UTF8String.fromString(s"\n${JsonText.WholeMark}")

  private val odd: (InternalRow, Int, Value) => Unit = (_, _, _) => throw Untranslatable

  private def reader(of: DataType): (InternalRow, Int, Value) => Unit = of match {
    case LongType      => (row, i, to) => to.setInt(row.getLong(i))
    case IntegerType   => (row, i, to) => to.setInt(row.getInt(i).toLong)
    case ShortType     => (row, i, to) => to.setInt(row.getShort(i).toLong)
    case ByteType      => (row, i, to) => to.setInt(row.getByte(i).toLong)
    case DoubleType    => (row, i, to) => to.setFloat(row.getDouble(i))
    case FloatType     => (row, i, to) => to.setFloat(row.getFloat(i).toDouble)
    case BooleanType   => (row, i, to) => to.setBool(row.getBoolean(i))
    case _: StringType => (row, i, to) => to.setText(row.getUTF8String(i))
    case _             => odd
  }
}
