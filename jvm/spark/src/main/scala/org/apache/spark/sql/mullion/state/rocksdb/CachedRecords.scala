package org.apache.spark.sql.mullion.state.rocksdb

import org.apache.spark.sql.mullion.state.btree.{ImplicitKeys, VersionedBTree}
import org.apache.spark.sql.mullion.state.packed.Segments
import org.apache.spark.sql.mullion.state.record.FamilySpec

/** The cached records of one partition of state in RocksDB between tasks: one complete version, owned by its provider
  * ([[CachedRocksDbProvider]]).
  *
  * {{{
  *   slot        version 7    12 MB      complete: a key that is not found here is not in RocksDB either
  *   too large                           served from RocksDB, until it is half of the available memory
  * }}}
  *
  * Only the newest version is slot, and a batch changes it in place: it is not shared then, and a failed attempt drops
  * it. Once a version has been requested twice, because a batch's plan runs several times, the version before the batch
  * is slot too. The two share unchanged records.
  */
private[state] final class CachedRecords {
  import CachedRecords._

  private val slot = new CacheMemory.Slot[Version]
  @volatile private var tooLarge = Option.empty[TooLarge]
  @volatile private var repeats = false

  /** True if it has a version. */
  def holds(version: Long, name: Option[String]): Boolean = slot.value.exists(_.holds(version, name))

  /** Takes the cached content, for a task that opens a version.
    *
    * @param limit
    *   for all partitions of the executor
    * @param records
    *   the version's number of records, if known
    */
  def open(version: Long, name: Option[String], limit: Long, records: => Option[Long]): Found = {
    val cached = slot.take()
    def here = for {
      (was, share) <- cached if limit > 0 && share.bytes <= limit
      (contents, isBefore) <- was.contentsOf(version, name)
    } yield Here(contents, share, repeats || isBefore)
    here.getOrElse {
      cached.foreach { case (was, share) =>
        share.shrink(0L)
        if (was.version == version + 1) repeats = true
      }
      val share = CacheMemory.Share(limit)
      if (limit <= 0) NoRoom
      else if (version == 0) Here(Contents.empty, share, repeats)
      else if (!mayFit(records, share.room)) NoRoom
      else NotRead(share, repeats)
    }
  }

  private def mayFit(records: => Option[Long], room: Long): Boolean = tooLarge match {
    case Some(large) => records.orElse(large.records).fold(large.bytes)(_ * large.recordBytes) < room / 2
    case None        => records.forall(_ * LeastRecordBytes < room)
  }

  /** Keeps a version for the next task, if there is room for it. Returns its size in bytes. */
  def keep(
      version: Long,
      name: Option[String],
      contents: Contents,
      before: Option[Before],
      share: CacheMemory.Share
  ): Option[Long] = {
    val bytes = contents.footprint
    val isKept = slot.put(new Version(version, name, contents, before), bytes, share)
    tooLarge = Option.when(!isKept)(TooLarge(Some(contents.size), contents.recordBytes, bytes))
    Option.when(isKept)(bytes)
  }

  /** Records that the content is too large, so that not every batch tries to read it. */
  def letGo(large: TooLarge): Unit = tooLarge = Some(large)

  /** Counts the records that a batch added to content that is too large. */
  def added(records: Long): Unit = tooLarge =
    tooLarge.map(large => large.copy(records = large.records.map(_ + records)))

  def close(): Unit = slot.close()
}

private[state] object CachedRecords {
  // The minimum memory of a record: its numbers, its place, and the shortest key and value.
  private final val LeastRecordBytes = 44L

  /** The content of a partition and its places in RocksDB, by kind of record. */
  final case class Contents(records: Map[String, VersionedBTree], segments: Map[String, Segments.Version]) {
    def recordsOf(family: FamilySpec): VersionedBTree = records.getOrElse(family.name, none(family))

    def segmentsOf(family: String): Segments.Version = segments.getOrElse(family, Segments.Version.empty)

    /** The number of records. */
    def size: Long = records.valuesIterator.map(_.size).sum

    /** The memory of the records. */
    def footprint: Long =
      records.valuesIterator.map(_.footprint).sum + segments.valuesIterator.map(_.footprint).sum

    /** The average memory of a record. */
    def recordBytes: Long = if (size == 0) LeastRecordBytes else Math.max(LeastRecordBytes, footprint / size)
  }

  object Contents {
    val empty: Contents = Contents(Map.empty, Map.empty)
  }

  /** No records yet. */
  def none(family: FamilySpec): VersionedBTree =
    new VersionedBTree(hasPlaces = true, keyCodec = ImplicitKeys.of(family))

  private final class Version(
      val version: Long,
      name: Option[String],
      val contents: Contents,
      val before: Option[Before]
  ) {
    private def is(version: Long, name: Option[String]) = this.version == version && this.name == name

    def holds(version: Long, name: Option[String]): Boolean =
      is(version, name) || before.exists(_.is(version, name))

    /** The initial content for a batch that opens a version, and whether it is the previous version. */
    def contentsOf(version: Long, name: Option[String]): Option[(Contents, Boolean)] =
      if (is(version, name)) Some(contents -> false)
      else before.filter(_.is(version, name)).map(_.contents -> true)
  }

  /** The version before a batch, which shares unchanged records with the next one. */
  final class Before(
      version: Long,
      name: Option[String],
      families: Seq[FamilySpec],
      records: Map[String, VersionedBTree.Version],
      segments: Map[String, Segments.Version]
  ) {
    def is(version: Long, name: Option[String]): Boolean = this.version == version && this.name == name

    /** For a batch to start from. */
    def contents: Contents = Contents(
      families.map { spec =>
        spec.name -> new VersionedBTree(records(spec.name), hasPlaces = true, keyCodec = ImplicitKeys.of(spec))
      }.toMap,
      segments
    )
  }

  /** The cached content for a task that opens a version: `share` is the memory that it may use, `keepsBefore` whether
    * the version may be requested again.
    */
  sealed trait Found
  final case class Here(contents: Contents, share: CacheMemory.Share, keepsBefore: Boolean) extends Found
  final case class NotRead(share: CacheMemory.Share, keepsBefore: Boolean) extends Found
  case object NoRoom extends Found

  /** @param records
    *   their number, if counted
    * @param recordBytes
    *   the size of one
    * @param bytes
    *   their minimum total size
    */
  final case class TooLarge(records: Option[Long], recordBytes: Long, bytes: Long)
}
