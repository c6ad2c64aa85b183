package org.apache.spark.sql.mullion.pyfunction.agents

import org.json4s._
import org.json4s.jackson.JsonMethods.parse

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.mullion.pyfunction.expression.{Operator, Value}
import org.apache.spark.sql.mullion.pyfunction.state.KeyedState
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.windows.sets.KeptRanges

/** The translated agents: their JSON from Python, and its interpretation in a task.
  *
  * {{{
  *   {"tables": [{"name", "size", "step", "expires", "default", "indexed", "tells"}],
  *    "agents": [{"number", "column", "model", "scalar", "locals", "tables", "steps"}],
  *    "begins": ["timer...0"], "sharded": true}
  *
  *   step         ["update", table, key, sign, value]  ["if", test, [step], [step]]  ["let", local, value]
  *                ["tell", number, [value]]
  *   expression   ["none"]  ["bool", true]  ["int", "5"]  ["float", "0.5"]  ["text", "a"]
  *                ["value"]  ["field", name]  ["key"]  ["time"]  ["local", number]  [sign, expression ...]
  *                ["call", name, expression ...]  ["read", table, key, "now" or "event", microseconds ago]
  *                ["range", "start" or "end"]
  * }}}
  *
  * A sign is a Python operator, `neg`, `pos`, `and`, `or`, `not` or `if`.
  */
final case class FoldProgram(json: String) {
  @transient private[agents] lazy val node: JObject = parse(json) match {
    case found: JObject => found
    case other          => throw new IllegalArgumentException(s"$other is not a program of folds")
  }

  /** The records in state once Python has started its own part. */
  private[agents] def begins: Seq[Array[Byte]] =
    FoldProgram.list(node \ "begins").map { case JString(key) => key.getBytes("UTF-8"); case _ => Array.emptyByteArray }
}

private[pyfunction] object FoldProgram {

  /** The tables, with the range of the last access. */
  def tables(program: FoldProgram, state: KeyedState, last: LastRange): IndexedSeq[FoldTable] =
    list(program.node \ "tables").map { node =>
      val expires = node \ "expires" match {
        case JInt(us) => Some(us.toLong)
        case _        => None
      }
      val default = new Value
      default.set(constant(node \ "default"))
      val spec = FoldTable.Spec(
        text(node \ "name"),
        new KeptRanges(integer(node \ "size"), integer(node \ "step"), expires),
        default,
        indexed = node \ "indexed" == JBool(true),
        tells = node \ "tells" == JBool(true)
      )
      new FoldTable(spec, state, last)
    }.toIndexedSeq

  def agents(
      program: FoldProgram,
      layout: Seq[Attribute],
      tables: IndexedSeq[FoldTable],
      last: LastRange,
      wallUs: Long
  ): Seq[FoldAgent] = list(program.node \ "agents").map { node =>
    val isScalar = node \ "scalar" == JBool(true)
    val isSharded = program.node \ "sharded" == JBool(true)
    val event = new FoldEvent(layout, text(node \ "column"), node \ "model", isScalar, isSharded)
    val locals = Array.fill(integer(node \ "locals").toInt)(new Value)
    val own = list(node \ "tables").map(n => tables(integer(n).toInt))
    new FoldAgent(
      integer(node \ "number").toInt,
      event,
      locals,
      own,
      last,
      new Reader(event, locals, tables, last, wallUs).steps(node \ "steps")
    )
  }

  /** Builds steps and expressions from JSON. */
  private final class Reader(
      event: FoldEvent,
      locals: Array[Value],
      tables: IndexedSeq[FoldTable],
      last: LastRange,
      wallUs: Long
  ) {

    def steps(node: JValue): Array[FoldStep] = list(node).map(step).toArray

    private def step(node: JValue): FoldStep = list(node) match {
      case Seq(JString("update"), table, key, JString(sign), value) =>
        val operator = Option.when(sign.nonEmpty)(Operator(sign))
        new FoldStep.Update(event, tables(integer(table).toInt), expression(key), operator, expression(value))
      case Seq(JString("if"), test, yes, no)    => new FoldStep.Branch(expression(test), steps(yes), steps(no))
      case Seq(JString("let"), local, value)    => new FoldStep.Let(locals(integer(local).toInt), expression(value))
      case Seq(JString("tell"), number, values) =>
        new FoldStep.Tell(integer(number).toInt, list(values).map(expression).toArray)
      case _ => unknown(node)
    }

    private def expression(node: JValue): Expression = list(node) match {
      case Seq(JString("value"))                               => event.value
      case Seq(JString("field"), JString(name))                => event.field(name)
      case Seq(JString("key"))                                 => event.key
      case Seq(JString("time"))                                => event.time
      case Seq(JString("local"), number)                       => new Variable(locals(integer(number).toInt))
      case Seq(JString("read"), table, key, JString(how), ago) =>
        val time: () => Long = if (how == "now") () => wallUs else () => event.us
        new Read(event, tables(integer(table).toInt), expression(key), time, integer(ago))
      case Seq(JString("range"), JString(edge))          => new last.Edge(isEnd = edge == "end")
      case JString("call") +: JString(name) +: arguments => new Call(name, arguments.map(expression).toArray)
      case JString("and") +: operands        => new Deciding(until = false, operands.map(expression).toArray)
      case JString("or") +: operands         => new Deciding(until = true, operands.map(expression).toArray)
      case Seq(JString("if"), test, yes, no) => new Choice(expression(test), expression(yes), expression(no))
      case Seq(JString(sign @ ("not" | "neg" | "pos")), of) => new Unary(sign, expression(of))
      case Seq(JString(sign), left: JArray, right: JArray)  => new Binary(sign, expression(left), expression(right))
      case _                                                => new Constant(constant(node))
    }
  }

  def constant(node: JValue): Value = {
    val value = new Value
    list(node) match {
      case Seq(JString("none"))                  => value.setNothing()
      case Seq(JString("bool"), JBool(held))     => value.setBool(held)
      case Seq(JString("int"), JString(held))    => value.setInt(held.toLong)
      case Seq(JString("float"), JString(held))  => value.setFloat(held.toDouble)
      case Seq(JString("text"), JString(held))   => value.setText(UTF8String.fromString(held))
      case Seq(JString("length"), JString(held)) => value.setLength(held.toLong)
      case _                                     => unknown(node)
    }
    value
  }

  def list(node: JValue): List[JValue] = node match {
    case JArray(held) => held
    case _            => Nil
  }

  def text(node: JValue): String = node match {
    case JString(held) => held
    case _             => unknown(node)
  }

  def integer(node: JValue): Long = node match {
    case JInt(held) => held.toLong
    case _          => unknown(node)
  }

  private def unknown(node: JValue): Nothing =
    throw new IllegalArgumentException(s"$node is not part of a fold")
}
