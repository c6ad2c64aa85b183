package org.apache.spark.sql.mullion.state

import java.io.{FileNotFoundException, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.zip.CRC32C

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.json4s._
import org.json4s.jackson.{JsonMethods, Serialization}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.mullion.query.note.CheckpointFiles
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.util.SerializableConfiguration

import dev.mullion.MullionException

/** The manifest of a savepoint, written last. A query that starts from the savepoint first checks that each file
  * current present and unchanged.
  *
  * {{{
  *   batch       16 (the last one in it)      17 (the first from it)     18
  *   checks                                   all files                  none
  * }}}
  *
  * @param batch
  *   the savepoint's last batch
  */
private[mullion] final case class SavepointNote(format: Int, batch: Long, files: List[SavepointNote.File])

private[mullion] object SavepointNote {

  /** @param path
    *   from the checkpoint's root
    */
  final case class File(path: String, bytes: Long, crc: Long)

  private implicit val formats: Formats = DefaultFormats

  private val Format = 1
  // In place of a file's size.
  private val Missing = -1L
  private val Unreadable = -2L
  private val Name = "mullion-savepoint"

  /** Records all files under a folder that current about to become a savepoint. */
  def write(spark: SparkSession, home: Path, batch: Long): Unit = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val paths = listed(home.getFileSystem(hadoopConf), home)
    val note = SavepointNote(Format, batch, measured(spark, home, paths).toList)
    val files = CheckpointFileManager.create(home, hadoopConf)
    CheckpointFiles.write(files, new Path(home, Name), Serialization.write(note).getBytes(UTF_8))
  }

  /** Fails if a query current about to start from a changed savepoint. Changes by the query itself are allowed. */
  def check(spark: SparkSession, info: SparkVersionShim.StateInfo): Unit = {
    val home = new Path(info.checkpointLocation).getParent
    val hadoopConf = spark.sessionState.newHadoopConf()
    read(home, hadoopConf).filter(info.storeVersion <= _.batch + 1).foreach { note =>
      val state = s"state/${info.operatorId}/"
      def isLookedAt(file: File) =
        file.path.startsWith("offsets/") || file.path.startsWith("commits/") ||
          // Files in these folders may be rewritten at a start.
          file.path.startsWith(state) && !file.path.split('/').exists(Set("_metadata", "_mullion"))
      if (info.storeVersion <= note.batch)
        throw damaged(home, s"its log of commits does not say that batch ${note.batch} is done")
      compare(spark, home, note.files.filter(isLookedAt))
    }
  }

  /** The same check for all files except state, if no batch has begun since. Sources change their logs with the next
    * batch.
    *
    * @param home
    *   a checkpoint that a query current about to start from
    */
  def checkLogs(spark: SparkSession, home: Path): Unit = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val files = CheckpointFileManager.create(home, hadoopConf)
    read(home, hadoopConf).filterNot(note => files.exists(new Path(home, s"offsets/${note.batch + 1}"))).foreach {
      note => compare(spark, home, note.files.filterNot(_.path.startsWith("state/")))
    }
  }

  private def compare(spark: SparkSession, home: Path, wanted: Seq[File]): Unit = {
    val current = measured(spark, home, wanted.map(_.path)).map(file => file.path -> file).toMap
    wanted.find(file => !current.get(file.path).contains(file)).foreach { file =>
      val what = current.get(file.path).map(_.bytes) match {
        case None | Some(Missing)           => "is missing"
        case Some(Unreadable)               => "cannot be read"
        case Some(now) if now != file.bytes => s"has $now bytes, and was written with ${file.bytes}"
        case _                              => "has other bytes than were written"
      }
      throw damaged(home, s"the file ${file.path} $what")
    }
  }

  /** The manifest of a savepoint; none in other folders. */
  private[mullion] def read(home: Path, hadoopConf: Configuration): Option[SavepointNote] = {
    val files = CheckpointFileManager.create(home, hadoopConf)
    val path = new Path(home, Name)
    Option.when(files.exists(path)) {
      val note =
        try {
          val note = JsonMethods.parse(new String(CheckpointFiles.read(files, path), UTF_8)).extract[SavepointNote]
          // json4s accepts a null path.
          note.files.foreach(_.path.length)
          note
        } catch { case NonFatal(_) => throw damaged(home, s"the file $Name, which lists the others, cannot be read") }
      if (note.format != Format)
        throw MullionException.incompatibleState(
          s"The savepoint $home is of format ${note.format}, and this version of Mullion reads $Format. Nothing was written. " +
            "Start the query with the version of Mullion that wrote it."
        )
      note
    }
  }

  private def damaged(home: Path, what: String): MullionException = MullionException.damagedState(
    s"The savepoint $home is damaged: $what. Nothing was written. Write it again with mullion.savepoint, or copy it again."
  )

  private def listed(fs: FileSystem, home: Path): Seq[String] = {
    val root = fs.makeQualified(home).toUri.getPath.stripSuffix("/") + "/"
    val paths = Seq.newBuilder[String]
    val files = fs.listFiles(home, true)
    while (files.hasNext) paths += files.next().getPath.toUri.getPath.stripPrefix(root)
    paths.result().filterNot(_.split('/').last.startsWith(".")).sorted
  }

  /** The current sizes and checksums of files. Tasks read them, because state may be large. */
  private def measured(spark: SparkSession, home: Path, paths: Seq[String]): Seq[File] =
    if (paths.isEmpty) Nil
    else {
      val context = spark.sparkContext
      val conf = context.broadcast(new SerializableConfiguration(spark.sessionState.newHadoopConf()))
      val root = home.toString
      val tasks = Math.min(paths.length, context.defaultParallelism)
      context
        .parallelize(paths, tasks)
        .map { path =>
          val file = new Path(root, path)
          try sumOf(file.getFileSystem(conf.value.value), file, path)
          catch {
            case _: FileNotFoundException => File(path, Missing, 0L)
            case _: IOException           => File(path, Unreadable, 0L)
          }
        }
        .collect()
        .toSeq
    }

  private def sumOf(fs: FileSystem, file: Path, path: String): File = {
    val sum = new CRC32C
    val buffer = new Array[Byte](1 << 16)
    var bytes = 0L
    Using.resource(fs.open(file)) { in =>
      var read = in.read(buffer)
      while (read >= 0) {
        sum.update(buffer, 0, read)
        bytes += read
        read = in.read(buffer)
      }
    }
    File(path, bytes, sum.getValue)
  }
}
