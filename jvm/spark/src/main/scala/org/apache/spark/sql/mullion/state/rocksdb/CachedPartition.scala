package org.apache.spark.sql.mullion.state.rocksdb

import scala.util.Using

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.mullion.state.btree.{Place, RecordsFamily, VersionedBTree, WriteBack}
import org.apache.spark.sql.mullion.state.packed.Segments
import org.apache.spark.sql.mullion.state.record.{
  BorrowedRow,
  Family,
  FamilyScan,
  FamilySpec,
  RecordCounts,
  RemovingScan,
  StatePartition
}

/** State in RocksDB whose records are also cached in memory, as long as there is room.
  *
  * {{{
  *   open      the version is in memory, or is read from RocksDB once
  *   batch     get, scan  <-  memory        put, remove  ->  memory, acquired before use
  *   no room   all -> RocksDB, record by record; from then on only there
  *   commit    changes -> RocksDB, which commits; the content of memory is the next version
  *   failure   the content of memory is dropped, and read from RocksDB again
  * }}}
  *
  * Most lookups are of panes that the previous batch wrote; and a pane that opens and closes in one batch is never
  * written.
  *
  * @param id
  *   of the version that was opened
  * @param start
  *   the cached content of the version that was opened, and the available memory
  */
private[state] final class CachedPartition(
    under: RocksDbPartition,
    families: Seq[FamilySpec],
    version: Long,
    id: Option[String],
    start: CachedRecords.Here
) extends StatePartition {
  private val share = start.share
  private val counts = new RecordCounts
  private val opened = families.map(spec => spec.name -> new CachedFamily(spec)).toMap
  private var before = Option.when(start.keepsBefore)(
    new CachedRecords.Before(
      version,
      id,
      families,
      opened.map { case (name, family) => name -> family.records.version() },
      start.contents.segments
    )
  )
  private var isHot = true
  // The memory of all records.
  private var footprint = 0L
  opened.valuesIterator.foreach(_.recount())
  // After memory is released: the number of records then, plus added ones, less those that RocksDB has counted.
  private var addedThen = 0L
  private var large = Option.empty[CachedRecords.TooLarge]
  private var cachedBytes = Option.empty[Long]

  override def family(spec: FamilySpec): Family = opened(spec.name)

  override def rowsRead: Long = counts.read + under.rowsRead

  override def rowsAdded: Long = if (isHot) counts.added else addedThen + under.rowsAdded

  override def bytesInMemory: Option[Long] = cachedBytes

  override def commit(): Unit = {
    if (isHot) opened.valuesIterator.foreach(_.write())
    under.commit()
    if (isHot) cachedBytes = under.hot.keep(version + 1, under.committedId, contents, before, share)
    else {
      large.foreach(was => under.hot.letGo(was.copy(records = was.records.map(_ + under.rowsAdded))))
      share.shrink(0L)
    }
  }

  override def abort(): Unit = share.shrink(0L)

  override def store: StateStore = under.store

  override def checkInvariants(): Unit = if (isHot) {
    opened.valuesIterator.foreach(_.recount())
    val taken = opened.valuesIterator.map(_.records.footprint).sum
    def failed(what: String) = throw new IllegalStateException(what)
    if (footprint != taken) failed(s"records are said to take $footprint bytes, and take $taken")
    if (footprint > share.bytes) failed(s"records take $footprint bytes, of which ${share.bytes} are acquired")
    opened.valuesIterator.foreach(_.checkInvariants())
  }

  private def contents = CachedRecords.Contents(
    opened.map { case (name, family) => name -> family.records },
    opened.map { case (name, family) => name -> family.segments.version }
  )

  /** True if there is memory for this number of additional bytes. */
  private def hasRoomFor(more: Long): Boolean = footprint + more <= share.bytes || share.covers(footprint + more) || {
    before.isDefined && {
      // The initial version is released first.
      before = None
      opened.valuesIterator.foreach { family =>
        family.records.forgetVersions()
        family.recount()
      }
      share.covers(footprint + more)
    }
  }

  /** Moves all records to RocksDB, for lack of memory. */
  private def cool(): Unit = {
    val all = contents
    opened.valuesIterator.foreach(_.spread())
    isHot = false
    addedThen = counts.added - under.rowsAdded
    large = Some(CachedRecords.TooLarge(Some(all.size - under.rowsAdded), all.recordBytes, all.footprint))
  }

  private final class CachedFamily(spec: FamilySpec) extends Family {
    lazy val segments: Segments = under.segments(spec, start.contents.segmentsOf(spec.name))
    private val inStore = under.family(spec)
    val records: VersionedBTree = start.contents.recordsOf(spec)
    records.writesTo(segments)
    private val inMemory = new RecordsFamily(spec, records, counts)
    private var counted = 0L

    private def read: Family = if (isHot) inMemory else inStore

    override def get(key: UnsafeRow): BorrowedRow = read.get(key)

    override def look(key: UnsafeRow): BorrowedRow = read.look(key)

    override def findsManyAtOnce: Boolean = read.findsManyAtOnce

    override def expect(keys: Array[UnsafeRow]): Unit = read.expect(keys)

    override def insert(key: UnsafeRow, value: UnsafeRow): Unit = {
      if (isHot && !hasRoomFor(records.leastOf(key, value))) cool()
      if (isHot) {
        inMemory.insert(key, value)
        grew()
      } else inStore.insert(key, value)
    }

    override def update(key: UnsafeRow, value: UnsafeRow): Unit = {
      if (isHot && !hasRoomFor(records.leastOf(key, value))) cool()
      if (isHot) {
        inMemory.update(key, value)
        grew()
      } else inStore.update(key, value)
    }

    override def remove(key: UnsafeRow): Unit =
      if (isHot) {
        inMemory.remove(key)
        grew()
      } else inStore.remove(key)

    /** Recounts the memory of records, because scans have ended since the last count. */
    def recount(): Unit = {
      val taken = records.footprint
      footprint += taken - counted
      counted = taken
    }

    private def grew(): Unit = {
      recount()
      if (footprint > share.bytes && !hasRoomFor(0L)) cool()
    }

    override def scan(from: Long): RemovingScan = scanned(read.scan(from))

    override def all(): RemovingScan = scanned(read.all())

    /** Registers a scan, whose records stay until its end. */
    private def scanned(scan: RemovingScan): RemovingScan =
      if (!isHot) scan
      else {
        grew()
        new InMemory(scan)
      }

    /** A scan over records in memory, which may be released meanwhile. */
    private final class InMemory(scan: RemovingScan) extends RemovingScan {
      private var removes = false

      override def next(): Boolean = scan.next()
      override def key: BorrowedRow = scan.key
      override def value: BorrowedRow = scan.value

      override def remove(): Unit =
        if (isHot) {
          scan.remove()
          removes = true
          grew()
        } else inStore.remove(scan.key.untilNextCall)

      override def close(): Unit = {
        scan.close()
        // The rest of a leaf may be larger, with its spare room.
        if (isHot && removes) grew()
      }
    }

    override def range(from: UnsafeRow, until: UnsafeRow): FamilyScan = read.range(from, until)

    override def look(from: UnsafeRow, until: UnsafeRow): FamilyScan = read.look(from, until)

    def checkInvariants(): Unit = {
      records.checkInvariants()
      segments.checkInvariants(records.places)
    }

    private def anew = new Segments.WrittenAnew {
      override def of(key: UnsafeRow): Unit = inMemory.writeAnew(key)
      override def in(segments: Array[Long]): Unit = records.writeAnew(segments)
    }

    /** Writes the changes. */
    def write(): Unit = {
      segments.tidy(records.hasUnwritten, records.size)(anew)
      records.write()
      segments.flush()
    }

    /** Writes all records under their own keys. */
    def spread(): Unit = {
      records.leaveFor(new CachedPartition.OneByOne(spec, inStore))
      segments.clear()
    }
  }
}

