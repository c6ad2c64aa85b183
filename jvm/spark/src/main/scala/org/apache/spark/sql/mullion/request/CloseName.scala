package org.apache.spark.sql.mullion.request

import java.util.Locale

/** Suggestions for a misspelt name, equal to those of Python's `difflib.get_close_matches`, so that both languages
  * suggest the same.
  */
private[request] object CloseName {
  private val enough = 0.6

  def apply(wanted: String, names: Seq[String]): Option[String] = {
    val lower = wanted.toLowerCase(Locale.ROOT)
    val like = names.map(name => name -> likeness(name.toLowerCase(Locale.ROOT), lower))
    like.filter(_._2 >= enough).maxByOption(_._2).map(_._1)
  }

  // Longer names are not compared.
  private val longest = 100

  /** Twice the common length, divided by the total length of both. */
  private[request] def likeness(a: String, b: String): Double =
    if (a.length + b.length > 2 * longest) 0.0
    else if (a.isEmpty && b.isEmpty) 1.0
    else 2.0 * common(a, b) / (a.length + b.length)

  /** The number of common characters: the longest common part, and then on either side of it. */
  private def common(a: String, b: String): Int = {
    val parts = for {
      from <- a.indices.iterator
      at <- b.indices.iterator
      length = a.drop(from).iterator.zip(b.drop(at).iterator).takeWhile { case (x, y) => x == y }.size
      if length > 0
    } yield (length, from, at)
    parts.maxByOption(_._1).fold(0) { case (length, from, at) =>
      length + common(a.take(from), b.take(at)) + common(a.drop(from + length), b.drop(at + length))
    }
  }
}
