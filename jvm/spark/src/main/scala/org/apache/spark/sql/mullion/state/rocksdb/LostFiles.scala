package org.apache.spark.sql.mullion.state.rocksdb

import java.io.{EOFException, FileNotFoundException, IOException}
import java.util.zip.ZipException

import org.apache.hadoop.fs.{ChecksumException, Path}
import org.rocksdb.{RocksDBException, Status}

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.execution.streaming.state.StateStoreId

import dev.mullion.MullionException

/** Missing and damaged files of state: Mullion's error about them, and Spark's, which is recognised among others. */
private[state] object LostFiles {
  private val spark =
    ("CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED|" +
      "CANNOT_LOAD_STATE_STORE\\.(?:CANNOT_READ.*|.*(?:MISSING|NOT_EXISTS|INVALID|UNEXPECTED_FILE_SIZE).*)").r

  /** The error about a version of a partition.
    *
    * @param how
    *   the rest of the sentence whose subject is the version
    */
  def error(id: StateStoreId, version: Long, how: String, cause: Option[Throwable]): MullionException = {
    val root = id.checkpointRootLocation
    MullionException.stateLost(
      s"In $root version $version of partition ${id.partitionId} of operator ${id.operatorId} $how. Restore the files " +
        s"from a copy of the checkpoint. Or call recover(\"${new Path(root).getParent}\"), and start the query again: it " +
        "goes back to the newest batch with complete state, reads the later rows again, and emits their panes again. " +
        "Or start the query with a new checkpointLocation, and a new place for its output: it reads its sources from " +
        "their start.",
      cause
    )
  }

  /** Mullion's error, if an error of reading a version is about files, otherwise the error itself. */
  def described(id: StateStoreId, version: Long, e: Throwable): Throwable =
    in(e).fold(e)(why => error(id, version, s"cannot be read ($why)", Some(e)))

  /** A description of the fault, if an error is about files. */
  def in(e: Throwable): Option[String] = {
    val causes = Iterator.iterate(e)(_.getCause).takeWhile(_ != null).take(20).toSeq
    causes.reverse.find(isOfFiles).map { found =>
      val message = Option(found.getMessage).fold("")(message => s": ${message.linesIterator.next().stripSuffix(".")}")
      s"${found.getClass.getSimpleName}$message"
    }
  }

  // Java has no other class for a file that cannot be created.
  private val unwritable =
    (".*\\((No space left on device|Disk quota exceeded|Read-only file system|Permission denied|" +
      "Too many open files|Input/output error)\\)").r

  // LZ4 has no class for a block that differs from its checksum.
  private val corrupted = "Stream is corrupted"

  // Spark reads a changelog without its beginning as one of the oldest format, which has no version ids.
  private val beheaded = "readLineage should only be invoked with state store checkpoint id enabled"

  private def isOfFiles(e: Throwable): Boolean = e match {
    case missing: FileNotFoundException => !Option(missing.getMessage).exists(unwritable.matches)
    case _: EOFException | _: ChecksumException | _: ZipException => true
    case rocks: RocksDBException => Option(rocks.getStatus).exists(_.getCode == Status.Code.Corruption)
    case io: IOException if io.getMessage == corrupted => true
    case format: AssertionError                        => Option(format.getMessage).exists(_.contains(beheaded))
    case told: SparkThrowable                          => Option(told.getCondition).exists(spark.matches)
    case _                                             => false
  }
}
