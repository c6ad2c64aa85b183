package org.apache.spark.sql.mullion.topics

import java.io.{File, RandomAccessFile}
import java.net.URI
import java.nio.charset.StandardCharsets.US_ASCII
import java.util.Locale

import scala.util.Using

import org.apache.hadoop.fs.{FileStatus, Path, RawLocalFileSystem}

import org.apache.spark.sql.classic.SparkSession

/** The folders of `dir:` topics as Spark's file source sees them: with the files that a topic's manifest names.
  *
  * A folder is not listed in one moment. Where files come meanwhile, a listing may have a file and not the one before
  * it, and Spark would read them in that order. So the manifest is read first, and what is listed ends where it ends:
  * {{{
  *   manifest     0 1 2
  *   producer           3 4      comes while the folder is listed
  *   listed       0 1 2   4  ->  0 1 2
  * }}}
  * Paths hold no character that Spark takes for a pattern: such ones are written as `~5B` here.
  */
final class TopicFileSystem extends RawLocalFileSystem {
  import TopicFileSystem._

  override def getScheme: String = Scheme

  override def getUri: URI = URI.create(s"$Scheme:///")

  override def pathToFile(path: Path): File = {
    checkPath(path)
    val whole = if (path.isAbsolute) path else new Path(getWorkingDirectory, path)
    new File(decoded(whole.toUri.getPath))
  }

  override def getFileStatus(path: Path): FileStatus = {
    val status = super.getFileStatus(path)
    status.setPath(makeQualified(path))
    status
  }

  override def listStatus(folder: Path): Array[FileStatus] =
    if (pathToFile(folder).isFile) Array(getFileStatus(folder)) else listed(folder)

  private def listed(folder: Path): Array[FileStatus] = {
    val end = lastOf(new File(pathToFile(folder), Manifest))
    super.listStatus(folder).filter(status => numberOf(status.getPath.getName).forall(n => end.forall(n <= _)))
  }
}

object TopicFileSystem {
  val Scheme = "mullion-topic"

  /** A topic's files in order, one in a line; `mullion.topics._dir_topic` writes it. */
  val Manifest = "_files"

  private val Patterns = "~%{}[]*?\\:"

  /** The last file's name has at most as many characters. */
  private val Tail = 1024

  /** How a session reads a topic's folder. */
  def pathOf(session: SparkSession, folder: String): String = {
    session.sparkContext.hadoopConfiguration.set(s"fs.$Scheme.impl", classOf[TopicFileSystem].getName)
    s"$Scheme://${encoded(folder)}"
  }

  def encoded(path: String): String =
    path.flatMap(c => if (Patterns.contains(c)) "~%02X".formatLocal(Locale.ROOT, c.toInt) else c.toString)

  def decoded(path: String): String = Encoded.replaceAllIn(path, m => quoted(Integer.parseInt(m.group(1), 16).toChar))

  private val Encoded = "~([0-9A-F]{2})".r

  private def quoted(c: Char): String = java.util.regex.Matcher.quoteReplacement(c.toString)

  /** The number of the manifest's last file; none where there is no manifest yet, as in topics of earlier versions. A
    * line that is being written does not count.
    */
  def lastOf(manifest: File): Option[Long] =
    if (!manifest.exists()) None
    else
      Using.resource(new RandomAccessFile(manifest, "r")) { file =>
        val from = Math.max(0L, file.length() - Tail)
        val bytes = new Array[Byte]((file.length() - from).toInt)
        file.seek(from)
        file.readFully(bytes)
        val lines = new String(bytes, US_ASCII).split("\n", -1).dropRight(1)
        Some(lines.lastOption.flatMap(numberOf).getOrElse(-1L))
      }

  /** The number of a topic's file, which its name begins with. */
  def numberOf(name: String): Option[Long] =
    Option(name.takeWhile(c => c >= '0' && c <= '9')).filter(_.nonEmpty).map(_.toLong)
}
