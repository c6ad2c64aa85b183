package org.apache.spark.sql.mullion.state.segments

import java.util.{ArrayList, Arrays}

import scala.util.Using

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{NoPrefixKeyStateEncoderSpec, StateStore}
import org.apache.spark.sql.mullion.state.memory.{Place, WriteBack}
import org.apache.spark.sql.mullion.state.records.{Family, FamilySpec, RecordBytes, RecordCounts}
import org.apache.spark.sql.types.{BinaryType, LongType, StructType}
import org.apache.spark.unsafe.Platform

/** How the records of a family that are in memory lie in RocksDB: many in a segment, which is written once.
  *
  * {{{
  *   segment 7   [k v][k v][k v][k v]      what a batch changed, in order, up to 32 KB of it
  *   gone 7        .    x    .    x        which of them have since been removed, or written anew elsewhere
  *   segment 8   [k v][k v]
  * }}}
  *
  * So a batch puts hundreds of records with one call, and removes as many with none: what was written together mostly
  * goes together, and of a segment that is all gone two keys are removed. Where less than a quarter is left of one,
  * that is written anew with what the batch changed; so is the last one, if it is small.
  *
  * Attempts of a task leave the same records, but perhaps in other segments. So the files of two attempts must not be
  * mixed: a version is read by the id of its attempt, see the package `attempts`.
  *
  * A place is a segment's number and a record's number in it. What lies in segments can be looked up in memory alone:
  * where there is no room for that, records lie under keys of their own.
  *
  * @param alone
  *   the records that lie under keys of their own
  * @param from
  *   what is written; segments are copied before they change, for attempts of one batch start from the same
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
  // Says which segments are this batch's own. They outlive it, so it is nothing that holds on to a store.
  private val batch = new Segments.Batch
  private val touched = new ArrayList[Segment]
  // Where the last record went.
  private var last = new Segment(-1L, 0, batch, marked = false)
  private val idRow = UnsafeRow.createFromByteArray(16, 1)
  private val body = new SegmentBody
  private val dataRow = new UnsafeRow(1)
  // The segment that is being written, behind room for the header of a row, and how much of it there is.
  private var buffer = new Array[Byte](Room)
  private var end = Header
  private var count = 0

  Seq(bodies, marks).foreach { name =>
    store.createColFamilyIfAbsent(name, IdSchema, DataSchema, NoPrefixKeyStateEncoderSpec(IdSchema))
  }

  /** What is written, for the next batch to go on from. */
  def version: Version = Version(alive.version, next)

  /** All records that lie in segments, one segment after another, for a look: a partition may be larger than memory. A
    * record stands until the next one. `closing` is given what is to be closed in the end.
    */
  def records(closing: AutoCloseable => Unit): Iterator[(UnsafeRow, UnsafeRow)] = {
    val gone = readMarks()
    val rows = store.iterator(bodies)
    closing(rows)
    rows.flatMap { row =>
      val segment = new Segment(row.key.getLong(0), SegmentBody.sizeOf(row.value), batch, marked = false)
      gone.get(segment.id).foreach(segment.gone = _)
      left(row.value, segment)
    }
  }

  /** The records of a segment that are left. */
  private def left(row: UnsafeRow, segment: Segment): Iterator[(UnsafeRow, UnsafeRow)] = {
    body.open(row)
    // Each is read when the one before it has been used.
    Iterator
      .unfold(0)(slot => Option.when(body.next(key, value))((!segment.isGone(slot), slot + 1)))
      .filter(identity)
      .map(_ => (key, value))
  }

  private def readMarks(): Map[Long, Array[Long]] =
    Using.resource(store.iterator(marks))(_.map(row => row.key.getLong(0) -> longsOf(row.value)).toMap)

  /** Reads all records, with their places, until `take` says that it wants no more; whether it wanted all. */
  def readAll(take: (Place, UnsafeRow, UnsafeRow) => Boolean): Boolean = {
    val gone = readMarks()
    var wanted = true
    val found = Array.newBuilder[Segment]
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
        found += segment
        next = Math.max(next, id + 1)
      }
    }
    alive = new SegmentList(SegmentList.of(found.result().sortBy(_.id)))
    wanted
  }

  override def overwrites: Boolean = false

  override def remove(place: Place): Unit = {
    if (last.id != place.segment) last = own(place.segment)
    last.remove(place.slot)
  }

  override def removeAlone(): Unit = alone.remove(key)

  /** Puts away what is gone, before anything is written. The records that are left in segments that are given up are to
    * be written anew.
    *
    * @param more
    *   whether records will be written, so that a last segment that is small can go with them
    * @param all
    *   how many records there are
    */
  def tidy(more: Boolean, all: Long)(anew: WrittenAnew): Unit = {
    val givenUp = new ArrayList[Segment]
    touched.forEach { segment =>
      if (segment.left == 0) drop(segment)
      else if (segment.left < segment.count / 4) { givenUp.add(segment); () }
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

  /** Puts the last segment, once all is written. */
  def flush(): Unit = if (count > 0) {
    put(bodies, next, body.of(buffer, end))
    val segment = new Segment(next, end - Header, batch, marked = false)
    segment.holds(count)
    alive.add(segment)
    next += 1
    count = 0
    end = Header
    // One large record is no reason to hold on to its room.
    if (buffer.length > 2 * Full) buffer = new Array[Byte](Room)
  }

  /** Fails if records do not lie where they say, by the places of all records in memory. */
  def checkInvariants(places: Iterator[Place]): Unit = {
    def require(holds: Boolean, what: => String): Unit =
      if (!holds) throw new IllegalStateException(s"${spec.name}: $what")
    val slots = places.filter(_.isInSegment).map(place => place.segment -> place.slot).toSeq.groupMap(_._1)(_._2)
    val known = List.newBuilder[Long]
    alive.foreach { segment =>
      known += segment.id
      val here = slots.getOrElse(segment.id, Nil)
      require(here.distinct.size == here.size, s"records in one place of segment ${segment.id}")
      require(here.size == segment.left, s"${here.size} records of ${segment.left} in segment ${segment.id}")
      require(here.forall(slot => slot < segment.count && !segment.isGone(slot)), s"gone from segment ${segment.id}")
    }
    val ids = known.result()
    require(slots.keySet.subsetOf(ids.toSet), "records in a segment that is gone")
    require(ids == ids.sorted && ids.forall(_ < next), s"segments $ids")
  }

  /** Removes all segments. */
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

  /** Goes through a segment with `key` and `value` on each record that is left; how many it has in all. */
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

  // How many bytes of records fill a segment.
  private final val Full = 32 * 1024
  private final val Room = Header + Full

  /** Has records written anew that have not changed. */
  trait WrittenAnew {

    /** The record of a key. */
    def of(key: UnsafeRow): Unit

    /** All records that lie in some segments, by the numbers of these, in order: looks at the places of all there are.
      */
    def in(segments: Array[Long]): Unit
  }

  // How many places are looked at in the time that it takes to read a segment.
  private final val PlacesForOne = 8192L

  // How far the numbers of segments may be apart that are looked for among places: a bit for each.
  private final val MostApart = 1L << 25

  /** True if segments are better read than looked for among the places of all records. */
  private def isReadRather(segments: Array[Long], all: Long): Boolean =
    segments.length * PlacesForOne < all || segments.last - segments.head > MostApart

  private val IdSchema = new StructType().add("segment", LongType, nullable = false)
  private val DataSchema = new StructType().add("data", BinaryType, nullable = false)

  /** All segments of a family, as a batch left them. */
  final case class Version private[Segments] (alive: SegmentList.Version, next: Long) {

    /** What is known of them takes in memory. */
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
    *   whether it is written which of its records are gone
    */
  private[state] final class Segment(val id: Long, val bytes: Int, val owner: Batch, marked: Boolean) {
    var isMarked: Boolean = marked
    var count = 0
    var left = 0
    var gone: Array[Long] = Array.emptyLongArray

    def holds(all: Int): Unit = {
      count = all
      left = all - gone.map(java.lang.Long.bitCount).sum
    }

    def footprint: Long = 96L + 8L * gone.length

    def isGone(slot: Int): Boolean = gone.length > (slot >> 6) && (gone(slot >> 6) >> slot & 1L) == 1L

    def remove(slot: Int): Unit = {
      if (gone.isEmpty) gone = new Array[Long]((count + 63) >> 6)
      gone(slot >> 6) |= 1L << slot
      left -= 1
    }

    def copy(by: Batch): Segment = {
      val copied = new Segment(id, bytes, by, isMarked)
      copied.gone = gone.clone()
      copied.count = count
      copied.left = left
      copied
    }
  }
}
