package org.apache.spark.sql.mullion.pyfunction.dataflow

import org.json4s._

import org.apache.spark.sql.mullion.pyfunction.agents.{
  Binary,
  Call,
  Choice,
  Constant,
  Deciding,
  Expression,
  FoldProgram,
  Unary
}
import org.apache.spark.sql.mullion.pyfunction.expression.{Columns, Layout, Untranslatable, Value}

/** A source of the single values of an argument. */
private[dataflow] abstract class Given {
  def read(number: Int, to: Value): Unit
}

private[dataflow] object Given {

  /** A row of columns. */
  final class Row extends Given {
    private var columns: Array[Columns] = Array.empty
    private var row: Int = 0

    def at(of: Array[Columns], number: Int): Unit = {
      columns = of
      row = number
    }

    override def read(number: Int, to: Value): Unit = columns(number).read(row, to)
  }

  /** The contents of a window. */
  final class Held extends Given {
    private var values: Array[Value] = Array.empty

    def of(held: Array[Value]): Unit = values = held

    override def read(number: Int, to: Value): Unit = to.set(values(number))
  }
}

/** A function of a program for arguments of known layouts: the expressions of its single results, and their layout. */
private[dataflow] final class Function(val layout: Layout, val results: Array[Expression]) {

  /** Computes all results, which are valid until the next call. */
  def call(): Unit = {
    var i = 0
    while (i < results.length) {
      results(i).compute()
      i += 1
    }
  }

  /** The only result. Throws [[Untranslatable]] if there are several. */
  def single(): Value = {
    if (results.length != 1 || layout != Layout.Single) throw Untranslatable
    results(0).compute()
    results(0)
  }
}

/** Builds a [[Function]] from the JSON of Python's translation:
  *
  * {{{
  *   {"parameters": ["acc", "x"], "of": expression}
  *
  *   ["arg", name]  ["attr", of, name]  ["item", of, constant]  ["get", of, text, default]
  *   ["tuple", [of]]  ["list", [of]]  ["dict", [text], [of]]  ["replaced", of, constant, value]
  *   ["where", name, value, of]  ["local", name]  ["call", name, of...]  [sign, of...]  constants of folds
  * }}}
  */
