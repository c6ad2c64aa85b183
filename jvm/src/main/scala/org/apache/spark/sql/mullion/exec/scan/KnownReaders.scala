package org.apache.spark.sql.mullion.exec.scan

import java.util.{Map => JavaMap, WeakHashMap}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.mullion.exec.scan.KnownReaders.{Asked, MostOfSession, Reader}
import org.apache.spark.sql.types.StructType

/** What reads files for a scan, for the scans after it that ask for the same: those of a query's next batches.
  *
  * To make a reader sends Hadoop's settings to the tasks, which took a twenty-fifth of a batch of a hundred rows. A
  * reader of Spark's own formats follows from what it is asked for and from the settings, and is used by several tasks
  * at a time anyway.
  */
private[scan] final class KnownReaders {
  // Forgotten with the session, whose settings went to its tasks.
  private val ofSessions = new WeakHashMap[SparkSession, List[(Asked, Reader)]]()

  def apply(session: SparkSession, asked: Asked)(make: => Reader): Reader = synchronized {
    val known = ofSessions.getOrDefault(session, Nil)
    known.collectFirst { case (`asked`, reader) => reader }.getOrElse {
      val made = make
      ofSessions.put(session, ((asked -> made) :: known).take(MostOfSession))
      made
    }
  }
}

private[scan] object KnownReaders {
  type Reader = PartitionedFile => Iterator[InternalRow]

  // A query has one for each of its sources of files.
  private[scan] final val MostOfSession = 8

  /** What a reader follows from. Filters are not there: those of numbers that are equal may differ, as 0.0 and -0.0 do.
    *
    * @param hadoop
    *   Hadoop's settings
    * @param settings
    *   Spark's, of the session and of the thread
    */
  final case class Asked(
      format: Class[_],
      data: StructType,
      partition: StructType,
      required: StructType,
      options: Map[String, String],
      hadoop: JavaMap[_, _],
      settings: Seq[Map[String, String]]
  )
}
