package org.apache.spark.sql.mullion.state.packed

import java.util.{ArrayList, Arrays}

import scala.util.Using

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{NoPrefixKeyStateEncoderSpec, StateStore}
import org.apache.spark.sql.mullion.state.btree.{Place, WriteBack}
import org.apache.spark.sql.mullion.state.record.{Family, FamilySpec, RecordBytes, RecordCounts}
import org.apache.spark.sql.types.{BinaryType, LongType, StructType}
import org.apache.spark.unsafe.Platform

/** The storage of a family's cached records in RocksDB: many records per segment, which is written once.
  *
  * {{{
  *   segment 7   [k v][k v][k v][k v]      the changes of a batch, in order, up to 32 KB
  *   gone 7        .    x    .    x        its records that have since been removed, or written again elsewhere
  *   segment 8   [k v][k v]
  * }}}
  *
  * A batch therefore puts hundreds of records with one call, and removes as many without any: records written together
  * are mostly removed together, and for an empty segment two keys are removed. A segment that is less than a quarter
  * full is merged into the next batch's; so is the last one, if it is small.
  *
  * Attempts of a task write the same records, but perhaps in different segments. Files of two attempts must therefore
  * not be mixed: a version is read by the id of its attempt, see the package `attempts`.
  *
  * A place is a segment's number and a record's number in it. Records in segments can only be looked up in memory.
  * Without memory for that, records are written under their own keys.
  *
  * @param alone
  *   the records under their own keys
  * @param from
  *   the existing segments; they are copied before they change, because attempts of one batch start from the same
  */
