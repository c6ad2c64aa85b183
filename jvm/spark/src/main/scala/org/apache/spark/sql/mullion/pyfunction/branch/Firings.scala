package org.apache.spark.sql.mullion.pyfunction.branch

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray
import org.apache.spark.sql.mullion.shim.{SparkVersionShim, SpillLimits}

/** The firings of one batch in one partition, of all windows: by kind, then by window, then in order of arrival. They
  * spill to disk if there are many.
  */
private[pyfunction] final class Firings(panes: Seq[Seq[Attribute]], spill: SpillLimits) {
  private val kindAt = panes.map(_.indexWhere(_.name == "pane"))
  private val firings =
    scala.collection.mutable.TreeMap.empty[(Int, Int), ExternalAppendOnlyUnsafeRowArray]
  private val projections = panes.map(p => UnsafeProjection.create(p.map(_.dataType).toArray))

  def add(window: Int, row: InternalRow): Unit = {
    val name = row.getStruct(kindAt(window), 2).getUTF8String(0).toString
    val kind = Firings.kinds.indexOf(name)
    if (kind < 0) throw new IllegalStateException(s"$name is not a kind of firing")
    val unsafe = row match {
      case already: UnsafeRow => already
      case other              => projections(window)(other)
    }
    firings.getOrElseUpdate((kind, window), SparkVersionShim.spillable(spill)).add(unsafe)
  }

  def nonEmpty: Boolean = firings.nonEmpty

  /** The index of a window, a kind, and their rows. */
  def inOrder: Iterator[(Int, Int, Iterator[InternalRow])] = firings.iterator.map { case ((kind, window), rows) =>
    (window, kind, rows.generateIterator())
  }
}

private[pyfunction] object Firings {

  /** In the order of the callbacks. */
  val kinds: Seq[String] = Seq("late", "running", "early", "on_time", "update", "close")

  /** The factor of the window in the numbers of frames. */
  val Kinds = 8
}
