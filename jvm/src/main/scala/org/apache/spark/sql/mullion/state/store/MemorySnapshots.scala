package org.apache.spark.sql.mullion.state.store

import java.io.{BufferedInputStream, BufferedOutputStream, DataInputStream, DataOutputStream}

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.io.LZ4CompressionCodec
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.StateStoreId
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.query.CheckpointFiles
import org.apache.spark.sql.mullion.shim.SparkLineShim
import org.apache.spark.sql.mullion.state.memory.SortedRecords

import dev.mullion.MullionException

/** The snapshots of one partition's state in memory: files of a checkpoint, each a whole version, by its number.
  *
  * A snapshot is written before its batch is committed. So the newest may be of a batch that never was, and the last
  * two are kept.
  */
private[mullion] final class MemorySnapshots(folder: Path, hadoopConf: Configuration) {
  import MemorySnapshots._

  private lazy val files = CheckpointFileManager.create(folder, hadoopConf)

  def has(version: Long, checkpointId: Option[String]): Boolean = files.exists(path(version, checkpointId))

  /** The versions that there are, with their ids. */
  def all: Seq[(Long, Option[String])] =
    if (!files.exists(folder)) Nil
    else
      files.list(folder).toSeq.map(_.getPath.getName).collect { case Name(version, id) =>
        (version.toLong, Option(id).map(_.drop(1)))
      }

  def read(version: Long, checkpointId: Option[String]): Option[MemoryStateStoreProvider.Contents] =
    Option.when(has(version, checkpointId)) {
      try
        reading(version, checkpointId) { in =>
          MemoryStateStoreProvider.Contents(Seq.fill(in.readInt())(in.readUTF() -> readFamily(in)).toMap)
        }
      catch {
        case e: MullionException => throw e
        case NonFatal(e)         => throw damaged(path(version, checkpointId), e)
      }
    }

  /** Whether a version is there, and can be read to its end. */
  def isWhole(version: Long, checkpointId: Option[String]): Boolean = has(version, checkpointId) && {
    try
      reading(version, checkpointId) { in =>
        (0 until in.readInt()).foreach { _ =>
          in.readUTF()
          passFamily(in)
        }
        in.read() == -1
      }
    catch { case NonFatal(_) => false }
  }

  private def reading[T](version: Long, checkpointId: Option[String])(use: DataInputStream => T): T = {
    val opened = files.open(path(version, checkpointId))
    Using.resource(new DataInputStream(new BufferedInputStream(codec.compressedInputStream(opened)))) { in =>
      val format = in.readInt()
      if (format != Format)
        throw MullionException.incompatibleState(
          s"${path(version, checkpointId)} is a snapshot of format $format, and this version of Mullion reads $Format. " +
            "Start with a new checkpointLocation."
        )
      use(in)
    }
  }

  private def damaged(file: Path, cause: Throwable): MullionException = {
    // checkpoint/state/operator/partition
    val checkpoint = folder.getParent.getParent.getParent
    MullionException.damagedState(
      s"In the checkpoint $checkpoint the snapshot $file cannot be read (${cause.getClass.getSimpleName}): it was cut short " +
        s"or changed. Nothing was written. Stop the query, call mullion.recover(\"$checkpoint\"), and start it again: it " +
        "goes back to the snapshot before, and reads again what came after it, so some output comes out twice."
    )
  }

  /** Writes a version, and drops those that are not needed any more. */
  def write(version: Long, checkpointId: Option[String], contents: MemoryStateStoreProvider.Contents): Unit = {
    CheckpointFiles.replace(files, path(version, checkpointId)) { out =>
      val data = new DataOutputStream(new BufferedOutputStream(codec.compressedOutputStream(out)))
      data.writeInt(Format)
      data.writeInt(contents.families.size)
      contents.families.foreach { case (name, records) =>
        data.writeUTF(name)
        writeFamily(data, records)
      }
      data.close()
    }
    val before = all.filter(_._1 < version)
    val last = before.map(_._1).maxOption
    before.filterNot(found => last.contains(found._1)).foreach { case (v, id) => files.delete(path(v, id)) }
  }

  /** Has `version` say what `as` says, under the same id, and no later one be there. */
  def goOnFrom(version: Long, as: Long, checkpointId: Option[String]): Unit = {
    all.filter(_._1 > version).foreach { case (v, id) => files.delete(path(v, id)) }
    CheckpointFiles.replace(files, path(version, checkpointId))(out =>
      Using.resource(files.open(path(as, checkpointId))) { in => in.transferTo(out); out.close() }
    )
  }

  private def path(version: Long, checkpointId: Option[String]): Path =
    new Path(folder, s"$version${checkpointId.fold("")(id => s"_$id")}.memory")
}

