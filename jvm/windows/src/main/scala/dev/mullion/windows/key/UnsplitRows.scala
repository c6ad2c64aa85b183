package dev.mullion.windows.key

/** The rows of a key after the last split of a [[GlobalTrigger.Split]]: its buffer, which a function gets and splits.
  *
  * {{{
  *   buffer          0 1 2 3 4 5
  *   split at            2     5        closes [0, 2) and [2, 5), and row 5 stays
  *   split at                    6      closes [0, 6), and nothing stays
  *   split nowhere                      all stay
  * }}}
  *
  * @param start
  *   the number of the buffer's first row among all rows of the key
  * @param rows
  *   the number of rows of the key so far
  */
final case class UnsplitRows(start: Long, rows: Long) {
  def buffered: Long = rows - start

  def taken(more: Long): UnsplitRows = copy(rows = rows + more)

  /** The buffer as an open pane. */
  def open: Option[ArrivalPane] = Option.when(buffered > 0)(ArrivalPane(start, start, rows))

  /** The windows that close if new ones start at `indices` of the buffer, which are valid. */
  def closes(indices: Array[Long]): Seq[ArrivalPane] = {
    val bounds = (0L +: indices.toSeq).distinct.map(start + _)
    bounds.zip(bounds.drop(1)).map { case (from, until) => ArrivalPane(from, from, until) }
  }

  /** The remaining rows after such a split. */
  def after(indices: Array[Long]): UnsplitRows = indices.lastOption.fold(this)(last => copy(start = start + last))
}

object UnsplitRows {
  val empty: UnsplitRows = UnsplitRows(0L, 0L)

  /** The error in the indices of a split of a buffer of `buffered` rows, if any. */
  def wrong(indices: Array[Long], buffered: Long): Option[String] = {
    def gave = s"gave ${indices.take(20).mkString("[", ", ", if (indices.length > 20) ", ...]" else "]")}"
    val outside = indices.find(i => i < 0 || i > buffered).map { i =>
      if (i < 0) s"$gave, in which $i is negative"
      else s"$gave, in which $i is beyond $buffered, the end of the buffer"
    }
    outside.orElse(indices.zip(indices.drop(1)).collectFirst {
      case (first, second) if second <= first => s"$gave, in which $second does not come after $first"
    })
  }
}
