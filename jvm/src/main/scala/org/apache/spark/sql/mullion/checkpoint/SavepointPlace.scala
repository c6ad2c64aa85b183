package org.apache.spark.sql.mullion.checkpoint

import java.lang.management.ManagementFactory
import java.net.InetAddress
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import scala.jdk.OptionConverters._
import scala.util.{Try, Using}
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.internal.Logging

import dev.mullion.MullionException

/** The place of a savepoint. It is written beside it, into a folder of its own, and renamed at last: whoever dies in
  * between leaves nothing at the place.
  *
  * {{{
  *   .<name>.savepoint-<id>/.writing     who writes: machine, process, when that began
  *                        /state ...     all else
  * }}}
  *
  * What a dead one left is removed by the next savepoint to the same place: at once where its process was on this
  * machine and is gone, else when nothing in it has changed for a day. One that is removed while it is written, for its
  * process could not be seen, fails: it looks for its own note at last.
  */
private[checkpoint] final class SavepointPlace private (target: Path, fs: FileSystem) extends Logging {
  import SavepointPlace._

  private val prefix = s".${target.getName}.savepoint-"

  /** Has `write` fill a folder, which comes to the place as a whole. */
  def fill(write: Path => Unit): Unit = {
    removeLeftovers()
    val beside = new Path(target.getParent, s"$prefix${UUID.randomUUID()}")
    val note = new Path(beside, Note)
    try {
      Using.resource(fs.create(note, false))(_.write(Writer.here.text.getBytes(UTF_8)))
      write(beside)
      if (!fs.exists(note))
        throw MullionException.invalid(
          s"Another savepoint to $target has removed what was written of this one. Write one at a time to a place."
        )
      // A folder would be renamed into one that is there.
      if (fs.exists(target)) fs.delete(target, false)
      if (!fs.rename(beside, target)) throw MullionException.invalid(s"$beside could not be renamed to $target.")
    } catch {
      case e: Throwable =>
        try fs.delete(beside, true)
        catch { case NonFatal(other) => e.addSuppressed(other) }
        throw e
    }
    // Nobody reads it there.
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

  /** Where nothing is yet. */
  def apply(to: String, hadoopConf: Configuration): SavepointPlace = {
    if (to.trim.isEmpty) throw MullionException.invalid("to='' is not a folder: say where the savepoint is to be.")
    val path = new Path(to)
    val fs = path.getFileSystem(hadoopConf)
    if (fs.exists(path) && (!fs.getFileStatus(path).isDirectory || fs.listStatus(path).nonEmpty))
      throw MullionException.invalid(
        s"$to is there and is not an empty folder. A savepoint overwrites nothing: give a folder that is not there."
      )
    new SavepointPlace(fs.makeQualified(path), fs)
  }

  /** A process that writes.
    *
    * @param began
    *   in milliseconds since the epoch: another process may have its number later
    */
  private final case class Writer(machine: String, process: Long, began: Long) {
    def text: String = s"$machine $process $began"

    /** True if it is gone; none if that cannot be known. */
    def isGone: Option[Boolean] = Option.when(machine == Writer.here.machine) {
      ProcessHandle.of(process).toScala.forall { handle =>
        !handle.isAlive || handle.info.startInstant.toScala.exists(at => Math.abs(at.toEpochMilli - began) > Apart)
      }
    }
  }

  // A system tells the start of a process by its own ticks.
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
