package org.apache.spark.sql.mullion.expressions.udf

import scala.collection.mutable
import scala.util.Try
import scala.util.control.ControlThrowable

import org.json4s._

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateFunction, Count, Max, Min, Sum}
import org.apache.spark.sql.types._

/** A Python aggregate as aggregates of the JVM: sums, minima and maxima of expressions over a row, and an expression
  * over them for the result. Python's `translation.py` writes the JSON, and documents it.
  *
  * The types of the columns decide if the JVM computes the same as Python. It does not for strings, minima of floats
  * and arithmetic that may exceed 64 bits; the class then runs in Python.
  *
  * @param call
  *   the class with its columns and parameters
  * @param addRow
  *   the method, for errors
  * @param finish
  *   the other method
  * @param result
  *   the type of the result
  */
private[udf] final class TranslatedAggregate(
    call: String,
    addRow: TranslatedMethod,
    finish: TranslatedMethod,
    json: JValue,
    columns: Seq[Expression],
    result: DataType
) {
  import TranslatedAggregate._

  /** The result over aggregate expressions, if the JVM computes the same as Python. */
  def expression: Option[Expression] =
    try {
      val parts = list(json \ "parts").zipWithIndex.map { case (of, i) => part(of, i) }
      val over = new OverParts(finish, parts)
      val of = shown(over(json \ "result"), result)
      // Python computes the parts that the result leaves out, and may fail.
      if (parts.indices.exists(i => !over.used(i) && parts(i).of.exists(_.isInstanceOf[NotNone]))) unsupported
      Some(of)
    } catch { case Unsupported => None }

  private def part(json: JValue, i: Int): Typed = {
    val (kind, start) = (text(json \ "kind"), over(json \ "start"))
    val asIs = over(json \ "of")
    // A minimum leaves out rows without a value.
    val typed = if (kind == "sum") over.strict(asIs) else asIs
    val value = typed.copy(of = OfMethod(typed.of, call, i))
    (kind, value.kind) match {
      case ("sum", Whole(_)) if start.kind == Floating => aggregated(new Sum(floating(value)), Floating, 0.0)
      case ("sum", Whole(_)) if isOne(json \ "of")     => aggregated(Count(Seq(Literal(1))), Whole(MostBits), 0L)
      case ("sum", Whole(bits)) if bits <= RowBits     => aggregated(new Sum(value.of), Whole(MostBits), 0L)
      case ("sum", Whole(_))                           =>
        aggregated(new Sum(Cast(value.of, Exact)), Large, Decimal(0, SumDigits, 0))
      case ("sum", Floating)                                           => aggregated(new Sum(value.of), Floating, 0.0)
      case ("min" | "max", Whole(_)) if start.kind.isInstanceOf[Whole] =>
        val (of, best) =
          if (kind == "min") (Min(value.of), (e: Expression) => Least(Seq(e, start.of)))
          else (Max(value.of), (e: Expression) => Greatest(Seq(e, start.of)))
        // Both leave out null, which is the value of no rows.
        Typed(best(of.toAggregateExpression()), larger(value.kind, start.kind))
      case _ => unsupported
    }
  }

  private val over = new OverRow(addRow, columns)

  private def aggregated(function: AggregateFunction, kind: Kind, zero: Any): Typed = {
    val of = function.toAggregateExpression()
    Typed(Coalesce(Seq(of, Literal(zero, of.dataType))), kind)
  }

  private def isOne(json: JValue) = json == JArray(List(JString("int"), JString("1")))

  private def shown(of: Typed, kind: DataType): Expression = (of.kind, kind) match {
    case (Absent, _)                                                       => Literal(None.orNull, kind)
    case (Whole(_) | Large, ByteType | ShortType | IntegerType | LongType) =>
      if (of.of.dataType == kind) of.of else Cast(of.of, kind, None, EvalMode.ANSI)
    case (Floating, DoubleType)                  => of.of
    case (Several(items), ArrayType(element, _)) =>
      Cast(CreateArray(items.map(shown(_, element))), kind)
    case (Several(items), StructType(fields)) if items.length == fields.length =>
      Cast(
        CreateNamedStruct(items.zip(fields).flatMap { case (item, field) =>
          Seq(Literal(field.name), shown(item, field.dataType))
        }),
        kind
      )
    case _ => unsupported
  }
}

