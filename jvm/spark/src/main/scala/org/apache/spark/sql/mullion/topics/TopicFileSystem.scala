package org.apache.spark.sql.mullion.topics

import java.io.{File, RandomAccessFile}
import java.net.URI
import java.nio.charset.StandardCharsets.US_ASCII
import java.util.Locale

import scala.util.Using

import org.apache.hadoop.fs.{FileStatus, Path, RawLocalFileSystem}

import org.apache.spark.sql.classic.SparkSession

/** The folders of `dir:` topics for Spark's file source, with the files in a topic's manifest.
  *
  * A listing is not atomic. If files are added meanwhile, it may contain a file but not its predecessor, and Spark
  * would read them in that order. The manifest is therefore read first, and the listing ends at its last file:
  * {{{
  *   manifest     0 1 2
  *   producer           3 4      added during the listing
  *   listed       0 1 2   4  ->  0 1 2
  * }}}
  * Characters that Spark interprets as a pattern are escaped in paths, such as `~5B`.
  */
final class TopicFileSystem extends RawLocalFileSystem {
  import TopicFileSystem._

  override def getScheme: String = Scheme

  override def getUri: URI = URI.create(s"$Scheme:///")

  override def pathToFile(path: Path): File = {
    checkPath(path)
    val absolute = if (path.isAbsolute) path else new Path(getWorkingDirectory, path)
    new File(decoded(absolute.toUri.getPath))
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

  /** A topic's files in order, one per line; written by `mullion.topics._dir_topic`. */
  val Manifest = "_files"

  private val Patterns = "~%{}[]*?\\:"

  /** The maximum length of the last file's name. */
  private val Tail = 1024

  /** The path under which a session reads a topic's folder. */
  def pathOf(session: SparkSession, folder: String): String = {
    session.sparkContext.hadoopConfiguration.set(s"fs.$Scheme.impl", classOf[TopicFileSystem].getName)
    s"$Scheme://${encoded(folder)}"
  }

  def encoded(path: String): String =
    path.flatMap(c => if (Patterns.contains(c)) "~%02X".formatLocal(Locale.ROOT, c.toInt) else c.toString)

  def decoded(path: String): String = Encoded.replaceAllIn(path, m => quoted(Integer.parseInt(m.group(1), 16).toChar))

  private val Encoded = "~([0-9A-F]{2})".r

  private def quoted(c: Char): String = java.util.regex.Matcher.quoteReplacement(c.toString)

  /** The number of the manifest's last file; none without a manifest, as in topics of earlier versions. An incomplete
    * last line does not count.
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

  /** The number of a topic's file, the prefix of its name. */
  def numberOf(name: String): Option[Long] =
    Option(name.takeWhile(c => c >= '0' && c <= '9')).filter(_.nonEmpty).map(_.toLong)
}
