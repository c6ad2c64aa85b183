package org.apache.spark.sql.mullion.pyfunction.expression

import scala.util.control.NoStackTrace

import org.apache.spark.unsafe.types.UTF8String

/** A Python value, stored in its expression: nothing is allocated per row. The kind determines the field with the
  * value.
  */
private[pyfunction] class Value {
  import Value._

  var kind: Int = Nothing
  var long: Long = 0L
  var double: Double = 0.0
  var text: UTF8String = UTF8String.EMPTY_UTF8

  final def setNothing(): Unit = kind = Nothing

  /** Marks an unassigned variable. */
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

  /** True if it is true in Python. */
  final def isTrue: Boolean = kind match {
    case Nothing => false
    case Float   => double != 0.0
    case Text    => text.numBytes != 0
    case Time    => true
    case _       => long != 0
  }

  /** True if it is an int or a bool. */
  final def isWhole: Boolean = kind == Int || kind == Bool

  final def isNumber: Boolean = kind == Float || isWhole

  /** As a float, rounded like Python's conversion of an int. */
  final def asDouble: Double = if (kind == Float) double else long.toDouble

  /** As a float of the same value; throws for an int without an equal float. */
  final def exactDouble: Double =
    if (kind == Float) double
    else if (-Exact <= long && long <= Exact) long.toDouble
    else throw Untranslatable
}

private[pyfunction] object Value {
  final val Nothing = 0
  final val Bool = 1
  final val Int = 2
  final val Float = 3
  final val Text = 4
  final val Unset = 5
  final val Time = 6
  final val Length = 7

  /** All integers up to this are exact as floats. */
  private final val Exact = 1L << 53
}

/** Anything not supported here exactly as in Python: its errors, ints of more than 64 bits, and values of other kinds.
  * The batch is then processed by Python.
  */
private[pyfunction] object Untranslatable extends RuntimeException("only Python does this") with NoStackTrace
