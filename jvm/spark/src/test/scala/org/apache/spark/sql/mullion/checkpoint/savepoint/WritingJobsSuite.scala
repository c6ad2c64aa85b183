package org.apache.spark.sql.mullion.checkpoint.savepoint

import java.nio.file.{Files, Path}
import java.util.concurrent.CountDownLatch

import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolders}
import org.apache.spark.{SparkException, TaskContext}

class WritingJobsSuite extends SparkSuite with TemporaryFolders {
  import WritingJobsSuite._

  override protected def cores: Int = 2

  folder.test("no task of a job that failed writes when it is over") { home =>
    val at = home.toString
    intercept[SparkException](new WritingJobs(spark.sparkContext).run {
      spark.sparkContext.parallelize(0 until 2, 2).foreach(task => if (task == 0) fails() else writesOn(at))
    })
    assertEquals(Files.readString(home.resolve("last")), "written")
  }

  folder.test("the result of a job is returned") { _ =>
    assertEquals(new WritingJobs(spark.sparkContext).run(spark.range(10).count()), 10L)
  }
}

private object WritingJobsSuite {
  private val both = new CountDownLatch(1)

  def fails(): Unit = {
    both.await()
    throw new IllegalStateException("fails")
  }

  def writesOn(at: String): Unit = {
    both.countDown()
    while (!TaskContext.get().isInterrupted()) Thread.onSpinWait()
    val home = Path.of(at)
    for (i <- 0 until 1000) Files.writeString(home.resolve(s"file-$i"), "written")
    Files.writeString(home.resolve("last"), "written")
    ()
  }
}
