package org.apache.spark.sql.mullion.pyfunction.agents

import org.apache.spark.sql.mullion.pyfunction.expression.{Numerals, Operator, Untranslatable, Value}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** An expression of an agent's body. After evaluation it is its own result, with Python's value and kind. Where Python
  * fails, or behaves in a way that is not supported here, it throws [[Untranslatable]].
  */
private[pyfunction] abstract class Expression extends Value {
  def compute(): Unit
}

private[pyfunction] final class Constant(value: Value) extends Expression {
  set(value)

  override def compute(): Unit = ()
}

private[pyfunction] final class Variable(of: Value) extends Expression {
  override def compute(): Unit = if (of.kind == Value.Unset) throw Untranslatable else set(of)
}

/** The value of a key in a table: at the time of the event or of the batch, or a time span before. */
private[agents] final class Read(
    event: FoldEvent,
    table: FoldTable,
    key: Expression,
    timeUs: () => Long,
    agoUs: Long
) extends Expression {
  override def compute(): Unit = {
    key.compute()
    event.requireOwn(key)
    table.read(key, timeUs() - agoUs, this)
  }
}

/** `and` and `or`: the first operand that decides, or the last. */
private[pyfunction] final class Deciding(until: Boolean, operands: Array[Expression]) extends Expression {
  override def compute(): Unit = {
    var i = 0
    var decided = false
    while (!decided) {
      operands(i).compute()
      decided = operands(i).isTrue == until || i == operands.length - 1
      if (decided) set(operands(i))
      i += 1
    }
  }
}

private[pyfunction] final class Choice(test: Expression, yes: Expression, no: Expression) extends Expression {
  override def compute(): Unit = {
    test.compute()
    val chosen = if (test.isTrue) yes else no
    chosen.compute()
    set(chosen)
  }
}

private[pyfunction] final class Unary(sign: String, of: Expression) extends Expression {
  override def compute(): Unit = {
    of.compute()
    sign match {
      case "not"                             => setBool(!of.isTrue)
      case _ if !of.isNumber                 => throw Untranslatable
      case "neg" if of.kind == Value.Float   => setFloat(-of.double)
      case "pos" if of.kind == Value.Float   => setFloat(of.double)
      case "neg" if of.long == Long.MinValue => throw Untranslatable
      case "neg"                             => setInt(-of.long)
      case _                                 => setInt(of.long)
    }
  }
}

private[pyfunction] final class Binary(sign: String, left: Expression, right: Expression) extends Expression {
  private val operator = Operator(sign)

  override def compute(): Unit = {
    left.compute()
    right.compute()
    operator(left, right, this)
  }
}

/** A built-in function of Python. */
private[pyfunction] final class Call(name: String, arguments: Array[Expression]) extends Expression {
  private val toFloat = 9.2e18

  private val ofText: Call.OfText = Call.OfText.getOrElse(name, (_, _, _, _) => throw Untranslatable)
  private val isOfOne = arguments.length == 1 && name != "bool" && name != "str" && name != "len"

  override def compute(): Unit = {
    var i = 0
    while (i < arguments.length) {
      arguments(i).compute()
      i += 1
    }
    if (isOfOne && arguments(0).kind == Value.Text) Call.ofText(ofText, arguments(0).text, this) else computed()
  }

  private def computed(): Unit =
    name match {
      case "min" if arguments.length > 1 => setFirst(-1)
      case "max" if arguments.length > 1 => setFirst(1)
      case _ if arguments.length != 1    => throw Untranslatable
      case _                             => one(arguments(0))
    }

  private def one(of: Expression): Unit = name match {
    case "bool"                                          => setBool(of.isTrue)
    case "str"                                           => setText(text(of))
    case "len" if of.kind == Value.Text                  => setInt(of.text.numChars.toLong)
    case _ if !of.isNumber                               => throw Untranslatable
    case "timestamp" if of.kind == Value.Float           => setTime(Numerals.timestamp(of.double))
    case "timestamp" if Math.abs(of.long) < 60000000000L => setTime(of.long * 1000000L)
    case "float"                                         => setFloat(of.asDouble)
    case "abs" if of.kind == Value.Float                 => setFloat(Math.abs(of.double))
    case "abs" if of.long != Long.MinValue               => setInt(Math.abs(of.long))
    case "int" | "round" if of.isWhole                   => setInt(of.long)
    // Excludes NaN too.
    case "int" if Math.abs(of.double) < toFloat   => setInt(of.double.toLong)
    case "round" if Math.abs(of.double) < toFloat => setInt(Math.rint(of.double).toLong)
    case _                                        => throw Untranslatable
  }

  private def text(of: Expression): UTF8String = of.kind match {
    case Value.Text    => of.text
    case Value.Int     => UTF8String.fromString(of.long.toString)
    case Value.Bool    => UTF8String.fromString(if (of.isTrue) "True" else "False")
    case Value.Nothing => UTF8String.fromString("None")
    case _             => throw Untranslatable
  }

  /** The first of the least, or of the greatest. */
  private def setFirst(way: Int): Unit = {
    set(arguments(0))
    var i = 1
    while (i < arguments.length) {
      val isBetter = if (way < 0) Operator.isLess(arguments(i), this) else Operator.isLess(this, arguments(i))
      if (isBetter) set(arguments(i))
      i += 1
    }
  }
}

private[agents] object Call {

  /** Reads values from the bytes of a text. */
  private trait OfText {
    def read(bytes: Array[Byte], from: Int, until: Int, to: Value): Unit
  }

  private val OfText = Map[String, OfText](
    "float" -> ((bytes, from, until, to) => to.setFloat(Numerals.float(bytes, from, until))),
    "int" -> ((bytes, from, until, to) => to.setInt(Numerals.int(bytes, from, until))),
    "isoformat" -> ((bytes, from, until, to) => to.setTime(Numerals.isoformat(bytes, from, until, inUtc = false))),
    "isoformat utc" -> ((bytes, from, until, to) => to.setTime(Numerals.isoformat(bytes, from, until, inUtc = true)))
  )

  private def ofText(read: OfText, text: UTF8String, to: Value): Unit = text.getBaseObject match {
    // A text of a column is read in place, without a copy.
    case bytes: Array[Byte] =>
      val from = (text.getBaseOffset - Platform.BYTE_ARRAY_OFFSET).toInt
      read.read(bytes, from, from + text.numBytes, to)
    case _ =>
      val bytes = text.getBytes
      read.read(bytes, 0, bytes.length, to)
  }
}
