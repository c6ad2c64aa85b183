package org.apache.spark.sql.mullion.python.folds

import scala.util.control.NoStackTrace

import org.apache.spark.unsafe.types.UTF8String

/** A value as Python has it, in the place where an expression leaves it: nothing is allocated for a row. Which of the
  * fields holds it, the kind says.
  */
private[python] class Value {
  import Value._

  var kind: Int = Nothing
  var long: Long = 0L
  var double: Double = 0.0
  var text: UTF8String = UTF8String.EMPTY_UTF8

  final def setNothing(): Unit = kind = Nothing

  /** It is no value, but a variable that nothing was given to yet. */
  final def unset(): Unit = kind = Unset

  final def setBool(value: Boolean): Unit = {
    kind = Bool
    long = if (value) 1L else 0L
  }

  final def setInt(value: Long): Unit = {
    kind = Int
    long = value
  }

  final def setFloat(value: Double): Unit = {
    kind = Float
    double = value
  }

  final def setText(value: UTF8String): Unit = {
    kind = Text
    text = value
  }

  /** A time in microseconds since the epoch. */
  final def setTime(us: Long): Unit = {
    kind = Time
    long = us
  }

  /** A length of time in microseconds. */
  final def setLength(us: Long): Unit = {
    kind = Length
    long = us
  }

  final def set(other: Value): Unit = {
    kind = other.kind
    long = other.long
    double = other.double
    text = other.text
  }

  /** True if Python takes it for true. */
  final def isTrue: Boolean = kind match {
    case Nothing => false
    case Float   => double != 0.0
    case Text    => text.numBytes != 0
    case Time    => true
    case _       => long != 0
  }

  /** True if it is an int, as a bool is. */
  final def isWhole: Boolean = kind == Int || kind == Bool

  final def isNumber: Boolean = kind == Float || isWhole

  /** As a float, rounded as Python rounds an int. */
  final def asDouble: Double = if (kind == Float) double else long.toDouble

  /** As a float of the same value; of an int that none is equal to, odd. */
  final def exactDouble: Double =
    if (kind == Float) double
    else if (-Exact <= long && long <= Exact) long.toDouble
    else throw Odd
}

private[python] object Value {
  final val Nothing = 0
  final val Bool = 1
  final val Int = 2
  final val Float = 3
  final val Text = 4
  final val Unset = 5
  final val Time = 6
  final val Length = 7

  /** All whole numbers up to here are floats too. */
  private final val Exact = 1L << 53
}

/** What is not known to be done here as Python does it: what fails there, ints of more than 64 bits, and values of
  * other kinds. The batch is Python's then.
  */
private[python] object Odd extends RuntimeException("only Python does this") with NoStackTrace
