package org.apache.spark.sql.mullion.checkpoint.savepoint

import java.lang.management.ManagementFactory
import java.net.InetAddress
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import scala.jdk.OptionConverters._
import scala.util.control.NonFatal
import scala.util.{Try, Using}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.internal.Logging

import dev.mullion.MullionException
import dev.mullion.windows.spec.Setting

/** The location of a savepoint. It is written to a temporary folder next to it, which is renamed at the end, so an
  * interruption leaves no partial savepoint.
  *
  * {{{
  *   .<name>.savepoint-<id>/.writing     the writer: machine, process, its start
  *                        /state ...     all else
  * }}}
  *
  * The next savepoint to the same location removes the leftovers of an interrupted one: at once if its process was on
  * this machine and has ended, else after a day without changes. A savepoint whose folder is removed while it is being
  * written fails: it checks its own `.writing` file at the end.
  */
private[checkpoint] final class SavepointPlace private (target: Path, fs: FileSystem) extends Logging {
  import SavepointPlace._

  private val prefix = s".${target.getName}.savepoint-"

  /** Calls `write` with a folder that becomes the savepoint atomically. */
  def fill(write: Path => Unit): Unit = {
    removeLeftovers()
    val temporary = new Path(target.getParent, s"$prefix${UUID.randomUUID()}")
    val note = new Path(temporary, Note)
    try {
      Using.resource(fs.create(note, false))(_.write(Writer.here.text.getBytes(UTF_8)))
      write(temporary)
      if (!fs.exists(note))
        throw MullionException.invalid(
          s"Another savepoint to $target has removed the files of this one. Write one savepoint at a time to a folder."
        )
      // Renaming would move the folder into an existing one.
      if (fs.exists(target)) fs.delete(target, false)
      if (!fs.rename(temporary, target)) throw MullionException.invalid(s"$temporary could not be renamed to $target.")
    } catch {
      case e: Throwable =>
        try fs.delete(temporary, true)
        catch { case NonFatal(other) => e.addSuppressed(other) }
        throw e
    }
    // Only used in the temporary folder.
    try fs.delete(new Path(target, Note), false)
    catch { case NonFatal(_) => () }
    ()
  }

  private def removeLeftovers(): Unit =
    if (fs.exists(target.getParent))
      fs.listStatus(target.getParent, (path: Path) => path.getName.startsWith(prefix)).foreach { found =>
        val folder = found.getPath
        try {
          if (isDead(folder)) {
            logWarning(s"Removing $folder, which a savepoint that was killed has left.")
            fs.delete(folder, true)
            ()
          } else logWarning(s"There is $folder: another savepoint to $target is being written, or was killed.")
        } catch { case NonFatal(e) => logWarning(s"$folder, which a savepoint has left, could not be removed.", e) }
      }

  private def isDead(folder: Path): Boolean = {
    val writer = Try(Using.resource(fs.open(new Path(folder, Note)))(_.readAllBytes())).toOption
      .flatMap(bytes => Writer.of(new String(bytes, UTF_8)))
    writer.flatMap(_.isGone).getOrElse(System.currentTimeMillis() - lastChange(folder) > Day)
  }

  private def lastChange(folder: Path): Long = {
    var last = fs.getFileStatus(folder).getModificationTime
    val files = fs.listFiles(folder, true)
    while (files.hasNext) last = Math.max(last, files.next().getModificationTime)
    last
  }
}

private[checkpoint] object SavepointPlace {
  private val Note = ".writing"
  private val Day = 24L * 60 * 60 * 1000

  /** Requires that the location does not exist. */
  def apply(to: String, hadoopConf: Configuration): SavepointPlace = {
    if (to.trim.isEmpty)
      throw MullionException.invalid(s"${Setting.text("to", to)} is not a folder: give the place of the savepoint.")
    val path = new Path(to)
    val fs = path.getFileSystem(hadoopConf)
    if (fs.exists(path) && (!fs.getFileStatus(path).isDirectory || fs.listStatus(path).nonEmpty))
      throw MullionException.invalid(
        s"$to exists and is not an empty folder. A savepoint overwrites nothing: give a new folder."
      )
    new SavepointPlace(fs.makeQualified(path), fs)
  }

  /** A writing process.
    *
    * @param began
    *   in milliseconds since the epoch, because process numbers are reused
    */
  private final case class Writer(machine: String, process: Long, began: Long) {
    def text: String = s"$machine $process $began"

    /** True if it has ended; none if that is unknown. */
    def isGone: Option[Boolean] = Option.when(machine == Writer.here.machine) {
      ProcessHandle.of(process).toScala.forall { handle =>
        !handle.isAlive || handle.info.startInstant.toScala.exists(at => Math.abs(at.toEpochMilli - began) > Apart)
      }
    }
  }

  // Systems measure the start of a process in their own ticks.
  private val Apart = 5000L

  private object Writer {
    lazy val here: Writer = {
      val machine = Try(InetAddress.getLocalHost.getHostName).getOrElse("unknown")
      val process = ProcessHandle.current()
      val began =
        process.info.startInstant.toScala.fold(ManagementFactory.getRuntimeMXBean.getStartTime)(_.toEpochMilli)
      Writer(machine, process.pid, began)
    }

    def of(text: String): Option[Writer] = text.split(' ') match {
      case Array(machine, process, began) => Try(Writer(machine, process.toLong, began.toLong)).toOption
      case _                              => None
    }
  }
}