private[state] final class Segments(
    store: StateStore,
    spec: FamilySpec,
    from: Segments.Version,
    alone: Family,
    counts: RecordCounts
) extends WriteBack.Places {
  import Segments._
  import SegmentBody.Header

  private val bodies = s"${spec.name}-segments"
  private val marks = s"${spec.name}-gone"
  private var alive = new SegmentList(from.alive)
  private var next = from.next
  // Identifies the segments of this batch. It outlives the batch, so it must not reference a store.
  private val batch = new Segments.Batch
  private val touched = new ArrayList[Segment]
  // The segment of the last record.
  private var last = new Segment(-1L, 0, batch, marked = false)
  private val idRow = UnsafeRow.createFromByteArray(16, 1)
  private val body = new SegmentBody
  private val dataRow = new UnsafeRow(1)
  // The segment being written, after room for a row's header, and its size.
  private var buffer = new Array[Byte](Room)
  private var end = Header
  private var count = 0

  Seq(bodies, marks).foreach { name =>
    store.createColFamilyIfAbsent(name, IdSchema, DataSchema, NoPrefixKeyStateEncoderSpec(IdSchema))
  }

  /** The version for the next batch. */
  def version: Version = Version(alive.version, next)

  /** All records in segments, for inspection, one segment at a time because a partition may be larger than memory. A
    * record is valid until the next one. `closing` receives the resources to close at the end.
    */
  def records(closing: AutoCloseable => Unit): Iterator[(UnsafeRow, UnsafeRow)] = {
    val gone = readMarks()
    val rows = store.iterator(bodies)
    closing(rows)
    rows.flatMap { row =>
      val segment = new Segment(row.key.getLong(0), SegmentBody.sizeOf(row.value), batch, marked = false)
      gone.get(segment.id).foreach(segment.gone = _)
      remaining(row.value, segment)
    }
  }

  /** The remaining records of a segment. */
  private def remaining(row: UnsafeRow, segment: Segment): Iterator[(UnsafeRow, UnsafeRow)] = {
    body.open(row)
    // Lazy: each is read after the previous one has been used.
    Iterator
      .unfold(0)(slot => Option.when(body.next(key, value))((!segment.isGone(slot), slot + 1)))
      .filter(identity)
      .map(_ => (key, value))
  }

  private def readMarks(): Map[Long, Array[Long]] =
    Using.resource(store.iterator(marks))(_.map(row => row.key.getLong(0) -> longsOf(row.value)).toMap)

  /** Reads all records, with their places, until `take` returns false. Returns whether it read all. */
  def readAll(take: (Place, UnsafeRow, UnsafeRow) => Boolean): Boolean = {
    val gone = readMarks()
    var wanted = true
    val sparse = Array.newBuilder[Segment]
    Using.resource(store.iterator(bodies)) { rows =>
      while (wanted && rows.hasNext) {
        val row = rows.next()
        val id = row.key.getLong(0)
        val segment = new Segment(id, SegmentBody.sizeOf(row.value), batch, gone.contains(id))
        gone.get(id).foreach(segment.gone = _)
        val all = foreachLeft(row.value, segment) { slot =>
          counts.read += 1
          wanted &&= take(Place.inSegment(id, slot), key, value)
        }
        segment.holds(all)
        sparse += segment
        next = Math.max(next, id + 1)
      }
    }
    alive = new SegmentList(SegmentList.of(sparse.result().sortBy(_.id)))
    wanted
  }

  override def overwrites: Boolean = false

  override def remove(place: Place): Unit = {
    if (last.id != place.segment) last = own(place.segment)
    last.remove(place.slot)
  }

  override def removeAlone(): Unit = alone.remove(key)

  /** Removes empty segments, before anything is written. The remaining records of segments to be merged must be written
    * again.
    *
    * @param more
    *   whether records will be written, so that a small last segment can be merged
    * @param all
    *   the number of records
    */
  def tidy(more: Boolean, all: Long)(anew: WrittenAnew): Unit = {
    val givenUp = new ArrayList[Segment]
    touched.forEach { segment =>
      if (segment.remaining == 0) drop(segment)
      else if (segment.remaining < segment.count / 4) { givenUp.add(segment); () }
      else {
        put(marks, segment.id, rowOf(segment.gone))
        segment.isMarked = true
      }
    }
    if (more) alive.last.filter(last => last.bytes < Full / 4 && !givenUp.contains(last)).foreach(givenUp.add)
    if (!givenUp.isEmpty) {
      val ids = givenUp.stream.mapToLong(_.id).sorted.toArray
      if (isReadRather(ids, all)) givenUp.forEach(readKeys(_, anew.of)) else anew.in(ids)
      givenUp.forEach(drop)
    }
  }

  override val key: UnsafeRow = new UnsafeRow(spec.key.length)
  override val value: UnsafeRow = new UnsafeRow(spec.value.length)

  override def write(): Place = {
    val size = RecordBytes.size(key, value)
    if (count > 0 && (end + size > Header + Full || count > Place.MostSlots)) flush()
    if (end + size > buffer.length) buffer = Arrays.copyOf(buffer, end + size)
    RecordBytes.write(key, value, buffer, end)
    end += size
    count += 1
    Place.inSegment(next, count - 1)
  }

  /** Writes the last segment. */
  def flush(): Unit = if (count > 0) {
    put(bodies, next, body.of(buffer, end))
    val segment = new Segment(next, end - Header, batch, marked = false)
    segment.holds(count)
    alive.add(segment)
    next += 1
    count = 0
    end = Header
    // Releases the buffer after a large record.
    if (buffer.length > 2 * Full) buffer = new Array[Byte](Room)
  }

  /** Fails if the places of records in memory are wrong. */
  def checkInvariants(places: Iterator[Place]): Unit = {
    def require(holds: Boolean, what: => String): Unit =
      if (!holds) throw new IllegalStateException(s"${spec.name}: $what")
    val slots = places.filter(_.isInSegment).map(place => place.segment -> place.slot).toSeq.groupMap(_._1)(_._2)
    val listed = List.newBuilder[Long]
    alive.foreach { segment =>
      listed += segment.id
      val here = slots.getOrElse(segment.id, Nil)
      require(here.distinct.size == here.size, s"records in one place of segment ${segment.id}")
      require(here.size == segment.remaining, s"${here.size} records of ${segment.remaining} in segment ${segment.id}")
      require(here.forall(slot => slot < segment.count && !segment.isGone(slot)), s"gone from segment ${segment.id}")
    }
    val ids = listed.result()
    require(slots.keySet.subsetOf(ids.toSet), "records in a segment that is gone")
    require(ids == ids.sorted && ids.forall(_ < next), s"segments $ids")
  }

  def clear(): Unit = alive.foreach(drop)

  private def own(id: Long): Segment = {
    val segment = alive(id)
    if (segment.owner eq batch) segment
    else {
      val copy = segment.copy(batch)
      alive.replace(copy)
      touched.add(copy)
      copy
    }
  }

  private def readKeys(segment: Segment, use: UnsafeRow => Unit): Unit =
    foreachLeft(store.get(idOf(segment.id), bodies), segment)(_ => use(key))

  private def drop(segment: Segment): Unit = {
    store.remove(idOf(segment.id), bodies)
    if (segment.isMarked) store.remove(idOf(segment.id), marks)
    alive.remove(segment.id)
  }

  private def put(family: String, id: Long, data: UnsafeRow): Unit = store.put(idOf(id), data, family)

  private def idOf(id: Long): UnsafeRow = {
    idRow.setLong(0, id)
    idRow
  }

  private def rowOf(longs: Array[Long]): UnsafeRow = {
    val bytes = new Array[Byte](Header + 8 * longs.length)
    Platform.copyMemory(longs, Platform.LONG_ARRAY_OFFSET.toLong, bytes, RecordBytes.offset(Header), 8L * longs.length)
    SegmentBody.rowOf(dataRow, bytes, bytes.length)
  }

  /** Calls `look` for each remaining record of a segment, with `key` and `value` on it. Returns the number of its
    * records.
    */
  private def foreachLeft(row: UnsafeRow, segment: Segment)(look: Int => Unit): Int = {
    body.open(row)
    var slot = 0
    while (body.next(key, value)) {
      if (!segment.isGone(slot)) look(slot)
      slot += 1
    }
    slot
  }
}

