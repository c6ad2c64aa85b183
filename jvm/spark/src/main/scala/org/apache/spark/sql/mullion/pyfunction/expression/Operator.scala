package org.apache.spark.sql.mullion.pyfunction.expression

/** A Python operator on two values: ints do not wrap, `/` of ints is a float, and `//` and `%` round down. */
private[pyfunction] abstract class Operator {
  def apply(left: Value, right: Value, to: Value): Unit
}

private[pyfunction] object Operator {
  import Value._

  /** Raises `NoSuchElementException` for an unknown sign. */
  def apply(sign: String): Operator = all(sign)

  private val all: Map[String, Operator] = Map(
    "+" -> new Arithmetic(Math.addExact(_, _), _ + _) {
      override def apply(left: Value, right: Value, to: Value): Unit =
        if (left.kind == Text && right.kind == Text)
          to.setText(org.apache.spark.unsafe.types.UTF8String.concat(left.text, right.text))
        else super.apply(left, right, to)
    },
    "-" -> new Arithmetic(Math.subtractExact(_, _), _ - _),
    "*" -> new Arithmetic(Math.multiplyExact(_, _), _ * _),
    "/" -> new Operator {
      override def apply(left: Value, right: Value, to: Value): Unit = {
        requireDivisor(left, right)
        // Two ints are divided before rounding.
        if (left.isWhole && right.isWhole) to.setFloat(left.exactDouble / right.exactDouble)
        else to.setFloat(left.asDouble / right.asDouble)
      }
    },
    "//" -> new Operator {
      override def apply(left: Value, right: Value, to: Value): Unit = {
        requireDivisor(left, right)
        if (left.isWhole && right.isWhole) {
          if (left.long == Long.MinValue && right.long == -1) throw Untranslatable
          to.setInt(Math.floorDiv(left.long, right.long))
        } else to.setFloat(floorDiv(left.asDouble, right.asDouble))
      }
    },
    "%" -> new Operator {
      override def apply(left: Value, right: Value, to: Value): Unit = {
        requireDivisor(left, right)
        if (left.isWhole && right.isWhole) to.setInt(Math.floorMod(left.long, right.long))
        else to.setFloat(floorMod(left.asDouble, right.asDouble))
      }
    },
    "&" -> new Bits(_ & _),
    "|" -> new Bits(_ | _),
    "^" -> new Bits(_ ^ _),
    "==" -> new Test((left, right) => isEqual(left, right)),
    "!=" -> new Test((left, right) => !isEqual(left, right)),
    "<" -> new Test((left, right) => isLess(left, right)),
    ">" -> new Test((left, right) => isLess(right, left)),
    "<=" -> new Test((left, right) => isAtMost(left, right)),
    ">=" -> new Test((left, right) => isAtMost(right, left)),
    "is" -> new Test((left, right) => isSame(left, right)),
    "is not" -> new Test((left, right) => !isSame(left, right)),
    "in" -> new Test((left, right) => isIn(left, right)),
    "not in" -> new Test((left, right) => !isIn(left, right))
  )

  private class Arithmetic(ints: (Long, Long) => Long, floats: (Double, Double) => Double) extends Operator {
    override def apply(left: Value, right: Value, to: Value): Unit =
      if (left.isWhole && right.isWhole)
        to.setInt(
          try ints(left.long, right.long)
          catch { case _: ArithmeticException => throw Untranslatable }
        )
      else if (left.isNumber && right.isNumber) to.setFloat(floats(left.asDouble, right.asDouble))
      else throw Untranslatable
  }

  private final class Bits(bits: (Long, Long) => Long) extends Operator {
    override def apply(left: Value, right: Value, to: Value): Unit = {
      if (!left.isWhole || !right.isWhole) throw Untranslatable
      val result = bits(left.long, right.long)
      if (left.kind == Bool && right.kind == Bool) to.setBool(result != 0) else to.setInt(result)
    }
  }

  private final class Test(holds: (Value, Value) => Boolean) extends Operator {
    override def apply(left: Value, right: Value, to: Value): Unit = to.setBool(holds(left, right))
  }

  private def requireDivisor(left: Value, right: Value): Unit =
    if (!left.isNumber || !right.isNumber || right.asDouble == 0.0) throw Untranslatable

  private def isEqual(left: Value, right: Value): Boolean =
    if (left.isWhole && right.isWhole) left.long == right.long
    else if (left.isNumber && right.isNumber) left.exactDouble == right.exactDouble
    else if (left.kind == Text && right.kind == Text) left.text == right.text
    else if (isTimes(left, right)) left.long == right.long
    else if (left.kind >= Time || right.kind >= Time) throw Untranslatable
    else left.kind == Nothing && right.kind == Nothing

  /** Two times, or two lengths of time. */
  private def isTimes(left: Value, right: Value): Boolean = left.kind == right.kind && left.kind >= Time

  def isLess(left: Value, right: Value): Boolean =
    if (left.isWhole && right.isWhole) left.long < right.long
    else if (left.isNumber && right.isNumber) left.exactDouble < right.exactDouble
    else if (left.kind == Text && right.kind == Text) left.text.binaryCompare(right.text) < 0
    else if (isTimes(left, right)) left.long < right.long
    else throw Untranslatable

  private def isAtMost(left: Value, right: Value): Boolean =
    if (left.isWhole && right.isWhole) left.long <= right.long
    else if (left.isNumber && right.isNumber) left.exactDouble <= right.exactDouble
    else if (left.kind == Text && right.kind == Text) left.text.binaryCompare(right.text) <= 0
    else if (isTimes(left, right)) left.long <= right.long
    else throw Untranslatable

  /** True for identical singletons; equal numbers and texts may be distinct objects. */
  private def isSame(left: Value, right: Value): Boolean = {
    def isOne(value: Value) = value.kind == Nothing || value.kind == Bool
    if (isOne(left) && isOne(right)) left.kind == right.kind && (left.kind == Nothing || left.long == right.long)
    else if (isOne(left) || isOne(right)) false
    else throw Untranslatable
  }

  private def isIn(left: Value, right: Value): Boolean = {
    if (left.kind != Text || right.kind != Text) throw Untranslatable
    right.text.contains(left.text)
  }

  /** Python's `%` of floats: the result has the sign of the divisor. */
  private def floorMod(left: Double, right: Double): Double = {
    val rest = left % right
    if (rest == 0.0) Math.copySign(0.0, right)
    else if ((rest < 0) != (right < 0)) rest + right
    else rest
  }

  private def floorDiv(left: Double, right: Double): Double = {
    val rest = left % right
    val quotient = (left - rest) / right - (if (rest != 0.0 && (rest < 0) != (right < 0)) 1.0 else 0.0)
    if (quotient == 0.0) Math.copySign(0.0, left / right)
    else {
      val floor = Math.floor(quotient)
      if (quotient - floor > 0.5) floor + 1.0 else floor
    }
  }
}
