package dev.mullion.files

import java.io.FileNotFoundException
import java.net.URI
import java.nio.file.{Files, LinkOption, NoSuchFileException, Path => LocalPath}
import java.nio.file.attribute.{PosixFileAttributes, PosixFilePermissions}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.local.LocalConfigKeys
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs._

/** Hadoop's local file system without child processes, implemented in Java.
  *
  * Without its native library, as on most laptops, Hadoop starts a `chmod` for each new file and a `readlink` or `ls`
  * for each status. A micro-batch writes about twelve files. Files, names and checksums are compatible with Hadoop's,
  * so either can read the other's checkpoints.
  *
  * {{{
  *   spark.hadoop.fs.file.impl                       dev.mullion.files.LocalFiles
  *   spark.hadoop.fs.AbstractFileSystem.file.impl    dev.mullion.files.LocalFilesContext
  * }}}
  *
  * For POSIX file systems: Linux, macOS. Spark reads both settings before it adds its JARs, so Mullion's must be on the
  * class path of the JVM (`spark.driver.extraClassPath`).
  */
final class LocalFiles extends LocalFileSystem(new RawLocalFiles)

/** The same file system for Hadoop's `FileContext`, which Spark uses for the log of a query. */
final class LocalFilesContext(uri: URI, conf: Configuration) extends ChecksumFs(new RawLocalFilesContext(conf))

private final class RawLocalFilesContext(conf: Configuration)
    extends DelegateToFileSystem(FsConstants.LOCAL_FS_URI, new RawLocalFiles, conf, "file", false) {
  override def getUriDefaultPort: Int = -1

  override def getServerDefaults(path: Path): FsServerDefaults = LocalConfigKeys.getServerDefaults

  override def isValidName(name: String): Boolean = true
}

private class RawLocalFiles extends RawLocalFileSystem {
  override def setPermission(path: Path, permission: FsPermission): Unit = {
    Files.setPosixFilePermissions(local(path), PosixFilePermissions.fromString(permission.toString.take(9)))
    ()
  }

  override def getFileStatus(path: Path): FileStatus = status(path)

  /** Describes the link itself, not its target, like Hadoop's. */
  override def getFileLinkStatus(path: Path): FileStatus = {
    val attributes = status(path, LinkOption.NOFOLLOW_LINKS)
    if (Files.isSymbolicLink(local(path))) attributes.setSymlink(new Path(Files.readSymbolicLink(local(path)).toString))
    attributes
  }

  override def getLinkTarget(path: Path): Path =
    if (Files.isSymbolicLink(local(path))) new Path(Files.readSymbolicLink(local(path)).toString) else path

  /** Lists a folder without owners. Hadoop's creates two more names per file and asks the system for its owner; Spark
    * lists the log of a file source in each batch.
    */
  override def listStatus(path: Path): Array[FileStatus] = {
    val folder = local(path)
    if (!Files.isDirectory(folder)) Array(getFileStatus(path))
    else {
      val blockSize = getDefaultBlockSize(path)
      Using.resource(Files.newDirectoryStream(folder)) { files =>
        // Files may disappear during the listing.
        files.asScala.flatMap(statusOf(_, blockSize)).toArray
      }
    }
  }

  private def local(path: Path): LocalPath = pathToFile(path).toPath

  private def status(path: Path, options: LinkOption*): FileStatus =
    statusOf(local(path), getDefaultBlockSize(path), options: _*)
      .getOrElse(throw new FileNotFoundException(s"File $path does not exist"))

  private def statusOf(file: LocalPath, blockSize: Long, options: LinkOption*): Option[FileStatus] =
    try {
      val attributes = Files.readAttributes(file, classOf[PosixFileAttributes], options: _*)
      // Qualified like Hadoop's: Spark's file source identifies files by this text.
      val name = new Path(file.toString).makeQualified(getUri, getWorkingDirectory)
      Some(new LocalStatus(attributes, blockSize, name))
    } catch { case _: NoSuchFileException => None }
}

/** Looks up the owner lazily: Spark's listings do not need it. */
private final class LocalStatus(attributes: PosixFileAttributes, blockSize: Long, path: Path)
    extends FileStatus(
      attributes.size,
      attributes.isDirectory,
      1,
      blockSize,
      attributes.lastModifiedTime.toMillis,
      attributes.lastAccessTime.toMillis,
      FsPermission.valueOf("-" + PosixFilePermissions.toString(attributes.permissions)),
      "",
      "",
      path
    ) {
  override def getOwner: String = attributes.owner.getName

  override def getGroup: String = attributes.group.getName

  private def writeReplace: AnyRef = new FileStatus(this)
}
