package org.apache.spark.sql.mullion.checkpoint.savepoint

import java.time.Duration
import java.util.UUID
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import scala.annotation.tailrec
import scala.util.Try

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerJobStart, SparkListenerTaskEnd, SparkListenerTaskStart}

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
    val tasks = new RunningTasks(tag)
    context.addSparkListener(tasks)
    context.addJobTag(tag)
    try jobs
    finally {
      context.removeJobTag(tag)
      context.cancelJobsWithTag(tag)
      waitFor(tasks, System.nanoTime() + Longest.toNanos)
      context.removeSparkListener(tasks)
    }
  }

  @tailrec
  private def waitFor(tasks: RunningTasks, end: Long): Unit = {
    // A job's end is reported before its listeners know of all of its tasks.
    val isKnown = Try(context.listenerBus.waitUntilEmpty()).isSuccess
    if (!isKnown || tasks.count > 0)
      if (System.nanoTime() < end) {
        Thread.sleep(Between.toMillis)
        waitFor(tasks, end)
      } else logWarning(s"${tasks.count} tasks that were interrupted still run after $Longest.")
  }
}

private object WritingJobs {
  private val Longest = Duration.ofMinutes(1)
  private val Between = Duration.ofMillis(20)

  /** The number of running tasks of the jobs with a tag. Spark's status of a stage is up to 100 ms old. */
  private final class RunningTasks(tag: String) extends SparkListener {
    private val stages = ConcurrentHashMap.newKeySet[Int]()
    private val running = new AtomicInteger

    def count: Int = running.get

    override def onJobStart(start: SparkListenerJobStart): Unit = {
      val tags = Option(start.properties).flatMap(all => Option(all.getProperty(SparkContext.SPARK_JOB_TAGS)))
      if (tags.exists(_.split(SparkContext.SPARK_JOB_TAGS_SEP).contains(tag))) start.stageIds.foreach(stages.add(_))
    }

    override def onTaskStart(start: SparkListenerTaskStart): Unit =
      if (stages.contains(start.stageId)) running.getAndAdd(1): Unit

    override def onTaskEnd(end: SparkListenerTaskEnd): Unit =
      if (stages.contains(end.stageId)) running.getAndAdd(-1): Unit
  }
}