private[udf] object TranslatedAggregate {
  private final val MostBits = 63

  // The sum of 4 billion values of so many bits has no more than 64.
  private final val RowBits = 31
  private final val SumDigits = 30
  private val Exact = DecimalType(20, 0)

  private sealed trait Kind { def isWhole: Boolean = false }

  /** An int as `BIGINT`, of at most so many bits without its sign. */
  private final case class Whole(bits: Int) extends Kind { override def isWhole: Boolean = true }

  /** An int as `DECIMAL`. */
  private case object Large extends Kind { override def isWhole: Boolean = true }
  private case object Floating extends Kind
  private case object Truth extends Kind
  private case object Words extends Kind

  /** `None`. */
  private case object Absent extends Kind
  private final case class Several(items: Seq[Typed]) extends Kind

  /** @param of
    *   null for `None`
    */
  private final case class Typed(of: Expression, kind: Kind, mayBeNone: Boolean = false)

  private def floating(of: Typed): Expression = if (of.kind == Floating) of.of else Cast(of.of, DoubleType)

  /** Thrown where only Python computes the same. */
  private object Unsupported extends ControlThrowable

  private def unsupported: Nothing = throw Unsupported

  private def larger(one: Kind, other: Kind): Kind = (one, other) match {
    case (Whole(a), Whole(b)) => Whole(Math.max(a, b))
    case _                    => one
  }

  private def list(json: JValue): List[JValue] = json match {
    case JArray(all) => all
    case _           => unsupported
  }

  private def text(json: JValue): String = json match {
    case JString(text) => text
    case _             => unsupported
  }

  /** Builds expressions from JSON.
    *
    * @param method
    *   the method that they are from, for errors
    */
  private abstract class Over(method: TranslatedMethod) {
    protected def own(json: List[JValue]): Typed

    def apply(json: JValue): Typed = list(json) match {
      case List(JString("none"))                 => Typed(Literal(None.orNull, LongType), Absent, mayBeNone = true)
      case List(JString("bool"), JBool(truth))   => Typed(Literal(truth), Truth)
      case List(JString("int"), JString(n))      => Typed(Literal(n.toLong), Whole(64 - leadingZeros(n.toLong)))
      case List(JString("float"), JString(n))    => Typed(Literal(n.toDouble), Floating)
      case List(JString("text"), JString(text))  => Typed(Literal(text), Words)
      case List(JString("if"), test, one, other) =>
        val (whenTrue, otherwise) = together(apply(one), apply(other))
        // Spark would drop the test, and its error.
        if (isSame(whenTrue.of, otherwise.of)) unsupported
        val kind = larger(whenTrue.kind, otherwise.kind)
        Typed(If(isTrue(apply(test)), whenTrue.of, otherwise.of), kind, whenTrue.mayBeNone || otherwise.mayBeNone)
      // Both are one of their operands. Spark's AND and OR evaluate an operand that occurs twice before it is needed,
      // which may be an error.
      case JString("or") :: one :: others  => eitherOf(apply(one), apply(joined("or", others)), otherIfTrue = false)
      case JString("and") :: one :: others => eitherOf(apply(one), apply(joined("and", others)), otherIfTrue = true)
      case List(JString("not"), of)        => Typed(Not(isTrue(apply(of))), Truth)
      case List(JString("neg"), of)        =>
        val value = strict(apply(of))
        value.kind match {
          case Whole(bits) if bits < MostBits => Typed(UnaryMinus(value.of, failOnError = false), value.kind)
          case Floating                       => Typed(UnaryMinus(value.of, failOnError = false), Floating)
          case _                              => unsupported
        }
      case List(JString("call"), JString("not_none"), of) => strict(apply(of))
      case List(JString("call"), JString("abs"), of)      =>
        val value = strict(apply(of))
        value.kind match {
          case Whole(bits) if bits < MostBits => Typed(Abs(value.of), value.kind)
          case Floating                       => Typed(Abs(value.of), Floating)
          case _                              => unsupported
        }
      case List(JString(sign @ ("is" | "is not")), one, other) =>
        (apply(one), apply(other)) match {
          case (value, Typed(_, Absent, _)) => Typed(if (sign == "is") IsNull(value.of) else IsNotNull(value.of), Truth)
          case _                            => unsupported
        }
      case List(JString(sign @ ("==" | "!=")), one, other) =>
        val (left, right) = (apply(one), apply(other))
        (left.kind, right.kind) match {
          case (Whole(_), Whole(_)) | (Words, Words) =>
            val equal = EqualNullSafe(left.of, right.of)
            Typed(if (sign == "==") equal else Not(equal), Truth)
          case _ => unsupported
        }
      case List(JString(sign @ ("<" | "<=" | ">" | ">=")), one, other) =>
        val (left, right) = (strict(apply(one)), strict(apply(other)))
        (left.kind, right.kind) match {
          case (Whole(_), Whole(_)) => Typed(compared(sign, left.of, right.of), Truth)
          case _                    => unsupported
        }
      case List(JString(sign @ ("+" | "-" | "*")), one, other) => arithmetic(sign, apply(one), apply(other))
      case other                                               => own(other)
    }

    /** A value that must not be `None`. */
    def strict(of: Typed): Typed =
      if (of.kind == Absent) unsupported
      else if (of.mayBeNone) of.copy(of = NotNone(of.of, method, whyNone(of.of)), mayBeNone = false)
      else of

    private def whyNone(of: Expression) = {
      val columns = of.references.map(_.name).toSeq.sorted
      if (columns.isEmpty) "because the method gives None" else s"because ${columns.mkString(" or ")} is NULL"
    }

    private def joined(sign: String, operands: List[JValue]): JValue =
      if (operands.length == 1) operands.head else JArray(JString(sign) :: operands)

    private def eitherOf(one: Typed, other: Typed, otherIfTrue: Boolean): Typed = {
      val (first, second) = together(one, other)
      // The first operand of AND may be the result only if it is false or None, and of OR only if it is true.
      val firstMayBeNone = otherIfTrue && first.mayBeNone
      val shortcut = first.kind match {
        case Truth if !firstMayBeNone => Literal(!otherIfTrue)
        case _                        => first.of
      }
      val (whenTrue, otherwise) = if (otherIfTrue) (second.of, shortcut) else (shortcut, second.of)
      if (isSame(whenTrue, otherwise)) unsupported
      Typed(If(isTrue(one), whenTrue, otherwise), larger(first.kind, second.kind), firstMayBeNone || second.mayBeNone)
    }

    private def compared(sign: String, left: Expression, right: Expression): Expression = sign match {
      case "<"  => LessThan(left, right)
      case "<=" => LessThanOrEqual(left, right)
      case ">"  => GreaterThan(left, right)
      case _    => GreaterThanOrEqual(left, right)
    }

    private def arithmetic(sign: String, one: Typed, other: Typed): Typed = {
      val (left, right) = (strict(one), strict(other))
      val (kind, of) = (left.kind, right.kind) match {
        case (Whole(a), Whole(b)) =>
          val bits = if (sign == "*") a + b else Math.max(a, b) + 1
          if (bits > MostBits - 1) unsupported
          (Whole(bits), (left.of, right.of))
        case (Whole(_) | Floating, Whole(_) | Floating) => (Floating, (floating(left), floating(right)))
        case _                                          => unsupported
      }
      val (a, b) = of
      Typed(
        sign match {
          case "+" => new Add(a, b)
          case "-" => new Subtract(a, b)
          case _   => new Multiply(a, b)
        },
        kind
      )
    }

    /** The values of two branches in one type of Spark. */
    private def together(one: Typed, other: Typed): (Typed, Typed) = (one.kind, other.kind) match {
      case (Absent, Absent)                                                              => (one, other)
      case (Absent, _)                                                                   => (none(other), other)
      case (_, Absent)                                                                   => (one, none(one))
      case (Whole(_), Whole(_)) | (Floating, Floating) | (Truth, Truth) | (Words, Words) => (one, other)
      // An int among floats is added as a float. Python's sum of larger ints would be exact until the first float.
      case (Whole(bits), Floating) if bits <= RowBits => (one.copy(of = floating(one), kind = Floating), other)
      case (Floating, Whole(bits)) if bits <= RowBits => (one, other.copy(of = floating(other), kind = Floating))
      case _                                          => unsupported
    }

    /** True if Spark's optimizer may find that both are the same. */
    private def isSame(one: Expression, other: Expression): Boolean =
      one.semanticEquals(other) ||
        one.foldable && other.foldable && Try(one.eval() == other.eval()).getOrElse(false)

    private def none(like: Typed): Typed = Typed(Literal(None.orNull, like.of.dataType), like.kind, mayBeNone = true)

    private def isTrue(of: Typed): Expression = of.kind match {
      case Truth    => if (of.mayBeNone) Coalesce(Seq(of.of, Literal.FalseLiteral)) else of.of
      case Whole(_) => Not(EqualNullSafe(Coalesce(Seq(of.of, Literal(0L))), Literal(0L)))
      case Large    => Not(EqualNullSafe(of.of, Literal.default(of.of.dataType)))
      case Floating => Not(EqualNullSafe(Coalesce(Seq(of.of, Literal(0.0))), Literal(0.0)))
      case Absent   => Literal.FalseLiteral
      case _        => unsupported
    }

    private def leadingZeros(n: Long): Int = java.lang.Long.numberOfLeadingZeros(if (n < 0) ~n else n)
  }

  private final class OverRow(method: TranslatedMethod, columns: Seq[Expression]) extends Over(method) {
    override protected def own(json: List[JValue]): Typed = json match {
      case List(JString("column"), JInt(i)) if i.isValidInt && columns.isDefinedAt(i.toInt) =>
        val of = columns(i.toInt)
        of.dataType match {
          case ByteType    => Typed(Cast(of, LongType), Whole(7), of.nullable)
          case ShortType   => Typed(Cast(of, LongType), Whole(15), of.nullable)
          case IntegerType => Typed(Cast(of, LongType), Whole(31), of.nullable)
          case LongType    => Typed(of, Whole(MostBits), of.nullable)
          case FloatType   => Typed(Cast(of, DoubleType), Floating, of.nullable)
          case DoubleType  => Typed(of, Floating, of.nullable)
          case BooleanType => Typed(of, Truth, of.nullable)
          case StringType  => Typed(of, Words, of.nullable)
          case _           => unsupported
        }
      case _ => unsupported
    }
  }

  private final class OverParts(method: TranslatedMethod, parts: Seq[Typed]) extends Over(method) {

    /** The parts in expressions so far. */
    val used: mutable.Set[Int] = mutable.Set.empty

    override protected def own(json: List[JValue]): Typed = json match {
      case List(JString("part"), JInt(i)) =>
        used += i.toInt
        parts(i.toInt)
      case JString("tuple") :: items       => Typed(Literal.TrueLiteral, Several(items.map(apply)))
      case List(JString("/"), left, right) =>
        val (one, other) = (strict(apply(left)), strict(apply(right)))
        if (Seq(one, other).forall(part => part.kind.isWhole || part.kind == Floating))
          Typed(PythonDivide(one.of, other.of, method), Floating)
        else unsupported
      case _ => unsupported
    }
  }
}