private[dataflow] final class FunctionReader(node: JValue) {
  import FunctionReader._

  private val parameters = FoldProgram.list(node \ "parameters").map(FoldProgram.text)

  /** The function over arguments, each with its layout and the source of its single values. */
  def over(arguments: (Layout, Given)*): Function = {
    if (arguments.length != parameters.length) throw Untranslatable
    val partOf = parameters.zip(arguments).map { case (name, (layout, from)) => name -> partsOf(layout, from, 0) }.toMap
    val computed = part(node \ "of", Scope(partOf, Map.empty))
    val results = singlesOf(computed)
    // Without a result to compute, a failure on the way would be missed.
    if (results.isEmpty || results.length > MostParts) throw Untranslatable
    new Function(layoutOf(computed), results.toArray)
  }

  /** The path to the result in an argument of a layout, if the result is a part of the argument. */
  def pathIn(layout: Layout): Option[List[Int]] = {
    def path(of: JValue): Option[(List[Int], Layout)] = FoldProgram.list(of) match {
      case Seq(JString("arg"), _)                         => Some((Nil, layout))
      case Seq(JString("attr"), container, JString(name)) =>
        path(container).collect {
          case (at, Layout.Whole(Layout.Record(_, names), parts)) if names.list.contains(name) =>
            (at :+ names.list.indexOf(name), parts(names.list.indexOf(name)))
        }
      case Seq(JString("item"), container, key) =>
        val constant = FoldProgram.constant(key)
        path(container).collect {
          case (at, Layout.Whole(Layout.Dict(names), parts))
              if constant.kind == Value.Text && names.list.contains(constant.text.toString) =>
            val part = names.list.indexOf(constant.text.toString)
            (at :+ part, parts(part))
          case (at, Layout.Whole(Layout.Tuple, parts))
              if constant.kind == Value.Int && constant.long >= 0 && constant.long < parts.length =>
            (at :+ constant.long.toInt, parts(constant.long.toInt))
        }
      case _ => None
    }
    path(node \ "of").map(_._1)
  }

  /** The functions of the parts, if the result is a tuple or a dict. */
  def parts: Option[(Layout.Kind, Seq[FunctionReader])] = {
    def of(items: List[JValue]) =
      items.map(item => new FunctionReader(JObject("parameters" -> node \ "parameters", "of" -> item)))
    FoldProgram.list(node \ "of") match {
      case Seq(JString("tuple"), JArray(items)) if items.nonEmpty              => Some((Layout.Tuple, of(items)))
      case Seq(JString("dict"), JArray(keys), JArray(items)) if items.nonEmpty =>
        val names = keys.map(FoldProgram.text).toVector
        Option.when(names.distinct.length == names.length)((Layout.Dict(Layout.Names(names)), of(items)))
      case _ => None
    }
  }

  private def part(of: JValue, scope: Scope): Part = FoldProgram.list(of) match {
    case Seq(JString("arg"), JString(name))             => scope.arguments.getOrElse(name, throw Untranslatable)
    case Seq(JString("local"), JString(name))           => scope.locals.getOrElse(name, throw Untranslatable)
    case Seq(JString("attr"), container, JString(name)) =>
      part(container, scope) match {
        case Parts(Layout.Record(_, names), parts, before) => before.first(parts(indexOf(names, name)))
        case _                                             => throw Untranslatable
      }
    case Seq(JString("item"), container, key) => item(part(container, scope), FoldProgram.constant(key))
    case Seq(JString("get"), container, JString(name), default) =>
      (part(container, scope), part(default, scope)) match {
        case (Parts(Layout.Dict(names), parts, before), other) =>
          val index = names.list.indexOf(name)
          val first = before.and(singlesOf(other))
          first.first(if (index >= 0) parts(index) else other)
        case _ => throw Untranslatable
      }
    case Seq(JString("tuple"), JArray(items))              => compose(Layout.Tuple, items.map(part(_, scope)))
    case Seq(JString("list"), JArray(items))               => compose(Layout.Many, items.map(part(_, scope)))
    case Seq(JString("dict"), JArray(keys), JArray(items)) =>
      val names = keys.map(FoldProgram.text).toVector
      // The last of two equal keys wins, in the place of the first.
      if (names.distinct.length != names.length) throw Untranslatable
      compose(Layout.Dict(Layout.Names(names)), items.map(part(_, scope)))
    case Seq(JString("replaced"), container, key, value) =>
      replaced(part(container, scope), FoldProgram.constant(key), part(value, scope))
    case Seq(JString("where"), JString(name), value, of) =>
      val first = part(value, scope)
      val slots = singlesOf(first).map(new Slot(_))
      val local = withSingles(first, slots.iterator)
      Before(slots).first(part(of, scope.copy(locals = scope.locals.updated(name, local))))
    case JString("call") +: JString("len") +: Seq(one) =>
      part(one, scope) match {
        case Single(of)                                                 => Single(new Call("len", Array(of)))
        case Parts(kind, parts, _) if !kind.isInstanceOf[Layout.Record] =>
          Before(parts.flatMap(singlesOf)).first(Single(new Constant(integer(parts.length.toLong))))
        case _ => throw Untranslatable
      }
    case JString("call") +: JString(name) +: arguments =>
      Single(new Call(name, arguments.map(single(_, scope)).toArray))
    case JString("and") +: operands => Single(new Deciding(until = false, operands.map(single(_, scope)).toArray))
    case JString("or") +: operands  => Single(new Deciding(until = true, operands.map(single(_, scope)).toArray))
    case Seq(JString("if"), test, yes, no) => chosen(single(test, scope), part(yes, scope), part(no, scope))
    case Seq(JString(sign @ ("not" | "neg" | "pos")), one) => Single(new Unary(sign, single(one, scope)))
    case Seq(JString(sign), left: JArray, right: JArray)   =>
      Single(new Binary(sign, single(left, scope), single(right, scope)))
    case _ => Single(new Constant(FoldProgram.constant(of)))
  }

  private def single(of: JValue, scope: Scope): Expression = part(of, scope) match {
    case Single(expression) => expression
    case _                  => throw Untranslatable
  }

  private def item(container: Part, key: Value): Part = container match {
    case Parts(Layout.Dict(names), parts, before) if key.kind == Value.Text =>
      before.first(parts(indexOf(names, key.text.toString)))
    case Parts(Layout.Tuple | Layout.Many, parts, before) if key.kind == Value.Int =>
      before.first(parts(placeIn(parts, key)))
    case _ => throw Untranslatable
  }

  private def replaced(container: Part, key: Value, value: Part): Part = container match {
    case Parts(Layout.Dict(names), parts, _) if key.kind == Value.Text =>
      compose(Layout.Dict(names), parts.updated(indexOf(names, key.text.toString), value))
    case Parts(Layout.Many, parts, _) if key.kind == Value.Int =>
      compose(Layout.Many, parts.updated(placeIn(parts, key), value))
    case _ => throw Untranslatable
  }

  private def placeIn(parts: Seq[Part], key: Value): Int = {
    val place = if (key.long < 0) key.long + parts.length else key.long
    if (place < 0 || place >= parts.length) throw Untranslatable
    place.toInt
  }

  private def indexOf(names: Layout.Names, name: String): Int = {
    val index = names.list.indexOf(name)
    if (index < 0) throw Untranslatable
    index
  }

  private def chosen(test: Expression, yes: Part, no: Part): Part = {
    if (layoutOf(yes) != layoutOf(no)) throw Untranslatable
    val ways = singlesOf(yes).zip(singlesOf(no)).map { case (one, other) => new Choice(test, one, other) }
    withSingles(yes, ways.iterator) match {
      // A part must not be read before all parts are computed.
      case Parts(kind, parts, _) => Parts(kind, parts, Before(ways))
      case single                => single
    }
  }

  private def integer(of: Long): Value = {
    val value = new Value
    value.setInt(of)
    value
  }
}

