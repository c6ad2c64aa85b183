package org.apache.spark.sql.mullion.checkpoint.savepoint

import java.time.Duration
import java.util.UUID

import scala.annotation.tailrec

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging

/** Jobs that write files, and that have no writing task when they return.
  *
  * Spark reports the failure or end of a job while other tasks of it may still run, such as a speculative copy. If the
  * caller then deletes or renames their folder, such a task may create it again.
  *
  * {{{
  *   task 0  ──────x
  *   task 1  ──────┼────────┤   writes until it notices that it was killed
  *   job           failed   over
  * }}}
  */
private[checkpoint] final class WritingJobs(context: SparkContext) extends Logging {
  import WritingJobs._

  private val tag = s"mullion-${UUID.randomUUID()}"

  /** Runs them, and returns or fails after all of their tasks have ended. */
  def run[A](jobs: => A): A = {
    context.addJobTag(tag)
    try jobs
    finally {
      context.removeJobTag(tag)
      context.cancelJobsWithTag(tag)
      waitFor(System.nanoTime() + Longest.toNanos)
    }
  }

  @tailrec
  private def waitFor(end: Long): Unit = {
    val active = tasks
    if (active > 0)
      if (System.nanoTime() < end) {
        Thread.sleep(Between.toMillis)
        waitFor(end)
      } else logWarning(s"$active tasks that were interrupted still run after $Longest.")
  }

  private def tasks: Int = {
    val status = context.statusTracker
    status
      .getJobIdsForTag(tag)
      .toSeq
      .flatMap(status.getJobInfo)
      .flatMap(_.stageIds())
      .flatMap(status.getStageInfo)
      .map(_.numActiveTasks())
      .sum
  }
}

private object WritingJobs {
  private val Longest = Duration.ofMinutes(1)
  private val Between = Duration.ofMillis(20)
}
