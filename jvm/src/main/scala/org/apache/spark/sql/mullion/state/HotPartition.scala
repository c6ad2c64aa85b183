package org.apache.spark.sql.mullion.state

import scala.util.Using

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProviderId}

/** State in RocksDB whose records are in memory too, while there is room.
  *
  * {{{
  *   open      the version is in memory, or is read from RocksDB once
  *   batch     get, scan  <-  memory        put, remove  ->  memory
  *   no room   what has changed -> RocksDB; from here on all is there
  *   commit    what has changed -> RocksDB, which commits; what is in memory is the next version
  * }}}
  *
  * Most lookups are of panes that the batch before wrote; and a pane that a batch adds to and closes is removed from
  * RocksDB without being put there first.
  *
  * @param room
  *   how many bytes there are for the partition
  */
private[state] final class HotPartition(
    under: RocksDbPartition,
    families: Seq[FamilySpec],
    id: StateStoreProviderId,
    version: Long,
    start: MemoryStateStoreProvider.Contents,
    room: Long
) extends StatePartition {
  import HotPartition._

  private val counts = new RecordCounts
  private val records = families.map(spec => spec.name -> new SortedRecords(start(spec.name), marks = true)).toMap
  private val opened = families.map(spec => spec.name -> new HotFamily(spec)).toMap
  private val readBefore = under.rowsRead
  private var isHot = true
  private var untilLook = LookEvery
  // Once memory is let go: how many records there were before this batch, and what one takes.
  private var recordsBefore = 0L
  private var recordBytes = 0L

  override def family(spec: FamilySpec): Family = opened(spec.name)

  override def rowsRead: Long = counts.read + under.rowsRead - readBefore

  override def rowsAdded: Long = if (isHot) counts.added else under.rowsAdded

  override def commit(): Unit = {
    if (isHot) opened.valuesIterator.foreach(_.drain())
    under.commit()
    if (isHot) {
      val info = under.stores.head.getStateStoreCheckpointInfo()
      HotRecords.keep(id, version + 1, info.stateStoreCkptId, contents)
    } else HotRecords.letGo(id, Some(recordsBefore + under.rowsAdded), recordBytes)
  }

  override def stores: Seq[StateStore] = under.stores

  private def contents = MemoryStateStoreProvider.Contents(records.map { case (name, r) => name -> r.version() })

  private def grew(): Unit = {
    untilLook -= 1
    if (untilLook == 0) {
      untilLook = LookEvery
      if (records.valuesIterator.map(r => SortedRecords.bytesOf(r.size, r.bytes)).sum > room) {
        opened.valuesIterator.foreach(_.drain())
        val all = contents
        isHot = false
        recordsBefore = all.size - under.rowsAdded
        recordBytes = all.bytes / all.size
      }
    }
  }

  private final class HotFamily(spec: FamilySpec) extends Family {
    private val inMemory = new RecordsFamily(spec, records(spec.name), counts)
    private val inStore = under.family(spec)

    private def read: Family = if (isHot) inMemory else inStore

    override def get(key: UnsafeRow): UnsafeRow = read.get(key)

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

    /** Brings RocksDB to where memory is. */
    def drain(): Unit = {
      val (keyRow, valueRow) = (new UnsafeRow(spec.key.length), new UnsafeRow(spec.value.length))
      def keyOf(bytes: Array[Byte]) = { keyRow.pointTo(bytes, bytes.length); keyRow }
      records(spec.name).drain(
        key => inStore.remove(keyOf(key)),
        (key, value, isNew) => {
          valueRow.pointTo(value, value.length)
          if (isNew) inStore.insert(keyOf(key), valueRow) else inStore.update(keyOf(key), valueRow)
        }
      )
    }

    override def scan(from: Long): FamilyScan = read.scan(from)

    override def all(): FamilyScan = read.all()

    override def range(from: UnsafeRow, until: UnsafeRow): FamilyScan = read.range(from, until)
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
      checkpointId: Option[String],
      limit: Long
  ): StatePartition = HotRecords.find(id, version, checkpointId, limit) match {
    case HotRecords.Here(contents, room) => new HotPartition(under, families, id, version, contents, room)
    case HotRecords.NotRead(room)        =>
      readAll(under, families, room) match {
        case Some(contents) => new HotPartition(under, families, id, version, contents, room)
        case None           =>
          HotRecords.letGo(id, None, 0L)
          under
      }
    case HotRecords.NoRoom => new ColdPartition(under, id)
  }

  /** All records, unless they take more than `room`. */
  private def readAll(
      under: RocksDbPartition,
      families: Seq[FamilySpec],
      room: Long
  ): Option[MemoryStateStoreProvider.Contents] = {
    var left = room
    val read = families.map { spec =>
      val records = new SortedRecords(SortedRecords.Version.empty)
      val inMemory = new RecordsFamily(spec, records, new RecordCounts)
      Using.resource(under.family(spec).all()) { scan =>
        while (left > 0 && scan.hasNext) {
          val record = scan.next()
          inMemory.insert(record.key, record.value)
          left -= SortedRecords.bytesOf(1, record.key.getSizeInBytes.toLong + record.value.getSizeInBytes)
        }
      }
      spec.name -> records.version()
    }
    Option.when(left > 0)(MemoryStateStoreProvider.Contents(read.toMap))
  }

  /** State in RocksDB alone, for want of room. */
  private final class ColdPartition(under: RocksDbPartition, id: StateStoreProviderId) extends StatePartition {
    override def family(spec: FamilySpec): Family = under.family(spec)
    override def rowsRead: Long = under.rowsRead
    override def rowsAdded: Long = under.rowsAdded
    override def stores: Seq[StateStore] = under.stores

    override def commit(): Unit = {
      under.commit()
      HotRecords.added(id, under.rowsAdded)
    }
  }
}
