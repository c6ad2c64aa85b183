package org.apache.spark.sql.mullion.checkpoint

import java.time.Duration
import java.util.UUID

import scala.annotation.tailrec

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging

/** Jobs that write files, of which none writes any more when they are over.
  *
  * Spark tells that a job has failed, or is done, while other tasks of it may still run: the one beside the task that
  * failed, a second copy of a slow one. Whoever then deletes or renames their folder would find it there again.
  *
  * {{{
  *   task 0  ──────x
  *   task 1  ──────┼────────┤   writes on until it sees that it was killed
  *   job           failed   over
  * }}}
  */
private[checkpoint] final class WritingJobs(context: SparkContext) extends Logging {
  import WritingJobs._

  private val tag = s"mullion-${UUID.randomUUID()}"

  /** Runs them, and returns or fails when all of their tasks have ended. */
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
      } else logWarning(s"$active tasks that were told to end still run after $Longest.")
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
