package org.apache.spark.sql.mullion.state.store

import org.apache.spark.sql.mullion.state.memory.{SortedRecords, ToldKeys}
import org.apache.spark.sql.mullion.state.records.FamilySpec
import org.apache.spark.sql.mullion.state.segments.Segments

/** The records of one partition of state in RocksDB that are in memory too between the tasks that work on it: the whole
  * of one version. They are their provider's ([[HotRocksDbProvider]]).
  *
  * {{{
  *   kept        version 7    12 MB      all that there is: a key that is not found here is not in RocksDB either
  *   too large                           read from RocksDB, until it is half of what there is room for
  * }}}
  *
  * Only the newest version is kept, and a batch changes it where it lies: nobody else has it then, and an attempt that
  * fails lets it go. Where a version has been asked for once more, because a batch's plan runs several times, what it
  * was before the batch is kept as well from then on: the two share what the batch did not change.
  */
private[state] final class HotRecords {
  import HotRecords._

  private val kept = new HotMemory.Slot[Version]
  @volatile private var tooLarge = Option.empty[TooLarge]
  @volatile private var repeats = false

  /** True if it has a version. */
  def holds(version: Long, name: Option[String]): Boolean = kept.value.exists(_.holds(version, name))

  /** Takes out what is kept, for a task that opens a version.
    *
    * @param limit
    *   what all partitions of the executor may have
    * @param records
    *   how many the version has, if that is known
    */
  def open(version: Long, name: Option[String], limit: Long, records: => Option[Long]): Found = {
    val found = kept.take()
    def here = for {
      (was, share) <- found if limit > 0 && share.bytes <= limit
      (contents, isBefore) <- was.contentsOf(version, name)
    } yield Here(contents, share, repeats || isBefore)
    here.getOrElse {
      found.foreach { case (was, share) =>
        share.shrink(0L)
        if (was.version == version + 1) repeats = true
      }
      val share = HotMemory.Share(limit)
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

  /** Keeps a version for the next task, if there is room for it; how many bytes that takes. */
  def keep(
      version: Long,
      name: Option[String],
      contents: Contents,
      before: Option[Before],
      share: HotMemory.Share
  ): Option[Long] = {
    val bytes = contents.footprint
    val isKept = kept.put(new Version(version, name, contents, before), bytes, share)
    tooLarge = Option.when(!isKept)(TooLarge(Some(contents.size), contents.recordBytes, bytes))
    Option.when(isKept)(bytes)
  }

  /** Remembers that there is too much, so that not each batch tries to read it. */
  def letGo(large: TooLarge): Unit = tooLarge = Some(large)

  /** Counts what a batch added to what is too much. */
  def added(records: Long): Unit = tooLarge =
    tooLarge.map(large => large.copy(records = large.records.map(_ + records)))

  /** Frees what is kept. */
  def close(): Unit = kept.close()
}

private[state] object HotRecords {
  // What the numbers of a record and its place take, with the least of keys and values.
  private final val LeastRecordBytes = 44L

  /** What a partition holds, and how it is written, by kind of record. */
  final case class Contents(records: Map[String, SortedRecords], segments: Map[String, Segments.Version]) {
    def recordsOf(family: FamilySpec): SortedRecords = records.getOrElse(family.name, none(family))

    def segmentsOf(family: String): Segments.Version = segments.getOrElse(family, Segments.Version.empty)

    /** How many records there are. */
    def size: Long = records.valuesIterator.map(_.size).sum

    /** What they take in memory. */
    def footprint: Long =
      records.valuesIterator.map(_.footprint).sum + segments.valuesIterator.map(_.footprint).sum

    /** What one record takes in memory. */
    def recordBytes: Long = if (size == 0) LeastRecordBytes else Math.max(LeastRecordBytes, footprint / size)
  }

  object Contents {
    val empty: Contents = Contents(Map.empty, Map.empty)
  }

  /** No records yet. */
  def none(family: FamilySpec): SortedRecords =
    new SortedRecords(hasPlaces = true, told = ToldKeys.of(family))

  private final class Version(
      val version: Long,
      name: Option[String],
      val contents: Contents,
      val before: Option[Before]
  ) {
    private def is(version: Long, name: Option[String]) = this.version == version && this.name == name

    def holds(version: Long, name: Option[String]): Boolean =
      is(version, name) || before.exists(_.is(version, name))

    /** What a batch starts from that opens a version, and whether it is the one before. */
    def contentsOf(version: Long, name: Option[String]): Option[(Contents, Boolean)] =
      if (is(version, name)) Some(contents -> false)
      else before.filter(_.is(version, name)).map(_.contents -> true)
  }

  /** A version as it was before a batch, which shares with the next one what the batch did not change. */
  final class Before(
      version: Long,
      name: Option[String],
      families: Seq[FamilySpec],
      records: Map[String, SortedRecords.Version],
      segments: Map[String, Segments.Version]
  ) {
    def is(version: Long, name: Option[String]): Boolean = this.version == version && this.name == name

    /** For a batch to start from. */
    def contents: Contents = Contents(
      families.map { spec =>
        spec.name -> new SortedRecords(records(spec.name), hasPlaces = true, told = ToldKeys.of(spec))
      }.toMap,
      segments
    )
  }

  /** What a task that opens a version finds: `share` is the memory that it may use, `keepsBefore` whether the version
    * may be asked for again.
    */
  sealed trait Found
  final case class Here(contents: Contents, share: HotMemory.Share, keepsBefore: Boolean) extends Found
  final case class NotRead(share: HotMemory.Share, keepsBefore: Boolean) extends Found
  case object NoRoom extends Found

  /** @param records
    *   how many there are, if that was counted
    * @param recordBytes
    *   what one takes
    * @param bytes
    *   what all take at least
    */
  final case class TooLarge(records: Option[Long], recordBytes: Long, bytes: Long)
}
