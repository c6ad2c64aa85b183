package org.apache.spark.sql.mullion.state.packed

import java.util.Arrays

/** The segments of a family in order of their numbers, with immutable versions: a change copies the list, which is
  * short.
  */
private[state] final class SegmentList(from: SegmentList.Version) {
  private var ids = from.ids
  private var segments = from.segments
  private var size = from.ids.length
  private var isMine = false

  /** The existing segment with a number. */
  def apply(id: Long): Segments.Segment = segments(indexOf(id))

  /** The segment with the greatest number, if it still exists. */
  def last: Option[Segments.Segment] = if (size == 0) None else Option(segments(size - 1))

  def foreach(use: Segments.Segment => Unit): Unit = segments.iterator.take(size).filter(_ ne null).foreach(use)

  /** Adds a segment with a new greatest number. */
  def add(segment: Segments.Segment): Unit = {
    own()
    if (size == ids.length) {
      val room = 2 * size + 16
      ids = Arrays.copyOf(ids, room)
      segments = Arrays.copyOf(segments, room)
    }
    ids(size) = segment.id
    segments(size) = segment
    size += 1
  }

  /** Replaces the segment with the same number. */
  def replace(segment: Segments.Segment): Unit = {
    own()
    segments(indexOf(segment.id)) = segment
  }

  def remove(id: Long): Unit = {
    own()
    segments(indexOf(id)) = None.orNull
  }

  /** The current version of the list. */
  def version: SegmentList.Version =
    if (isMine) SegmentList.of(segments.iterator.take(size).filter(_ ne null).toArray) else from

  private def indexOf(id: Long): Int = Arrays.binarySearch(ids, 0, size, id)

  private def own(): Unit = if (!isMine) {
    ids = Arrays.copyOf(ids, size)
    segments = Arrays.copyOf(segments, size)
    isMine = true
  }
}

private[state] object SegmentList {

  /** An immutable version. */
  final class Version(
      private[SegmentList] val ids: Array[Long],
      private[SegmentList] val segments: Array[Segments.Segment]
  ) {
    def footprint: Long = 16L * ids.length + segments.iterator.map(_.footprint).sum
  }

  val empty: Version = new Version(Array.emptyLongArray, Array.empty)

  /** @param segments
    *   in order of their numbers
    */
  def of(segments: Array[Segments.Segment]): Version = new Version(segments.map(_.id), segments)
}
