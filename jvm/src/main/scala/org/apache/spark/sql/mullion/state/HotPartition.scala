package org.apache.spark.sql.mullion.state

import scala.util.Using

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProviderId}

/** State in RocksDB whose records are in memory too, while there is room.
  *
  * {{{
  *   open      the version is in memory, or is read from RocksDB once
  *   batch     get, scan  <-  memory        put, remove  ->  memory
  *   no room   all -> RocksDB, record by record; from here on all is there
  *   commit    what has changed -> RocksDB, which commits; what is in memory is the next version
  *   failure   what is in memory is let go, and read from RocksDB again
  * }}}
  *
  * Most lookups are of panes that the batch before wrote; and a pane that a batch adds to and closes is never written.
  *
  * @param names
  *   of the version that was opened and of the next
  * @param room
  *   how many bytes there are for the partition
  * @param inSegments
  *   whether what has changed is written in [[Segments]], and not record by record
  */
private[state] final class HotPartition(
    under: RocksDbPartition,
    families: Seq[FamilySpec],
    id: StateStoreProviderId,
    version: Long,
    names: VersionNames,
    start: HotRecords.Contents,
    room: Long,
    inSegments: Boolean
) extends StatePartition {
  import HotPartition._

  private val counts = new RecordCounts
  private val opened = families.map(spec => spec.name -> new HotFamily(spec)).toMap
  private val readBefore = under.rowsRead
  private var isHot = true
  private var untilLook = LookEvery
  // Once memory is let go: how many records there were and had been added, less what RocksDB had been told.
  private var recordsThen = 0L
  private var addedThen = 0L
  private var recordBytes = 0L

  override def family(spec: FamilySpec): Family = opened(spec.name)

  override def rowsRead: Long = counts.read + under.rowsRead - readBefore

  override def rowsAdded: Long = if (isHot) counts.added else addedThen + under.rowsAdded

  override def commit(): Unit = {
    if (isHot) opened.valuesIterator.foreach(_.write())
    names.committing()
    under.commit()
    val name = names.committed()
    if (isHot) HotRecords.keep(id, version + 1, name, contents)
    else HotRecords.letGo(id, Some(recordsThen + under.rowsAdded), recordBytes)
  }

  override def stores: Seq[StateStore] = under.stores

  private def contents = HotRecords.Contents(
    opened.map { case (name, family) => name -> family.records },
    opened.collect { case (name, family) if inSegments => name -> family.segments.version }
  )

  private def grew(): Unit = {
    untilLook -= 1
    if (untilLook == 0) {
      untilLook = LookEvery
      if (opened.valuesIterator.map(_.bytes).sum > room) {
        val all = contents
        opened.valuesIterator.foreach(_.spread())
        isHot = false
        addedThen = counts.added - under.rowsAdded
        recordsThen = all.size - under.rowsAdded
        recordBytes = all.bytes / all.size
      }
    }
  }

  private final class HotFamily(spec: FamilySpec) extends Family {
    lazy val segments: Segments = under.segments(spec, start.segmentsOf(spec.name))
    private val inStore = under.family(spec)
    val records: SortedRecords = start.recordsOf(spec)
    records.writesTo(if (inSegments) segments else new OneByOne(spec, inStore))
    private val inMemory = new RecordsFamily(spec, records, counts)

    def bytes: Long = SortedRecords.bytesOf(records.size, records.bytes)

    private def read: Family = if (isHot) inMemory else inStore

    override def get(key: UnsafeRow): UnsafeRow = read.get(key)

    override def look(key: UnsafeRow): UnsafeRow = read.look(key)

    override def insert(key: UnsafeRow, value: UnsafeRow): Unit =
      if (isHot) {
        inMemory.insert(key, value)
        grew()
      } else inStore.insert(key, value)

    override def update(key: UnsafeRow, value: UnsafeRow): Unit =
      if (isHot) {
        inMemory.update(key, value)
        grew()
      } else inStore.update(key, value)

    override def remove(key: UnsafeRow): Unit = if (isHot) inMemory.remove(key) else inStore.remove(key)

    override def scan(from: Long): FamilyScan = read.scan(from)

    override def all(): FamilyScan = read.all()

    override def range(from: UnsafeRow, until: UnsafeRow): FamilyScan = read.range(from, until)

    /** Writes what has changed. */
    def write(): Unit = {
      if (inSegments) segments.tidy(records.hasUnwritten)(inMemory.writeAnew)
      removeLeft()
      records.write()
      if (inSegments) segments.flush()
    }

    /** Writes all under keys of their own. */
    def spread(): Unit = {
      removeLeft()
      records.writeNotAlone(new OneByOne(spec, inStore))
      if (inSegments) segments.clear()
    }

    private def removeLeft(): Unit = {
      val keyRow = new UnsafeRow(spec.key.length)
      records.foreachLeft { key =>
        keyRow.pointTo(key, key.length)
        inStore.remove(keyRow)
      }
    }
  }
}

