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

/** Hadoop's local file system without its processes. Where Hadoop's native library is missing, as on most laptops, that
  * starts a `chmod` for each file which it makes and a `readlink` or `ls` for each that it asks about, and a
  * micro-batch of Spark's makes a dozen. Here Java does the same. Files, names and checksums are the same, so a
  * checkpoint may be written by one and read by the other.
  *
  * {{{
  *   spark.hadoop.fs.file.impl                       dev.mullion.files.LocalFiles
  *   spark.hadoop.fs.AbstractFileSystem.file.impl    dev.mullion.files.LocalFilesContext
  * }}}
  *
  * For POSIX file systems: Linux, macOS. Both settings are read before Spark adds its JARs, so Mullion's must be on the
  * class path of the JVM (`spark.driver.extraClassPath`).
  */
final class LocalFiles extends LocalFileSystem(new RawLocalFiles)

/** The same for those who ask Hadoop's `FileContext`, as Spark does for the log of a query. */
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

  /** As Hadoop's where links are not followed: a link says what it leads to. */
  override def getFileLinkStatus(path: Path): FileStatus = {
    val found = status(path, LinkOption.NOFOLLOW_LINKS)
    if (Files.isSymbolicLink(local(path))) found.setSymlink(new Path(Files.readSymbolicLink(local(path)).toString))
    found
  }

  override def getLinkTarget(path: Path): Path =
    if (Files.isSymbolicLink(local(path))) new Path(Files.readSymbolicLink(local(path)).toString) else path

  /** Hadoop's makes two more names for each file, and asks the system who owns it. Spark lists the log of a source of
    * files in each batch, where a hundred batches have files.
    */
  override def listStatus(path: Path): Array[FileStatus] = {
    val folder = local(path)
    if (!Files.isDirectory(folder)) Array(getFileStatus(path))
    else {
      val blockSize = getDefaultBlockSize(path)
      Using.resource(Files.newDirectoryStream(folder)) { files =>
        // What is gone by now is not there.
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
      val found = Files.readAttributes(file, classOf[PosixFileAttributes], options: _*)
      // Named as Hadoop does, as a path and as an address: Spark's file source knows by that what it has read.
      val name = new Path(file.toString).makeQualified(getUri, getWorkingDirectory)
      Some(new LocalStatus(found, blockSize, name))
    } catch { case _: NoSuchFileException => None }
}

/** Who owns a file is looked up when it is asked: a call of the system that Spark's listings do without. */
private final class LocalStatus(found: PosixFileAttributes, blockSize: Long, path: Path)
    extends FileStatus(
      found.size,
      found.isDirectory,
      1,
      blockSize,
      found.lastModifiedTime.toMillis,
      found.lastAccessTime.toMillis,
      FsPermission.valueOf("-" + PosixFilePermissions.toString(found.permissions)),
      "",
      "",
      path
    ) {
  override def getOwner: String = found.owner.getName

  override def getGroup: String = found.group.getName

  private def writeReplace: AnyRef = new FileStatus(this)
}
