package dev.mullion.files

import java.io.IOException
import java.net.URI
import java.nio.channels.FileChannel
import java.nio.file.{Files, Path => JavaPath}
import java.nio.file.StandardOpenOption.WRITE
import java.util
import java.util.concurrent.atomic.AtomicReference

import scala.util.{Try, Using}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.local.LocalConfigKeys
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/** A local disk that fails at one of the operations that change a folder: it reports an error without the change,
  * reports an error with half of a file, or kills the process.
  */
final class FaultyFiles extends LocalFileSystem(new FaultyRawFiles)

final class FaultyFilesContext(uri: URI, conf: Configuration)
    extends ChecksumFs(
      new DelegateToFileSystem(FsConstants.LOCAL_FS_URI, new FaultyRawFiles, conf, "file", false) {
        override def getUriDefaultPort: Int = -1
        override def getServerDefaults(path: Path): FsServerDefaults = LocalConfigKeys.getServerDefaults
        override def isValidName(name: String): Boolean = true
      }
    )

object FaultyFiles {
  sealed trait Fault
  case object Fails extends Fault
  case object Tears extends Fault
  case object Dies extends Fault

  /** @param folder
    *   whose operations are counted
    * @param at
    *   the number of the failing one, from 0
    */
  final case class Plan(folder: String, fault: Fault, at: Int) {
    private var done = 0
    private var failed = Option.empty[String]

    def operations: Int = synchronized(done)

    /** The failed operation, if any. */
    def happened: Option[String] = synchronized(failed)

    private[files] def isNext(path: Path, what: String): Boolean = synchronized {
      path.toUri.getPath.startsWith(folder) && {
        done += 1
        val is = done == at + 1
        if (is) failed = Some(s"$what ${path.toUri.getPath.stripPrefix(folder)}")
        is
      }
    }
  }

  private val plan = new AtomicReference(Option.empty[Plan])

  def on[T](planned: Plan)(run: => T): T = {
    plan.set(Some(planned))
    try run
    finally plan.set(None)
  }

  private[files] def now(path: Path, what: String): Option[Fault] =
    plan.get.filter(_.isNext(path, what)).map(_.fault)

  // While this file exists, all operations fail with the error in it.
  private val broken = sys.env.get("MULLION_TEST_DISK").map(JavaPath.of(_))

  /** Called before an atomic operation. */
  private[files] def before(path: Path, what: String): Unit = {
    broken.filter(Files.exists(_)).foreach { note =>
      throw new IOException(s"${Try(Files.readString(note)).getOrElse("No space left on device")}: $what $path")
    }
    now(path, what).foreach {
      case Dies => Runtime.getRuntime.halt(137)
      case _    => throw new IOException(s"No space left on device: $what $path")
    }
  }
}

private class FaultyRawFiles extends RawLocalFiles {
  override def create(
      path: Path,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream =
    opened(path)(super.create(path, overwrite, bufferSize, replication, blockSize, progress))

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream =
    opened(path)(super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress))

  override def createNonRecursive(
      path: Path,
      permission: FsPermission,
      flags: util.EnumSet[CreateFlag],
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream =
    opened(path)(super.createNonRecursive(path, permission, flags, bufferSize, replication, blockSize, progress))

  override def rename(from: Path, to: Path): Boolean = {
    FaultyFiles.before(to, "rename")
    super.rename(from, to)
  }

  override def delete(path: Path, recursive: Boolean): Boolean = {
    FaultyFiles.before(path, "delete")
    super.delete(path, recursive)
  }

  override def mkdirs(path: Path): Boolean = {
    FaultyFiles.before(path, "mkdirs")
    super.mkdirs(path)
  }

  private def opened(path: Path)(open: => FSDataOutputStream): FSDataOutputStream = {
    FaultyFiles.before(path, "create")
    new FSDataOutputStream(open, new FileSystem.Statistics("file")) {
      private var isClosed = false

      override def close(): Unit = if (!isClosed) {
        isClosed = true
        val fault = FaultyFiles.now(path, "close")
        super.close()
        fault.foreach {
          case FaultyFiles.Fails =>
            throw new IOException(s"No space left on device: close $path")
          case torn =>
            Using.resource(FileChannel.open(pathToFile(path).toPath, WRITE))(file => file.truncate(file.size / 2))
            if (torn == FaultyFiles.Dies) Runtime.getRuntime.halt(137)
            throw new IOException(s"No space left on device: close $path")
        }
      }
    }
  }
}