private[state] object CachedPartition {

  /** A partition that a task opened, with its cached content. */
  def apply(
      under: RocksDbPartition,
      families: Seq[FamilySpec],
      version: Long,
      id: Option[String],
      limit: Long
  ): StatePartition = {
    def hot(here: CachedRecords.Here) = new CachedPartition(under, families, version, id, here)
    def cold = new ColdPartition(under, spread(under, families))
    under.hot.open(version, id, limit, under.recordsIn(families)) match {
      case here: CachedRecords.Here                  => hot(here)
      case CachedRecords.NotRead(share, keepsBefore) =>
        readAll(under, families, share) match {
          case Right(contents) => hot(CachedRecords.Here(contents, share, keepsBefore))
          case Left(large)     =>
            share.shrink(0L)
            under.hot.letGo(large)
            cold
        }
      case CachedRecords.NoRoom => cold
    }
  }

  /** A partition opened read-only, outside of a query: entirely in memory, because segments can only be read there. */
  def look(under: RocksDbPartition, families: Seq[FamilySpec], version: Long): StatePartition = {
    val share = CacheMemory.Share.unlimited
    readAll(under, families, share) match {
      case Right(contents) =>
        val here = CachedRecords.Here(contents, share, keepsBefore = false)
        new CachedPartition(under, families, version, None, here)
      case Left(_) => under
    }
  }

  /** The records of a family in segments, read-only; see [[Segments.records]]. */
  def inSegments(under: RocksDbPartition, spec: FamilySpec)(
      closing: AutoCloseable => Unit
  ): Iterator[(UnsafeRow, UnsafeRow)] = under.segments(spec, Segments.Version.empty).records(closing)

  /** All records, unless there is no room for them. */
  private def readAll(
      under: RocksDbPartition,
      families: Seq[FamilySpec],
      share: CacheMemory.Share
  ): Either[CachedRecords.TooLarge, CachedRecords.Contents] = {
    var fits = true
    // Only of the families that are read.
    var footprint = 0L
    var count = 0L
    val read = families.map { spec =>
      val segments = under.segments(spec, Segments.Version.empty)
      val records = CachedRecords.none(spec)
      val inMemory = new RecordsFamily(spec, records, new RecordCounts)
      def take(key: UnsafeRow, value: UnsafeRow, place: Place) = {
        fits = share.covers(footprint + records.footprint + records.leastOf(key, value))
        if (fits) {
          inMemory.read(key, value, place)
          fits = share.covers(footprint + records.footprint)
        }
        fits
      }
      if (fits) segments.readAll((place, key, value) => take(key, value, place))
      Using.resource(under.family(spec).all()) { scan =>
        while (fits && scan.next()) take(scan.key.untilNextCall, scan.value.untilNextCall, Place.Alone)
      }
      footprint += records.footprint
      count += records.size
      spec.name -> ((records, segments.version))
    }.toMap
    Either.cond(
      fits,
      CachedRecords
        .Contents(read.map { case (name, of) => name -> of._1 }, read.map { case (name, of) => name -> of._2 }),
      CachedRecords.TooLarge(None, footprint / Math.max(1L, count), footprint)
    )
  }

  /** Rewrites segments, written while there was room, as records under their own keys. Returns their number. */
  private def spread(under: RocksDbPartition, families: Seq[FamilySpec]): Long = {
    var spread = 0L
    families.foreach { spec =>
      val segments = under.segments(spec, Segments.Version.empty)
      val family = under.family(spec)
      segments.readAll { (_, key, value) =>
        family.insert(key, value)
        spread += 1
        true
      }
      segments.clear()
    }
    spread
  }

  /** Each record under its own key. */
  private final class OneByOne(spec: FamilySpec, inStore: Family) extends WriteBack.Places {
    override val key: UnsafeRow = new UnsafeRow(spec.key.length)
    override val value: UnsafeRow = new UnsafeRow(spec.value.length)

    override def overwrites: Boolean = true

    override def removeAlone(): Unit = inStore.remove(key)

    // Unreachable: no record is in a segment.
    override def remove(place: Place): Unit = throw new IllegalStateException(
      s"${spec.name} has no place ${place.number}"
    )

    override def write(): Place = {
      inStore.insert(key, value)
      Place.Alone
    }
  }

  /** State in RocksDB alone, for lack of memory.
    *
    * @param spread
    *   the number of records older than this batch that RocksDB has counted as new
    */
  private final class ColdPartition(under: RocksDbPartition, spread: Long) extends StatePartition {
    override def family(spec: FamilySpec): Family = under.family(spec)
    override def rowsRead: Long = under.rowsRead
    override def rowsAdded: Long = under.rowsAdded - spread
    override def store: StateStore = under.store
    override def abort(): Unit = ()

    override def commit(): Unit = {
      under.commit()
      under.hot.added(rowsAdded)
    }
  }
}
