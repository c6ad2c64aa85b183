package org.apache.spark.sql.mullion.state

import java.io.{EOFException, FileNotFoundException, IOException}
import java.util.zip.ZipException

import org.apache.hadoop.fs.ChecksumException
import org.rocksdb.{RocksDBException, Status}

import org.apache.spark.SparkThrowable

/** Recognises Spark's errors about missing and damaged state files among other errors, such as a full disk. */
private[state] object LostFiles {
  private val spark =
    ("CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED|" +
      "CANNOT_LOAD_STATE_STORE\\.(?:CANNOT_READ.*|.*(?:MISSING|NOT_EXISTS|INVALID|UNEXPECTED_FILE_SIZE).*)").r

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

  private def isOfFiles(e: Throwable): Boolean = e match {
    case missing: FileNotFoundException => !Option(missing.getMessage).exists(unwritable.matches)
    case _: EOFException | _: ChecksumException | _: ZipException => true
    case rocks: RocksDBException => Option(rocks.getStatus).exists(_.getCode == Status.Code.Corruption)
    case io: IOException if io.getMessage == corrupted => true
    case told: SparkThrowable                          => Option(told.getCondition).exists(spark.matches)
    case _                                             => false
  }
}
