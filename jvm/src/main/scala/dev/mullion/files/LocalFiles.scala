package dev.mullion.files

import java.io.FileNotFoundException
import java.net.URI
import java.nio.file.attribute.{PosixFileAttributes, PosixFilePermission}
import java.nio.file.{Files, LinkOption, NoSuchFileException, Path => LocalPath}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.local.LocalConfigKeys
import org.apache.hadoop.fs.permission.{FsAction, FsPermission}

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

private final class RawLocalFiles extends RawLocalFileSystem {
  override def setPermission(path: Path, permission: FsPermission): Unit = {
    Files.setPosixFilePermissions(local(path), RawLocalFiles.permissions(permission).asJava)
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

  private def local(path: Path): LocalPath = pathToFile(path).toPath

  private def status(path: Path, options: LinkOption*): FileStatus = {
    val found =
      try Files.readAttributes(local(path), classOf[PosixFileAttributes], options: _*)
      catch { case _: NoSuchFileException => throw new FileNotFoundException(s"File $path does not exist") }
    new FileStatus(
      found.size,
      found.isDirectory,
      1,
      getDefaultBlockSize(path),
      found.lastModifiedTime.toMillis,
      found.lastAccessTime.toMillis,
      RawLocalFiles.permission(found.permissions.asScala.toSet),
      found.owner.getName,
      found.group.getName,
      // Named as Hadoop does, whose name for file:///a is file:/a: Spark's file source knows files by their names.
      new Path(local(path).toString).makeQualified(getUri, getWorkingDirectory)
    )
  }
}

private object RawLocalFiles {
  import PosixFilePermission._

  // In the order of the bits of a mode: read, write and execute of the owner, the group and others.
  private val bits =
    Seq(OWNER_READ, OWNER_WRITE, OWNER_EXECUTE, GROUP_READ, GROUP_WRITE, GROUP_EXECUTE) ++
      Seq(OTHERS_READ, OTHERS_WRITE, OTHERS_EXECUTE)

  def permissions(of: FsPermission): Set[PosixFilePermission] = {
    val mode = of.toShort
    bits.zipWithIndex.collect { case (bit, i) if (mode >> (bits.length - 1 - i) & 1) == 1 => bit }.toSet
  }

  def permission(of: Set[PosixFilePermission]): FsPermission = {
    def action(from: Int) =
      FsAction.values()(bits.slice(from, from + 3).foldLeft(0)((n, bit) => 2 * n + (if (of(bit)) 1 else 0)))
    new FsPermission(action(0), action(3), action(6))
  }
}
