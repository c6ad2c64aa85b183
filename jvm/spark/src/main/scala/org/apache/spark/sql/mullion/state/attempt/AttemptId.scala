package org.apache.spark.sql.mullion.state.attempt

import java.util.UUID

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.state.StateStoreConf

/** The id of a version of one partition, in the names of its files:
  *
  * {{{
  *   12_3-847-0f8fad5b-d9cd-469f-a165-70867728950e.changelog
  *    |  |  |   random
  *    |  |  the attempt of the task, counted by Spark through all jobs of an application
  *    |  the run of the query (RunNumber)
  *    the version
  * }}}
  *
  * Ids are ordered: of two attempts that wrote the same version, the one that started last is the greater.
  */
private[state] object AttemptId {
  // Spark's own ids consist of the random part alone.
  private val Parts = """(\d{1,18})-(\d{1,18})-\p{XDigit}{8}(?:-\p{XDigit}{4}){3}-\p{XDigit}{12}""".r

  /** An id for the version that the running task is about to write. */
  def next(conf: StateStoreConf): String = {
    val attempt = Option(TaskContext.get()).fold(0L)(_.taskAttemptId())
    s"${RunNumber.in(conf)}-$attempt-${UUID.randomUUID()}"
  }

  /** The run that wrote a version; -1 if the id is not one of Mullion's. */
  def runOf(id: String): Long = parts(id)._1

  val ordering: Ordering[String] =
    Ordering.by(parts)(Ordering.Tuple3(Ordering.Long, Ordering.Long, Ordering.String))

  private def parts(id: String): (Long, Long, String) = id match {
    case Parts(run, attempt) => (run.toLong, attempt.toLong, id)
    case _                   => (-1L, -1L, id)
  }
}
