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
import org.apache.spark.sql.mullion.query.CheckpointFiles
import org.apache.spark.sql.mullion.shim.SparkLineShim
import org.apache.spark.util.SerializableConfiguration

import dev.mullion.MullionException

/** What a savepoint consists of, noted in it when all of it is written: a query that starts from it looks first whether
  * each file is there, and is what it was.
  *
  * {{{
  *   batch       16 (the last one in it)      17 (the first from it)     18
  *   looks at                                 all files                  none
  * }}}
  *
  * @param batch
  *   the last one that is in it
  */
private[mullion] final case class SavepointNote(format: Int, batch: Long, files: List[SavepointNote.File])

private[mullion] object SavepointNote {

  /** @param path
    *   from the checkpoint's root
    */
  final case class File(path: String, bytes: Long, crc: Long)

  private implicit val formats: Formats = DefaultFormats

  private val Format = 1
  // In place of the size of a file.
  private val Missing = -1L
  private val Unreadable = -2L
  private val Name = "mullion-savepoint"

  /** Notes all files under a folder that is about to become a savepoint. */
  def write(spark: SparkSession, home: Path, batch: Long): Unit = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val found = listed(home.getFileSystem(hadoopConf), home)
    val note = SavepointNote(Format, batch, measured(spark, home, found).toList)
    val files = CheckpointFileManager.create(home, hadoopConf)
    CheckpointFiles.write(files, new Path(home, Name), Serialization.write(note).getBytes(UTF_8))
  }

  /** Fails if a query is about to start from a savepoint that is not what was written. What a query has made of one
    * since is the query's own.
    */
  def check(spark: SparkSession, info: SparkLineShim.StateInfo): Unit = {
    val home = new Path(info.checkpointLocation).getParent
    val hadoopConf = spark.sessionState.newHadoopConf()
    read(home, hadoopConf).filter(info.storeVersion <= _.batch + 1).foreach { note =>
      val state = s"state/${info.operatorId}/"
      def isLookedAt(file: File) =
        file.path.startsWith("offsets/") || file.path.startsWith("commits/") ||
          // What is in these folders may be written again when a query starts.
          file.path.startsWith(state) && !file.path.split('/').exists(Set("_metadata", "_mullion"))
      if (info.storeVersion <= note.batch)
        throw damaged(home, s"its log of commits does not say that batch ${note.batch} is done")
      compare(spark, home, note.files.filter(isLookedAt))
    }
  }

  /** The same of all but state, where no batch has begun since: what sources have noted they change with the next.
    *
    * @param home
    *   a checkpoint that a query is about to start from
    */
  def checkLogs(spark: SparkSession, home: Path): Unit = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val files = CheckpointFileManager.create(home, hadoopConf)
    read(home, hadoopConf).filterNot(note => files.exists(new Path(home, s"offsets/${note.batch + 1}"))).foreach {
      note => compare(spark, home, note.files.filterNot(_.path.startsWith("state/")))
    }
  }

  private def compare(spark: SparkSession, home: Path, wanted: Seq[File]): Unit = {
    val is = measured(spark, home, wanted.map(_.path)).map(file => file.path -> file).toMap
    wanted.find(file => !is.get(file.path).contains(file)).foreach { file =>
      val what = is.get(file.path).map(_.bytes) match {
        case None | Some(Missing)           => "is missing"
        case Some(Unreadable)               => "cannot be read"
        case Some(now) if now != file.bytes => s"has $now bytes, and was written with ${file.bytes}"
        case _                              => "has other bytes than were written"
      }
      throw damaged(home, s"the file ${file.path} $what")
    }
  }

  /** What a savepoint says of itself; nothing where the folder is none. */
  private[mullion] def read(home: Path, hadoopConf: Configuration): Option[SavepointNote] = {
    val files = CheckpointFileManager.create(home, hadoopConf)
    val path = new Path(home, Name)
    Option.when(files.exists(path)) {
      val note =
        try {
          val said = JsonMethods.parse(new String(CheckpointFiles.read(files, path), UTF_8)).extract[SavepointNote]
          // A path that is null is none.
          said.files.foreach(_.path.length)
          said
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
    val found = Seq.newBuilder[String]
    val files = fs.listFiles(home, true)
    while (files.hasNext) found += files.next().getPath.toUri.getPath.stripPrefix(root)
    found.result().filterNot(_.split('/').last.startsWith(".")).sorted
  }

  /** The sizes and sums of files as they are: read by tasks, for state may be large. */
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