private[mullion] object MemorySnapshots {

  /** What is to be known of state in memory.
    *
    * @param what
    *   keeps it
    * @param n
    *   after how many batches there is a snapshot
    */
  def care(what: String, n: Long): String =
    s"$what keeps its state in memory, with a snapshot in the checkpoint every $n batches. After a stop or a crash in " +
      "between, mullion.recover(checkpoint) goes back to the newest snapshot, and what came since is read and put out again. " +
      "With several executors set spark.locality.wait to more than a batch takes, so that tasks wait for the one that has " +
      "their state."
  private val Format = 4
  private val Name = """(\d+)(_[^.]+)?\.memory""".r
  private val End = -1

  /** After how many commits the next snapshot is written. */
  val Every = "spark.sql.streaming.stateStore.mullion.snapshotEvery"

  private val EveryUnlessSaid = 10L

  def every(setting: String => Option[String]): Long = {
    val said = setting(Every)
    val every = said.fold(Option(EveryUnlessSaid))(_.trim.toLongOption)
    every
      .filter(_ >= 1)
      .getOrElse(
        throw MullionException.invalid(
          s"$Every=${said.mkString} is not a number of batches: say after how many a snapshot of state in memory is written, 1 " +
            s"or more (it is $EveryUnlessSaid if not said)."
        )
      )
  }

  /** The snapshots of one operator that every partition has, by their versions, with the partitions' ids of each: those
    * that `idsOf` says of the version, if its checkpoint has ids.
    */
  def complete(
      root: Path,
      operator: Long,
      partitions: Int,
      hadoopConf: Configuration,
      idsOf: Long => Option[Array[Array[String]]]
  ): Map[Long, Option[Array[Array[String]]]] = {
    val found = (0 until partitions).map { partition =>
      val id = StateStoreId(root.toString, operator, partition)
      new MemorySnapshots(id.storeCheckpointLocation(), hadoopConf).all.toSet
    }
    val versions = found.map(_.map(_._1)).reduce(_.intersect(_))
    versions.iterator
      .map(version => version -> idsOf(version))
      .filter { case (version, ids) =>
        found.zipWithIndex.forall { case (there, partition) => there((version, ids.map(_(partition).head))) }
      }
      .toMap
  }

  /** Whether the snapshots of a version can be read, of all partitions of an operator. */
  def areWhole(
      root: Path,
      operator: Long,
      partitions: Int,
      hadoopConf: Configuration,
      version: Long,
      ids: Option[Array[Array[String]]]
  ): Boolean = (0 until partitions).forall { partition =>
    val id = StateStoreId(root.toString, operator, partition)
    new MemorySnapshots(id.storeCheckpointLocation(), hadoopConf).isWhole(version, ids.map(_(partition).head))
  }

  /** Before a query goes on: whether the version that it starts from is there. Within a run the tasks see to it. Gives
    * after how many batches the next snapshots are written.
    */
  def checkStart(info: SparkLineShim.StateInfo, conf: SQLConf, hadoopConf: Configuration): Long = {
    val interval = checkedInterval(conf)
    (0 until info.numPartitions).foreach { partition =>
      val id = StateStoreId(info.checkpointLocation, info.operatorId, partition)
      val snapshots = new MemorySnapshots(id.storeCheckpointLocation(), hadoopConf)
      if (info.storeVersion > 0 && !snapshots.has(info.storeVersion, info.stateStoreCkptIds.map(_(partition).head)))
        throw MemoryStateStoreProvider.lost(info.checkpointLocation, info.operatorId, info.storeVersion)
    }
    interval
  }

  /** To go back to a snapshot takes the offsets of its batch, which Spark keeps for some batches only. */
  private def checkedInterval(conf: SQLConf): Long = {
    val n = every(key => Option(conf.getConfString(key, None.orNull)))
    if (2 * n > conf.minBatchesToRetain)
      throw MullionException.invalid(
        s"$Every is $n and ${SQLConf.MIN_BATCHES_TO_RETAIN.key} is ${conf.minBatchesToRetain}: Spark would forget the " +
          s"offsets of a batch while its snapshot is the newest. Retain at least ${2 * n} batches, or write snapshots more " +
          "often."
      )
    n
  }

  private def codec = new LZ4CompressionCodec(Option(SparkEnv.get).fold(new SparkConf(false))(_.conf))

  private def writeFamily(out: DataOutputStream, records: SortedRecords.Version): Unit = {
    val cursor = records.all
    val row = new UnsafeRow(0)
    val buffer = new Array[Byte](4096)
    def write(): Unit = {
      out.writeInt(row.getSizeInBytes)
      row.writeToStream(out, buffer)
    }
    while (cursor.isOn) {
      cursor.keyTo(row)
      write()
      cursor.valueTo(row)
      write()
      out.writeLong(cursor.a)
      out.writeLong(cursor.b)
      out.writeLong(cursor.c)
      cursor.move()
    }
    out.writeInt(End)
  }

  private def readFamily(in: DataInputStream): SortedRecords.Version = {
    val records = new SortedRecords()
    val (key, value) = (new UnsafeRow(0), new UnsafeRow(0))
    var length = in.readInt()
    while (length != End) {
      key.pointTo(in.readNBytes(length), length)
      val valueLength = in.readInt()
      value.pointTo(in.readNBytes(valueLength), valueLength)
      records.append(in.readLong(), in.readLong(), in.readLong(), key, value)
      length = in.readInt()
    }
    records.version()
  }

  /** Reads over what [[readFamily]] would read. */
  private def passFamily(in: DataInputStream): Unit = {
    var length = in.readInt()
    while (length != End) {
      in.skipNBytes(length.toLong)
      in.skipNBytes(in.readInt().toLong + 3L * java.lang.Long.BYTES)
      length = in.readInt()
    }
  }
}