private[state] object HotPartition {
  // How many changes go by before it is asked again whether there is still room.
  private final val LookEvery = 1024

  /** A partition that a task opened, with what is in memory of it. */
  def apply(
      under: RocksDbPartition,
      families: Seq[FamilySpec],
      id: StateStoreProviderId,
      version: Long,
      names: VersionNames,
      limit: Long,
      inSegments: Boolean
  ): StatePartition = {
    def hot(contents: HotRecords.Contents, room: Long) =
      new HotPartition(under, families, id, version, names, contents, room, inSegments)
    def cold = new ColdPartition(under, id, names, spread(under, families))
    HotRecords.find(id, version, names.opened, limit) match {
      case HotRecords.Here(contents, room) => hot(contents, room)
      case HotRecords.NotRead(room)        =>
        if (!inSegments) spread(under, families)
        readAll(under, families, room, inSegments) match {
          case Some(contents) => hot(contents, room)
          case None           =>
            HotRecords.letGo(id, None, 0L)
            cold
        }
      case HotRecords.NoRoom => cold
    }
  }

  /** A partition that is opened for a look, outside of a query: all of it in memory, for there segments are read. */
  def look(
      under: RocksDbPartition,
      families: Seq[FamilySpec],
      id: StateStoreProviderId,
      version: Long
  ): StatePartition =
    readAll(under, families, Long.MaxValue, inSegments = true).fold[StatePartition](under) {
      new HotPartition(under, families, id, version, VersionNames.None, _, Long.MaxValue, inSegments = true)
    }

  /** All records, unless they take more than `room`. */
  private def readAll(
      under: RocksDbPartition,
      families: Seq[FamilySpec],
      room: Long,
      inSegments: Boolean
  ): Option[HotRecords.Contents] = {
    var left = room
    val read = families.map { spec =>
      val segments = Option.when(inSegments)(under.segments(spec, Segments.Version.empty))
      val records = HotRecords.none(spec)
      val inMemory = new RecordsFamily(spec, records, new RecordCounts)
      def take(key: UnsafeRow, value: UnsafeRow, place: Long) = {
        inMemory.read(key, value, place)
        left -= SortedRecords.bytesOf(1, key.getSizeInBytes.toLong + value.getSizeInBytes)
        left > 0
      }
      if (left > 0) segments.foreach(_.readAll((place, key, value) => take(key, value, place)))
      Using.resource(under.family(spec).all()) { scan =>
        while (left > 0 && scan.hasNext) {
          val record = scan.next()
          take(record.key, record.value, SortedRecords.Alone)
        }
      }
      spec.name -> ((records, segments.fold(Segments.Version.empty)(_.version)))
    }.toMap
    Option.when(left > 0) {
      HotRecords.Contents(read.map { case (name, of) => name -> of._1 }, read.map { case (name, of) => name -> of._2 })
    }
  }

  /** Puts what was written in segments, while there was room, under keys of its own; how many records that is. */
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
  private final class OneByOne(spec: FamilySpec, inStore: Family) extends SortedRecords.Places {
    override val key: UnsafeRow = new UnsafeRow(spec.key.length)
    override val value: UnsafeRow = new UnsafeRow(spec.value.length)

    override def overwrites: Boolean = true

    // None is anywhere else.
    override def remove(place: Long): Unit = throw new IllegalStateException(s"${spec.name} has no place $place")

    override def write(): Long = {
      inStore.insert(key, value)
      SortedRecords.Alone
    }
  }

  /** State in RocksDB alone, for want of room.
    *
    * @param spread
    *   how many records were there before this batch that RocksDB has been told of as if they were new
    */
  private final class ColdPartition(
      under: RocksDbPartition,
      id: StateStoreProviderId,
      names: VersionNames,
      spread: Long
  ) extends StatePartition {
    private val readBefore = under.rowsRead

    override def family(spec: FamilySpec): Family = under.family(spec)
    override def rowsRead: Long = under.rowsRead - readBefore
    override def rowsAdded: Long = under.rowsAdded - spread
    override def stores: Seq[StateStore] = under.stores

    override def commit(): Unit = {
      names.committing()
      under.commit()
      names.committed()
      HotRecords.added(id, rowsAdded)
    }
  }
}
