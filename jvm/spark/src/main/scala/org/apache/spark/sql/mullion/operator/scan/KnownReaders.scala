package org.apache.spark.sql.mullion.operator.scan

import java.util.{Map => JavaMap, WeakHashMap}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.mullion.operator.scan.KnownReaders.{Asked, MostOfSession, Reader}
import org.apache.spark.sql.types.StructType

/** Caches file readers for later scans with the same parameters: those of a query's next batches.
  *
  * Creating a reader sends Hadoop's settings to the tasks, which took 4 % of a batch of a hundred rows. A reader of
  * Spark's own formats is determined by its parameters and the settings, and may be shared by tasks.
  */
private[scan] final class KnownReaders {
  // Entries are removed with the session, whose settings its tasks have.
  private val ofSessions = new WeakHashMap[SparkSession, List[(Asked, Reader)]]()

  def apply(session: SparkSession, asked: Asked)(make: => Reader): Reader = synchronized {
    val cached = ofSessions.getOrDefault(session, Nil)
    cached.collectFirst { case (`asked`, reader) => reader }.getOrElse {
      val created = make
      ofSessions.put(session, ((asked -> created) :: cached).take(MostOfSession))
      created
    }
  }
}

private[scan] object KnownReaders {
  type Reader = PartitionedFile => Iterator[InternalRow]

  // A query has one per source of files.
  private[scan] final val MostOfSession = 8

  /** The parameters of a reader. It has no filters, because equal numbers may differ, such as 0.0 and -0.0.
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
