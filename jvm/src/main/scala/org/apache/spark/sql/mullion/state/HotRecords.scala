package org.apache.spark.sql.mullion.state

import scala.collection.mutable

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreConf, StateStoreProviderId}

import dev.mullion.MullionException

/** The records of this executor's partitions of state in RocksDB that are in memory too, each the whole of one version.
  *
  * {{{
  *   partition 0   version 7    12 MB      all that there is: a key that is not found here is not in RocksDB either
  *   partition 1   version 7    11 MB
  *   partition 2   too large               read from RocksDB, until it is half of what it may be
  * }}}
  *
  * Only the newest version is kept, and a batch changes it where it lies: none else has it then, and a batch that runs
  * again, or beside another attempt, reads its own from RocksDB.
  */
private[state] object HotRecords {
  val Setting = "spark.sql.streaming.stateStore.mullion.hotBytes"

  /** What all partitions of an executor take together, in bytes, unless said: a fifth of its heap. */
  private def unlessSaid: Long = Runtime.getRuntime.maxMemory / 5

  private val partitions = mutable.HashMap.empty[StateStoreProviderId, Kept]

  /** What a partition holds, and how it is written, by kind of record. */
  final case class Contents(records: Map[String, SortedRecords], segments: Map[String, Segments.Version]) {
    def recordsOf(family: FamilySpec): SortedRecords = records.getOrElse(family.name, none(family))

    def segmentsOf(family: String): Segments.Version = segments.getOrElse(family, Segments.Version.empty)

    /** How many records there are. */
    def size: Long = records.valuesIterator.map(_.size).sum

    /** What they take in memory. */
    def bytes: Long = records.valuesIterator.map(r => SortedRecords.bytesOf(r.size, r.bytes)).sum
  }

  object Contents {
    val empty: Contents = Contents(Map.empty, Map.empty)
  }

  /** No records yet. */
  def none(family: FamilySpec): SortedRecords =
    new SortedRecords(hasPlaces = true, exact = RecordsFamily.isExact(family))

  private sealed trait Kept {
    def bytes: Long
  }

  private final case class Whole(
      version: Long,
      name: Option[String],
      contents: Contents,
      bytes: Long
  ) extends Kept

  /** What a task works on, or did when it failed. */
  private final case class InUse(bytes: Long) extends Kept

  private final case class TooLarge(records: Option[Long], recordBytes: Long) extends Kept {
    override def bytes: Long = 0L
  }

  /** What a task that opens a version finds. */
  sealed trait Found
  final case class Here(contents: Contents, room: Long) extends Found
  final case class NotRead(room: Long) extends Found
  case object NoRoom extends Found

  def limit(conf: StateStoreConf): Long = conf.sqlConfs.get(Setting).fold(unlessSaid) { said =>
    try JavaUtils.byteStringAsBytes(said.trim)
    catch {
      case _: NumberFormatException =>
        throw MullionException.invalid(
          s"$Setting=$said is not a number of bytes: say how much of an executor's memory the records of state in RocksDB " +
            "may take besides, such as '512m', or 0 for none (it is a fifth of the heap if not said)."
        )
    }
  }

  /** Whether it has a version of a partition. */
  def holds(id: StateStoreProviderId, version: Long, name: Option[String]): Boolean = synchronized {
    partitions.get(id).exists {
      case Whole(`version`, `name`, _, _) => true
      case _                              => false
    }
  }

  def find(id: StateStoreProviderId, version: Long, name: Option[String], limit: Long): Found = synchronized {
    // What Spark has unloaded, because its query ended or another executor has it, is not asked for again.
    partitions.filterInPlace { case (other, _) => other == id || StateStore.isLoaded(other) }
    val room = limit - partitions.iterator.collect { case (other, kept) if other != id => kept.bytes }.sum
    partitions.get(id) match {
      case _ if room <= 0 =>
        // What is held of it is of a version that no batch will ask for, and others may have use for the room.
        partitions.remove(id)
        NoRoom
      case Some(Whole(`version`, `name`, contents, bytes)) =>
        partitions(id) = InUse(bytes)
        Here(contents, room)
      case Some(TooLarge(records, each)) if !fits(records, each, room) => NoRoom
      case _ if version == 0                                           => Here(Contents.empty, room)
      case _                                                           => NotRead(room)
    }
  }

  private def fits(records: Option[Long], recordBytes: Long, room: Long) =
    records.exists(n => n * recordBytes < room / 2)

  def keep(
      id: StateStoreProviderId,
      version: Long,
      name: Option[String],
      contents: Contents
  ): Unit = synchronized { partitions(id) = Whole(version, name, contents, contents.bytes) }

  /** Remembers that a partition has too much, so that not each batch tries to read it.
    *
    * @param records
    *   how many there are, if that is known
    * @param recordBytes
    *   what one takes
    */
  def letGo(id: StateStoreProviderId, records: Option[Long], recordBytes: Long): Unit = synchronized {
    partitions(id) = TooLarge(records, recordBytes)
  }

  /** Counts what a batch added to a partition that has too much. */
  def added(id: StateStoreProviderId, records: Long): Unit = synchronized {
    partitions.get(id) match {
      case Some(TooLarge(was, each)) => partitions(id) = TooLarge(was.map(_ + records), each)
      case _                         =>
    }
  }
}
