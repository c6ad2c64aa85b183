package org.apache.spark.sql.mullion.pyfunction.expression

import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.MullionSuite

/** Operators, compared with Python 3.11. */
class OperatorSuite extends MullionSuite {
  private sealed trait Held
  private case class Int(value: Long) extends Held
  private case class Float(value: Double) extends Held
  private case class Bool(value: Boolean) extends Held
  private case class Text(value: String) extends Held
  private case object None_ extends Held
  private case object Odd_ extends Held

  private def valueOf(held: Held): Value = {
    val value = new Value
    held match {
      case Int(n)   => value.setInt(n)
      case Float(x) => value.setFloat(x)
      case Bool(b)  => value.setBool(b)
      case Text(t)  => value.setText(UTF8String.fromString(t))
      case _        => value.setNothing()
    }
    value
  }

  private def heldIn(value: Value): Held = value.kind match {
    case Value.Int   => Int(value.long)
    case Value.Float => Float(value.double)
    case Value.Bool  => Bool(value.isTrue)
    case Value.Text  => Text(value.text.toString)
    case _           => None_
  }

  private def evaluate(left: Held, sign: String, right: Held): Held = {
    val to = new Value
    try {
      Operator(sign)(valueOf(left), valueOf(right), to)
      heldIn(to)
    } catch { case Untranslatable => Odd_ }
  }

  private val ofPython = Seq[((Held, String, Held), Held)](
    (Int(7L), "//", Int(-2L)) -> Int(-4L),
    (Int(-7L), "//", Int(2L)) -> Int(-4L),
    (Int(7L), "%", Int(-2L)) -> Int(-1L),
    (Int(-7L), "%", Int(2L)) -> Int(1L),
    (Int(7L), "/", Int(2L)) -> Float(3.5),
    (Int(1L), "/", Int(3L)) -> Float(0.3333333333333333),
    (Float(7.5), "//", Int(-2L)) -> Float(-4.0),
    (Float(-7.5), "//", Float(2.0)) -> Float(-4.0),
    (Float(7.5), "%", Int(-2L)) -> Float(-0.5),
    (Float(-7.5), "%", Float(2.0)) -> Float(0.5),
    (Float(0.3), "//", Float(0.1)) -> Float(2.0),
    (Float(0.3), "%", Float(0.1)) -> Float(0.09999999999999998),
    (Float(-0.3), "%", Float(0.1)) -> Float(2.7755575615628914e-17),
    (Float(-0.0), "//", Float(3.0)) -> Float(-0.0),
    (Float(-1e-17), "%", Float(3.0)) -> Float(3.0),
    (Int(3L), "*", Float(-0.5)) -> Float(-1.5),
    (Int(9223372036854775807L), "-", Int(1L)) -> Int(9223372036854775806L),
    (Bool(true), "+", Bool(true)) -> Int(2L),
    (Bool(true), "&", Bool(false)) -> Bool(false),
    (Int(6L), "&", Int(3L)) -> Int(2L),
    (Int(6L), "|", Bool(true)) -> Int(7L),
    (Int(6L), "^", Int(3L)) -> Int(5L),
    (Int(1L), "==", Float(1.0)) -> Bool(true),
    (Bool(true), "<", Int(2L)) -> Bool(true),
    (Float(0.1), ">=", Float(0.1)) -> Bool(true),
    (Float(0.0), "!=", Float(-0.0)) -> Bool(false),
    (Text("a"), "+", Text("é")) -> Text("aé"),
    (Text("a"), "in", Text("cat")) -> Bool(true),
    (Text("b"), "<", Text("é")) -> Bool(true),
    (Text("a"), "==", Int(1L)) -> Bool(false),
    (None_, "is", None_) -> Bool(true),
    (Text(""), "is not", None_) -> Bool(true)
  )

  test("the result of an operator equals Python's, to the bit") {
    ofPython.foreach { case ((left, sign, right), expected) =>
      val result = evaluate(left, sign, right)
      assertEquals(result, expected, s"$left $sign $right")
      // 0.0 and -0.0 are equal, and not the same.
      (result, expected) match {
        case (Float(one), Float(other)) => assertEquals(java.lang.Double.compare(one, other), 0, s"$left $sign $right")
        case _                          => ()
      }
    }
  }

  test("errors in Python, and results of more than 64 bits, are unsupported") {
    Seq[(Held, String, Held)](
      (Int(1L), "/", Int(0L)),
      (Int(1L), "//", Float(-0.0)),
      (Float(1.0), "%", Int(0L)),
      (Int(Long.MaxValue), "+", Int(1L)),
      (Int(Long.MinValue), "-", Int(1L)),
      (Int(Long.MinValue), "//", Int(-1L)),
      (Int(1L << 62), "*", Int(2L)),
      (Int((1L << 53) + 1), "/", Int(2L)),
      (Int((1L << 53) + 1), "<", Float(1.0)),
      (None_, "+", Int(1L)),
      (None_, "<", Int(1L)),
      (Text("a"), "*", Int(2L)),
      (Text("a"), "<", Int(2L)),
      (Int(1L), "is", Int(1L)),
      (Int(1L), "in", Text("1")),
      (Float(1.0), "&", Int(1L))
    ).foreach { case (left, sign, right) => assertEquals(evaluate(left, sign, right), Odd_, s"$left $sign $right") }
  }
}
