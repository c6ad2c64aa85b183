package org.apache.spark.sql.mullion.pyfunction.dataflow

import java.nio.file.{Files, NoSuchFileException, Path}
import java.util.{Collections, Set => JavaSet}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.types.{BinaryType, LongType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The log of a dataflow's inputs as a source of Spark's; its option `path` is the folder, which `bytewax/_log/log.py`
  * writes. With `gathers` the first batch waits until it is full, or until no entry came for a moment: entries come
  * fast while nothing is planned yet, and a batch of a few costs as much around it as one of many.
  *
  * {{{
  *   00000000000000000007  00000000000000000008  00000000000000000009
  *   offset 8: the first two are read       committed to 8: 7 is deleted; the newest always stays
  * }}}
  *
  * A row is the number of an entry and its bytes, and a task reads one entry.
  */
final class EntryLogProvider extends TableProvider {
  override def inferSchema(options: CaseInsensitiveStringMap): StructType = EntryLog.schema

  override def getTable(
      schema: StructType,
      partitioning: Array[Transform],
      properties: java.util.Map[String, String]
  ): Table = new EntryLogTable(Path.of(properties.get("path")), properties.get("gathers") == "true")
}

private final class EntryLogTable(folder: Path, gathers: Boolean) extends Table with SupportsRead {
  override val schema: StructType = EntryLog.schema

  override def name(): String = s"mullion inputs of $folder"

  override def capabilities(): JavaSet[TableCapability] = Collections.singleton(TableCapability.MICRO_BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
    new Scan {
      override def readSchema(): StructType = schema

      override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
        new EntryLogStream(folder, gathers)
    }
}

private[mullion] object EntryLog {
  val schema: StructType = new StructType().add("number", LongType, nullable = false).add("data", BinaryType)

  private val Digits = 20

  def file(folder: Path, number: Long): Path = folder.resolve(s"%0${Digits}d".format(number))

  /** The numbers of the entries that are there. */
  def numbers(folder: Path): Seq[Long] =
    try
      Using.resource(Files.list(folder)) { files =>
        files.iterator.asScala
          .map(_.getFileName.toString)
          .filter(name => name.length == Digits && name.forall(Character.isDigit))
          .map(_.toLong)
          .toVector
      }
    catch { case _: NoSuchFileException => Nil }
}

/** Its offset is the number of the next entry; there is none before the first, for which Spark would run a batch. */
private[mullion] final class EntryLogStream(folder: Path, gathers: Boolean = false)
    extends MicroBatchStream
    with SupportsAdmissionControl {
  import EntryLogStream._

  override def initialOffset(): Offset = Next(0)

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val from = nextOf(start)
    val newest = EntryLog.numbers(folder).maxOption.getOrElse(-1L)
    // What Spark takes for no offset.
    if (from == 0 && (newest < 0 || (gathers && newest + 1 < MostOfABatch && isComing(newest)))) null
    else Next(Math.min(Math.max(newest + 1, from), from + MostOfABatch))
  }

  private def isComing(newest: Long): Boolean = {
    val written = Files.getLastModifiedTime(EntryLog.file(folder, newest)).toMillis
    Math.abs(System.currentTimeMillis() - written) < MomentMs
  }

  override def latestOffset(): Offset = throw new UnsupportedOperationException("asked with a start only")

  override def deserializeOffset(json: String): Offset = Next.of(json)

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] =
    (nextOf(start) until nextOf(end)).map[InputPartition](new EntryPartition(folder.toString, _)).toArray

  override def createReaderFactory(): PartitionReaderFactory = ReadEntries

  override def commit(end: Offset): Unit = {
    val numbers = EntryLog.numbers(folder).sorted
    numbers
      .dropRight(1)
      .takeWhile(_ < nextOf(end))
      .foreach(number => Files.deleteIfExists(EntryLog.file(folder, number)))
  }

  override def stop(): Unit = ()

  override def toString: String = s"mullion inputs of $folder"
}

private[mullion] object EntryLogStream {
  private val MostOfABatch = 24L
  private val MomentMs = 40L

  private final case class Next(entry: Long) extends Offset {
    override def json(): String = s"""{"entry": $entry}"""
  }

  private object Next {
    private val Said = "\\{\\s*\"entry\"\\s*:\\s*(\\d+)\\s*\\}".r

    def of(json: String): Next = json match {
      case Said(entry) => Next(entry.toLong)
      case other       => throw new IllegalArgumentException(s"$other is not an offset of a log of inputs")
    }
  }

  private def nextOf(offset: Offset): Long = offset match {
    case next: Next => next.entry
    case other      => Next.of(other.json()).entry
  }

  private final class EntryPartition(val folder: String, val number: Long) extends InputPartition

  private object ReadEntries extends PartitionReaderFactory {
    override def createReader(partition: InputPartition): PartitionReader[InternalRow] = partition match {
      case entry: EntryPartition => new OneEntry(entry)
      case other                 => throw new IllegalArgumentException(s"$other is not an entry of a log of inputs")
    }
  }

  private final class OneEntry(of: EntryPartition) extends PartitionReader[InternalRow] {
    private var isRead = false

    override def next(): Boolean = {
      val first = !isRead
      isRead = true
      first
    }

    override def get(): InternalRow =
      InternalRow(of.number, Files.readAllBytes(EntryLog.file(Path.of(of.folder), of.number)))

    override def close(): Unit = ()
  }
}
