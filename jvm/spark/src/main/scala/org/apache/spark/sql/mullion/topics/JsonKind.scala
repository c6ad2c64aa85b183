package org.apache.spark.sql.mullion.topics

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays

import org.apache.spark.sql.types._

/** The JSON values that a column holds exactly, so that reading the column returns the written value, in Python too:
  * {{{
  *   bigint            1         not 1.0, "1", 2 ** 63
  *   int               1         not 2 ** 31
  *   double            1.0       not 1, which Python distinguishes from it; at top level such a value is marked
  *   array<bigint>     [1, 2]    not [1, 2.5]
  *   struct<a, b>      {"b": 1, "a": null}    not {"a": 1}, which lacks b, nor {"a": 1, "b": 1, "c": 1}
  *   map<string, bigint>      {"a": 1}            not {"a": "x"}
  * }}}
  * Any of them may be null. `from_json` decides about all other types, such as decimals and timestamps.
  */
private[mullion] sealed abstract class JsonKind {

  /** The kind of an array's elements. */
  def element: Option[JsonKind] = None
}

private[mullion] object JsonKind {

  /** A value that `from_json` decides about, or of a field without a column. */
  case object Anything extends JsonKind {
    override val element: Option[JsonKind] = Some(Anything)
  }

  /** An integer with this number of bits. */
  final case class Whole(bits: Int) extends JsonKind
  case object Floating extends JsonKind
  case object Text extends JsonKind
  case object Bool extends JsonKind

  /** Only null, for a field whose type is not known yet. */
  case object Nothing extends JsonKind

  final class Elements(of: JsonKind) extends JsonKind {
    override val element: Option[JsonKind] = Some(of)
  }

  /** An object whose members are all of one kind. */
  final class Members(val of: JsonKind) extends JsonKind

  final class Fields(names: Array[String], val kinds: Array[JsonKind]) extends JsonKind {
    private val encodedNames = names.map(_.getBytes(UTF_8))

    def length: Int = encodedNames.length

    /** The index of the field whose name is between two positions of a text, or -1; most often it is `likely`. */
    def indexOf(text: Array[Byte], from: Int, until: Int, likely: Int): Int =
      if (likely < encodedNames.length && is(likely, text, from, until)) likely
      else {
        var i = 0
        while (i < encodedNames.length && !is(i, text, from, until)) i += 1
        if (i < encodedNames.length) i else -1
      }

    private def is(i: Int, text: Array[Byte], from: Int, until: Int) =
      Arrays.equals(encodedNames(i), 0, encodedNames(i).length, text, from, until)
  }

  def of(kind: DataType): JsonKind = kind match {
    case NullType               => Nothing
    case whole: IntegralType    => Whole(8 * whole.defaultSize)
    case DoubleType | FloatType => Floating
    case _: StringType          => Text
    case BooleanType            => Bool
    case ArrayType(elements, _) => new Elements(of(elements))
    case StructType(fields)     => new Fields(fields.map(_.name), fields.map(f => of(f.dataType)))
    case MapType(_, values, _)  => new Members(of(values))
    case _                      => Anything
  }
}
