package org.apache.spark.sql.mullion.exec.panes.keys

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.Projections

/** The rows of each key, of rows that come in the order of a number of their key (see
  * [[org.apache.spark.sql.mullion.state.records.KeyOrder]]): what is known of a key is loaded once, given all of the
  * key's rows, and left once. No key is loaded before the complete keys have fired and are stored:
  *
  * {{{
  *   complete(row)    the keys that have all their rows; the caller fires and stores them
  *   current()        the row's key, loaded if it is not held
  * }}}
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
  private var active: K = _
  private var hash = 0L
  // The key of the row that comes next, and its hash; null where it is the same key.
  private var next: UnsafeRow = _
  private var nextHash = 0L
  // All of the current number, where there are several.
  private var several: mutable.LinkedHashMap[UnsafeRow, K] = _

  /** The keys that are complete because this row comes: none, unless it is the first of its number. They must be fired
    * and stored before `current` is called.
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

  /** The key of the row that `complete` was called with. */
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

  /** All keys that are held, once the rows are used up. */
  def remaining(): Iterator[K] = {
    val held =
      if (several ne null) several.valuesIterator
      else if (key ne null) Iterator.single(active)
      else Iterator.empty
    key = null
    several = null
    held
  }

  private def turnTo(to: UnsafeRow): Unit = {
    if ((key ne null) && (several eq null)) several = mutable.LinkedHashMap(key -> active)
    active = if (several eq null) load(to) else several.getOrElseUpdate(to, load(to))
    key = to
  }
}