private[dataflow] object FunctionReader {
  private val MostParts = 64

  private final case class Scope(arguments: Map[String, Part], locals: Map[String, Part])

  /** Expressions that are computed before another one, because they may fail. */
  private final case class Before(expressions: Seq[Expression]) {
    def and(more: Seq[Expression]): Before = Before(expressions ++ more)

    def first(next: Part): Part =
      if (expressions.isEmpty) next
      else withSingles(next, singlesOf(next).map(new After(expressions.toArray, _)).iterator)
  }

  /** The value of an expression, single or in parts. */
  private sealed abstract class Part
  private final case class Single(of: Expression) extends Part

  /** @param before
    *   expressions that are computed before a part is read
    */
  private final case class Parts(kind: Layout.Kind, parts: Seq[Part], before: Before) extends Part

  private def compose(kind: Layout.Kind, parts: Seq[Part]): Part = Parts(kind, parts, Before(parts.flatMap(singlesOf)))

  private def singlesOf(part: Part): Seq[Expression] = part match {
    case Single(of)         => Seq(of)
    case Parts(_, parts, _) => parts.flatMap(singlesOf)
  }

  private def withSingles(part: Part, singles: Iterator[Expression]): Part = part match {
    case Single(_)                  => Single(singles.next())
    case Parts(kind, parts, before) => Parts(kind, parts.map(withSingles(_, singles)), before)
  }

  private def layoutOf(part: Part): Layout = part match {
    case Single(_)             => Layout.Single
    case Parts(kind, parts, _) => Layout.Whole(kind, parts.map(layoutOf).toVector)
  }

  private def partsOf(layout: Layout, from: Given, at: Int): Part = layout match {
    case Layout.Single                  => Single(new OfGiven(from, at))
    case of @ Layout.Whole(kind, parts) =>
      Parts(kind, parts.zipWithIndex.map { case (one, i) => partsOf(one, from, at + of.offset(i)) }, Before(Nil))
  }

  private final class OfGiven(from: Given, number: Int) extends Expression {
    override def compute(): Unit = from.read(number, this)
  }

  /** A variable, computed at its assignment. */
  private final class Slot(of: Expression) extends Expression {
    private var isSet = false

    def begin(): Unit = {
      of.compute()
      set(of)
      isSet = true
    }

    override def compute(): Unit = if (!isSet) throw Untranslatable
  }

  private final class After(first: Array[Expression], of: Expression) extends Expression {
    override def compute(): Unit = {
      var i = 0
      while (i < first.length) {
        first(i) match {
          case slot: Slot => slot.begin()
          case other      => other.compute()
        }
        i += 1
      }
      of.compute()
      set(of)
    }
  }
}
