package org.apache.spark.sql.mullion.exec.panes.keys

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.Projections

/** The rows of each key, of rows that come in the order of a number of their key (see
  * [[org.apache.spark.sql.mullion.state.records.KeyOrder]]): what is known of a key is loaded once, given all of the
  * key's rows, and left once.
  *
  * Two keys may have one number, for Spark's hashes leave nulls out and can be chosen to collide, and the rows of such
  * keys come mixed. So every key of a number is held until the next number comes:
  *
  * {{{
  *   rows     ("a", null)  (null, "a")  ("a", null)  |  ("b", "c")  ...
  *   number        7            7            7       |       9
  *   held       {a-}        {a-, -a}     {a-, -a}    |  both are left, then {bc}
  * }}}
  *
  * @param keys
  *   the key's columns in `input`
  * @param load
  *   what is known of a key; the row is the holder's to keep
  */
private[exec] final class KeyRuns[K <: AnyRef](keys: Seq[Attribute], input: Seq[Attribute])(load: UnsafeRow => K) {
  private lazy val keyOf = Projections(keys, input)
  // The number that rows are sorted by may be the key's own word. Keys of one number have one hash of this kind too.
  private lazy val hashOf = Projections(Seq(new XxHash64(keys)), input)

  private var key: UnsafeRow = _
  private var current: K = _
  private var hash = 0L
  // All of the current number, where there are several.
  private var several: mutable.LinkedHashMap[UnsafeRow, K] = _

  /** Whether a row is of the key whose row came before it. */
  private def isOfCurrent(next: UnsafeRow): Boolean = (key ne null) && key == next

  /** What is known of a row's key, which has its rows from now on. Those that the row shows to be complete are given to
    * `leave` before the key is loaded: none, unless the row is the first of its number.
    */
  def apply(row: InternalRow)(leave: Iterator[K] => Unit): K = {
    val next = keyOf(row)
    if (!isOfCurrent(next)) {
      val nextHash = hashOf(row).getLong(0)
      if ((key ne null) && nextHash != hash) leave(left())
      turnTo(next.copy())
      hash = nextHash
    }
    current
  }

  /** Whether a key is held. */
  def nonEmpty: Boolean = key ne null

  /** Those that are held, once the rows are used up. */
  def left(): Iterator[K] = {
    val held =
      if (several ne null) several.valuesIterator
      else if (key ne null) Iterator.single(current)
      else Iterator.empty
    key = null
    several = null
    held
  }

  private def turnTo(next: UnsafeRow): Unit = {
    if ((key ne null) && (several eq null)) several = mutable.LinkedHashMap(key -> current)
    current = if (several eq null) load(next) else several.getOrElseUpdate(next, load(next))
    key = next
  }
}
