package org.apache.spark.sql.mullion.monitor

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, XxHash64}

/** The keys of an operator whose panes a person looks at, and the last panes of these keys that have closed since then.
  * Both are limited, so nobody has to end it.
  */
final class WatchedKeys {
  import WatchedKeys._

  // The key that was asked for last is at the end.
  private val closed = mutable.LinkedHashMap.empty[Long, Vector[ClosedPane]]

  /** Begins to keep the closed panes of a key, given by its id. */
  def watch(key: Long): Unit = synchronized {
    val before = closed.remove(key).getOrElse(Vector.empty)
    closed(key) = before
    if (closed.size > Keys) closed.remove(closed.head._1)
    ()
  }

  def keys: Set[Long] = synchronized(closed.keySet.toSet)

  /** Adds closed panes. Those of keys that are not watched any more are ignored. */
  def add(panes: Iterable[ClosedPane]): Unit = synchronized {
    for (pane <- panes; before <- closed.get(pane.key)) closed(pane.key) = (before :+ pane).takeRight(OfKey)
  }

  /** The closed panes of a key, in the order in which they closed. */
  def of(key: Long): Seq[ClosedPane] = synchronized(closed.getOrElse(key, Vector.empty))
}

object WatchedKeys {
  private val Keys = 20

  /** The number of closed panes that are kept of a key. */
  val OfKey = 100

  /** The id of a key, a bigint. Spark's server changes quotes and brackets in parameters of requests, so a request has
    * it instead of the key.
    */
  def idOf(keys: Seq[Expression]): Expression = if (keys.isEmpty) Literal(0L) else new XxHash64(keys)
}

/** A closed pane of a watched key.
  *
  * @param key
  *   the id of its key
  * @param start
  *   in milliseconds since the epoch, or the number of its first row
  * @param end
  *   in milliseconds since the epoch, or the number behind its last row
  * @param fired
  *   the number of its firings, the close included
  */
final case class ClosedPane(key: Long, start: Long, end: Long, fired: Int)
