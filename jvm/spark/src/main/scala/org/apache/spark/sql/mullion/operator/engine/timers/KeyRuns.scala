package org.apache.spark.sql.mullion.operator.engine.timers

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.rows.Projections

/** Groups rows by key, for rows sorted by a number of their key (see
  * [[org.apache.spark.sql.mullion.state.record.KeyOrder]]): a key is loaded once, gets all its rows, and is released
  * once. No key is loaded before the complete keys have fired and are stored:
  *
  * {{{
  *   complete(row)    the keys that have all their rows; the caller fires and stores them
  *   current()        the row's key, loaded on demand
  * }}}
  *
  * Keys may have equal numbers, because Spark's hashes ignore nulls and can be chosen to collide, and the rows of such
  * keys are interleaved. Every key of a number is therefore kept until the next number:
  *
  * {{{
  *   rows     ("a", null)  (null, "a")  ("a", null)  |  ("b", "c")  ...
  *   number        7            7            7       |       9
  *   held       {a-}        {a-, -a}     {a-, -a}    |  both are released, then {bc}
  * }}}
  *
  * @param keys
  *   the key's columns in `input`
  * @param load
  *   loads a key; the row belongs to the result
  */
private[operator] final class KeyRuns[K <: AnyRef](keys: Seq[Attribute], input: Seq[Attribute])(load: UnsafeRow => K) {
  private lazy val keyOf = Projections(keys, input)
  // The sort number may be the key's own word; keys with equal numbers have equal hashes too.
  private lazy val hashOf = Projections(Seq(new XxHash64(keys)), input)

  private var key: UnsafeRow = _
  private var active: K = _
  private var hash = 0L
  // The key of the next row, and its hash; null if it is the same key.
  private var next: UnsafeRow = _
  private var nextHash = 0L
  // All keys of the current number, if there are several.
  private var several: mutable.LinkedHashMap[UnsafeRow, K] = _

  /** The keys that are complete because of this row: none, unless it is the first of its number. They must be fired and
    * stored before `current` is called.
    */
  def complete(row: InternalRow): Iterator[K] = {
    val of = keyOf(row)
    if ((key ne null) && key == of) Iterator.empty
    else {
      next = of
      nextHash = hashOf(row).getLong(0)
      if ((key ne null) && nextHash != hash) remaining() else Iterator.empty
    }
  }

  /** The key of the row of the last `complete` call. */
  def current(): K = {
    if (next ne null) {
      turnTo(next.copy())
      hash = nextHash
      next = null
    }
    active
  }

  /** True if a key is held. */
  def nonEmpty: Boolean = key ne null

  /** All remaining keys, after the last row. */
  def remaining(): Iterator[K] = {
    val isHeld =
      if (several ne null) several.valuesIterator
      else if (key ne null) Iterator.single(active)
      else Iterator.empty
    key = null
    several = null
    isHeld
  }

  private def turnTo(to: UnsafeRow): Unit = {
    if ((key ne null) && (several eq null)) several = mutable.LinkedHashMap(key -> active)
    active = if (several eq null) load(to) else several.getOrElseUpdate(to, load(to))
    key = to
  }
}