private[state] object Segments {
  import SegmentBody.Header

  // The size of a full segment, in bytes.
  private final val Full = 32 * 1024
  private final val Room = Header + Full

  /** Schedules unchanged records to be written again. */
  trait WrittenAnew {

    def of(key: UnsafeRow): Unit

    /** All records in some segments, by their numbers, in order: scans the places of all records. */
    def in(segments: Array[Long]): Unit
  }

  // The number of places that can be scanned in the time of reading one segment.
  private final val PlacesForOne = 8192L

  // The maximum range of segment numbers for a scan of places: one bit each.
  private final val MostApart = 1L << 25

  /** True if reading segments is cheaper than scanning the places of all records. */
  private def isReadRather(segments: Array[Long], all: Long): Boolean =
    segments.length * PlacesForOne < all || segments.last - segments.head > MostApart

  private val IdSchema = new StructType().add("segment", LongType, nullable = false)
  private val DataSchema = new StructType().add("data", BinaryType, nullable = false)

  /** An immutable version of a family's segments. */
  final case class Version private[Segments] (alive: SegmentList.Version, next: Long) {

    /** The memory in use. */
    def footprint: Long = alive.footprint
  }

  object Version {
    val empty: Version = Version(SegmentList.empty, 0L)
  }

  private def longsOf(data: UnsafeRow): Array[Long] = {
    val longs = new Array[Long](SegmentBody.lengthOf(data) / 8)
    val from = SegmentBody.startOf(data)
    Platform.copyMemory(data.getBaseObject, from, longs, Platform.LONG_ARRAY_OFFSET.toLong, 8L * longs.length)
    longs
  }

  final class Batch

  /** @param owner
    *   the batch that may change it
    * @param marked
    *   whether marks for its removed records have been written
    */
  private[state] final class Segment(val id: Long, val bytes: Int, val owner: Batch, marked: Boolean) {
    var isMarked: Boolean = marked
    var count = 0
    var remaining = 0
    var gone: Array[Long] = Array.emptyLongArray

    def holds(all: Int): Unit = {
      count = all
      remaining = all - gone.map(java.lang.Long.bitCount).sum
    }

    def footprint: Long = 96L + 8L * gone.length

    def isGone(slot: Int): Boolean = gone.length > (slot >> 6) && (gone(slot >> 6) >> slot & 1L) == 1L

    def remove(slot: Int): Unit = {
      if (gone.isEmpty) gone = new Array[Long]((count + 63) >> 6)
      gone(slot >> 6) |= 1L << slot
      remaining -= 1
    }

    def copy(by: Batch): Segment = {
      val copied = new Segment(id, bytes, by, isMarked)
      copied.gone = gone.clone()
      copied.count = count
      copied.remaining = remaining
      copied
    }
  }
}
